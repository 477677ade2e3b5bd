//! The outcome of a simulated upgrade: the events, the terms, and the gaps between the terms.

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::model::Version;
use hustings_lab::News;
use serde::Serialize;

use crate::predict::simulation::group::ReplicaSpec;

/// The outcome of an upgrade. All times count from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeOutcome {
    /// The Lease; `None` if no cluster was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The pause of the Lease's elections when the upgrade begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<String>,
    /// The version of the new replicas.
    pub to: String,
    /// Why that version ranks before one of the old ones, if it is a pre-release of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_release: Option<String>,
    /// How many replicas the group has.
    pub replicas: usize,
    /// The events, in order.
    pub timeline: Vec<TimelineEntry>,
    /// The terms, in order.
    pub terms: Vec<UpgradeTerm>,
    /// The times without a leader, in order.
    pub gaps: Vec<LeaderlessGap>,
    /// The sum of all times without a leader.
    pub without_leader_seconds: f64,
    /// The longest time without a leader.
    pub longest_gap_seconds: f64,
    /// How many times the leader changes.
    pub changes: usize,
    /// Whether a replica ever leads while one of an older version is live and has not been asked to stop.
    pub newer_leads_beside_older: bool,
    /// How long the upgrade takes; `None` if it does not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// One event of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// When it happens.
    pub at_seconds: f64,
    /// The kind of event.
    pub event: What,
    /// The replica that it concerns.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replica: String,
    /// The controller's report.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A new replica is created.
    Created,
    /// A new replica stands and is ready.
    Ready,
    /// A replica is asked to stop.
    AskedToStop,
    /// The process of a replica has ended.
    Ended,
    /// A replica begins to lead.
    Leads,
    /// A replica stops leading.
    Follows,
    /// The controller reports something.
    Reported,
}

/// A term.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeTerm {
    /// The replica.
    pub holder: String,
    /// Its binary version.
    pub version: String,
    /// When it begins; 0 if it began before the upgrade.
    pub from_seconds: f64,
    /// When it ends; `None` if it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_seconds: Option<f64>,
}

/// A time without a leader.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderlessGap {
    /// When it begins.
    pub from_seconds: f64,
    /// How long it lasts. If no replica follows, it lasts until the end of the simulation.
    pub seconds: f64,
}

/// A step of the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RolloutStep {
    /// A new replica is created.
    Created(String),
    /// A new replica stands and is ready.
    Ready(String),
    /// An old replica is asked to stop.
    Stops(String),
}

/// Collects the events of an upgrade.
pub(super) struct Recorder {
    entries: Vec<(Duration, What, String, String)>,
    /// The versions of all replicas.
    versions: BTreeMap<String, String>,
    leader: Option<String>,
    old: Vec<String>,
    to: String,
}

impl Recorder {
    /// A recorder for an upgrade of the `old` replicas to the version `to`. `leader` leads before the upgrade.
    pub(super) fn new(old: &[ReplicaSpec], to: &str, leader: Option<String>) -> Self {
        let version = |old: &ReplicaSpec| (old.name.clone(), old.binary_version.clone());
        Self {
            entries: Vec::new(),
            versions: old.iter().map(version).collect(),
            leader,
            old: old.iter().map(|old| old.name.clone()).collect(),
            to: to.to_owned(),
        }
    }

    /// Records a step of the rollout.
    pub(super) fn step(&mut self, at: Duration, step: RolloutStep) {
        let (what, name) = match step {
            RolloutStep::Created(name) => {
                self.versions.insert(name.clone(), self.to.clone());
                (What::Created, name)
            }
            RolloutStep::Ready(name) => (What::Ready, name),
            RolloutStep::Stops(name) => (What::AskedToStop, name),
        };
        self.entries.push((at, what, name, String::new()));
    }

    /// Records what happens to the process of this name.
    pub(super) fn news(&mut self, at: Duration, news: &News, name: &str) {
        let (what, name, message) = match news {
            News::Leads(_) => (What::Leads, name, String::new()),
            News::Follows => (What::Follows, name, String::new()),
            News::Ended => (What::Ended, name, String::new()),
            News::Report(event) => (What::Reported, "", event.to_string()),
            _ => return,
        };
        self.entries.push((at, what, name.to_owned(), message));
    }

