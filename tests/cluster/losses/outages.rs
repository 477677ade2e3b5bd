//! An API server is killed and restarted, and an etcd is frozen, while holders lead. The tests check which holders keep
//! their terms, when the others lose theirs, and which replicas lead afterwards.

use std::time::Duration;

use futures::future::join_all;
use hustings_controlplane::ControlPlane;
use jiff::Timestamp;

use super::stage::{Group, Mode, Stage, Times, between};
use crate::replica::{Replica, assert_one_at_a_time};

/// The process that becomes unavailable, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// etcd is frozen (SIGSTOP), and resumes.
    EtcdPaused(Duration),
    /// The API server is killed, and restarted after this time. The restart itself takes some seconds.
    ApiServerKilled(Duration),
}

/// The results for some terms.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Until the control plane was ready again.
    pub(crate) lasted: Duration,
    pub(crate) terms: usize,
    pub(crate) kept: usize,
    /// From the beginning of the outage to the holder's report that its term is over, for holders that lost it.
    pub(crate) lost_after: Vec<Duration>,
    /// From the end of the outage to the next term of those Leases.
    pub(crate) led_after: Vec<Duration>,
    /// How many of these next terms belong to the same replica.
    pub(crate) same: usize,
}

impl Outage {
    pub(crate) async fn play(self, plane: &ControlPlane) {
        // The test waits for the whole outage: every process must survive it.
        match self {
            Self::EtcdPaused(pause) => {
                plane.etcd().pause().unwrap();
                tokio::time::sleep(pause).await;
                plane.etcd().resume().unwrap();
            }
            Self::ApiServerKilled(away) => {
                plane.apiserver().kill().unwrap();
                tokio::time::sleep(away).await;
                plane.apiserver().restart().await.unwrap();
            }
        }
    }
}

/// Plays a disturbance once. Fails if two of a pair ever led at once, a token did not grow, or no replica leads in the end.
pub(crate) async fn suffer(
    stage: &Stage,
    groups: &[Group],
    disturb: impl Future<Output = ()>,
) -> Vec<(Mode, Times, Seen)> {
    let before = join_all(groups.iter().map(|group| stage.settled(group))).await;
    let begun = Timestamp::now();
    disturb.await;
    let over = Timestamp::now();
    let after = join_all(groups.iter().map(|group| stage.settled(group))).await;

    let mut all: Vec<(Mode, Times, Seen)> = Vec::new();
    for ((group, before), after) in groups.iter().zip(before).zip(after) {
        assert_one_at_a_time(&group.each(), &[]);
        let known = all.iter().position(|(mode, times, _)| (*mode, *times) == (group.mode, group.times));
        let known = known.unwrap_or_else(|| {
            all.push((group.mode, group.times, Seen::none(between(begun, over))));
            all.len() - 1
        });
        let seen = &mut all[known].2;
        seen.terms += 1;
        if before.token == after.token {
            seen.kept += 1;
            continue;
        }
        let replica = group.replicas.iter().find(|replica| replica.name == before.name).unwrap();
        let term = replica.terms().into_iter().find(|term| term.token == before.token).unwrap();
        seen.lost_after.push(between(begun, term.until.unwrap()));
        let next = group.replicas.iter().flat_map(Replica::terms);
        let next = next.filter(|term| term.token > before.token).min_by_key(|term| term.token).unwrap();
        seen.led_after.push(between(over, next.from));
        seen.same += usize::from(next.name == before.name);
    }
    all
}

impl Seen {
    fn none(lasted: Duration) -> Self {
        Self { lasted, terms: 0, kept: 0, lost_after: Vec::new(), led_after: Vec::new(), same: 0 }
    }
}
