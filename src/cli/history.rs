//! The flags of `hustings history`.

use clap::Args;

use crate::base::output::Output;
use crate::base::parsers::{object_name, one_of, value};

/// The flags of `hustings history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryFlags {
    /// The Lease whose terms to show
    #[arg(value_name = "LEASE", value_parser = value(object_name))]
    pub lease: String,
    /// The output format: table or json
    #[arg(long, short, value_name = "FORM", default_value = "table",
        value_parser = one_of("an output format", &[("table", Output::Text), ("json", Output::Json)]))]
    pub output: Output,
}
