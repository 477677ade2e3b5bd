//! The elector's own candidate: the elector creates it, renews it when pinged, and deletes it at the end.
//!
//! The elector answers every ping that this process has not answered, including the first that it observes, with a
//! later renew time. The answer proves that *this* process lives. A write by a former process of the same name proves
//! nothing. So an elector that finds a candidate at its start rewrites it once.
//!
//! The elector also renews when a status marks this process Unresponsive. Controllers do not ping an Unresponsive
//! candidate again, and a later ping may already have overwritten the one that it missed.

mod edits;
mod namesake;
mod owner;
mod task;

use super::plan::{Plan, PlannedRequest};
use super::timers::Timer;
use super::unkept::UnkeptWrites;
use super::{AttemptId, Note, Outcome, Source};
use crate::model::{CandidateRecord, Moment, Nomination, Now, WireTime};
use edits::Edits;
use namesake::Namesake;
use owner::Owner;
use task::{CandidateTask, KnownCandidate, PendingTask, Renewal, doubted_since};

/// The elector's knowledge of its candidate, and the pending request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    /// What this process declares.
    own: Box<Nomination>,
    state: KnownCandidate,
    newest_version: u64,
    /// When the newest observation arrived.
    newest_at: Moment,
    /// The object into which this process has written its versions and owner.
    refreshed_uid: Option<String>,
    owner: Owner,
    /// The newest ping in that object that this process has answered.
    answered: Option<WireTime>,
    /// The `unresponsiveSince` that the newest renewal of this process has answered.
    refuted: Option<WireTime>,
    pending: Option<PendingTask>,
    /// The last renewal that may have succeeded. A version that shows it proves its success, whatever the answer was.
    renewal: Option<Renewal>,
    /// The earliest time of the next attempt after one that failed.
    next_try_at: Moment,
    /// Renewals whose answer did not show them.
    reverted: UnkeptWrites,
    /// The earliest time to create the candidate again.
    next_creation_at: Moment,
    /// When this process created the candidate again, after another client had deleted it.
    created_again_at: Option<Moment>,
    /// When the candidate was last found deleted.
    deleted_at: Option<Moment>,
    /// Creations that another client undid. A GitOps tool may delete what its manifests do not contain.
    undone_creations: UnkeptWrites,
    /// Creations that found no namespace or no kind. They delay the next creation as reverted renewals delay a renewal.
    missed_creations: UnkeptWrites,
    /// A renewal without a ping is due.
    unasked: bool,
    /// When the Lease entered the state for which the candidate was last renewed without a ping.
    renewed_for: Option<Moment>,
    /// Nothing was observed for long, so the last observation may be outdated.
    must_read: bool,
    /// The candidate has to be deleted. The elector waits for that until this moment.
    delete_until: Option<Moment>,
    edits: Edits,
    /// The candidate with this name stands for another Lease.
    namesake: Option<Namesake>,
}

impl Candidate {
    pub(super) fn new(own: Nomination, now: Moment) -> Self {
        Self {
            own: Box::new(own),
            state: KnownCandidate::Untried,
            newest_version: 0,
            newest_at: now,
            refreshed_uid: None,
            owner: Owner::Unnamed,
            answered: None,
            refuted: None,
            pending: None,
            renewal: None,
            next_try_at: now,
            reverted: UnkeptWrites::default(),
            next_creation_at: now,
            created_again_at: None,
            deleted_at: None,
            undone_creations: UnkeptWrites::default(),
            missed_creations: UnkeptWrites::default(),
            unasked: false,
            renewed_for: None,
            must_read: false,
            delete_until: None,
            edits: Edits::default(),
            namesake: None,
        }
    }

    /// Requests one renewal without a ping.
    pub(super) const fn renew_unasked(&mut self) {
        self.unasked = true;
    }

    /// Whether a renewal was requested for the state that the Lease entered at `changed_at`.
    pub(super) fn has_renewed_for(&self, changed_at: Option<Moment>) -> bool {
        self.renewed_for == changed_at
    }

    /// Requests one renewal without a ping for that state.
    pub(super) const fn renew_for(&mut self, changed_at: Option<Moment>) {
        self.renewed_for = changed_at;
        self.unasked = true;
    }

    /// Requests the deletion of the candidate. The elector waits for it until `until`.
    pub(super) fn delete(&mut self, until: Moment) {
        self.delete_until.get_or_insert(until);
    }

    /// Whether the requested deletion is done, or the wait for it is over.
    pub(super) fn is_deleted(&self, now: Moment) -> bool {
        let gone = self.state == KnownCandidate::Missing { live: true } && self.pending.is_none();
        self.delete_until.is_some_and(|until| gone || self.stands_elsewhere().is_some() || now >= until)
    }

    /// Whether a controller has pinged this process.
    pub(super) const fn was_pinged(&self) -> bool {
        self.answered.is_some()
    }

