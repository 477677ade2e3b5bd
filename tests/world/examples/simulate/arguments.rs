//! What is to be simulated, as the command line has it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hustings_world::world::{Mode, Setup};

/// How long the nemesis is at work in each world.
const LASTS: Duration = Duration::from_hours(1);

/// What is to be simulated.
pub(crate) struct Arguments {
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: usize,
    pub(crate) modes: Vec<Mode>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) shrinks: bool,
    lasts: Duration,
    processes: Option<usize>,
    leases: Option<Vec<usize>>,
    without: BTreeSet<u64>,
}

impl Arguments {
    pub(crate) fn read() -> Result<Self> {
        let mut arguments = Self {
            seeds: 0..20,
            jobs: 1,
            modes: Mode::ALL.to_vec(),
            log: None,
            shrinks: true,
            lasts: LASTS,
            processes: None,
            leases: None,
            without: BTreeSet::new(),
        };
        let mut given = std::env::args().skip(1);
        while let Some(flag) = given.next() {
            let value = given.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--seeds" => {
                    let (first, end) = value.split_once("..").context("--seeds is a range such as 0..100")?;
                    arguments.seeds = first.parse()?..end.parse()?;
                }
                "--jobs" => arguments.jobs = value.parse()?,
                "--mode" => {
                    let mode = Mode::ALL.into_iter().find(|mode| mode.as_str() == value);
                    arguments.modes = vec![mode.context("--mode is direct, preferring, coordinated or alone")?];
                }
                "--log" => arguments.log = Some(value.into()),
                "--shrink" => arguments.shrinks = value.parse()?,
                "--seconds" => arguments.lasts = Duration::from_secs(value.parse()?),
                "--processes" => arguments.processes = Some(value.parse()?),
                "--leases" => {
                    let leases = numbers(&value)?.into_iter().map(usize::try_from);
                    arguments.leases = Some(leases.collect::<Result<_, _>>()?);
                }
                "--without" => arguments.without = numbers(&value)?,
                _ => bail!(
                    "{flag} is unknown: there are --seeds A..B, --jobs N, --mode MODE, --log FILE, --shrink BOOL, --seconds N, \
                     --processes N, --leases LIST and --without LIST"
                ),
            }
        }
        Ok(arguments)
    }

    pub(crate) fn setup(&self, seed: u64, mode: Mode) -> Setup {
        let mut setup = Setup::new(seed, mode, self.lasts);
        setup.processes = self.processes.unwrap_or(setup.processes);
        setup.leases = self.leases.clone().unwrap_or(setup.leases);
        setup.without.clone_from(&self.without);
        setup
    }
}

/// The arguments that make this world again.
pub(crate) fn again(setup: &Setup) -> String {
    let (seed, mode, seconds, processes) = (setup.seed, setup.mode.as_str(), setup.lasts.as_secs(), setup.processes);
    let leases = list(setup.leases.iter().map(|lease| *lease as u64));
    let without = list(setup.without.iter().copied());
    let without = if without.is_empty() { without } else { format!(" --without {without}") };
    format!(
        "--seeds {seed}..{} --mode {mode} --seconds {seconds} --processes {processes} --leases {leases}{without}",
        seed + 1
    )
}

/// Numbers and ranges of them, such as `1,4-7`.
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
