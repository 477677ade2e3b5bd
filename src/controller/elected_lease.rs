//! One Lease: its election, and the additional state for metrics, events, statuses and the page.

mod changes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election::{self, Action, CandidateVerdict, Election, Event, LeaseVerdict, Observation, Source};
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidateRecord, CandidateState, Cause, Ending, LeaseRecord, Moment, Now, Observed,
    Step, Unheld, Unparsed, WireTime,
};
use tokio::time::Instant;

pub(super) use self::changes::Change;
use super::display::Display;
use super::key::LeaseKey;
use super::status::StatusWrite;
use super::stores::Stores;
use super::watched::WatchedCandidate;
use crate::serve::metrics::{ControllerMetrics, ElectionResult, Kind, LeaseSample, LeaseState, ValueLabel};
use crate::serve::page::ElectionView;

/// One Lease and its candidates.
pub(super) struct ElectedLease {
    key: LeaseKey,
    election: Election,
    candidates: HashMap<CandidateKey, Previous>,
    state: LeaseState,
    /// When the current gap began, and why. In a gap, the Lease has no holder although it should have one.
    gap: Option<(Moment, Unheld)>,
    /// `leaseTransitions` in the last sample.
    sampled_transitions: Option<u32>,
    /// The state for the page, if there is one.
    display: Option<Display>,
}

/// What to do about a Lease.
pub(super) struct LeasePlan {
    /// The actions to carry out before the next decision.
    pub(super) actions: Vec<Action>,
    /// The version of the Lease that the decision is based on.
    pub(super) current: Option<LeaseRecord>,
    /// The statuses to write. No decision waits for them.
    pub(super) statuses: Vec<StatusWrite>,
}

/// The relevant fields of the last observed version of a candidate, and its state at the last decision.
#[derive(Debug, Default)]
struct Previous {
    ping_time: Option<WireTime>,
    renew_time: Option<WireTime>,
    unparsed: Unparsed,
    /// `None` before this controller's first decision since it leads.
    state: Option<CandidateState>,
}

impl ElectedLease {
    /// A Lease that has not been observed yet. `displayed` says whether a page shows it.
    pub(super) fn new(config: &election::Config, key: LeaseKey, displayed: bool) -> Self {
        let election = Election::new(config.clone(), key.namespace(), key.name());
        let (candidates, display) = (HashMap::new(), displayed.then(Display::new));
        Self { key, election, candidates, state: LeaseState::Unread, gap: None, sampled_transitions: None, display }
    }

    /// Observes a version of a candidate, from a watch. Every controller observes each answer to a ping. Only the
    /// leading controller passes `metrics`, so that the metrics count the answer once.
    pub(super) fn observe_candidate(
        &mut self,
        now: Now,
        candidate: WatchedCandidate,
        metrics: Option<&ControllerMetrics>,
    ) {
        let WatchedCandidate { record, .. } = candidate;
        let previous = self.candidates.entry(record.key()).or_default();
        if let Some(metrics) = metrics.filter(|_| previous.acks(&record)) {
            metrics.acks.get_or_create(&Kind::of(&record.key()).label()).inc();
        }
        (previous.ping_time, previous.renew_time) = (record.ping_time, record.renewed_at());
        previous.unparsed = record.unparsed;
        self.election.observe_watched_candidate(now, record);
        self.touch();
    }

    /// Observes the deletion of a candidate, from a watch.
    pub(super) fn remove_candidate(&mut self, now: Now, candidate: CandidateKey) {
        self.candidates.remove(&candidate);
        self.election.observe(now, Observation::CandidateMissing { candidate, source: Source::Watch });
        self.touch();
    }

    /// Observes a version of the Lease, from a watch. Only the leading controller passes `metrics`, as for
    /// [`Self::observe_candidate`].
    pub(super) fn observe_lease(
        &mut self,
        now: Now,
        record: Arc<LeaseRecord>,
        metrics: Option<&ControllerMetrics>,
    ) -> Change {
        self.observe_with(now, metrics, |election| election.observe_watched_lease(now, record))
    }

