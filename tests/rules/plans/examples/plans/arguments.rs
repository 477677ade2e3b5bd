//! The command line: which plans to run.

use std::path::PathBuf;

use clap::Parser;
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;

/// Runs every plan of every scenario, or some, and prints the results
///
/// Exits with 1 if a plan failed.
#[derive(Parser)]
pub(crate) struct Arguments {
    /// Only these scenarios
    #[arg(long = "scenario", value_name = "LIST", value_delimiter = ',', default_values = Scenario::ALL.map(Scenario::as_str))]
    pub(crate) scenarios: Vec<Scenario>,
    /// Only this plan
    #[arg(long)]
    pub(crate) plan: Option<Plan>,
    /// How many plans run at a time
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) jobs: usize,
    /// Only list the plans
    #[arg(long = "list")]
    pub(crate) lists: bool,
    /// After this time no further plan begins
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// The seed of the random order with --minutes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// A log with a line for each plan; plans that are already there do not run again
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}