    /// The outcome of an upgrade that was observed until `until`. `ended` is when it ended, if it did.
    pub(super) fn outcome(mut self, ended: Option<Duration>, until: Duration) -> UpgradeOutcome {
        self.entries.sort_by_key(|(at, ..)| *at);
        let mut terms: Vec<UpgradeTerm> = Vec::new();
        let mut gaps: Vec<LeaderlessGap> = Vec::new();
        let mut free_since = Some(Duration::ZERO);
        let mut changes = 0;
        let mut live = self.old.clone();
        let mut beside_older = false;
        let begin = |name: &str, at: Duration| UpgradeTerm {
            holder: name.to_owned(),
            version: self.versions.get(name).cloned().unwrap_or_default(),
            from_seconds: seconds(at),
            until_seconds: None,
        };
        if let Some(leader) = &self.leader {
            terms.push(begin(leader, Duration::ZERO));
            free_since = None;
            beside_older = live.iter().any(|other| self.is_older(other, leader));
        }
        for (at, what, name, _) in &self.entries {
            match what {
                What::Ready => live.push(name.clone()),
                What::AskedToStop | What::Ended => live.retain(|other| other != name),
                What::Leads => {
                    if let Some(since) = free_since.take() {
                        gaps.push(LeaderlessGap {
                            from_seconds: seconds(since),
                            seconds: seconds(at.saturating_sub(since)),
                        });
                    }
                    changes += usize::from(terms.last().is_none_or(|term| term.holder != *name));
                    beside_older |= live.iter().any(|other| self.is_older(other, name));
                    terms.push(begin(name, *at));
                }
                What::Follows => {
                    if let Some(term) = terms.last_mut().filter(|term| term.holder == *name) {
                        term.until_seconds = Some(seconds(*at));
                        free_since = Some(*at);
                    }
                }
                What::Created | What::Reported => {}
            }
        }
        if let Some(since) = free_since {
            gaps.push(LeaderlessGap { from_seconds: seconds(since), seconds: seconds(until.saturating_sub(since)) });
        }
        let timeline = self.entries.into_iter().map(|(at, event, replica, message)| TimelineEntry {
            at_seconds: seconds(at),
            event,
            replica,
            message,
        });
        let new = self.to.parse::<Version>().ok();
        let pre_release = self.old.iter().find_map(|old| {
            let old = self.versions.get(old)?.parse().ok()?;
            new.as_ref()?.note_on_pre_release(&old)
        });
        UpgradeOutcome {
            lease: None,
            pause: None,
            to: self.to,
            pre_release,
            replicas: self.old.len(),
            timeline: timeline.collect(),
            without_leader_seconds: rounded(gaps.iter().map(|gap| gap.seconds).sum()),
            longest_gap_seconds: gaps.iter().map(|gap| gap.seconds).fold(0.0, f64::max),
            terms,
            gaps,
            changes,
            newer_leads_beside_older: beside_older,
            seconds: ended.map(seconds),
        }
    }

    fn is_older(&self, one: &str, other: &str) -> bool {
        let version = |name: &str| self.versions.get(name)?.parse::<Version>().ok();
        matches!((version(one), version(other)), (Some(one), Some(other)) if one < other)
    }
}

/// The duration in seconds, rounded to milliseconds.
fn seconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64())
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use hustings_core::elector::Leading;
    use hustings_core::model::Moment;

    use super::*;

    fn leads() -> News {
        News::Leads(Leading { number: 1, token: 1, valid_until: Moment::NEVER })
    }

    fn recorder(leader: Option<&str>) -> Recorder {
        let spec = |name: &str| ReplicaSpec {
            name: name.to_owned(),
            binary_version: "1.1".to_owned(),
            ..ReplicaSpec::default()
        };
        Recorder::new(&["a", "b"].map(spec), "1.2", leader.map(str::to_owned))
    }

    #[test]
    fn only_a_term_of_another_replica_changes_the_leader_and_each_gap_counts() {
        let mut recorder = recorder(Some("a"));
        // The steps are reported before the news of the same run.
        for (at, news, name) in [
            (10, News::Follows, "a"),
            (12, leads(), "a"),
            (20, News::Follows, "a"),
            (25, leads(), "b"),
            (30, News::Follows, "b"),
        ] {
            recorder.news(Duration::from_secs(at), &news, name);
        }
        let outcome = recorder.outcome(None, Duration::from_secs(34));
        assert_eq!((outcome.changes, outcome.terms.len(), outcome.seconds), (1, 3, None));
        let gaps: Vec<_> = outcome.gaps.iter().map(|gap| (gap.from_seconds, gap.seconds)).collect();
        assert_eq!(gaps, [(10.0, 2.0), (20.0, 5.0), (30.0, 4.0)]);
        assert_eq!((outcome.without_leader_seconds, outcome.longest_gap_seconds), (11.0, 5.0));
        let first = recorder_without_a_leader();
        assert_eq!((first.changes, first.gaps.len(), first.gaps[0].seconds), (1, 1, 3.0));
    }

    fn recorder_without_a_leader() -> UpgradeOutcome {
        let mut recorder = recorder(None);
        recorder.news(Duration::from_secs(3), &leads(), "a");
        recorder.outcome(None, Duration::from_secs(9))
    }

    #[test]
    fn a_newer_leader_is_beside_an_older_replica_only_while_that_one_was_not_asked_to_stop() {
        let asked = |name: &str| RolloutStep::Stops(name.to_owned());
        for (stops, ends, is_beside) in
            [(&["a", "b"][..], &[][..], false), (&["a"], &[], true), (&["a"], &["b"], false), (&[], &[], true)]
        {
            let mut recorder = recorder(None);
            recorder.step(Duration::from_secs(1), RolloutStep::Created("new-1".to_owned()));
            recorder.step(Duration::from_secs(2), RolloutStep::Ready("new-1".to_owned()));
            for stop in stops {
                recorder.step(Duration::from_secs(3), asked(stop));
            }
            for end in ends {
                recorder.news(Duration::from_secs(4), &News::Ended, end);
            }
            recorder.news(Duration::from_secs(5), &leads(), "new-1");
            let outcome = recorder.outcome(None, Duration::from_secs(9));
            assert_eq!(outcome.newer_leads_beside_older, is_beside, "{stops:?} stop, {ends:?} end");
        }
    }
}
