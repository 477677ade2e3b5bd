//! Runs many simulated worlds and says what came of them.
//!
//! `cargo run --release --example simulate -- --seeds 0..1000 --jobs 2`

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hustings_world::world::{Mode, Report, Setup, simulate};

/// How long the nemesis is at work in each world.
const LASTS: Duration = Duration::from_hours(1);

struct Arguments {
    seeds: Range<u64>,
    jobs: usize,
    modes: Vec<Mode>,
}

#[derive(Default)]
struct Sum {
    worlds: u64,
    versions: u64,
    changes_of_holder: u64,
    faults: BTreeMap<&'static str, u64>,
    /// Seeds whose worlds broke an invariant.
    failed: Vec<(u64, Mode)>,
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    let began = Instant::now();
    let sum = run(&arguments);
    tell(&arguments, &sum, began.elapsed());
    Ok(if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(arguments: &Arguments) -> Sum {
    let next = AtomicU64::new(arguments.seeds.start);
    let (reports, received) = mpsc::channel();
    let total = arguments.seeds.end.saturating_sub(arguments.seeds.start) * arguments.modes.len() as u64;
    let mut sum = Sum::default();
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            let (next, reports) = (&next, reports.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.seeds.end {
                        return;
                    }
                    for &mode in &arguments.modes {
                        let report = simulate(Setup { seed, lasts: LASTS, processes: 3, mode });
                        if reports.send((seed, mode, report)).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        drop(reports);
        for (seed, mode, report) in received {
            sum.add(seed, mode, report);
            if std::io::stderr().is_terminal() {
                eprint!("\r{} of {total} worlds, {} violations ", sum.worlds, sum.failed.len());
                drop(std::io::stderr().flush());
            }
        }
    });
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    sum
}

impl Sum {
    fn add(&mut self, seed: u64, mode: Mode, report: Report) {
        self.worlds += 1;
        self.versions += report.versions;
        self.changes_of_holder += report.changes_of_holder;
        for (fault, count) in report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        if !report.violations.is_empty() {
            println!("seed {seed}, {mode:?}:\n{}", report.trace.join("\n"));
            // One line each, for whoever counts them by invariant.
            report.violations.iter().for_each(|violation| println!("seed {seed}, {mode:?}: {violation}"));
            println!();
            self.failed.push((seed, mode));
        }
    }
}

fn tell(arguments: &Arguments, sum: &Sum, took: Duration) {
    let hours = sum.worlds * LASTS.as_secs() / 3600;
    #[expect(clippy::cast_precision_loss, reason = "a rate that is shown")]
    let per_core_hour = hours as f64 / (took.as_secs_f64() / 3600.0 * arguments.jobs as f64);
    println!("seeds              {}..{}", arguments.seeds.start, arguments.seeds.end);
    println!("Lease-hours        {hours} ({per_core_hour:.0} per core-hour)");
    println!("versions           {}", sum.versions);
    println!("changes of holder  {}", sum.changes_of_holder);
    println!("faults             {}", sum.faults.values().sum::<u64>());
    for (fault, count) in &sum.faults {
        println!("  {count:8} {fault}");
    }
    println!("violations         {} {:?}", sum.failed.len(), sum.failed);
}

fn arguments() -> Result<Arguments> {
    let mut arguments = Arguments { seeds: 0..20, jobs: 1, modes: Mode::ALL.to_vec() };
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
                arguments.modes = vec![match value.as_str() {
                    "direct" => Mode::Direct,
                    "preferring" => Mode::Preferring,
                    "coordinated" => Mode::Coordinated,
                    "alone" => Mode::Alone,
                    _ => bail!("--mode is direct, preferring, coordinated or alone"),
                }];
            }
            _ => bail!("{flag} is unknown: there are --seeds A..B, --jobs N and --mode MODE"),
        }
    }
    Ok(arguments)
}
