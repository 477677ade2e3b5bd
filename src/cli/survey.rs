//! The flags of `hustings survey`.

use std::time::Duration;

use clap::Args;

use super::explain::LONGEST_WATCH;
use crate::base::parsers::{at_most, output_format, value};
use crate::operate::survey::SurveyOutput;

/// The flags of `hustings survey`.
#[derive(Args, Clone, Debug)]
pub struct SurveyFlags {
    /// How long to watch Leases that seem not to be renewed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = value(|text| at_most(text, LONGEST_WATCH)))]
    pub watch_for: Duration,
    /// The output format: table, json or values (of the chart)
    #[arg(long, short, value_name = "FORM", default_value = "table", value_parser = output_format(&OUTPUTS))]
    pub output: SurveyOutput,
}

const OUTPUTS: [(&str, SurveyOutput); 3] =
    [("table", SurveyOutput::Table), ("json", SurveyOutput::Json), ("values", SurveyOutput::Values)];
