//! The scenes. Each has a namespace of its own, and ends without replicas in it.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::{join_all, try_join_all};
use hustings_client::Moment;
use hustings_client::clock::{Clock, SystemClock};

use crate::contest::{Contest, Term};
use crate::report::{Measure, Report, Target, milliseconds};
use crate::stage::Stage;
use crate::watched::Watched;

const OLD: &str = "1.30.0";
const NEW: &str = "1.31.0";
const REPLICAS: [char; 3] = ['a', 'b', 'c'];
const NEWER_REPLICAS: [char; 3] = ['d', 'e', 'f'];

/// Long enough for every status to be written, and for more than one renewal.
const SETTLED: Duration = Duration::from_secs(5);

const FIRST: Measure =
    Measure { what: "first election of three replicas: start -> leads", unit: "ms", target: Target::None };
const FIRST_TRANSITIONS: Measure = Measure { what: "first election: transitions", unit: "", target: Target::Max(1.0) };
const EXPIRY: Measure = Measure { what: "crash: expiry -> grant seen", unit: "ms", target: Target::P95(100.0) };
const TAKE_UP: Measure = Measure { what: "crash: grant seen -> electee leads", unit: "ms", target: Target::None };
const CRASH: Measure = Measure { what: "crash: without a holder", unit: "s", target: Target::None };
const CRASH_TRANSITIONS: Measure = Measure { what: "crash: transitions", unit: "", target: Target::Max(1.0) };
const STOP: Measure = Measure { what: "graceful stop: old no -> new yes", unit: "ms", target: Target::P95(50.0) };
const STOP_GRANT: Measure = Measure { what: "graceful stop: old no -> grant seen", unit: "ms", target: Target::None };
const STOP_TRANSITIONS: Measure = Measure { what: "graceful stop: transitions", unit: "", target: Target::Max(1.0) };
const JOIN: Measure = Measure { what: "better joins: start -> leads", unit: "ms", target: Target::P95(200.0) };
const JOIN_GAP: Measure = Measure { what: "better joins: old no -> new yes", unit: "ms", target: Target::P95(50.0) };
const JOIN_TRANSITIONS: Measure = Measure { what: "better joins: transitions", unit: "", target: Target::Max(1.0) };
const ROLLING: Measure =
    Measure { what: "rolling replacement of three: without a holder in all", unit: "s", target: Target::P95(0.3) };
const ROLLING_SKEW: Measure =
    Measure { what: "rolling replacement: newer leads beside a live older", unit: "ms", target: Target::Max(0.0) };
const ROLLING_TRANSITIONS: Measure =
    Measure { what: "rolling replacement: transitions above one per change", unit: "", target: Target::Max(0.0) };
const ROLLING_TOOK: Measure = Measure { what: "rolling replacement: took", unit: "s", target: Target::None };

/// Three replicas appear in the same second.
pub(crate) async fn first(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    let namespace = stage.namespace("first").await?;
    let watched = Watched::of(&stage.admin(), &namespace);
    let mut contests = Contest::many(stage, &namespace, leases);
    let waits = contests.iter_mut().map(async |contest| {
        contest.turn().await;
        let started = contest.start(REPLICAS[0], OLD)?;
        contest.start(REPLICAS[1], OLD)?;
        contest.start(REPLICAS[2], OLD)?;
        let leader = contest.leader(|_| true).await?;
        anyhow::Ok(milliseconds(started, leader.from))
    });
    report.add(FIRST, try_join_all(waits).await?);
    tokio::time::sleep(SETTLED).await;
    report.add(FIRST_TRANSITIONS, transitions(&watched, &contests));
    close(contests).await
}

