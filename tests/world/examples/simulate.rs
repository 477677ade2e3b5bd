//! Runs many simulated worlds and reports the results.
//!
//! `cargo run --release --example simulate -- --seeds 0..1000 --jobs 2`
//!
//! A world that breaks an invariant is reported as `seed 7, Direct: S1: ...`. The first such world is shrunk, and its
//! trace printed. The exit code is 0 if no world broke an invariant. It is 1 if one did, or if a campaign of every mode
//! and at least 100 Lease-hours never reached one of the counted faults and paths. With `--log FILE`, each world adds a
//! line to that file, and a later run with the same file skips that world. So the same command resumes a run that was
//! stopped, and prints the results of a run that is complete.

#[path = "simulate/arguments.rs"]
mod arguments;
#[path = "simulate/progress.rs"]
mod progress;
#[path = "simulate/sum.rs"]
mod sum;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use hustings_world::shrink::shrink;
use hustings_world::world::{Report, Setup, simulate};
use rustix::time::{ClockId, clock_gettime};

use arguments::Arguments;
use progress::Progress;
use sum::{Entry, Sum};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long to shrink a world that breaks an invariant.
const SHRINKS_FOR: Duration = Duration::from_mins(1);

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut sum = Sum::default();
    let done = former(&arguments, &mut sum)?;
    let worlds = arguments.seeds.clone().flat_map(|seed| arguments.modes.iter().map(move |mode| (seed, *mode)));
    let worlds: Vec<Setup> = worlds
        .filter(|(seed, mode)| !done.contains(&(*seed, mode.as_str().to_owned())))
        .map(|(seed, mode)| arguments.setup(seed, mode))
        .collect();
    run(&arguments, &worlds, &mut sum)?;
    println!("seeds              {}..{}", arguments.seeds.start, arguments.seeds.end);
    print!("{sum}");
    let is_good = sum.failed.is_empty() && sum.never_reached().is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the worlds that an earlier run has left in the log.
fn former(arguments: &Arguments, sum: &mut Sum) -> Result<BTreeSet<(u64, String)>> {
    let Some(path) = &arguments.log else { return Ok(BTreeSet::new()) };
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut done = BTreeSet::new();
    // The last line of a run that was killed may be incomplete.
    for entry in text.lines().filter_map(Entry::read).filter(|entry| arguments.seeds.contains(&entry.seed)) {
        done.insert((entry.seed, entry.mode.clone()));
        sum.add(entry);
    }
    Ok(done)
}

fn run(arguments: &Arguments, worlds: &[Setup], sum: &mut Sum) -> Result<()> {
    let mut log = match &arguments.log {
        Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
        None => None,
    };
    let (next, (entries, received)) = (AtomicUsize::new(0), mpsc::channel());
    let mut progress = Progress::new(worlds.len());
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            let (next, entries) = (&next, entries.clone());
            scope.spawn(move || {
                while let Some(setup) = worlds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let before = cpu_time();
                    let report = simulate(setup.clone());
                    let took = cpu_time().saturating_sub(before);
                    if entries.send((setup, report, took)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(entries);
        for (setup, report, took) in received {
            for violation in &report.violations {
                progress.aside(|| println!("seed {}, {:?}: {violation}", setup.seed, setup.mode));
            }
            let entry = Entry::new(setup, &report, took);
            if let Some(log) = &mut log {
                writeln!(log, "{}", entry.line())?;
            }
            let is_first = !report.violations.is_empty() && sum.failed.is_empty();
            sum.add(entry);
            if is_first && arguments.shrinks {
                progress.aside(|| print_shrunk(setup, report));
            }
            progress.advance(&sum.brief());
        }
        Ok(())
    })
}

fn print_shrunk(setup: &Setup, report: Report) {
    let (setup, report) = shrink(setup.clone(), report, SHRINKS_FOR);
    println!("{}", report.trace.join("\n"));
    println!("again: simulate {}\n", arguments::again(&setup));
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