    /// The ping time of the object, or the earliest time if it has none; `None` if the object is not known.
    pub(super) fn pinged_at(&self) -> Option<WireTime> {
        Some(self.state.seen()?.ping_time.unwrap_or(WireTime::MIN))
    }

    /// Requests a live read, because nothing was observed for long.
    pub(super) const fn poll(&mut self) {
        self.must_read = true;
    }

    pub(super) fn observe(&mut self, now: Now, record: CandidateRecord, source: Source) {
        let sent = self.finish(source);
        self.observe_version(now.moment, record, sent);
    }

    pub(super) fn observe_missing(&mut self, now: Now, source: Source) {
        let sent = self.finish(source);
        if sent.map_or(source == Source::Watch, |sent| self.is_newest(sent)) {
            self.set_missing(now.moment, sent.is_some());
        }
    }

    pub(super) fn observe_read_failed(&mut self, attempt: AttemptId) {
        self.finish(Source::Read(attempt));
    }

    pub(super) fn observe_written(&mut self, now: Now, attempt: AttemptId, outcome: Outcome<CandidateRecord>) {
        let Some(PendingTask { request, task }) = self.pending.take_if(|pending| pending.request.id == attempt) else {
            return; // Too late: the elector gave the request up. The watch shows its outcome.
        };
        match outcome {
            Outcome::Deleted => self.set_missing(now.moment, true),
            Outcome::Landed(record) => {
                let is_ping = matches!(task, CandidateTask::AskNamesake { .. });
                if task == CandidateTask::Create {
                    self.created_again_at = self.deleted_at.map(|_| now.moment);
                    self.refreshed_uid = Some(record.uid.clone());
                    self.owner.written(record.owned, now.moment);
                    self.answered = None;
                }
                if let CandidateTask::Renew(renewal) = &task {
                    self.reverted.observe_answer(record.renew_time == Some(renewal.renew_time));
                }
                self.observe_version(now.moment, record, Some(request.sent));
                if is_ping && let Some(namesake) = &mut self.namesake {
                    namesake.observe_answer(now.moment);
                }
            }
            // The namespace or the kind does not exist.
            Outcome::Missing if task == CandidateTask::Create => {
                self.missed_creations.observe_answer(false);
                self.set_missing(now.moment, true);
            }
            // The answer may come from a proxy, which may be wrong. A live read decides whether the candidate is gone.
            Outcome::Missing => {
                self.state = KnownCandidate::Unknown;
                self.next_try_at = now.moment;
            }
            // The candidate exists. The watch has shown it, or a read will.
            Outcome::Conflict if task == CandidateTask::Create => {
                self.leave_unknown(&task, now.moment);
                self.next_try_at = now.moment;
            }
            // The object differs from what this process believes.
            Outcome::Conflict => self.state = KnownCandidate::Unknown,
            Outcome::Unknown => self.leave_unknown(&task, now.moment),
            Outcome::Refused => {
                if let Some(namesake) = &mut self.namesake {
                    namesake.observe_refused(now.moment);
                }
            }
        }
    }

    /// The pending request.
    pub(super) fn request(&self) -> Option<&PlannedRequest> {
        self.pending.as_ref().map(|pending| &pending.request)
    }

