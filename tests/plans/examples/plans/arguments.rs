//! Which plans are to be run, as the command line has it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;

/// What is to be run.
pub(crate) struct Arguments {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) plan: Option<Plan>,
    pub(crate) jobs: usize,
    pub(crate) lists: bool,
    /// After which no further plan is begun.
    pub(crate) minutes: Option<u64>,
    /// By which the order is drawn where there is not time for all.
    pub(crate) seed: u64,
    /// Where each plan leaves a line.
    pub(crate) log: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn read() -> Result<Self> {
        let mut arguments = Self {
            scenarios: Scenario::ALL.to_vec(),
            plan: None,
            jobs: 30,
            lists: false,
            minutes: None,
            seed: 0,
            log: None,
        };
        let mut given = std::env::args().skip(1);
        while let Some(flag) = given.next() {
            if flag == "--list" {
                arguments.lists = true;
                continue;
            }
            let value = given.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--scenario" => arguments.scenarios = value.split(',').map(str::parse).collect::<Result<_>>()?,
                "--plan" => arguments.plan = Some(value.parse()?),
                "--jobs" => arguments.jobs = value.parse().context("--jobs is a number")?,
                "--minutes" => arguments.minutes = Some(value.parse().context("--minutes is a number")?),
                "--seed" => arguments.seed = value.parse().context("--seed is a number")?,
                "--log" => arguments.log = Some(value.into()),
                _ => bail!(
                    "{flag} is unknown: there are --scenario S, --plan P, --jobs N, --minutes N, --seed N, --log FILE and \
                     --list"
                ),
            }
        }
        Ok(arguments)
    }
}
