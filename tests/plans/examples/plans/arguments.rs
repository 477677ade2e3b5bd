//! Which plans are to be run, as the command line has it.

use std::path::PathBuf;

use clap::Parser;
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;

/// Runs every plan of every scenario, or some, and says what came of them
///
/// Exits with 1 where one failed.
#[derive(Parser)]
pub(crate) struct Arguments {
    /// Only these scenarios
    #[arg(long = "scenario", value_name = "LIST", value_delimiter = ',', default_values = Scenario::ALL.map(Scenario::as_str))]
    pub(crate) scenarios: Vec<Scenario>,
    /// Only this plan
    #[arg(long)]
    pub(crate) plan: Option<Plan>,
    /// How many at a time
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) jobs: usize,
    /// Only list the plans
    #[arg(long = "list")]
    pub(crate) lists: bool,
    /// After which no further plan is begun
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// By which the order is drawn where there is not time for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where each plan leaves a line; those that are there already are not run again
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}
