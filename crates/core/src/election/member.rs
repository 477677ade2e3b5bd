//! What an election knows about one candidate: its newest version, and the proofs that it is live.
//!
//! The age of a timestamp never proves that a candidate is live. Proof is a changed `renewTime` in a version newer than
//! that of the ping, or a renewal of the Lease as its holder. The first observation of a candidate proves nothing.

mod declared;
mod ping;
mod statuses;

use std::sync::Arc;

use super::backoff::Backoff;
use super::damping::LossRecord;
use super::evidence::CandidateHome;
use super::ineffective::{IneffectiveWrites, Part};
use super::{Config, Source, Write};
use crate::model::{
    Annotation, CandidateKey, CandidateKind, CandidatePatch, CandidateRecord, CandidateState, Exclusion, Inadmissible,
    Moment, Now, Request, WireTime,
};

pub(super) use self::declared::Declared;
use self::ping::{Ping, PingWritten, Wait};
use self::statuses::MemberStatuses;

/// One candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) key: CandidateKey,
    pub(super) uid: Arc<str>,
    /// Shared, so that a store of the caller can hold the same copy.
    pub(super) record: Arc<CandidateRecord>,
    /// What it declares, parsed once per version.
    pub(super) declared: Result<Declared, Inadmissible>,
    /// Where its process runs.
    pub(super) home: CandidateHome,
    pub(super) first_seen: Moment,
    /// When its versions, strategy, priority or session last changed, or when it was first observed.
    pub(super) declared_at: Moment,
    newest_seen_at: Moment,
    pub(super) ping: Ping,
    pub(super) last_ping_at: Option<Moment>,
    /// The two newest pings that this controller sent.
    sent_pings: [Option<WireTime>; 2],
    /// It is native, and its new `renewTime` is before its ping, because its clock was set back. client-go then answers
    /// the same ping again and again (`native_clock_set_back.txt`).
    answers_again: bool,
    /// The `pingTime` with which the last ping was withdrawn.
    withdrawn: Option<WireTime>,
    /// When it last answered a ping of this controller.
    proven_at: Option<Moment>,
    /// When it last renewed the Lease as its holder.
    renewed_at: Option<Moment>,
    /// When it was declared Unresponsive. While this is set, elections neither ping it nor wait for it.
    pub(super) failed_at: Option<Moment>,
    /// When it was last declared Unresponsive, even if it has answered since. Elections that began before do not ping
    /// it again.
    sits_out_since: Option<Moment>,
    pub(super) response: Response,
    /// Its answer to its last ping has a time before that ping. Only for display.
    pub(super) answered_early: bool,
    pub(super) losses: LossRecord,
    pub(super) backoff: Backoff,
    pub(super) statuses: MemberStatuses,
    pub(super) ineffective: IneffectiveWrites,
    pub(super) reported: Reported,
}

/// The displayed liveness. A value from an earlier controller is shown until it is refuted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Response {
    #[default]
    Unknown,
    /// It answered its last ping, or renewed the Lease.
    Answered,
    /// It did not answer, and has been unresponsive since then, if that is known.
    Missed { since: Option<WireTime> },
}

/// What events have reported of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reported {
    pub(super) exclusion: Option<Annotation<Exclusion>>,
    /// Why it is not admissible.
    pub(super) inadmissible: Option<Inadmissible>,
}

impl Response {
    /// Whether it answered; `None` if that is unknown.
    pub(super) const fn answered(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Answered => Some(true),
            Self::Missed { .. } => Some(false),
        }
    }

    /// Since when it has been unresponsive.
    pub(super) const fn missed_since(self) -> Option<WireTime> {
        if let Self::Missed { since } = self { since } else { None }
    }
}

impl Member {
    pub(super) fn first(record: impl Into<Arc<CandidateRecord>>, now: Now, config: &Config) -> Self {
        let record = record.into();
        let mut member = Self {
            key: record.key(),
            uid: record.uid.as_str().into(),
            declared: Declared::read(&record),
            home: CandidateHome::default(),
            first_seen: now.moment,
            declared_at: now.moment,
            newest_seen_at: now.moment,
            ping: Ping::IDLE,
            last_ping_at: None,
            sent_pings: [None; 2],
            answers_again: false,
            withdrawn: None,
            proven_at: None,
            renewed_at: None,
            failed_at: None,
            sits_out_since: None,
            response: Response::Unknown,
            answered_early: false,
            losses: LossRecord {
                was_recorded_as_holder: record.status.state == Some(CandidateState::Holder),
                ..LossRecord::default()
            },
            backoff: Backoff::default(),
            statuses: MemberStatuses::default(),
            ineffective: IneffectiveWrites::default(),
            reported: Reported::default(),
            record,
        };
        member.statuses.remember(&member.record.status);
        member.adopt_status(now, config);
        member
    }

