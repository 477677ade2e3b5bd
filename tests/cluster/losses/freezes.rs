//! Holders that are frozen past their lease and resume while their successor leads, and holders that are killed.
//!
//! No two awake replicas lead at once: a resumed holder first reports that its term is over.

use std::time::Duration;

use jiff::Timestamp;

use super::stage::{Group, Stage, between};
use crate::replica::{Frozen, Replica, Term, assert_one_awake_at_a_time, until};

/// One holder, frozen until its successor led.
#[derive(Debug)]
pub(crate) struct Thaw {
    pub(crate) frozen: Frozen,
    /// From the freeze to the successor's term.
    pub(crate) without_holder: Duration,
    /// From the resumption to its report that its term is over.
    pub(crate) said_after: Duration,
}

/// Freezes the holder until the other leads.
pub(crate) async fn freeze(stage: &Stage, group: &Group) -> Thaw {
    let (holder, other) = roles(stage, group).await;
    freeze_holder(holder, other).await
}

/// Freezes a holder until the other, which stands by, leads.
pub(crate) async fn freeze_holder(holder: &Replica, other: &Replica) -> Thaw {
    let (awake, led) = (holder.lines().len(), other.terms().len());
    holder.process.pause().unwrap();
    let from = Timestamp::now();
    let led = other.says("leading", led).await.time;
    let until_thawed = Timestamp::now();
    holder.process.resume().unwrap();
    let first = until("it says something", || holder.log(), async || holder.lines().into_iter().nth(awake)).await;
    assert_eq!(first.event, "stopped", "{}\n{}", holder.log(), other.log());
    Thaw {
        frozen: Frozen { name: holder.name.clone(), from, until: until_thawed },
        without_holder: between(from, led),
        said_after: between(until_thawed, first.time),
    }
}

/// Kills the holder. Returns its name, when it died, and how long no replica led.
pub(crate) async fn kill(stage: &Stage, group: &Group) -> (String, Timestamp, Duration) {
    let (holder, other) = roles(stage, group).await;
    let led = other.terms().len();
    holder.process.kill().unwrap();
    let killed = Timestamp::now();
    let led = other.says("leading", led).await.time;
    (holder.name.clone(), killed, between(killed, led))
}

/// Fails if two of the pair ever led at once while awake.
pub(crate) fn check(group: &Group, killed: &[(&str, Timestamp)], thaws: &[Thaw]) -> Vec<Term> {
    let frozen: Vec<Frozen> = thaws.iter().map(|thaw| thaw.frozen.clone()).collect();
    assert_one_awake_at_a_time(&group.each(), killed, &frozen)
}

/// The holder, and the other, which stands by.
async fn roles<'a>(stage: &Stage, group: &'a Group) -> (&'a Replica, &'a Replica) {
    let term = stage.settled(group).await;
    let [a, b] = group.each();
    let (holder, other) = if a.name == term.name { (a, b) } else { (b, a) };
    other.says("observed", 0).await;
    (holder, other)
}