    /// Gives up a request that was not answered in time.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if let Some(late) = self.pending.take_if(|pending| pending.request.until <= now) {
            self.leave_unknown(&late.task, now);
        }
    }

    /// Plans the next step. `may_stand` is false while work of an ended term still runs, and while the elector stands
    /// aside.
    pub(super) fn plan(&mut self, now: Now, may_stand: bool, plan: &mut Plan) {
        if self.stands_elsewhere().is_some() {
            if may_stand && self.delete_until.is_none() {
                self.plan_namesake(now, plan);
            }
            return;
        }
        if self.owner.is_newly_dropped() {
            plan.note(Note::OwnerDropped);
        }
        if self.reverted.take_report() {
            plan.note(Note::CandidateWriteReverted);
        }
        if self.undone_creations.take_report() {
            plan.note(Note::CandidateDeleted);
        }
        if self.is_deleted(now.moment) || !(may_stand || self.delete_until.is_some()) {
            return;
        }
        if let Some(until) = self.delete_until {
            plan.wake_at(Timer::CandidateDeletion, until);
        }
        if let Some(pending) = &self.pending {
            plan.await_answer(&pending.request);
            return;
        }
        let Some(task) = self.next_task(now) else { return };
        let is_poll = task == CandidateTask::Read && self.state.seen().is_some();
        let not_before = match &task {
            CandidateTask::Create => {
                let undone = [&self.missed_creations, &self.undone_creations];
                let not_before = undone.map(|creations| creations.not_before(now.moment)).into_iter().max();
                self.next_try_at.max(self.next_creation_at).max(not_before.unwrap_or(now.moment))
            }
            CandidateTask::Renew(renewal) => {
                let repair_at = if renewal.repairs { self.edits.not_before(now.moment) } else { now.moment };
                self.next_try_at.max(self.reverted.not_before(now.moment)).max(repair_at)
            }
            _ => self.next_try_at,
        };
        if !plan.may_request(Timer::CandidateWrite, not_before) {
            return;
        }
        let names_owner = match &task {
            CandidateTask::Renew(Renewal { repairs: true, .. }) => self.owner.may_be_named(),
            _ => self.owner.is_named_at(now.moment),
        };
        let request = plan.send(task.request(&self.own, now.wall, self.refreshed_uid.as_ref(), names_owner));
        self.must_read = false;
        if !is_poll {
            self.next_try_at = plan.retry_at();
        }
        match &task {
            CandidateTask::Create => {
                self.next_creation_at = plan.retry_at();
                self.missed_creations.observe_sent(plan);
                self.undone_creations.observe_sent(plan);
            }
            CandidateTask::Renew(renewal) => {
                self.renewal = Some(renewal.clone());
                self.reverted.observe_sent(plan);
                if renewal.repairs {
                    self.edits.observe_sent(now.moment, plan);
                }
            }
            _ => {}
        }
        self.pending = Some(PendingTask { request, task });
    }

    /// Records a version. It counts if it is newer than the newest observed. The answer to a request also counts if
    /// nothing was observed since the request was sent. Such a version may be older than a ping.
    fn observe_version(&mut self, now: Moment, record: CandidateRecord, sent: Option<Moment>) {
        // A creation's answer may show a version that a later list does not contain yet and that the watch then shows.
        let reappears =
            matches!(self.state, KnownCandidate::Missing { .. }) && record.resource_version == self.newest_version;
        let is_newer = record.resource_version > self.newest_version || reappears;
        if !is_newer && !sent.is_some_and(|sent| self.is_newest(sent)) {
            return;
        }
        if is_newer {
            self.next_try_at = now;
            self.newest_at = now;
        }
        self.newest_version = record.resource_version;
        self.refuted = self.refuted.filter(|since| doubted_since(&record) == Some(*since));
        let landed =
            self.renewal.take_if(|renewal| renewal.uid == record.uid && Some(renewal.renew_time) == record.renew_time);
        if let Some(Renewal { uid, ping, .. }) = landed {
            if self.refreshed_uid.as_ref() != Some(&uid) {
                self.owner.written(record.owned, now);
            }
            self.refreshed_uid = Some(uid);
            self.answered = ping;
            self.refuted = doubted_since(&record);
            self.unasked = false;
            // If the answer is still under way, it will count as late.
            self.reverted.observe_answer(true);
            self.pending.take_if(|pending| matches!(pending.task, CandidateTask::Renew(_)));
        }
        self.missed_creations.observe_answer(true);
        Namesake::observe(&mut self.namesake, &record, &self.own.lease_name, now);
        if self.refreshed_uid.as_ref() == Some(&record.uid) {
            self.edits.observe(&self.own, self.state.seen(), &record, self.owner.may_be_named());
        }
        self.state = KnownCandidate::Seen(Box::new(record));
    }

    /// Whether nothing was observed since `sent`.
    fn is_newest(&self, sent: Moment) -> bool {
        matches!(self.state, KnownCandidate::Untried | KnownCandidate::Unknown) || self.newest_at < sent
    }

    /// After a creation of unknown outcome, makes the elector read the candidate.
    fn leave_unknown(&mut self, task: &CandidateTask, now: Moment) {
        if let Some(namesake) = &mut self.namesake {
            namesake.observe_unknown(now);
        }
        if *task == CandidateTask::Create
            && matches!(self.state, KnownCandidate::Untried | KnownCandidate::Missing { .. })
        {
            self.state = KnownCandidate::Unknown;
        }
    }

    fn set_missing(&mut self, now: Moment, live: bool) {
        let was_live = match self.state {
            KnownCandidate::Missing { live } => live,
            KnownCandidate::Untried | KnownCandidate::Unknown | KnownCandidate::Seen(_) => {
                self.next_try_at = now;
                false
            }
        };
        self.deleted_at = self.state.seen().map_or(self.deleted_at, |_| Some(now));
        if let Some(created_at) = self.created_again_at.take().filter(|_| self.delete_until.is_none()) {
            self.undone_creations.observe_undone(created_at, now);
        }
        self.state = KnownCandidate::Missing { live: live || was_live };
        self.newest_at = now;
        // No version will ever show a write to an object that is gone.
        self.pending.take_if(|pending| matches!(pending.task, CandidateTask::Renew(_)));
    }

    /// The other Lease for which the candidate with this name stands.
    pub(super) fn stands_elsewhere(&self) -> Option<&str> {
        self.state
            .seen()
            .map(|record| record.lease_name.as_str())
            .filter(|lease_name| *lease_name != self.own.lease_name)
    }

    /// Ends the pending read that `source` answers, and returns when it was sent.
    fn finish(&mut self, source: Source) -> Option<Moment> {
        let Source::Read(id) = source else { return None };
        let read = self.pending.take_if(|pending| pending.request.id == id);
        read.map(|read| read.request.sent)
    }
}

#[cfg(test)]
mod tests;
