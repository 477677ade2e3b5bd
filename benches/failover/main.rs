//! The cost of a change of leaders, measured on a real kube-apiserver: `cargo bench --bench failover`.
//!
//! Helm installs the chart, two controllers run under its ServiceAccount, and this process runs all electors. So one
//! clock measures when each replica begins to lead and when it stops. The benchmark has a watch of its own for the
//! Leases. Targets are reported, never asserted: the exit code is 1 only if something could not be measured.
//!
//! With `FAILOVER_TRACE=lease-000` it prints each step of that Lease with its time.

mod bulk;
mod contest;
mod pods;
mod report;
mod rest;
mod scenes;
mod stage;
mod watched;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use bulk::Bulk;
use pods::Pods;
use report::Report;
use stage::Stage;

/// What a change of leaders costs, on a real control plane
#[derive(Parser)]
struct Flags {
    /// How many Leases everything happens to at once
    #[arg(long, default_value_t = 20)]
    leases: usize,
    /// Over how many milliseconds what happens to the Leases is spread; without this it happens in the same instant
    #[arg(long, default_value_t = 0)]
    spread_ms: u64,
    /// How often each scene is repeated, with Leases of its own
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Only these scenes
    #[arg(long, value_enum)]
    only: Vec<Scene>,
    /// How many Leases there are when the memory of controllers and API server is measured
    #[arg(long, default_value_t = 1000)]
    bulk_leases: usize,
    /// How many candidates each of these Leases has
    #[arg(long, default_value_t = 3)]
    bulk_candidates: usize,
    /// How many Pods the controllers watch when their costs with evidence are measured
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// How many of these Pods change each second
    #[arg(long, default_value_t = 20)]
    pod_changes: u32,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// cargo passes this to a benchmark, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

/// An event that happens to Leases while the benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// Three replicas appear in the same second
    First,
    /// The holder dies
    Crash,
    /// The holder stops in order
    Stop,
    /// A better candidate joins
    Join,
    /// Three replicas are replaced by newer ones
    Rolling,
    /// Nothing happens for a minute
    Rest,
    /// Nothing happens for a minute to very many Leases
    Bulk,
    /// With evidence, very many Pods change for a minute
    Pods,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.bench {
        eprintln!("nothing to do: this is a benchmark, run it by `cargo bench --bench failover`");
        return ExitCode::SUCCESS;
    }
    // Dropping the measurement ends every process that it started, however the run ends.
    tokio::select! {
        code = measure(&flags) => code,
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

async fn measure(flags: &Flags) -> ExitCode {
    let mut report = Report::new(flags.leases, flags.spread_ms, flags.rounds);
    let mut complete = true;
    let mut shared = None;
    for scene in Scene::value_variants() {
        if !flags.only.is_empty() && !flags.only.contains(scene) {
            continue;
        }
        if let Err(error) = play(*scene, flags, &mut shared, &mut report).await {
            eprintln!("error: {scene:?}: {error:#}");
            complete = false;
        }
    }
    if flags.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn play(scene: Scene, flags: &Flags, shared: &mut Option<Stage>, report: &mut Report) -> Result<()> {
    let spread = Duration::from_millis(flags.spread_ms);
    // The audit log counts requests. It would slow the other scenes, and needs a control plane without history.
    if scene == Scene::Rest {
        drop(shared.take());
        return rest::at_rest(&Stage::set(true, spread, &[]).await?, flags.leases, report).await;
    }
    // The other scenes have no evidence.
    if scene == Scene::Pods {
        drop(shared.take());
        let stage = Stage::set(false, spread, &["--set", "evidence.pods=true"]).await?;
        let pods = Pods { count: flags.pods, changes_per_second: flags.pod_changes };
        return pods::watched(&stage, pods, report).await;
    }
    let stage = match shared {
        Some(stage) => stage,
        None => shared.insert(Stage::set(false, spread, &[]).await?),
    };
    if scene == Scene::Bulk {
        let bulk = Bulk { leases: flags.bulk_leases, candidates_per_lease: flags.bulk_candidates };
        return bulk::at_rest(stage, bulk, report).await;
    }
    for round in 1..=flags.rounds {
        eprintln!("{scene:?}, round {round} of {}; load {}", flags.rounds, report::load());
        match scene {
            Scene::First => scenes::first(stage, flags.leases, report).await?,
            Scene::Crash => scenes::crash(stage, flags.leases, report).await?,
            Scene::Stop => scenes::stop(stage, flags.leases, report).await?,
            Scene::Join => scenes::join(stage, flags.leases, report).await?,
            Scene::Rolling => scenes::rolling(stage, flags.leases, report).await?,
            Scene::Rest | Scene::Bulk | Scene::Pods => {}
        }
    }
    Ok(())
}