    /// Records a version of this candidate. Returns whether it shows a write by another controller.
    pub(super) fn observe(
        &mut self,
        record: impl Into<Arc<CandidateRecord>>,
        source: Source,
        now: Now,
        config: &Config,
    ) -> bool {
        let record = record.into();
        let mut is_by_other = false;
        match source {
            Source::Written { .. } => self.observe_written(&record, now.moment, config),
            Source::StatusWritten { sent } => self.observe_status_written(&record, sent, now.moment, config),
            Source::Watch | Source::Read { .. } => {}
        }
        let newer = record.resource_version > self.record.resource_version;
        let counts = newer || source.sent().is_some_and(|sent| self.newest_seen_at < sent);
        if counts {
            if newer {
                self.newest_seen_at = now.moment;
            }
            if record.uid == self.record.uid {
                is_by_other = self.replace(record, source, now, config);
            } else {
                *self = Self::first(record, now, config);
            }
        }
        self.take_answer(now.moment);
        match source {
            Source::Watch => {}
            Source::Read { sent } => {
                self.ping.read(sent);
                self.backoff.succeed();
            }
            Source::Written { .. } => self.backoff.succeed(),
            Source::StatusWritten { .. } => self.statuses.backoff.succeed(),
        }
        is_by_other
    }

    /// Whether something newer was observed since the sending of the request that found the candidate missing.
    pub(super) fn is_newer_than(&self, source: Source) -> bool {
        source.sent().is_some_and(|sent| self.newest_seen_at > sent)
    }

    /// Another request about this candidate failed.
    pub(super) fn fail_request(&mut self, now: Moment, config: &Config) {
        self.backoff.fail(now, config);
        self.ping.fail(now);
    }

    /// It renewed the Lease, or took it up.
    pub(super) fn renew(&mut self, now: Moment) {
        self.renewed_at = Some(now);
        self.failed_at = None;
        self.response = Response::Answered;
    }

    pub(super) fn ping(&mut self, now: Now, config: &Config) -> Request {
        let former = self.record.ping_time.max(self.record.renewed_at());
        // client-go answers again and again while its clock is behind the ping, so a native ping is as early as
        // possible.
        let ping_time = match former {
            Some(former) if self.key.kind == CandidateKind::Native => former.later_than(Some(former)),
            former => now.wall.later_than(former),
        };
        self.ping.send(ping_time, now.moment.after(config.window));
        self.last_ping_at = Some(now.moment);
        self.sent_pings = [Some(ping_time), self.sent_pings[0]];
        Request::patch_candidate(&self.key, &*self.uid, CandidatePatch::Ping(ping_time))
    }

    /// Withdraws a ping that client-go answers again and again.
    pub(super) fn withdraw_ping(&mut self, now: Moment) -> Option<Request> {
        let ping_time = self.record.renew_time.filter(|_| self.answers_again && self.ping.is_idle())?;
        if self.rests_until(Write::Ping, now).is_some() {
            return None;
        }
        self.withdrawn = Some(ping_time);
        self.sent_pings = [Some(ping_time), self.sent_pings[0]];
        Some(Request::patch_candidate(&self.key, &*self.uid, CandidatePatch::Ping(ping_time)))
    }

    /// Settles a ping whose window has ended: reads the candidate live once, then declares it Unresponsive.
    pub(super) fn settle_ping(&mut self, now: Now) -> Option<Request> {
        self.ping.deadline().filter(|deadline| *deadline <= now.moment)?;
        match self.ping {
            Ping::Landed { wait: Wait::Unanswered, .. } => {
                self.ping = Ping::IDLE;
                self.failed_at = Some(now.moment);
                self.sits_out_since = Some(now.moment);
                self.response = Response::Missed { since: self.response.missed_since().or(Some(now.wall)) };
            }
            Ping::Landed { .. } if self.backoff.until(now.moment).is_none() => {
                return Some(Request::ReadCandidate { candidate: self.key.clone() });
            }
            Ping::Landed { .. } => {}
            Ping::Idle { .. } | Ping::Sent { .. } => self.ping = Ping::IDLE,
        }
        None
    }

    /// Whether it left its last grant unused and is still damped. It is then never preferred over a live holder, not
    /// even over a damped one.
    pub(super) fn has_forfeited(&self, now: Moment) -> bool {
        self.losses.forfeited && self.losses.damping.until(now).is_some()
    }

