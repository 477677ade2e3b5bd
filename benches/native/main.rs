//! What a change of native holders costs, by Kubernetes' own controller and by Hustings in its place: `cargo bench --bench native`.
//!
//! Each side has a control plane of its own, with the feature gate on. The replicas are processes of client-go with the
//! default timing, 15/10/2 s, and report each change themselves; all read one clock. Hustings runs two controllers with
//! the stand-in. Nothing is asserted: the exit code is 1 only if something could not be measured.

mod side;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum as _};

use side::{Elector, LIMIT, Side};

/// What a change of native holders costs, by either controller
#[derive(Parser)]
struct Flags {
    /// How many Leases everything happens to at once
    #[arg(long, default_value_t = 8)]
    leases: usize,
    /// Only with this controller
    #[arg(long, value_enum)]
    only: Option<Elector>,
    /// cargo passes this to a benchmark, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

/// The samples of each measurement, by its name.
type Samples = BTreeMap<&'static str, Vec<f64>>;

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.bench {
        eprintln!("nothing to do: this is a benchmark, run it by `cargo bench --bench native`");
        return ExitCode::SUCCESS;
    }
    // Dropping it ends every process that it started, however the run ends.
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
    let leases = flags.leases;
    let mut rows = BTreeMap::<_, [Vec<f64>; 2]>::new();
    for (column, elector) in Elector::value_variants().iter().enumerate() {
        if flags.only.is_none_or(|only| only == *elector) {
            for (what, samples) in play(*elector, leases).await? {
                rows.entry(what).or_default()[column] = samples;
            }
        }
    }
    println!("| what | Kubernetes' controller, p50 / p95 | Hustings, p50 / p95 |\n|---|---|---|");
    for (what, [kubernetes, hustings]) in &rows {
        println!("| {what} | {} | {} |", quantiles(kubernetes), quantiles(hustings));
    }
    println!(
        "\n{leases} Leases at once, three replicas each; a change that takes longer than {LIMIT:?} counts as that"
    );
    Ok(())
}

/// All scenes with one controller, in the order in which a Lease lives through them.
async fn play(elector: Elector, leases: usize) -> Result<Samples> {
    let mut samples = Samples::new();
    let mut add = |what, measured: Vec<f64>| {
        eprintln!("  {what}: {}", quantiles(&measured));
        samples.insert(what, measured);
    };
    eprintln!("{elector:?}");
    let mut side = Side::start(elector, leases).await?;
    let first = side.stand(&["a", "b", "c"], "1.36.0").await?;
    add("1. first election, replicas of one second: s until one leads", side.gaps(&first).await);
    let rest = side.rest().await?;
    add("2. at rest: writes per minute and Lease", rest.writes);
    add("3. at rest: changes of leader per minute and Lease", rest.changes);
    let killed = side.kill_leaders().await?;
    add("4. kill -9 of the leader: s without a leader", side.gaps(&killed).await);
    let stopped = side.stop_leaders().await?;
    add("5. SIGTERM of the leader: s without a leader", side.gaps(&stopped).await);
    let joined = side.stand(&["older"], "1.35.0").await?;
    add("6. an older version joins: s until it leads", side.led_by("older", &joined).await);
    add("7. an older version joins: s without a leader", side.last_gaps());
    side.create_dead_candidates("1.30.0").await?;
    let rest = side.rest().await?;
    add("8. a dead better candidate: writes per minute and Lease", rest.writes);
    add("9. a dead better candidate: changes of leader per minute and Lease", rest.changes);
    Ok(samples)
}

fn quantiles(samples: &[f64]) -> String {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1));
    match (at(50), at(95)) {
        (Some(p50), Some(p95)) => format!("{p50:.1} / {p95:.1}"),
        _ => "-".to_owned(),
    }
}