/// The holder dies, and its candidate stays.
pub(crate) async fn crash(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    let namespace = stage.namespace("crash").await?;
    let watched = Watched::of(&stage.admin(), &namespace);
    let mut contests = settled(stage, &namespace, leases, OLD).await?;
    let before = transitions(&watched, &contests);
    let crashes = contests.iter_mut().map(async |contest| {
        contest.turn().await;
        let holder = contest.leader(|_| true).await?.name;
        let killed = contest.kill(&holder)?;
        anyhow::Ok((killed, contest.leader(|name| name != holder).await?))
    });
    let crashes = try_join_all(crashes).await?;
    tokio::time::sleep(SETTLED).await;
    let mut expiry = Vec::new();
    let mut take_ups = Vec::new();
    for (contest, (killed, successor)) in contests.iter().zip(&crashes) {
        let grants = watched.grants(&contest.lease, *killed);
        expiry.extend(grants.first().map(|grant| milliseconds(grant.expiry, grant.at)));
        let taken = grants.iter().find(|grant| grant.electee == successor.name);
        take_ups.extend(taken.map(|grant| milliseconds(grant.at, successor.from)));
    }
    report.add(EXPIRY, expiry);
    report.add(TAKE_UP, take_ups);
    report.add(CRASH, crashes.iter().map(|(killed, successor)| milliseconds(*killed, successor.from) / 1000.0));
    report.add(CRASH_TRANSITIONS, since(&before, &transitions(&watched, &contests)));
    close(contests).await
}

/// The holder stops gracefully, and two replicas of the same version stand by.
pub(crate) async fn stop(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    let namespace = stage.namespace("stop").await?;
    let watched = Watched::of(&stage.admin(), &namespace);
    let mut contests = settled(stage, &namespace, leases, OLD).await?;
    let before = transitions(&watched, &contests);
    let stops = contests.iter_mut().map(async |contest| {
        contest.turn().await;
        let holder = contest.leader(|_| true).await?;
        contest.stop(&holder.name).await?;
        let successor = contest.leader(|name| name != holder.name).await?;
        anyhow::Ok((ended(contest, &holder)?, successor.from))
    });
    let stops = try_join_all(stops).await?;
    report.add(STOP, stops.iter().map(|(no, yes)| milliseconds(*no, *yes)));
    tokio::time::sleep(SETTLED).await;
    let grants = contests.iter().zip(&stops).filter_map(|(contest, (no, _))| {
        watched.grants(&contest.lease, *no).first().map(|grant| milliseconds(*no, grant.at))
    });
    report.add(STOP_GRANT, grants);
    report.add(STOP_TRANSITIONS, since(&before, &transitions(&watched, &contests)));
    close(contests).await
}

/// An older version joins three newer ones.
pub(crate) async fn join(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    let namespace = stage.namespace("join").await?;
    let watched = Watched::of(&stage.admin(), &namespace);
    let mut contests = settled(stage, &namespace, leases, NEW).await?;
    let before = transitions(&watched, &contests);
    let joins = contests.iter_mut().map(async |contest| {
        contest.turn().await;
        let holder = contest.leader(|_| true).await?;
        let better = contest.name('d');
        let started = contest.start('d', OLD)?;
        let successor = contest.leader(|name| name == better).await?;
        anyhow::Ok((started, ended(contest, &holder)?, successor.from))
    });
    let joins = try_join_all(joins).await?;
    report.add(JOIN, joins.iter().map(|(started, _, yes)| milliseconds(*started, *yes)));
    report.add(JOIN_GAP, joins.iter().map(|(_, no, yes)| milliseconds(*no, *yes)));
    tokio::time::sleep(SETTLED).await;
    report.add(JOIN_TRANSITIONS, since(&before, &transitions(&watched, &contests)));
    close(contests).await
}

