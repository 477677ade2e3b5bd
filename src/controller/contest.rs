//! One Lease: its election, and the state beside it that metrics, events and statuses need.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election::{self, Action, Election, Event, LeaseVerdict, Observation, Source, Unheld};
use hustings_core::model::{CandidateRecord, LeaseRecord, Moment, Now, Observed, WireTime};
use tokio::time::Instant;

use super::execute::{Former, Order};
use super::key::{LeaseKey, ObjectKey};
use super::statuses::StatusWrite;
use super::stores::Stores;
use crate::ops::metrics::{Cause, LeaseSample, LeaseState, Metrics, Verdict};

/// One Lease and its candidates.
pub(super) struct Contest {
    key: LeaseKey,
    election: Election,
    candidates: HashMap<Arc<str>, LastTimes>,
    state: LeaseState,
    /// Since when the Lease has had no holder although it should have one, and why.
    gap: Option<(Moment, Cause)>,
    /// `leaseTransitions` in the last sample.
    sampled_transitions: Option<u32>,
}

/// The times of a candidate in the version last observed.
#[derive(Debug, Default)]
struct LastTimes {
    ping_time: Option<WireTime>,
    renew_time: Option<WireTime>,
}

/// The begin of a candidate's term.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TermStart {
    /// `metadata.uid` of the Lease.
    pub(super) lease_uid: String,
    /// The holder.
    pub(super) holder: String,
}

impl Contest {
    /// A Lease that has not been observed yet.
    pub(super) fn new(config: &election::Config, key: LeaseKey) -> Self {
        let election = Election::new(config.clone(), key.namespace(), key.name());
        let candidates = HashMap::new();
        Self { key, election, candidates, state: LeaseState::Unread, gap: None, sampled_transitions: None }
    }

    /// Observes a version of a candidate, from a watch. Only the leading controller passes `metrics`: every controller
    /// observes the answer to a ping, but it must count once.
    pub(super) fn see_candidate(&mut self, now: Now, record: CandidateRecord, metrics: Option<&Metrics>) {
        let last = self.candidates.entry(record.name.as_str().into()).or_default();
        if let Some(metrics) = metrics.filter(|_| last.acks(&record)) {
            metrics.acks.inc();
        }
        (last.ping_time, last.renew_time) = (record.ping_time, record.renew_time);
        self.election.observe(now, Observation::Candidate { record, source: Source::Watch });
    }

    /// Observes the deletion of a candidate, from a watch.
    pub(super) fn lose_candidate(&mut self, now: Now, name: &str) {
        self.candidates.remove(name);
        self.election.observe(now, Observation::CandidateMissing { name: name.to_owned(), source: Source::Watch });
    }

    /// Takes any other observation. Returns the begin of a candidate's term if the observation shows one. `metrics` are
    /// those of [`Self::see_candidate`].
    pub(super) fn observe(
        &mut self,
        now: Now,
        observation: Observation,
        metrics: Option<&Metrics>,
    ) -> Option<TermStart> {
        if let Observation::CandidateMissing { name, .. } = &observation {
            self.candidates.remove(name.as_str());
        }
        let former = self.record().cloned();
        self.election.observe(now, observation);
        let (former, record) = (former?, self.record()?);
        if let Some(metrics) = metrics.filter(|_| is_hand_over(&former, record)) {
            metrics.hand_overs.inc();
        }
        self.term_start(&former, record)
    }

    /// Decides what to do about the Lease. If the order has no actions, the next decision is due at the returned moment.
    pub(super) fn decide(&mut self, now: Now, stores: &Stores, metrics: &Metrics) -> (Order, Moment) {
        let started = Instant::now();
        let decision = self.election.decide(now);
        metrics.decision.observe(started.elapsed().as_secs_f64());
        self.update(now.moment, &decision.lease, metrics);
        let finds_no_candidate = |action: &Action| matches!(action, Action::Event(Event::NoLiveCandidate { .. }));
        if decision.actions.iter().any(finds_no_candidate) {
            metrics.elections.get_or_create(&Verdict::NoCandidate.label()).inc();
        }
        (self.order(decision.actions, stores), decision.deadline)
    }

