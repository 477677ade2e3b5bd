//! The flags of `hustings check`.

use clap::Args;

use super::parsers::one_of;
use crate::base::output::Output;

/// The flags of `hustings check`.
#[derive(Args, Clone, Debug)]
pub struct CheckFlags {
    /// The output format: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = one_of("an output format", &Output::NAMES))]
    pub output: Output,
}
