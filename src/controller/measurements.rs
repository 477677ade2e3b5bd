//! The metrics of elections: counts of what happened, and for each Lease its state and its current gap.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election::{Action, Decision, Election, Event, LeaseVerdict, Report};
use hustings_core::model::{Cause, Ending, Moment, Observed, Unheld};

use super::key::LeaseKey;
use super::reporting::ElectionsByKey;
use crate::serve::metrics::{ControllerMetrics, ElectionResult, Kind, LeaseSample, LeaseStateLabel, ValueLabel, count};

/// The metrics, and their state for each Lease about which this controller has decided since it leads.
pub(super) struct Measurements {
    pub(super) metrics: ControllerMetrics,
    leases: HashMap<LeaseKey, Measured>,
}

/// The state of the metrics for one Lease.
struct Measured {
    state: LeaseStateLabel,
    /// When the current gap began, and why. In a gap, the Lease has no holder although it should have one.
    gap: Option<(Moment, Unheld)>,
    /// `leaseTransitions` in the last sample.
    sampled_transitions: Option<u32>,
}

impl Measurements {
    pub(super) fn new(metrics: ControllerMetrics) -> Self {
        Self { metrics, leases: HashMap::new() }
    }

    /// Counts what an observation showed.
    pub(super) fn observed(&self, report: &Report) {
        if let Some(candidate) = &report.answered {
            self.metrics.acks.get_or_create(&Kind::of(candidate).label()).inc();
        }
        if report.step.as_ref().is_some_and(|step| step.hand_over().is_some()) {
            self.metrics.hand_overs.inc();
        }
    }

    /// Counts what a decision found, and measures the gap.
    pub(super) fn decided(&mut self, key: &LeaseKey, now: Moment, election: &Election, decision: &Decision) {
        let finds_no_candidate = |action: &Action| matches!(action, Action::Event(Event::NoLiveCandidate { .. }));
        if decision.actions.iter().any(finds_no_candidate) {
            self.metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).inc();
        }
        for candidate in &decision.missed {
            self.metrics.missed_pings.get_or_create(&Kind::of(candidate).label()).inc();
        }
        let new = || Measured { state: LeaseStateLabel::Unread, gap: None, sampled_transitions: None };
        let measured = self.leases.entry(key.clone()).or_insert_with(new);
        measured.state = state(&decision.lease);
        measured.follow_gap(now, &decision.lease, election, &self.metrics);
    }

    /// Updates the gauges that cover all Leases, and the series of each. Only the leading controller reports Leases: the
    /// series of a standby would count them twice.
    pub(super) fn measure(&mut self, now: Moment, elections: &ElectionsByKey, leads: bool) {
        let states = elections.keys().filter(|_| leads).map(|key| self.state(key));
        let states: Vec<_> = states.collect();
        for state in LeaseStateLabel::ALL {
            let leases = states.iter().filter(|other| **other == state).count();
            self.metrics.leases.get_or_create(&state.label()).set(count(leases));
        }
        let oldest = self.leases.values().filter_map(Measured::unheld_since).min();
        self.metrics.oldest_unheld_lease.set(oldest.map_or(0.0, |since| now.since(since).as_secs_f64()));
        let samples =
            elections.iter().filter_map(|(key, election)| self.leases.get_mut(key)?.sample(key, election, now));
        self.metrics.each_lease.replace(samples);
    }

    /// The state of a Lease at the last decision.
    pub(super) fn state(&self, key: &LeaseKey) -> LeaseStateLabel {
        self.leases.get(key).map_or(LeaseStateLabel::Unread, |measured| measured.state)
    }

    /// Forgets every Lease, since another controller measures from now on.
    pub(super) fn clear(&mut self) {
        self.leases.clear();
    }

    /// Forgets a Lease.
    pub(super) fn forget(&mut self, key: &LeaseKey) {
        self.leases.remove(key);
    }
}

impl Measured {
    fn unheld_since(&self) -> Option<Moment> {
        self.gap.as_ref().map(|(since, _)| *since)
    }