    /// Forgets the state of the Lease, since this controller no longer elects.
    pub(super) fn stand_by(&mut self) {
        (self.state, self.gap) = (LeaseState::Unread, None);
    }

    /// Whether this Lease needs no election any more and can be forgotten.
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.election.is_over(now)
    }

    /// Whether neither a candidate nor the Lease is known, so that only a live read shows whether the election is over.
    pub(super) fn is_adrift(&self) -> bool {
        self.candidates.is_empty() && self.election.lease().is_none()
    }

    /// An order to read the Lease live, and nothing else.
    pub(super) fn order_to_read(&self) -> Order {
        Order { actions: vec![Action::ReadLease], current: self.record().cloned(), statuses: Vec::new() }
    }

    /// The state of the Lease at the last decision.
    pub(super) const fn state(&self) -> LeaseState {
        self.state
    }

    /// Since when the Lease has had no holder although it should have one.
    pub(super) fn unheld_since(&self) -> Option<Moment> {
        self.gap.map(|(since, _)| since)
    }

    /// The sample for the metrics; `None` before the first decision.
    pub(super) fn sample(&mut self, now: Moment) -> Option<LeaseSample> {
        let held = match self.state {
            LeaseState::Unread => return None,
            LeaseState::Held | LeaseState::Foreign => true,
            LeaseState::Granted
            | LeaseState::Unheld
            | LeaseState::NoCandidate
            | LeaseState::Reserved
            | LeaseState::OnHold => false,
        };
        let age = |since: Option<Moment>| since.map_or(Duration::ZERO, |since| now.since(since));
        let transitions = self.record().map_or(0, |record| record.transitions);
        let former = self.sampled_transitions.replace(transitions).unwrap_or(transitions);
        Some(LeaseSample {
            namespace: Arc::clone(self.key.namespace()),
            name: Arc::clone(self.key.name()),
            held,
            candidates: self.candidates.len(),
            transitions,
            new_transitions: transitions.saturating_sub(former),
            unheld: age(self.unheld_since()),
            preferred: age(self.election.preferred_since()),
        })
    }

    /// The writes that succeed without effect, each as a text for people.
    pub(super) fn ineffective_writes(&self) -> impl Iterator<Item = String> {
        self.election.ineffective_writes().map(|(candidate, write, lost)| match candidate {
            None => format!("{} of Lease {} ({lost})", write.as_str(), self.key),
            Some(name) => {
                format!("{} of LeaseCandidate {}/{name} ({lost})", write.as_str(), self.key.namespace())
            }
        })
    }

    fn order(&self, decided: Vec<Action>, stores: &Stores) -> Order {
        let (mut actions, mut statuses) = (Vec::new(), Vec::new());
        for action in decided {
            match action {
                Action::PatchStatus { name, uid, status } => {
                    let key = ObjectKey { namespace: Arc::clone(self.key.namespace()), name: Arc::clone(&name) };
                    let former = stores.candidate(&key).map(|shown| Former::of(&shown.record)).unwrap_or_default();
                    statuses.push(StatusWrite { key: self.key.clone(), name, uid, status, former });
                }
                action => actions.push(action),
            }
        }
        let current = self.record().filter(|_| !actions.is_empty()).cloned();
        Order { actions, current, statuses }
    }

    fn record(&self) -> Option<&LeaseRecord> {
        self.election.lease().map(Observed::record)
    }

    fn update(&mut self, now: Moment, verdict: &LeaseVerdict, metrics: &Metrics) {
        self.state = match verdict {
            LeaseVerdict::OutOfBounds | LeaseVerdict::Unread => LeaseState::Unread,
            LeaseVerdict::Held { taken_up: true, .. } => LeaseState::Held,
            LeaseVerdict::Held { taken_up: false, .. } => LeaseState::Granted,
            LeaseVerdict::Foreign { .. } => LeaseState::Foreign,
            LeaseVerdict::Reserved { .. } => LeaseState::Reserved,
            LeaseVerdict::Unheld { .. } => LeaseState::Unheld,
            LeaseVerdict::NoLiveCandidate { .. } => LeaseState::NoCandidate,
            LeaseVerdict::OnHold { .. } => LeaseState::OnHold,
        };
        match verdict {
            LeaseVerdict::Unheld { since, cause } | LeaseVerdict::NoLiveCandidate { since, cause }
                if !self.candidates.is_empty() =>
            {
                self.gap.get_or_insert((*since, cause_of(*cause)));
            }
            LeaseVerdict::Held { taken_up: false, .. } => {
                self.gap.get_or_insert((now, Cause::HandOver));
            }
            LeaseVerdict::Held { taken_up: true, .. } => {
                if let Some((since, cause)) = self.gap.take() {
                    metrics.unheld.get_or_create(&cause.label()).observe(now.since(since).as_secs_f64());
                }
            }
            LeaseVerdict::Reserved { .. } | LeaseVerdict::Unread => {}
            LeaseVerdict::Unheld { .. }
            | LeaseVerdict::NoLiveCandidate { .. }
            | LeaseVerdict::OutOfBounds
            | LeaseVerdict::Foreign { .. }
            | LeaseVerdict::OnHold { .. } => self.gap = None,
        }
    }

    fn term_start(&self, former: &LeaseRecord, record: &LeaseRecord) -> Option<TermStart> {
        let holder = record.holder.as_deref().filter(|holder| self.candidates.contains_key(*holder))?;
        let new_term = former.is_grant() || former.holder != record.holder || former.token != record.token;
        let starts = new_term && !record.is_grant();
        starts.then(|| TermStart { lease_uid: record.uid.clone(), holder: holder.to_owned() })
    }
}

