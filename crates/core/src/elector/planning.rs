//! What an elector does next. An action that is planned once is not planned again before its answer or its next time.

use super::messages::{Action, Note};
use super::observing::IMMEDIATE_RETRIES;
use super::plan::Plan;
use super::term::{Attempt, Phase, Term, Work, is_reclaimable, names_session};
use super::writes::{Author, ask, preferred_other};
use super::{Config, Elector, Mode, Writing};
use crate::model::{LeaseRecord, Moment, Now, Purpose, WireTime};

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteTask {
    Create,
    Begin(Purpose),
    Renew { ordinal: u64, number: u32, token: u64 },
    GiveUp { ordinal: u64 },
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
        self.plan_lease_read(now.moment, plan);
    }

    /// Work stops before the flag becomes false, and the flag is false before the Lease is given up.
    fn plan_work(&mut self, now: Moment, plan: &mut Plan) {
        if let Phase::Leading(term) = &mut self.phase
            && !term.is_ending
        {
            let preferred = self.lease.record().and_then(|record| preferred_other(record, &self.config.identity));
            if let Some(preferred) = preferred {
                plan.note(Note::HandOverAsked { to: preferred.to_owned() });
            }
            term.is_ending = self.is_stopping || preferred.is_some();
        }
        let goes_on = matches!(&self.phase, Phase::Leading(term) if !term.is_ending);
        if self.work == Work::Running && !goes_on {
            plan.act(Action::StopWork);
            self.work = Work::Stopping { abort_at: now.after(self.config.timing.stop_grace) };
        }
        if let Work::Stopping { abort_at } = self.work {
            plan.wake_at(abort_at);
            if now >= abort_at {
                plan.act(Action::AbortWork);
                plan.note(Note::WorkDidNotStop);
                self.work = Work::Aborted;
                // The old work may still run, so the elector lets the Lease expire.
                self.phase = Phase::Standby;
                self.attempts.clear();
            }
        }
        // The term goes on until there is a successor, or the wait for one is over.
        let waits = self.successor_until.is_some_and(|until| {
            plan.wake_at(until);
            now < until && !self.has_successor()
        });
        if let Phase::Leading(term) = &self.phase
            && term.is_ending
            && self.work == Work::Ended
            && !waits
            && self.may_give_up(now)
        {
            if self.is_stopping && self.config.keeps_on_stop {
                plan.note(Note::LeftToRunOut);
                self.phase = Phase::Standby;
            } else {
                let until = now.after(self.config.timing.lease_duration());
                self.phase = Phase::GivingUp { ordinal: term.ordinal, until };
            }
            self.attempts.clear();
            self.next_write_at = now;
        }
        if let Phase::GivingUp { until, .. } = self.phase {
            plan.wake_at(until);
        }
        if !matches!(self.phase, Phase::Leading(_)) {
            self.rest.term_over(now);
            plan.wake_at(self.rest.until());
        }
    }

    fn plan_candidate(&mut self, now: Now, plan: &mut Plan) {
        let Some(candidate) = &mut self.candidate else { return };
        let may_stand = match self.phase {
            Phase::Leading(_) => true,
            Phase::Standby | Phase::GivingUp { .. } => self.work == Work::Ended && now.moment >= self.rest.until(),
        };
        if self.phase == Phase::Standby
            && may_stand
            && self.unasked_for != self.lease.changed_at()
            && let Some(quiet_from) = self.lease.quiet_from(self.fallback.is_alone())
        {
            plan.wake_at(quiet_from);
            if now.moment >= quiet_from {
                candidate.renew_unasked();
                self.unasked_for = self.lease.changed_at();
            }
        }
        candidate.plan(now, may_stand, plan);
    }

    fn plan_fallback(&mut self, now: Moment, plan: &mut Plan) {
        let stands = self.candidate.as_ref().is_some_and(|candidate| candidate.stands_elsewhere().is_none());
        if !stands || !self.may_begin(now) || self.lease.is_own_creation() {
            return;
        }
        if let Some(vacancy) = self.lease.vacancy() {
            self.fallback.plan(vacancy, hold_of(self.lease.record()), &self.config, now, plan);
        }
    }

    /// Whether a term may begin, as far as this elector is concerned.
    fn may_begin(&self, now: Moment) -> bool {
        self.phase == Phase::Standby && !self.is_stopping && self.work == Work::Ended && now >= self.rest.until()
    }

    fn plan_lease_write(&mut self, now: Now, plan: &mut Plan) {
        if let Some(writing) = &self.writing {
            plan.wake_at(writing.request.until);
            return;
        }
        // After a conflict the elector writes nothing before it knows the new version.
        let Some(task) = self.next_write(now.moment, plan).filter(|_| !self.has_conflict) else { return };
        let is_renewal = matches!(task, WriteTask::Renew { .. });
        let not_before = if is_renewal { now.moment } else { self.unkept.not_before(now.moment) };
        let write_at = self.next_write_at.max(plan.asks_from).max(not_before);
        if now.moment < write_at {
            plan.wake_at(write_at);
            return;
        }
        if matches!(task, WriteTask::GiveUp { .. }) {
            // The successor's range starts at this renew time, whichever term the range belongs to.
            self.close_range(now.wall);
        }
        let request = plan.request();
        let action = match (task, self.lease.record()) {
            (WriteTask::Create, _) => Action::CreateLease(request.id),
            (_, None) => return,
            (WriteTask::Begin(purpose), Some(record)) => {
                self.terms = self.terms.saturating_add(1);
                let author = self.author(now.wall.max(self.range_floor(record)), record, self.terms);
                let write = author.begin(purpose, record);
                let attempt = Attempt {
                    request,
                    resource_version: record.resource_version,
                    renew_time: author.renew_time,
                    range_start: self.first_instant(record, author.renew_time),
                    ordinal: self.terms,
                    number: write.applied_to(record, 0).transitions,
                    token: record.next_token(),
                };
                self.attempts.push(attempt);
                Action::WriteLease { attempt: request.id, write: Box::new(write) }
            }
            (WriteTask::Renew { ordinal, number, token }, Some(record)) => {
                let author = self.author(now.wall, record, ordinal);
                let write = author.renew(record);
                let resource_version = record.resource_version;
                let renew_time = author.renew_time;
                let range_start = renew_time;
                self.attempts.push(Attempt {
                    request,
                    resource_version,
                    renew_time,
                    range_start,
                    ordinal,
                    number,
                    token,
                });
                Action::WriteLease { attempt: request.id, write: Box::new(write) }
            }
            (WriteTask::GiveUp { ordinal }, Some(record)) => {
                let write = self.author(now.wall, record, ordinal).give_up(record);
                Action::WriteLease { attempt: request.id, write: Box::new(write) }
            }
            (WriteTask::Ask, Some(record)) => {
                self.preference.asks(record, now.moment.after(self.config.timing.lease_duration()));
                plan.note(Note::Asked { holder: record.holder.clone().unwrap_or_default() });
                let write = ask(record, &self.config.identity);
                Action::WriteLease { attempt: request.id, write: Box::new(write) }
            }
        };
        if self.conflicts > IMMEDIATE_RETRIES {
            self.conflicts = 0;
        }
        let write = match &action {
            Action::WriteLease { write, .. } => Some(write.clone()),
            _ => None,
        };
        self.writing = Some(Writing { request, write });
        self.next_write_at = plan.retry_at();
        self.unkept.sent(plan);
        plan.wake_at(request.until);
        plan.act(action);
    }

    /// The write that the state calls for, whether or not it is time for one.
    fn next_write(&self, now: Moment, plan: &mut Plan) -> Option<WriteTask> {
        let Config { identity, session, mode, timing, .. } = &self.config;
        match &self.phase {
            Phase::Leading(Term { ordinal, number, token, .. }) => {
                Some(WriteTask::Renew { ordinal: *ordinal, number: *number, token: *token })
            }
            Phase::GivingUp { .. } if !self.may_give_up(now) => None,
            Phase::GivingUp { ordinal, .. } => Some(WriteTask::GiveUp { ordinal: *ordinal }),
            Phase::Standby if !self.may_begin(now) => None,
            Phase::Standby => {
                if let Some(record) = self.lease.record() {
                    if record.is_grant() && record.holder.as_ref() == Some(identity) {
                        return Some(WriteTask::Begin(Purpose::TakeUp));
                    }
                    // A term of this instance, which has ended, or of a dead one: no process can rely on it.
                    if is_reclaimable(record, identity, session) && !self.has_kept_from_another(record) {
                        return Some(WriteTask::Begin(Purpose::Claim));
                    }
                }
                let vacancy = self.lease.vacancy()?;
                let mut claim_at = match mode {
                    Mode::Coordinated if !self.lease.is_own_creation() => {
                        self.fallback.claim_at(vacancy, hold_of(self.lease.record()))?
                    }
                    Mode::Coordinated | Mode::Direct => vacancy.free_from,
                };
                if self.lease.record().is_some_and(|record| self.has_kept_from_another(record)) {
                    claim_at = claim_at.after(timing.lease_duration());
                }
                plan.wake_at(claim_at);
                if let Some(observed) = self.lease.observed().filter(|observed| now < observed.expires_at())
                    && let Some(from) = self.preference.asks_from(observed.record(), identity)
                {
                    plan.wake_at(from);
                    return (now >= from).then_some(WriteTask::Ask);
                }
                (now >= claim_at)
                    .then(|| if self.lease.is_missing() { WriteTask::Create } else { WriteTask::Begin(Purpose::Claim) })
            }
        }
    }

    fn has_successor(&self) -> bool {
        self.lease.record().is_some_and(|record| preferred_other(record, &self.config.identity).is_some())
    }

    /// Whether this instance's last term ended with its work still running, although the Lease named a preferred
    /// holder. The elector then lets the Lease expire, and claims it later than usual, so that the preferred holder
    /// does not lose a race.
    fn has_kept_from_another(&self, record: &LeaseRecord) -> bool {
        let Config { identity, session, .. } = &self.config;
        names_session(record, identity, session) && preferred_other(record, identity).is_some()
    }

    /// An elector that stops deletes its candidate before it releases the Lease, so that the controller does not elect
    /// that candidate again.
    fn may_give_up(&self, now: Moment) -> bool {
        !self.is_stopping || self.has_successor() || self.is_candidate_gone(now)
    }

    fn author(&self, wall: WireTime, record: &LeaseRecord, ordinal: u64) -> Author<'_> {
        let wall = wall.max(self.closed_range_end());
        Author {
            identity: &self.config.identity,
            session: &self.config.session,
            ordinal,
            seconds: self.config.timing.lease_duration_seconds,
            key: self.preference.key,
            renew_time: wall.later_than(record.renew_time).later_than(self.attempts.latest_renew_time()),
            leaves: self.successor_until.is_some(),
        }
    }

    /// Reads after a long silence. Watch events and successful renewals prevent it.
    fn plan_poll(&mut self, now: Moment, plan: &mut Plan) {
        let poll_at = *self.poll_at.get_or_insert_with(|| plan.poll_at());
        if now >= poll_at {
            self.poll_at = Some(plan.poll_at());
            self.must_read = true;
            if let Some(candidate) = &mut self.candidate {
                candidate.poll();
            }
        }
    }

    fn plan_lease_read(&mut self, now: Moment, plan: &mut Plan) {
        let read_at = self.next_read_at.max(plan.asks_from);
        if let Some(reading) = &self.reading {
            plan.wake_at(reading.until);
        } else if self.writing.is_some() {
            // The answer to the write says more than a read would.
        } else if self.must_read && now >= read_at {
            let request = plan.request();
            plan.act(Action::ReadLease(request.id));
            plan.wake_at(request.until);
            self.reading = Some(request);
            self.next_read_at = plan.retry_at();
        } else if self.must_read {
            plan.wake_at(read_at);
        } else if let Some(poll_at) = self.poll_at {
            plan.wake_at(poll_at);
        }
    }
}

fn hold_of(record: Option<&LeaseRecord>) -> Option<&str> {
    record.and_then(|record| record.hold.as_deref())
}