    /// The sample of this Lease; `None` before the first verdict.
    fn sample(&mut self, key: &LeaseKey, election: &Election, now: Moment) -> Option<LeaseSample> {
        let held = match self.state {
            LeaseStateLabel::Unread => return None,
            LeaseStateLabel::Held
            | LeaseStateLabel::Foreign
            | LeaseStateLabel::Assisted
            | LeaseStateLabel::Unidentified => true,
            LeaseStateLabel::Granted
            | LeaseStateLabel::Unheld
            | LeaseStateLabel::NoCandidate
            | LeaseStateLabel::Reserved
            | LeaseStateLabel::OnHold => false,
        };
        let age = |since: Option<Moment>| since.map_or(Duration::ZERO, |since| now.since(since));
        let transitions = election.lease().map_or(0, |lease| lease.record().transitions);
        let previous = self.sampled_transitions.replace(transitions).unwrap_or(transitions);
        Some(LeaseSample {
            namespace: Arc::clone(key.namespace()),
            name: Arc::clone(key.name()),
            held,
            candidates: election.candidates().len(),
            transitions,
            new_transitions: transitions.saturating_sub(previous),
            unheld: age(self.unheld_since()),
            preferred: age(election.preferred_since()),
        })
    }

    fn follow_gap(&mut self, now: Moment, verdict: &LeaseVerdict, election: &Election, metrics: &ControllerMetrics) {
        match verdict {
            LeaseVerdict::Unheld { since, cause } | LeaseVerdict::NoLiveCandidate { since, cause }
                if election.candidates().len() > 0 || election.is_assisted() =>
            {
                if self.gap.is_none()
                    && let Some((_, silence)) = election.evidence()
                {
                    metrics
                        .evidence_silence
                        .get_or_create(&ValueLabel::cause(cause.as_str()))
                        .observe(silence.as_secs_f64());
                }
                self.gap.get_or_insert((*since, cause.clone()));
            }
            LeaseVerdict::Held { taken_up: false, .. } => {
                let record = election.lease().map(Observed::record);
                let former = record.and_then(|record| record.history.newest(record.transitions.checked_sub(1)?));
                let ending = former.map_or(Ending::HandedOver(Cause::Unknown), |term| term.ending);
                self.gap.get_or_insert((now, Unheld::Ended(ending)));
            }
            LeaseVerdict::Held { taken_up: true, .. } | LeaseVerdict::Assisted { .. } => {
                if let Some((since, cause)) = self.gap.take() {
                    let unheld = metrics.unheld.get_or_create(&ValueLabel::cause(cause.as_str()));
                    unheld.observe(now.since(since).as_secs_f64());
                }
            }
            LeaseVerdict::Reserved { .. } | LeaseVerdict::Unread => {}
            LeaseVerdict::Foreign { .. }
            | LeaseVerdict::Unheld { .. }
            | LeaseVerdict::NoLiveCandidate { .. }
            | LeaseVerdict::OutOfBounds
            | LeaseVerdict::OnHold { .. } => self.gap = None,
        }
    }
}

const fn state(verdict: &LeaseVerdict) -> LeaseStateLabel {
    match verdict {
        LeaseVerdict::OutOfBounds | LeaseVerdict::Unread => LeaseStateLabel::Unread,
        LeaseVerdict::Held { taken_up: true, .. } => LeaseStateLabel::Held,
        LeaseVerdict::Held { taken_up: false, .. } => LeaseStateLabel::Granted,
        LeaseVerdict::Foreign { .. } => LeaseStateLabel::Foreign,
        LeaseVerdict::Assisted { unprovable: None, .. } => LeaseStateLabel::Assisted,
        LeaseVerdict::Assisted { unprovable: Some(_), .. } => LeaseStateLabel::Unidentified,
        LeaseVerdict::Reserved { .. } => LeaseStateLabel::Reserved,
        LeaseVerdict::Unheld { .. } => LeaseStateLabel::Unheld,
        LeaseVerdict::NoLiveCandidate { .. } => LeaseStateLabel::NoCandidate,
        LeaseVerdict::OnHold { .. } => LeaseStateLabel::OnHold,
    }
}

#[cfg(test)]
mod tests;