impl LastTimes {
    /// Whether `record` answers a ping that the version before had not answered.
    fn acks(&self, record: &CandidateRecord) -> bool {
        let asked = self.ping_time.is_some() && self.ping_time > self.renew_time;
        asked && record.renew_time != self.renew_time && record.renew_time >= self.ping_time
    }
}

fn is_hand_over(former: &LeaseRecord, record: &LeaseRecord) -> bool {
    former.holder.is_some()
        && former.preferred_holder.is_some()
        && former.preferred_holder == record.holder
        && former.holder != record.holder
}

const fn cause_of(unheld: Unheld) -> Cause {
    match unheld {
        Unheld::Missing => Cause::Missing,
        Unheld::New => Cause::New,
        Unheld::Released => Cause::Released,
        Unheld::Lapsed => Cause::Lapsed,
        Unheld::GrantNotTakenUp => Cause::GrantNotTakenUp,
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::api::ReadCandidate;
    use hustings_core::model::RecordedStatus;
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher;
    use serde_json::json;

    use super::*;
    use crate::controller::status::Transitions;
    use crate::controller::stores::Stored;
    use crate::controller::watch::Scope;

    #[test]
    fn a_status_keeps_the_transition_times_that_the_watch_last_showed() {
        let leading = json!({ "type": "Leading", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "", "message": "" });
        let shown = ReadCandidate::from_json(json!({
            "metadata": { "namespace": "n", "name": "a" },
            "spec": { "leaseName": "l" },
            "status": { "state": "Holder", "conditions": [leading] },
        }));
        let shown = Stored::of(shown).unwrap();
        let mut writer = Writer::default();
        writer.apply_watcher_event(&watcher::Event::Apply(shown.clone()));
        let mut stores = Stores::default();
        stores.add_candidates(Scope::Cluster, writer.as_reader());
        let contest = Contest::new(&election::Config::default(), LeaseKey::new("n", "l"));
        let patch =
            |name: &str| Action::PatchStatus { name: name.into(), uid: "u".into(), status: RecordedStatus::default() };
        let order = contest.order(vec![patch("a"), patch("unknown")], &stores);
        let former: Vec<_> = order.statuses.iter().map(|status| (&*status.name, status.former)).collect();
        assert_eq!(former, [("a", Former::of(&shown.record)), ("unknown", Former::default())]);
        assert!(shown.record.transitions != Transitions::default());
    }
}