    /// Whether it answered a ping since `started`.
    pub(super) fn is_proven_since(&self, started: Moment) -> bool {
        self.proven_at.is_some_and(|at| at >= started)
    }

    /// Until when this write about it must wait; `None` if it need not wait.
    pub(super) fn rests_until(&self, write: Write, now: Moment) -> Option<Moment> {
        self.backoff.until(now).max(self.ineffective.until(write, &[ping_part()], now))
    }

    /// Whether an election that began at `started` may still ping it.
    pub(super) fn may_be_pinged(&self, started: Moment) -> bool {
        self.failed_at.is_none() && self.sits_out_since.is_none_or(|at| at < started)
    }

    /// Whether it is native and has no `renewTime`. It must not be pinged then: see [`Inadmissible::RenewTimeMissing`].
    pub(super) fn lacks_renew_time(&self) -> bool {
        self.key.kind == CandidateKind::Native && self.record.renew_time.is_none()
    }

    /// Since when it has given no sign of life although one was due. client-go renews its candidate every 5 minutes.
    pub(super) fn dead_since(&self) -> Option<Moment> {
        let unrenewed = || self.lacks_renew_time().then(|| self.checked_at().max(self.newest_seen_at));
        self.failed_at.or_else(unrenewed)
    }

    /// When it last proved itself live, was pinged, or was first observed.
    pub(super) fn checked_at(&self) -> Moment {
        [self.last_ping_at, self.proven_at, self.renewed_at].into_iter().flatten().fold(self.first_seen, Moment::max)
    }

    /// The answer to a ping, or to a deletion after which the candidate still exists.
    fn observe_written(&mut self, record: &CandidateRecord, now: Moment, config: &Config) {
        if *record.uid != *self.uid {
            return;
        }
        if self.ping.is_idle() {
            let (write, lost) = match self.withdrawn.take() {
                None => (Write::Delete, Some("finalizer")),
                Some(time) => (Write::Ping, (record.ping_time != Some(time)).then_some("field spec.pingTime")),
            };
            self.ineffective.note(write, lost, now, config);
            return;
        }
        let lost = match self.ping.written(record) {
            PingWritten::NotExpected => return,
            PingWritten::Dropped => Some("field spec.pingTime"),
            PingWritten::Kept => None,
        };
        self.ineffective.note(Write::Ping, lost, now, config);
    }

    fn take_answer(&mut self, now: Moment) {
        if let Some(ping_time) = self.ping.take_answer(&self.record) {
            self.answered_early = self.record.renew_time < Some(ping_time);
            self.proven_at = Some(now);
            self.response = Response::Answered;
        }
    }

    /// Returns whether the new version shows a write by another controller.
    fn replace(&mut self, record: Arc<CandidateRecord>, source: Source, now: Now, config: &Config) -> bool {
        let old = &self.record;
        let is_pinged_by_other = record.ping_time > old.ping_time && !self.sent_pings.contains(&record.ping_time);
        let is_newer = record.resource_version > old.resource_version;
        let is_unanswered = record.ping_time < old.ping_time && record.renewal() == old.renewal();
        if is_newer && is_unanswered && !self.ping.is_idle() && self.ping.time() == old.ping_time {
            self.ineffective.note_revert(Write::Ping, ping_part(), now.moment, config);
        }
        let versions_changed =
            record.binary_version != old.binary_version || record.emulation_version != old.emulation_version;
        let is_new_process = record.session.is_some() && record.session != old.session;
        if versions_changed || is_new_process {
            self.losses.forfeited = false;
        }
        let is_changed = versions_changed || record.strategy != old.strategy || record.priority != old.priority;
        if is_changed || is_new_process {
            self.declared_at = now.moment;
        }
        if is_changed || record.renewal() != old.renewal() {
            self.failed_at = None;
            if matches!(self.response, Response::Missed { .. }) {
                self.response = Response::Unknown;
            }
        }
        self.declared = Declared::read(&record);
        let is_behind = record.renew_time < record.ping_time;
        self.answers_again = record.kind == CandidateKind::Native
            && is_behind
            && (self.answers_again || record.renewal() != old.renewal());
        let status_changed = record.status != old.status;
        self.record = record;
        // The answer to our own write shows what we wrote, or what the server keeps of it.
        if !matches!(source, Source::Watch | Source::Read { .. }) {
            return false;
        }
        let is_status_by_other = status_changed && self.observe_status(now, config);
        is_newer && (is_pinged_by_other || is_status_by_other)
    }
}

fn ping_part() -> Part {
    Part::new("field spec.pingTime", &())
}

#[cfg(test)]
mod tests;
