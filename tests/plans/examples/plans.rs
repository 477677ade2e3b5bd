//! Runs every plan of every scenario, or some, and says what came of them.
//!
//! `cargo run --release -p hustings-plans --example plans -- [--scenario S] [--plan P] [--jobs N] [--minutes N] [--list]`

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use hustings_controlplane::ControlPlane;
use hustings_plans::campaign::{Ground, Report, Sheet, listed_in_vain};
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// How many scenarios are played undisturbed at a time: what they do is to be what they do at leisure.
const AT_A_TIME: usize = 4;

/// How often a plan is repeated in whose run the machine stood still.
const MOST_VOID: usize = 3;

struct Arguments {
    scenarios: Vec<Scenario>,
    plan: Option<Plan>,
    jobs: usize,
    lists: bool,
    /// After which no further plan is begun.
    minutes: Option<u64>,
    /// By which their order is drawn.
    seed: u64,
}

/// What came of the plans of one scenario.
#[derive(Default)]
struct Row {
    plans: usize,
    not_reached: usize,
    replaced: usize,
    /// Runs that were repeated, since the machine stood still.
    void: usize,
    failed: Vec<String>,
    longest: Duration,
}

/// The first argument with which this program behaves as the `hustings` binary, which `cargo run --example` does not
/// build.
const AS_HUSTINGS: &str = "--as-hustings";

fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).is_some_and(|first| first == AS_HUSTINGS) {
        // As in the binary's `main`.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rest = std::env::args_os().skip(2);
        return Ok(hustings::cli::run(std::iter::once("hustings".into()).chain(rest)));
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<ExitCode> {
    let arguments = arguments()?;
    let plane = Arc::new(ControlPlane::builder().start().await?);
    // Whatever ends it, nothing stays behind.
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
    let mut all: Vec<(&Sheet, Plan)> = match &arguments.plan {
        Some(plan) => sheets.iter().map(|sheet| (sheet, plan.clone())).collect(),
        None => sheets.iter().flat_map(|sheet| sheet.plans().into_iter().map(move |plan| (sheet, plan))).collect(),
    };
    let total = all.len();
    // Whatever there is time for is a sample of all.
    all.shuffle(&mut StdRng::seed_from_u64(arguments.seed));
    let ends = arguments.minutes.map(|minutes| began + Duration::from_mins(minutes));
    let all = all.into_iter().take_while(|_| ends.is_none_or(|ends| Instant::now() < ends));
    let mut rows: BTreeMap<Scenario, Row> = BTreeMap::new();
    let mut reports =
        stream::iter(all).map(|(sheet, plan)| conclude(&ground, sheet, plan)).buffer_unordered(arguments.jobs);
    let mut done = 0;
    while let Some((report, void)) = reports.next().await {
        done += 1;
        take(&report, void, rows.entry(report.scenario).or_default(), arguments.plan.is_some());
        let failed: usize = rows.values().map(|row| row.failed.len()).sum();
        if std::io::stderr().is_terminal() {
            eprint!("\r{done} of {total} plans, {failed} failed ");
            drop(std::io::stderr().flush());
        } else if done % 100 == 0 || done == total {
            eprintln!("{done} of {total} plans, {failed} failed, {} s", began.elapsed().as_secs());
        }
    }
    eprintln!();
    Ok(tell(&sheets, &rows, began.elapsed()))
}

/// Runs a plan until something can be concluded, and says how often nothing could.
async fn conclude(ground: &Ground, sheet: &Sheet, plan: Plan) -> (Report, usize) {
    for void in 0..MOST_VOID {
        let report = ground.run(sheet, plan.clone()).await;
        if !report.is_void() {
            return (report, void);
        }
    }
    (ground.run(sheet, plan).await, MOST_VOID)
}

fn take(report: &Report, void: usize, row: &mut Row, tells: bool) {
    row.plans += 1;
    row.void += void;
    row.not_reached += usize::from(!report.reached);
    row.replaced += usize::from(report.replaced > 0);
    row.longest = row.longest.max(report.took);
    if tells || !report.failures.is_empty() {
        println!("\n{}\n{}\n{}", report.plan, report.failures.join("\n"), report.story.join("\n"));
    }
    if !report.failures.is_empty() {
        println!("{}", report.command());
        row.failed.push(format!("{}: {}", report.plan, report.failures.join("; ")));
    }
}

fn tell(sheets: &[Sheet], rows: &BTreeMap<Scenario, Row>, took: Duration) -> ExitCode {
    println!(
        "{:<18} {:>7} {:>7} {:>7} {:>12} {:>9} {:>6} {:>9} {:>7}",
        "scenario", "writes", "events", "plans", "not reached", "replaced", "void", "longest", "failed"
    );
    let mut sum = [0; 7];
    for sheet in sheets {
        let Some(row) = rows.get(&sheet.scenario) else { continue };
        let events = sheet.points.len() - sheet.writes();
        let numbers = [sheet.writes(), events, row.plans, row.not_reached, row.replaced, row.void, row.failed.len()];
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        let [writes, events, plans, not_reached, replaced, void, failed] = numbers;
        let (name, longest) = (sheet.scenario.as_str(), row.longest.as_secs());
        println!(
            "{name:<18} {writes:>7} {events:>7} {plans:>7} {not_reached:>12} {replaced:>9} {void:>6} {longest:>7} s {failed:>7}"
        );
    }
    let [writes, events, plans, not_reached, replaced, void, failed] = sum;
    println!(
        "{:<18} {writes:>7} {events:>7} {plans:>7} {not_reached:>12} {replaced:>9} {void:>6} {:>9} {failed:>7}",
        "all", ""
    );
    let purposes: BTreeSet<_> = sheets.iter().flat_map(|sheet| &sheet.deeds).collect();
    println!("purposes of writes covered: {}; took {} s", purposes.len(), took.as_secs());
    for row in rows.values() {
        row.failed.iter().for_each(|failure| println!("FAILED {failure}"));
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Result<Arguments> {
    let mut arguments =
        Arguments { scenarios: Scenario::ALL.to_vec(), plan: None, jobs: 30, lists: false, minutes: None, seed: 0 };
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
            _ => {
                bail!("{flag} is unknown: there are --scenario S, --plan P, --jobs N, --minutes N, --seed N and --list")
            }
        }
    }
    Ok(arguments)
}
