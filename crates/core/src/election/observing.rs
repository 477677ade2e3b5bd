//! The state of an election: what one controller has observed of one Lease and of its candidates.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::backoff::Backoff;
use super::evidence::{HolderEvidence, HolderHomes};
use super::hand_over::HandOverRequest;
use super::ineffective::{IneffectiveWrites, Part};
use super::inquiry::Inquiry;
use super::losses::{HoldingPeriod, Members};
use super::member::Member;
use super::second_controller::SecondController;
use super::tracked_lease::TrackedLease;
use super::{Config, NoEffect, Observation, Report, Source, Target, Write};
use crate::model::{
    CandidateKey, CandidateRecord, Hold, LeaseRecord, LeaseStage, LeaseWrite, Malformed, Moment, Now, Observed, Pin,
    Presence, Unheld, WireTime,
};

/// The knowledge of one controller about one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    pub(super) config: Config,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) lease: TrackedLease,
    pub(super) holding_period: Option<HoldingPeriod>,
    pub(super) holder_evidence: HolderEvidence,
    pub(super) holder_homes: HolderHomes,
    pub(super) members: Members,
    pub(super) inquiry: Option<Inquiry>,
    /// The current period without a holder, if the Lease has none.
    pub(super) unheld_period: Option<UnheldPeriod>,
    /// The current request to hand over, if there is one.
    pub(super) request: Option<HandOverRequest>,
    /// The acts that events have reported.
    pub(super) reported_acts: ReportedActs,
    pub(super) backoff: Backoff,
    /// The last write of the Lease that was decided, and its parts. Its answer is still to come.
    pub(super) written: Option<(LeaseWrite, Vec<Part>)>,
    pub(super) ineffective: IneffectiveWrites,
    /// Whether the server kept the native fields of the last write that set one, and when its answer came.
    pub(super) keeps_native_fields: Option<(bool, Moment)>,
    pub(super) second_controller: SecondController,
}

/// A period without a holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnheldPeriod {
    pub(super) since: Moment,
    pub(super) cause: Unheld,
    /// The last election found no live candidate, and an event has reported it.
    pub(super) no_live_candidate: bool,
}

/// The acts in force on a Lease that this controller has already reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReportedActs {
    pub(super) pause: Option<(Hold, Option<WireTime>)>,
    pub(super) pin: Option<Pin>,
    pub(super) malformed: Vec<Malformed>,
}

impl Election {
    /// An election that knows only the namespace and the name of its Lease.
    pub fn new(config: Config, namespace: &str, name: &str) -> Self {
        Self {
            config,
            namespace: namespace.into(),
            name: name.into(),
            lease: TrackedLease::default(),
            holding_period: None,
            holder_evidence: HolderEvidence::default(),
            holder_homes: HolderHomes::default(),
            members: BTreeMap::new(),
            inquiry: None,
            unheld_period: None,
            request: None,
            reported_acts: ReportedActs::default(),
            backoff: Backoff::default(),
            written: None,
            ineffective: IneffectiveWrites::default(),
            keeps_native_fields: None,
            second_controller: SecondController::default(),
        }
    }

    /// Records an observation. A controller that does not lead calls this too, so that its times are right when it
    /// begins to lead.
    pub fn observe(&mut self, now: Now, observation: Observation) -> Report {
        self.reported(now, |election| election.take_in(now, observation))
    }

    /// Observes something, checks what the evidence then proves, and reports both.
    fn reported(&mut self, now: Now, observe: impl FnOnce(&mut Self) -> Report) -> Report {
        let former_doubt = self.doubt();
        let report = observe(self);
        self.judge_evidence(now.moment);
        Report { doubt: self.doubt().filter(|doubt| former_doubt != Some(*doubt)), ..report }
    }

