//! The story, step by step. Both observers must agree at the end of each step, or the demo fails.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::observer::Observer;
use crate::page;
use crate::show::Show;
use crate::stage::{LEASE, Stage};

/// A crash costs the rest of a lease of 8 s. More than a minute is a failure, not noise.
const LIMIT: Duration = Duration::from_mins(1);

/// Plays all steps, on a control plane of its own or in the given cluster.
pub(crate) async fn play(show: &mut Show, page: bool, cluster: Option<&Rc<Cluster>>) -> Result<()> {
    let mut stage = if let Some(cluster) = cluster {
        show.scene("a cluster that is there, and a namespace in it");
        Stage::set_in(cluster, show).await?
    } else {
        show.scene("a control plane, and Hustings in it");
        Stage::set(show, false).await?
    };
    show.follow(&stage.observer);
    let outcome = act(show, &mut stage, page).await;
    if outcome.is_err() {
        stage.print_logs();
    }
    outcome
}

async fn act(show: &mut Show, stage: &mut Stage, page: bool) -> Result<()> {
    let printer = Printer::default();
    if stage.has_controllers() {
        start_controllers(show, stage, page).await?;
    } else if page {
        show.event("page", "is served by the installed controllers: see docs/guides/page.md");
    }

    show.scene("three components stand; the oldest emulation version is elected");
    stage.start_component("a", "1.32.0", "1.32.0")?;
    stage.start_component("b", "1.31.4", "1.31.0")?;
    stage.start_component("c", "1.32.0", "1.31.0")?;
    let leader = printer.agreed(show, stage, |name| name == "b").await?;
    show.observed("first election", format!("{leader} leads (emulation 1.31, the lower binary of two)"), None);
    for name in ["a", "c"] {
        stage.wait_standby(name).await?;
    }

    show.scene("kill -9 of the holder");
    stage.kill_component("b")?;
    printer.event(show, stage, "b", "is killed");
    let leader = printer.agreed(show, stage, |name| name == "c").await?;
    show.observed(
        "crash",
        format!("{leader} leads after the rest of the lease of 8 s"),
        stage.observer.facts().last_gap(),
    );

    show.scene("SIGTERM of the holder");
    printer.event(show, stage, "c", "is stopped");
    stage.stop_component("c").await?;
    let leader = printer.agreed(show, stage, |name| name == "a").await?;
    show.observed("graceful stop", format!("{leader} leads"), stage.observer.facts().last_gap());

    show.scene("an older version joins");
    stage.start_component("d", "1.30.0", "1.30.0")?;
    let leader = printer.agreed(show, stage, |name| name == "d").await?;
    show.observed(
        "a better candidate joins",
        format!("a has handed over to {leader}"),
        stage.observer.facts().last_gap(),
    );

    show.scene("a rolling upgrade of all three, 1.30 to 1.33");
    upgrade(show, stage, &printer).await?;

    if stage.has_controllers() {
        lose_controller(show, stage, &printer).await?;
    } else {
        show.scene("the scenes that kill a controller are left out: the installed ones are not the demo's");
    }

    let pairs = stage.observer.facts().double_leaders();
    ensure!(pairs.is_empty(), "two processes led at once: {pairs:?}");
    show.table("at no time did two processes lead");
    if page && stage.has_controllers() {
        page::stay(show).await;
    }
    Ok(())
}

async fn start_controllers(show: &mut Show, stage: &mut Stage, page: bool) -> Result<()> {
    stage.start_controller("controller-0")?;
    stage.start_controller("controller-1")?;
    let leading = stage.leading_controller(|_| true).await?;
    show.observed("two controllers", format!("{leading} leads, the other stands by"), None);
    if page {
        // Open the standby's page, since the story kills the leading controller.
        let standby = if leading == "controller-0" { "controller-1" } else { "controller-0" };
        page::open(show, stage, standby).await?;
    }
    Ok(())
}

