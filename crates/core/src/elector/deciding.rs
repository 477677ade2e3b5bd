//! What an elector does next. An action is planned once; it is not planned again before its answer arrives or its retry
//! is due.

use super::Elector;
use super::Note;
use super::attempts::AttemptedTerm;
use super::lifecycle::{HeldTerm, Phase};
use super::plan::Plan;
use super::timers::Timer;
use super::writes::{Author, ask, preferred_other};
use crate::model::{Cause, LeaseRecord, Moment, Now, Purpose, WireTime};

/// A write of the Lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteTask {
    Create,
    Begin(Purpose),
    Renew { ordinal: u64, number: u32, token: u64 },
    GiveUp { ordinal: u64, cause: Option<Cause> },
    Ask,
}

impl Elector {
    /// Plans everything that is due.
    pub(super) fn plan_all(&mut self, now: Now, plan: &mut Plan) {
        self.plan_poll(now.moment, plan);
        self.plan_work(now.moment, plan);
        self.plan_candidate(now, plan);
        self.plan_fallback(now.moment, plan);
        self.plan_lease_write(now, plan);
        self.reader.plan(&self.config.lease_name, self.writer.request().is_some(), plan);
    }

    fn plan_work(&mut self, now: Moment, plan: &mut Plan) {
        let is_candidate_gone = self.is_candidate_gone(now);
        let Self { config, lease, lifecycle, writer, .. } = self;
        let preferred = lease.view().record().and_then(|record| preferred_other(record, &config.identity));
        lifecycle.plan(now, preferred, is_candidate_gone, config, writer, plan);
    }

    fn plan_candidate(&mut self, now: Now, plan: &mut Plan) {
        let Some(candidate) = &mut self.candidate else { return };
        let may_stand = self.lifecycle.may_stand(now.moment);
        if may_stand
            && self.lifecycle.is_standby()
            && !candidate.has_renewed_for(self.lease.changed_at())
            && let Some(quiet_from) = self.lease.quiet_from(self.fallback.is_alone())
        {
            plan.wake_at(Timer::ProofOfLife, quiet_from);
            if now.moment >= quiet_from {
                candidate.renew_for(self.lease.changed_at());
            }
        }
        candidate.plan(now, may_stand, plan);
    }

    fn plan_lease_write(&mut self, now: Now, plan: &mut Plan) {
        if let Some(pending) = self.writer.request() {
            plan.await_answer(pending);
            return;
        }
        // After a conflict the elector writes nothing before it knows the new version.
        let Some(task) = self.next_write(now.moment, plan).filter(|_| !self.writer.has_conflict()) else { return };
        let is_renewal = matches!(task, WriteTask::Renew { .. });
        let timer = if is_renewal { Timer::Renewal } else { Timer::Write };
        if !plan.may_request(timer, self.writer.due(is_renewal, now.moment)) {
            return;
        }
        if matches!(task, WriteTask::GiveUp { .. }) {
            // The successor's range starts at the renew time of this write, so this elector's range must end before it.
            self.close_range(now.wall);
        }
        let (write, term) = match (task, self.lease.view().record()) {
            (WriteTask::Create, _) => (None, None),
            (_, None) => return,
            (WriteTask::Begin(purpose), Some(record)) => {
                let ordinal = self.writer.next_term();
                let mut author = self.author(now.wall, record, ordinal);
                author.renew_time = author.renew_time.max(self.range_floor(record));
                let write = author.begin(purpose, record);
                let number = write.applied_to(record, 0).transitions;
                let range_start = self.first_instant(record, author.renew_time);
                let (renew_time, token) = (author.renew_time, record.next_token());
                (Some(write), Some(AttemptedTerm { renew_time, range_start, ordinal, number, token }))
            }
            (WriteTask::Renew { ordinal, number, token }, Some(record)) => {
                let author = self.author(now.wall, record, ordinal);
                let (renew_time, range_start) = (author.renew_time, author.renew_time);
                (Some(author.renew(record)), Some(AttemptedTerm { renew_time, range_start, ordinal, number, token }))
            }
            (WriteTask::GiveUp { ordinal, cause }, Some(record)) => {
                (Some(Author { cause, ..self.author(now.wall, record, ordinal) }.give_up(record)), None)
            }
            (WriteTask::Ask, Some(record)) => {
                self.preference.observe_request(record, now.moment.after(self.config.timing.lease_duration()));
                plan.note(Note::Asked { holder: record.holder.clone().unwrap_or_default() });
                (Some(ask(record, self.lease.view().history(), &self.config.identity)), None)
            }
        };
        self.writer.send(&self.config.lease_name, write, term, plan);
    }

    /// The write that the state calls for, whether or not it is time for one.
    fn next_write(&self, now: Moment, plan: &mut Plan) -> Option<WriteTask> {
        match self.lifecycle.phase() {
            Phase::Leading(HeldTerm { ordinal, number, token, .. }) => {
                Some(WriteTask::Renew { ordinal: *ordinal, number: *number, token: *token })
            }
            Phase::GivingUp { .. } if !self.may_give_up(now) => None,
            Phase::GivingUp { ordinal, cause, .. } => Some(WriteTask::GiveUp { ordinal: *ordinal, cause: *cause }),
            Phase::Standby => self.next_claim(now, plan),
        }
    }

    fn may_give_up(&self, now: Moment) -> bool {
        let record = self.lease.view().record();
        let preferred = record.and_then(|record| preferred_other(record, &self.config.identity));
        self.lifecycle.may_give_up(preferred, self.is_candidate_gone(now))
    }

    fn author(&self, wall: WireTime, record: &LeaseRecord, ordinal: u64) -> Author<'_> {
        let not_before = wall.max(self.closed_range_end());
        Author {
            identity: &self.config.identity,
            session: &self.config.session,
            ordinal,
            seconds: self.config.timing.lease_duration_seconds(),
            key: self.preference.key,
            wall,
            renew_time: not_before.later_than(record.renew_time).later_than(self.writer.latest_renew_time()),
            leaves: self.lifecycle.is_leaving(),
            history: self.lease.view().history(),
            cause: None,
        }
    }

    fn plan_poll(&mut self, now: Moment, plan: &Plan) {
        if self.reader.poll(now, plan)
            && let Some(candidate) = &mut self.candidate
        {
            candidate.poll();
        }
    }
}