    /// Observes anything else. Only the leading controller passes `metrics`, as for [`Self::observe_candidate`].
    pub(super) fn observe(
        &mut self,
        now: Now,
        observation: Observation,
        metrics: Option<&ControllerMetrics>,
    ) -> Change {
        if let Observation::CandidateMissing { candidate, .. } = &observation {
            self.candidates.remove(candidate);
        }
        if !matches!(observation, Observation::Lease { source: Source::Watch, .. }) {
            self.touch();
        }
        self.observe_with(now, metrics, |election| election.observe(now, observation))
    }

    fn observe_with(
        &mut self,
        now: Now,
        metrics: Option<&ControllerMetrics>,
        observe: impl FnOnce(&mut Election) -> Option<Step>,
    ) -> Change {
        let former = self.record().and_then(|record| record.holder.clone());
        let doubted = self.election.doubt();
        if let Some(display) = &mut self.display {
            display.pass(now, &self.election);
        }
        let step = observe(&mut self.election);
        if let Some(display) = &mut self.display {
            display.observe(now, step.as_ref(), &self.election);
        }
        if let Some(doubt) = self.election.doubt().filter(|doubt| doubted != Some(*doubt)) {
            tracing::debug!(lease = %self.key, %doubt, "the holder is silent, and its Pod proves nothing");
        }
        let Some(step) = step else { return Change::default() };
        if let Some(metrics) = metrics.filter(|_| step.hand_over().is_some()) {
            metrics.hand_overs.inc();
        }
        Change { began: self.term_start(&step), handed_over: self.unasked_hand_over(former.as_deref(), &step) }
    }

