//! The flags of `hustings history`.

use clap::Args;

use super::acts::{LeasePath, lease_path};
use crate::base::output::Output;
use crate::base::parsers::{output_format, value};

/// The flags of `hustings history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryFlags {
    /// The Lease whose terms to show: its name, or NAMESPACE/NAME
    #[arg(value_name = "LEASE", value_parser = value(lease_path))]
    pub lease: LeasePath,
    /// The output format: table or json
    #[arg(long, short, value_name = "FORM", default_value = "table",
        value_parser = output_format(&[("table", Output::Text), ("json", Output::Json)]))]
    pub output: Output,
}