    fn take_in(&mut self, now: Now, observation: Observation) -> Report {
        match observation {
            Observation::Lease { record, source } => {
                if matches!(source, Source::Written { .. }) {
                    self.pass(now);
                    self.judge_answer(&record, now.moment);
                }
                return self.observe_lease(record.into(), source, now);
            }
            Observation::LeaseMissing { source } => {
                let had_expired = self.pass(now);
                let was_created = self.lease.view.is_own_creation();
                self.lease.observe_missing(source, now.moment, self.members.values().map(|member| &*member.record));
                if self.lease().is_none() {
                    self.holder_evidence = HolderEvidence::default();
                }
                if self.lease.view.is_missing() {
                    self.holding_period = None;
                    self.backoff.succeed();
                    if was_created {
                        self.ineffective.note(Write::Create, Some("deleted at once"), now.moment, &self.config);
                    }
                }
                return Report { had_expired, ..Report::default() };
            }
            Observation::Candidate { record, source } => return self.observe_candidate(record.into(), source, now),
            Observation::CandidateMissing { candidate, source } => {
                if self.members.get(&candidate).is_some_and(|member| !member.is_newer_than(source)) {
                    self.members.remove(&candidate);
                }
            }
            Observation::Pod { record } => self.observe_pod(&record),
            Observation::Node { record } => self.observe_node(&record, now.moment),
            Observation::Failed { target: Target::Lease } => {
                self.backoff.fail(now.moment, &self.config);
            }
            Observation::Failed { target: Target::Candidate(candidate) } => {
                if let Some(member) = self.members.get_mut(&candidate) {
                    member.fail_request(now.moment, &self.config);
                }
            }
            Observation::Failed { target: Target::Status(candidate) } => {
                if let Some(member) = self.members.get_mut(&candidate) {
                    member.fail_status(now.moment, &self.config);
                }
            }
        }
        Report::default()
    }

    /// Records a version of the Lease from a watch, like [`Observation::Lease`]. The caller may keep the same copy in a
    /// store.
    pub fn observe_watched_lease(&mut self, now: Now, record: Arc<LeaseRecord>) -> Report {
        self.reported(now, |election| election.observe_lease(record, Source::Watch, now))
    }

    /// Records a version of a candidate from a watch, like [`Observation::Candidate`]. The caller may keep the same
    /// copy in a store.
    pub fn observe_watched_candidate(&mut self, now: Now, record: Arc<CandidateRecord>) -> Report {
        self.reported(now, |election| election.observe_candidate(record, Source::Watch, now))
    }

    /// Whether nothing is left to decide about. An election is not over in these cases:
    ///
    /// - It has a candidate.
    /// - The watch shows the Lease, or has lost it and no live read has followed.
    /// - The Lease is missing, and its holder may still rely on it.
    pub fn is_over(&self, now: Now) -> bool {
        self.members.is_empty()
            && match self.lease.view.presence() {
                Presence::Unknown => true,
                Presence::Lost { .. } => false,
                Presence::Missing(lease) => now.moment >= lease.free_from(),
                Presence::Present(observed) => !observed.record().enrolled,
            }
    }

    /// `(namespace, name)` of the Lease.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The newest observed version of the Lease; `None` if the Lease is missing or was never observed.
    pub const fn lease(&self) -> Option<&Observed> {
        self.lease.view.present()
    }

    /// The holder in the newest observed version. Without a candidate of that name, it is one of `hustings.io`.
    pub fn holder(&self) -> Option<CandidateKey> {
        self.holder_of(self.lease()?.record())
    }

    /// The newest observed version of each candidate.
    pub fn candidates(&self) -> impl ExactSizeIterator<Item = &CandidateRecord> {
        self.members.values().map(|member| &*member.record)
    }

    /// The newest observed version of a candidate.
    pub fn candidate(&self, candidate: &CandidateKey) -> Option<&CandidateRecord> {
        self.members.get(candidate).map(|member| &*member.record)
    }

    /// The kinds of writes that succeed without effect. Each comes with the reason, and with the candidate if it
    /// concerns one.
    pub fn ineffective_writes(&self) -> impl Iterator<Item = (Option<&CandidateKey>, Write, NoEffect)> {
        let of_lease = self.ineffective.writes().map(|(write, why)| (None, write, why));
        of_lease.chain(
            self.members.values().flat_map(|member| {
                member.ineffective.writes().map(move |(write, why)| (Some(&member.key), write, why))
            }),
        )
    }

