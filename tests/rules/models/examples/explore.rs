//! Explores the models that are too large for a test: `cargo run --release -p hustings-models --example explore -- --help`.

use std::fs;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hustings_models::{Case, Limits, Report, catalogue, explore};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Explores models of Hustings state by state
///
/// Exits with 1 if a model has an unexpected outcome, and with 2 if an exploration reached a limit
#[derive(Parser)]
struct Arguments {
    /// Which models, by name; without any, those of the size
    models: Vec<String>,
    /// `small`, as in `cargo test`, or `large`, which is all of them
    #[arg(long, default_value = "small")]
    size: String,
    /// Threads
    #[arg(long, default_value = "1")]
    threads: NonZeroUsize,
    /// The address space of this process, in MiB; beyond it the process is aborted
    #[arg(long, default_value_t = 4096)]
    memory_limit: u64,
    /// Steps from state to state, per model
    #[arg(long, default_value_t = 100_000_000)]
    steps: usize,
    /// Minutes, per model
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Only list the models
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let bytes = arguments.memory_limit.saturating_mul(1 << 20);
    setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) }).context("limiting the memory")?;
    let known = catalogue();
    for name in &arguments.models {
        ensure!(known.iter().any(|case| case.name == name), "there is no model {name}\nhint: --list names them");
    }
    let is_chosen = |case: &Case| {
        let is_of_size = arguments.models.is_empty() && (!case.is_large || arguments.size == "large");
        is_of_size || arguments.models.iter().any(|name| name == case.name)
    };
    let minutes = Duration::from_secs(arguments.minutes.saturating_mul(60));
    let limits = Limits { threads: arguments.threads, steps: arguments.steps, time: minutes };
    let mut rows = Vec::new();
    let (mut is_wrong, mut is_cut) = (false, false);
    for case in known.into_iter().filter(is_chosen) {
        if arguments.list {
            println!("{}", case.name);
            continue;
        }
        let report = run(&case, limits);
        let outcome = match (case.breaks, report.broken.keys().next()) {
            (Some(rule), _) if report.broken.contains_key(rule) => "found out",
            (None, None) if report.is_complete && report.impossible.is_empty() => "holds",
            (None, None) if !report.is_complete => "holds so far",
            _ => "WRONG",
        };
        is_wrong |= outcome == "WRONG";
        is_cut |= outcome == "holds so far";
        if outcome == "WRONG" {
            eprintln!("{report:#?}");
        }
        rows.push(row(&case, &report, outcome));
    }
    if !arguments.list {
        println!("| model | outcome | states | steps | depth | seconds | MiB at most so far |");
        println!("|---|---|---|---|---|---|---|");
        for row in rows {
            println!("{row}");
        }
    }
    Ok(ExitCode::from(if is_wrong { 1 } else { u8::from(is_cut) * 2 }))
}

fn run(case: &Case, limits: Limits) -> Report {
    let (name, start) = (case.name, Instant::now());
    let mut reported_at = start;
    explore(case.subject.clone(), limits, case.breaks, &mut |states, depth| {
        if reported_at.elapsed() >= Duration::from_secs(10) {
            reported_at = Instant::now();
            let (seconds, mib) = (start.elapsed().as_secs(), peak_mib());
            eprintln!("{name}: {states} states, depth {depth}, {mib} MiB at most, {seconds} s");
        }
    })
}

fn row(case: &Case, report: &Report, outcome: &str) -> String {
    let Report { states, steps, depth, time, .. } = report;
    let (name, seconds, mib) = (case.name, time.as_secs_f64(), peak_mib());
    format!("| {name} | {outcome} | {states} | {steps} | {depth} | {seconds:.1} | {mib} |")
}

/// The most memory that this process has used so far.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
