//! The flags of `hustings explain`.

use std::time::Duration;

use clap::Args;

use super::acts::{LeasePath, lease_path};
use crate::base::output::Output;
use crate::base::parsers::{at_most, output_format, value};

/// The longest wait for a renewal: the longest lease.
pub(super) const LONGEST_WATCH: Duration = Duration::from_hours(1);

/// The flags of `hustings explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainFlags {
    /// The Lease to explain: its name, or NAMESPACE/NAME
    #[arg(value_name = "LEASE", value_parser = value(lease_path))]
    pub lease: LeasePath,
    /// How long to watch for a renewal of the holder; by default a little longer than a holder usually needs, at most
    /// 10s
    #[arg(long, value_name = "DURATION", value_parser = value(|text| at_most(text, LONGEST_WATCH)))]
    pub watch_for: Option<Duration>,
    /// The output format: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = output_format(&Output::NAMES))]
    pub output: Output,
}