async fn lose_controller(show: &mut Show, stage: &mut Stage, printer: &Printer) -> Result<()> {
    show.scene("kill -9 of the leading controller while a holder leads");
    let holder = printer.agreed(show, stage, |_| true).await?;
    let terms = stage.observer.facts().terms.len();
    let leading = stage.leading_controller(|_| true).await?;
    let renewed = stage.renew_time().await?;
    stage.kill_controller(&leading)?;
    printer.event(show, stage, &leading, "is killed");
    let successor = stage.leading_controller(|name| name != leading).await?;
    printer.event(show, stage, &successor, "leads the controllers");
    ensure!(stage.observer.facts().agreed_leader() == Some(&holder), "{holder} lost {LEASE} with its controller");
    ensure!(stage.observer.facts().terms.len() == terms, "a term ended when the controller did");
    ensure!(stage.renew_time().await? != renewed, "{holder} has not renewed {LEASE} without a controller");
    show.observed("the controller is lost", format!("{holder} leads on, {successor} takes over"), None);

    show.scene("SIGTERM of the holder, served by the other controller");
    printer.event(show, stage, &holder, "is stopped");
    stage.stop_component(&holder).await?;
    let leader = printer.agreed(show, stage, |name| name != holder).await?;
    show.observed("the next stop", format!("{leader} leads"), stage.observer.facts().last_gap());
    Ok(())
}

/// Replaces 1.30 by 1.33, one replica after the other, as a Deployment with `maxUnavailable: 0` would.
async fn upgrade(show: &mut Show, stage: &mut Stage, printer: &Printer) -> Result<()> {
    const OLD: [&str; 3] = ["d", "e", "f"];
    const NEW: [&str; 3] = ["g", "h", "i"];
    for name in ["e", "f"] {
        stage.start_component(name, "1.30.0", "1.30.0")?;
        stage.wait_standby(name).await?;
    }
    stage.stop_component("a").await?;
    let begun = stage.observer.facts().terms.len();
    let mut last_old_stopped = Timestamp::MAX;
    for (old, new) in OLD.into_iter().zip(NEW) {
        stage.start_component(new, "1.33.0", "1.33.0")?;
        stage.wait_standby(new).await?;
        last_old_stopped = Timestamp::now();
        printer.event(show, stage, old, &format!("is replaced by {new}"));
        stage.stop_component(old).await?;
        let running = stage.running();
        let old_runs = OLD.iter().any(|name| running.contains(name));
        printer.agreed(show, stage, |name| running.contains(&name) && OLD.contains(&name) == old_runs).await?;
    }
    let terms = stage.observer.facts().terms;
    let early = terms.iter().find(|term| NEW.contains(&term.name.as_str()) && term.from < last_old_stopped);
    ensure!(early.is_none(), "{early:?} led while a live older version stood");
    let leaderless: Duration = terms
        .windows(2)
        .skip(begun.saturating_sub(1))
        .filter_map(|pair| Duration::try_from(pair[1].from.duration_since(pair[0].until?)).ok())
        .sum();
    let terms = terms.len() - begun;
    show.observed("rolling upgrade", format!("no 1.33 led beside a live 1.30; {terms} terms"), Some(leaderless));
    Ok(())
}

/// Prints each report of the observers once.
#[derive(Default)]
struct Printer {
    printed: std::cell::Cell<usize>,
}

impl Printer {
    /// Waits until both observers agree on a leader whose name satisfies `accepts`. Prints their reports in the
    /// meantime.
    async fn agreed(&self, show: &Show, stage: &Stage, accepts: impl Fn(&str) -> bool) -> Result<String> {
        let observer = &stage.observer;
        let agreed = tokio::select! {
            agreed = observer.agree(LIMIT, accepts) => agreed,
            never = self.follow(show, observer) => never,
        };
        self.print(show, observer);
        agreed
    }

    /// Prints an event that happens now, after the observers' earlier reports.
    fn event(&self, show: &Show, stage: &Stage, actor: &str, what: &str) {
        self.print(show, &stage.observer);
        show.event(actor, what);
    }

    async fn follow(&self, show: &Show, observer: &Observer) -> Result<String> {
        let mut changes = observer.changes();
        loop {
            self.print(show, observer);
            changes.changed().await?;
        }
    }

    fn print(&self, show: &Show, observer: &Observer) {
        let facts = observer.facts();
        for entry in facts.timeline.iter().skip(self.printed.get()) {
            show.event_at(entry.at, &entry.actor, &entry.what);
        }
        self.printed.set(facts.timeline.len());
    }
}