/// Three replicas are replaced by newer ones, one after the other, as by a Deployment with `maxUnavailable: 0`. The
/// holder is always replaced next, which is the worst order.
pub(crate) async fn rolling(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    let namespace = stage.namespace("rolling").await?;
    let watched = Watched::of(&stage.admin(), &namespace);
    let mut contests = settled(stage, &namespace, leases, OLD).await?;
    let before = transitions(&watched, &contests);
    let watched = &watched;
    let replacements = contests.iter_mut().map(async |contest| {
        contest.turn().await;
        let began = SystemClock.now();
        let mut last_stop = began;
        let mut changes = 0.0;
        let mut old: Vec<_> = REPLICAS.map(|replica| contest.name(replica)).into();
        for newer in NEWER_REPLICAS {
            contest.start(newer, NEW)?;
            watched.wait_standby(&contest.name(newer)).await?;
            let holder = contest.leader(|_| true).await?.name;
            let leaving = old.iter().position(|name| *name == holder).unwrap_or_default();
            let leaving = old.remove(leaving);
            changes += f64::from(u8::from(leaving == holder));
            last_stop = contest.stop(&leaving).await?;
            contest.leader(|name| name != leaving).await?;
        }
        let newer = NEWER_REPLICAS.map(|replica| contest.name(replica));
        let last = contest.leader(|name| newer.iter().any(|newer| newer == name)).await?;
        let terms = contest.terms();
        let skew = terms.iter().filter(|term| newer.contains(&term.name)).map(|term| {
            let until = term.until.unwrap_or(Moment::NEVER).min(last_stop);
            until.since(term.from).as_secs_f64() * 1000.0
        });
        let took = milliseconds(began, last.from) / 1000.0;
        anyhow::Ok((without_holder(&terms, began, last.from), skew.sum::<f64>(), took, changes))
    });
    let replacements = try_join_all(replacements).await?;
    report.add(ROLLING, replacements.iter().map(|(without, ..)| *without));
    report.add(ROLLING_SKEW, replacements.iter().map(|(_, skew, ..)| *skew));
    tokio::time::sleep(SETTLED).await;
    let used = since(&before, &transitions(watched, &contests));
    report.add(ROLLING_TRANSITIONS, used.into_iter().zip(&replacements).map(|(used, (.., changes))| used - changes));
    report.add(ROLLING_TOOK, replacements.iter().map(|(_, _, took, _)| *took));
    close(contests).await
}

/// Leases that have been held for a while, with three replicas each.
pub(crate) async fn settled<'stage>(
    stage: &'stage Stage,
    namespace: &str,
    leases: usize,
    version: &str,
) -> Result<Vec<Contest<'stage>>> {
    let mut contests = Contest::many(stage, namespace, leases);
    for contest in &mut contests {
        for replica in REPLICAS {
            contest.start(replica, version)?;
        }
    }
    try_join_all(contests.iter().map(|contest| contest.leader(|_| true))).await?;
    tokio::time::sleep(SETTLED).await;
    Ok(contests)
}

/// Stops all replicas.
pub(crate) async fn close(contests: Vec<Contest<'_>>) -> Result<()> {
    join_all(contests.into_iter().map(Contest::close)).await.into_iter().collect()
}

/// The end of this term, which must have ended.
fn ended(contest: &Contest<'_>, term: &Term) -> Result<Moment> {
    let terms = contest.terms();
    let ended = terms.iter().find(|other| (&other.name, other.from) == (&term.name, term.from));
    ended.and_then(|term| term.until).context("two lead at once")
}

/// How many seconds no replica led.
fn without_holder(terms: &[Term], from: Moment, to: Moment) -> f64 {
    let mut covered = from;
    let mut without = Duration::ZERO;
    for term in terms {
        without += term.from.min(to).since(covered);
        covered = covered.max(term.until.unwrap_or(Moment::NEVER));
    }
    (without + to.since(covered)).as_secs_f64()
}

fn transitions(watched: &Watched, contests: &[Contest<'_>]) -> Vec<f64> {
    contests.iter().map(|contest| f64::from(watched.transitions(&contest.lease))).collect()
}

fn since(before: &[f64], after: &[f64]) -> Vec<f64> {
    before.iter().zip(after).map(|(before, after)| after - before).collect()
}