    /// Whether a second controller elects for this Lease.
    pub fn has_second_controller(&self, now: Moment) -> bool {
        self.second_controller.is_active(now, &self.config)
    }

    /// Checks whether the answer to a write of the Lease shows that write.
    fn judge_answer(&mut self, answer: &LeaseRecord, now: Moment) {
        let Some((write, parts)) = self.written.take() else {
            // A creation has no write.
            return self.ineffective.note_created(now, &self.config);
        };
        if let Some(keeps) = write.native_fields_kept_in(answer) {
            self.keeps_native_fields = Some((keeps, now));
        }
        self.ineffective.note(Write::Create, None, now, &self.config);
        self.ineffective.note_lease((&write, parts), answer, now, &self.config);
    }

    fn observe_lease(&mut self, record: Arc<LeaseRecord>, source: Source, now: Now) -> Report {
        let report = Report { had_expired: self.pass(now), ..Report::default() };
        let was_unread = matches!(self.lease.view.presence(), Presence::Unknown | Presence::Lost { .. });
        let before = self.lease.view.last().map(|observed| observed.record().clone());
        if !self.lease.observe(record, source, now.moment) {
            return report;
        }
        if was_unread || matches!(source, Source::Written { .. }) {
            self.backoff.succeed();
        }
        for member in self.members.values() {
            self.lease.view.observe_candidate(&member.record);
        }
        self.observe_assist_options(before.as_ref());
        let Some(observed) = self.lease.view.present() else { return report };
        let record = observed.record();
        let is_new = before
            .as_ref()
            .is_none_or(|before| (before.enrolled, &before.strategy) != (record.enrolled, &record.strategy));
        if is_new && record.enrolled && record.strategy.is_some() {
            // Another client may have written what our writes lost.
            self.ineffective.note(Write::Enrol, None, now.moment, &self.config);
        }
        let is_changed = before.as_ref().is_none_or(|before| !before.is_same_record(record));
        if is_changed {
            self.holder_evidence = HolderEvidence::default();
        }
        let (former, record) = (self.holding_period.take(), Arc::clone(observed.shared()));
        let (period, step) = HoldingPeriod::follow(former, record, &mut self.members, now, &self.config);
        if period.stage(&self.members) == LeaseStage::InTerm {
            self.ineffective.conclude(Write::Grant);
        }
        self.holding_period = Some(period);
        let former = before.as_ref().and_then(|before| before.holder.as_deref());
        let events = step.as_ref().map_or_else(Vec::new, |step| self.events_of(step, former));
        Report { step, events, ..report }
    }

    fn observe_candidate(&mut self, record: Arc<CandidateRecord>, source: Source, now: Now) -> Report {
        if *record.lease_name != *self.name {
            self.members.remove(&record.key());
            return Report::default();
        }
        self.lease.view.observe_candidate(&record);
        let member = match self.members.entry(record.key()) {
            Entry::Occupied(member) => member.into_mut(),
            // The answer to a request is no proof that it still exists: the watch may have shown its deletion meanwhile.
            Entry::Vacant(_) if source != Source::Watch => return Report::default(),
            Entry::Vacant(vacant) => {
                vacant.insert(Box::new(Member::first(record, now, &self.config)));
                return Report::default();
            }
        };
        let former = Arc::clone(&member.record);
        if member.observe(record, source, now, &self.config) {
            self.second_controller.observe_write(now.moment, &self.config);
        }
        let answered = member.record.answers_ping_of(&former).then(|| member.key.clone());
        Report { answered, ..Report::default() }
    }

    /// Applies the changes that only the passing of time causes. Returns whether the Lease has expired in a term.
    pub(super) fn pass(&mut self, now: Now) -> bool {
        let (Some(period), Some(observed)) = (&mut self.holding_period, self.lease.view.present()) else {
            return false;
        };
        period.pass(observed, &mut self.members, now, &self.config);
        observed.is_expired(now.moment) && period.stage(&self.members) != LeaseStage::Granted
    }
}

#[cfg(test)]
mod tests;
