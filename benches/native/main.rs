//! What a change of native holders costs, by Kubernetes' own controller and by Hustings in its place: `cargo bench --bench native`.
//!
//! Each side has a control plane of its own, with the feature gate on. The replicas have the default timing, 15/10/2 s,
//! and report each change themselves; all read one clock. Hustings runs two controllers with the stand-in. Nothing is
//! asserted: the exit code is 1 only if something could not be measured.

mod defects;
mod log;
mod replicas;
mod scenes;
mod side;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use replicas::{LIMIT, Stands};
use side::Elector;

/// What a change of native holders costs, by either controller
#[derive(Parser)]
struct Flags {
    /// How many Leases everything happens to at once; components of Kubernetes have one Lease each
    #[arg(long, default_value_t = 8)]
    leases: usize,
    /// How often everything is measured
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Only with this controller
    #[arg(long, value_enum)]
    only: Option<Elector>,
    /// Only these
    #[arg(long, value_enum)]
    play: Vec<Play>,
    /// cargo passes this to a benchmark, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Play {
    /// The life of Leases for which processes of client-go stand
    ClientGo,
    /// The same with kube-controller-managers and kube-schedulers
    Components,
    /// What the built-in controller does badly
    Defects,
}

/// The samples of each measurement, by its name.
pub(crate) type Samples = BTreeMap<&'static str, Vec<f64>>;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.bench {
        eprintln!("nothing to do: this is a benchmark, run it by `cargo bench --bench native`");
        return ExitCode::SUCCESS;
    }
    // Dropping the measurement ends every process that it started, however the run ends.
    tokio::select! {
        result = measure(&flags) => match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

async fn measure(flags: &Flags) -> Result<()> {
    for play in Play::value_variants() {
        if !flags.play.is_empty() && !flags.play.contains(play) {
            continue;
        }
        let mut rows = BTreeMap::<_, [Vec<f64>; 2]>::new();
        for (column, elector) in Elector::value_variants().iter().enumerate() {
            if flags.only.is_some_and(|only| only != *elector) {
                continue;
            }
            for round in 1..=flags.rounds {
                eprintln!("{play:?}, {elector:?}, round {round}");
                let samples = match play {
                    Play::ClientGo => scenes::play(*elector, Stands::client_go("lease", flags.leases)).await?,
                    Play::Components => scenes::play(*elector, Stands::components()).await?,
                    Play::Defects => defects::play(*elector, flags.leases).await?,
                };
                for (what, samples) in samples {
                    rows.entry(what).or_default()[column].extend(samples);
                }
            }
        }
        println!("\n| {play:?}, p50 / p95 / mean | Kubernetes' controller | Hustings | samples |\n|---|---|---|---|");
        for (what, [kubernetes, hustings]) in &rows {
            let count = kubernetes.len().max(hustings.len());
            println!("| {what} | {} | {} | {count} |", quantiles(kubernetes), quantiles(hustings));
        }
    }
    println!("\nWhat takes longer than {} s counts as that.", LIMIT.as_secs());
    Ok(())
}

/// Notes a measurement, and shows it at once.
pub(crate) fn add(samples: &mut Samples, what: &'static str, measured: Vec<f64>) {
    eprintln!("  {what}: {}", quantiles(&measured));
    samples.insert(what, measured);
}

fn quantiles(samples: &[f64]) -> String {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1));
    match (at(50), at(95)) {
        (Some(p50), Some(p95)) => {
            let count = f64::from(u32::try_from(sorted.len()).unwrap_or(u32::MAX));
            format!("{p50:.1} / {p95:.1} / {:.1}", sorted.iter().sum::<f64>() / count)
        }
        _ => "-".to_owned(),
    }
}
