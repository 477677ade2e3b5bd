//! The flags of `hustings check`.

use clap::Args;

use crate::base::output::Output;
use crate::base::parsers::output_format;

/// The flags of `hustings check`.
#[derive(Args, Clone, Debug)]
pub struct CheckFlags {
    /// The output format: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = output_format(&Output::NAMES))]
    pub output: Output,
}
