//! The command line: what to simulate.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser};
use hustings_world::world::{Kubelets, Mode, Setup};

/// Runs many simulated worlds and reports the results
///
/// Reports each world that breaks an invariant, and shrinks the first one. Exits with 1 if there is one.
#[derive(Parser)]
pub(crate) struct Arguments {
    /// Which worlds, by their seeds
    #[arg(long, value_name = "A..B", default_value = "0..20", value_parser = range)]
    pub(crate) seeds: Range<u64>,
    /// How many at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) jobs: usize,
    /// Only worlds of this mode
    #[arg(long = "mode", value_name = "MODE", value_parser = mode(), default_values = Mode::ALL.map(Mode::as_str))]
    pub(crate) modes: Vec<Mode>,
    /// The controllers of every world watch Pods, and not only those of odd seeds
    #[arg(long)]
    evidence: bool,
    /// The log: each world leaves a line there, and worlds that have one are skipped
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Whether the first world that breaks an invariant is shrunk
    #[arg(long = "shrink", value_name = "BOOL", action = ArgAction::Set, default_value_t = true)]
    pub(crate) shrinks: bool,
    /// How long the nemesis injects faults in each world
    #[arg(long, value_name = "N", default_value_t = 3600)]
    seconds: u64,
    /// The number of processes for each Lease
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// The Leases of each world, such as 0,4-7
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    leases: Option<BTreeSet<u64>>,
    /// The faults to leave out, such as 1,4-7
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    without: Option<BTreeSet<u64>>,
}

impl Arguments {
    pub(crate) fn setup(&self, seed: u64, mode: Mode) -> Setup {
        let mut setup = Setup::new(seed, mode, Duration::from_secs(self.seconds));
        if self.evidence && mode == Mode::Coordinated {
            setup.kubelets = Kubelets::Truthful;
        }
        setup.processes = self.processes.unwrap_or(setup.processes);
        if let Some(leases) = &self.leases {
            // A number that is too large matches no Lease.
            setup.leases = leases.iter().filter_map(|lease| usize::try_from(*lease).ok()).collect();
        }
        setup.without = self.without.clone().unwrap_or_default();
        setup
    }
}

/// The arguments that run this world again.
pub(crate) fn again(setup: &Setup) -> String {
    let (seed, mode, seconds, processes) = (setup.seed, setup.mode.as_str(), setup.lasts.as_secs(), setup.processes);
    let leases = list(setup.leases.iter().map(|lease| *lease as u64));
    let without = list(setup.without.iter().copied());
    let without = if without.is_empty() { without } else { format!(" --without {without}") };
    let evidence = if setup.kubelets == Kubelets::Truthful { " --evidence" } else { "" };
    format!(
        "--seeds {seed}..{} --mode {mode} --seconds {seconds} --processes {processes} --leases {leases}{evidence}{without}",
        seed + 1
    )
}

fn mode() -> impl TypedValueParser<Value = Mode> {
    let parser = PossibleValuesParser::new(Mode::ALL.map(Mode::as_str));
    parser.try_map(|name| Mode::ALL.into_iter().find(|mode| mode.as_str() == name).context("unknown"))
}

fn range(text: &str) -> Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("expected a range such as 0..100")?;
    Ok(first.parse()?..end.parse()?)
}

/// Parses numbers and ranges, such as `1,4-7`.
fn numbers(text: &str) -> Result<BTreeSet<u64>> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse::<u64>()?..=last.parse::<u64>()?);
    }
    Ok(numbers)
}

fn list(numbers: impl Iterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let runs =
        runs.into_iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    runs.collect::<Vec<_>>().join(",")
}