    /// Decides what to do about the Lease. If the plan has no actions, the next decision is due at the returned moment.
    pub(super) fn decide(&mut self, now: Now, stores: &Stores, metrics: &ControllerMetrics) -> (LeasePlan, Moment) {
        let started = Instant::now();
        let decision = self.election.decide(now);
        metrics.decision.observe(started.elapsed().as_secs_f64());
        self.update(now.moment, &decision.lease, metrics);
        self.count_missed_pings(&decision.candidates, metrics);
        let finds_no_candidate = |action: &Action| matches!(action, Action::Event(Event::NoLiveCandidate { .. }));
        if decision.actions.iter().any(finds_no_candidate) {
            metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).inc();
        }
        tracing::debug!(
            lease = %self.key,
            state = decision.lease.as_str(),
            actions = decision.actions.len(),
            timer = decision.timer.as_str(),
            wait = ?decision.deadline.since(now.moment),
            "decided about a Lease"
        );
        if let Some(display) = &mut self.display {
            display.judge(now, (decision.lease, decision.candidates), true);
        }
        (self.plan(decision.actions, stores), decision.deadline)
    }

    /// Makes the view of this Lease for the page; `None` if there is no page, or if the last view is still current.
    /// Unless this controller `decides` about the Lease, the view shows a decision that nobody carries out.
    pub(super) fn view(&mut self, now: Now, stores: &Stores, decides: bool) -> Option<ElectionView> {
        let display = self.display.as_mut()?;
        if !decides {
            display.judge_copy(now, &self.election);
        }
        display.view(&self.key, now, &self.election, stores)
    }

    /// Whether the view may change although nothing new is observed.
    pub(super) fn view_changes_with_time(&self, now: Moment) -> bool {
        self.display.as_ref().is_some_and(|display| display.changes_with_time(now, &self.election))
    }

    /// Namespace and name.
    pub(super) const fn key(&self) -> &LeaseKey {
        &self.key
    }

    /// Whether a native candidate stands for this Lease.
    pub(super) fn has_native_candidates(&self) -> bool {
        self.candidates.keys().any(|candidate| candidate.kind == CandidateKind::Native)
    }

    /// Resets the state for the metrics, since this controller no longer elects.
    pub(super) fn stand_by(&mut self) {
        // Another controller counts the transitions and the missed pings from now on.
        (self.state, self.gap, self.sampled_transitions) = (LeaseState::Unread, None, None);
        self.candidates.values_mut().for_each(|candidate| candidate.state = None);
    }

    /// Whether this Lease no longer needs an election, so that the controller can drop it.
    pub(super) fn is_over(&self, now: Now) -> bool {
        self.election.is_over(now)
    }

    /// Whether neither the Lease nor a candidate is known. Only a live read then shows whether the election is over.
    pub(super) fn is_unknown(&self) -> bool {
        self.candidates.is_empty() && self.election.lease().is_none()
    }

    /// A plan that contains only a live read of the Lease.
    pub(super) fn plan_read(&self) -> LeasePlan {
        LeasePlan { actions: vec![Action::ReadLease], current: self.record().cloned(), statuses: Vec::new() }
    }

    /// The state of the Lease at the last decision.
    pub(super) const fn state(&self) -> LeaseState {
        self.state
    }

    /// When the current gap began: since then, the Lease has had no holder although it should have one.
    pub(super) fn unheld_since(&self) -> Option<Moment> {
        self.gap.as_ref().map(|(since, _)| *since)
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
        let previous = self.sampled_transitions.replace(transitions).unwrap_or(transitions);
        Some(LeaseSample {
            namespace: Arc::clone(self.key.namespace()),
            name: Arc::clone(self.key.name()),
            held,
            candidates: self.candidates.len(),
            transitions,
            new_transitions: transitions.saturating_sub(previous),
            unheld: age(self.unheld_since()),
            preferred: age(self.election.preferred_since()),
        })
    }

    /// The election.
    pub(super) const fn election(&self) -> &Election {
        &self.election
    }

    fn plan(&self, decided: Vec<Action>, stores: &Stores) -> LeasePlan {
        let (mut actions, mut statuses) = (Vec::new(), Vec::new());
        for action in decided {
            match action {
                Action::PatchStatus { candidate, uid, status } => {
                    let transitions = stores.transitions(self.key.namespace(), &candidate);
                    statuses.push(StatusWrite { key: self.key.clone(), candidate, uid, status, transitions });
                }
                action => actions.push(action),
            }
        }
        let current = self.record().filter(|_| !actions.is_empty()).cloned();
        LeasePlan { actions, current, statuses }
    }

    /// Records that the view for the page may change.
    const fn touch(&mut self) {
        if let Some(display) = &mut self.display {
            display.touch();
        }
    }

    fn record(&self) -> Option<&LeaseRecord> {
        self.election.lease().map(Observed::record)
    }

    fn count_missed_pings(&mut self, verdicts: &[CandidateVerdict], metrics: &ControllerMetrics) {
        for verdict in verdicts {
            let Some(candidate) = self.candidates.get_mut(&verdict.candidate) else { continue };
            let previous = candidate.state.replace(verdict.state);
            let fails = verdict.state == CandidateState::Unresponsive;
            // If the first verdict is a failure, an earlier controller has counted it.
            if fails && previous.is_some_and(|previous| previous != verdict.state) {
                metrics.missed_pings.get_or_create(&Kind::of(&verdict.candidate).label()).inc();
            }
        }
    }

    fn update(&mut self, now: Moment, verdict: &LeaseVerdict, metrics: &ControllerMetrics) {
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
                if self.gap.is_none()
                    && let Some((_, silence)) = self.election.evidence()
                {
                    metrics.silence.get_or_create(&ValueLabel::cause(cause.as_str())).observe(silence.as_secs_f64());
                }
                self.gap.get_or_insert((*since, cause.clone()));
            }
            LeaseVerdict::Held { taken_up: false, .. } => {
                let former = || self.record()?.history.newest(self.record()?.transitions.checked_sub(1)?);
                let ending = former().map_or(Ending::HandedOver(Cause::Unknown), |term| term.ending);
                self.gap.get_or_insert((now, Unheld::Ended(ending)));
            }
            LeaseVerdict::Held { taken_up: true, .. } => {
                if let Some((since, cause)) = self.gap.take() {
                    metrics
                        .unheld
                        .get_or_create(&ValueLabel::cause(cause.as_str()))
                        .observe(now.since(since).as_secs_f64());
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
}

impl Previous {
    /// Whether `record` answers a ping that the version before had not answered.
    fn acks(&self, record: &CandidateRecord) -> bool {
        let asked = self.ping_time.is_some() && self.ping_time > self.renew_time;
        // Compare for inequality, since the clock of a native candidate may be behind.
        asked && (record.renewed_at(), record.unparsed) != (self.renew_time, self.unparsed)
    }
}

#[cfg(test)]
pub(super) mod tests;
