//! Runs every plan of every scenario, or some, and prints the results.
//!
//! `cargo run --release -p hustings-plans --example plans -- [--scenario S] [--plan P] [--jobs N] [--minutes N] [--log FILE]
//! [--list]`
//!
//! They run scenario by scenario, or with `--minutes` in random order, as a sample of all. With `--log FILE` each plan
//! leaves a line there, and a later run with the same file skips it. The exit code is 0 if no plan failed, else 1.

#[path = "plans/arguments.rs"]
mod arguments;
#[path = "plans/sum.rs"]
mod sum;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arguments::Arguments;
use clap::Parser;
use futures::{StreamExt, stream};
use hustings_controlplane::ControlPlane;
use hustings_plans::campaign::{Ground, Sheet, listed_in_vain};
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sum::{Entry, Sum};

/// How many undisturbed scenarios run at a time: few, so that load does not change what they do.
const AT_A_TIME: usize = 4;

/// The first argument with which this program behaves as the `hustings` binary, which `cargo run --example` does not
/// build.
const AS_HUSTINGS: &str = "--as-hustings";

fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).is_some_and(|first| first == AS_HUSTINGS) {
        // As in the binary's `main`.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rest = std::env::args_os().skip(2);
        return Ok(hustings::app::run(std::iter::once("hustings".into()).chain(rest)));
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let plane = Arc::new(ControlPlane::builder().start().await?);
    // Dropping everything ends every process, however the run ends.
    tokio::select! {
        done = campaign(plane, &arguments) => done,
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
    }
}

async fn campaign(plane: Arc<ControlPlane>, arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let ground = Ground::new(plane, vec![std::env::current_exe()?.into(), AS_HUSTINGS.into()]).await?;
    let sheets: Vec<Sheet> = stream::iter(&arguments.scenarios)
        .map(|scenario| ground.undisturbed(*scenario))
        .buffered(arguments.jobs.min(AT_A_TIME))
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<_>>()?;
    let in_vain = listed_in_vain(&sheets);
    if arguments.scenarios.len() == Scenario::ALL.len() && !in_vain.is_empty() {
        bail!("listed, and not done in any undisturbed run: {}", in_vain.join(", "));
    }
    for sheet in &sheets {
        eprintln!("{}: {} points; ends with {}", sheet.scenario.as_str(), sheet.points.len(), sheet.outcome.line());
        if arguments.lists {
            sheet.points.iter().for_each(|point| println!("{} {point}", sheet.scenario.as_str()));
        }
    }
    if arguments.lists {
        return Ok(ExitCode::SUCCESS);
    }
    let mut sum = Sum::default();
    let done = match &arguments.log {
        Some(path) => former(path, &arguments.scenarios, &mut sum)?,
        None => BTreeSet::new(),
    };
    let mut all: Vec<(&Sheet, Plan)> = match &arguments.plan {
        Some(plan) => sheets.iter().map(|sheet| (sheet, plan.clone())).collect(),
        None => sheets.iter().flat_map(|sheet| sheet.plans().into_iter().map(move |plan| (sheet, plan))).collect(),
    };
    all.retain(|(sheet, plan)| !done.contains(&(sheet.scenario, plan.clone())));
    if arguments.minutes.is_some() {
        all.shuffle(&mut StdRng::seed_from_u64(arguments.seed));
    }
    run_all(&ground, all, arguments, began, &mut sum).await?;
    sum.print(&sheets, began.elapsed());
    Ok(if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plans that a former run logged.
fn former(path: &Path, scenarios: &[Scenario], sum: &mut Sum) -> Result<BTreeSet<(Scenario, Plan)>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut done = BTreeSet::new();
    // The last line of a run that was killed may be half a line.
    for entry in text.lines().filter_map(Entry::read).filter(|entry| scenarios.contains(&entry.scenario)) {
        sum.add(&entry);
        done.insert((entry.scenario, entry.plan));
    }
    Ok(done)
}

async fn run_all(
    ground: &Ground,
    all: Vec<(&Sheet, Plan)>,
    arguments: &Arguments,
    began: Instant,
    sum: &mut Sum,
) -> Result<()> {
    let mut log = match &arguments.log {
        Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
        None => None,
    };
    let total = all.len();
    let ends = arguments.minutes.map(|minutes| began + Duration::from_mins(minutes));
    let all = all.into_iter().take_while(|_| ends.is_none_or(|ends| Instant::now() < ends));
    let mut reports =
        stream::iter(all).map(|(sheet, plan)| ground.conclude(sheet, plan)).buffer_unordered(arguments.jobs);
    let mut done = 0;
    while let Some((report, void)) = reports.next().await {
        done += 1;
        if arguments.plan.is_some() || !report.failures.is_empty() {
            println!("\n{}\n{}\n{}", report.plan, report.failures.join("\n"), report.story.join("\n"));
            println!("{}", report.command());
        }
        let entry = Entry::new(&report, void);
        if let Some(log) = &mut log {
            writeln!(log, "{}", entry.line())?;
        }
        sum.add(&entry);
        let failed = sum.failed.len();
        if std::io::stderr().is_terminal() {
            eprint!("\r{done} of {total} plans, {failed} failed ");
            drop(std::io::stderr().flush());
        } else if done % 100 == 0 || done == total {
            eprintln!("{done} of {total} plans, {failed} failed, {} s", began.elapsed().as_secs());
        }
    }
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    Ok(())
}
