//! A candidate that has this elector's name and stands for another Lease.
//!
//! A candidate cannot change its Lease, so this one keeps the elector from standing. It may belong to a live process. It
//! may also be left over from a process that was restarted for another Lease, or created by a client that only wants
//! the name. The elector finds out without comparing clocks: it pings the candidate, as a controller does, and a live
//! process answers. If the candidate shows no sign of life for [`SILENT_FOR`], and for as long as a Lease that it may
//! hold, the elector deletes exactly that version and creates its own candidate.
//!
//! The elector leaves two kinds alone: a candidate whose process lives, and one that has an owner, with which the
//! garbage collector deletes it.

use std::time::Duration;

use super::Candidate;
use super::task::{CandidateTask, PendingTask, doubted_since};
use crate::elector::Note;
use crate::elector::plan::Plan;
use crate::elector::timers::Timer;
use crate::model::{CandidateRecord, LONGEST_LEASE_SECONDS, Moment, Now, Unparsed, WireTime};

/// How long a candidate must be silent after a ping: longer than a live process needs to answer, even if several of its
/// requests fail.
const SILENT_FOR: Duration = Duration::from_secs(30);

/// How long after a sign of life, or after a request that the server refused, the elector asks again.
const ASKS_AGAIN_AFTER: Duration = Duration::from_mins(5);

/// What the elector knows about the life of such a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Namesake {
    sign_of_life: NamesakeSigns,
    probe: Probe,
    /// The newest note about it.
    noted: Option<Noted>,
}

/// What only the process of a candidate changes.
type NamesakeSigns = (String, Option<WireTime>, Unparsed, Option<String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Probe {
    /// A ping is due at this moment.
    Due(Moment),
    /// The ping was sent, and no version shows it yet.
    Sent(WireTime),
    /// A version has shown the ping since this moment, without a sign of life.
    SilentSince(Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Noted {
    Asked,
    Lives,
}

impl Namesake {
    fn first(record: &CandidateRecord, now: Moment) -> Self {
        Self { sign_of_life: sign_of_life(record), probe: Probe::Due(now), noted: None }
    }

    /// Records a version of the candidate with this elector's name; `lease_name` is the elector's own Lease.
    pub(super) fn observe(namesake: &mut Option<Self>, record: &CandidateRecord, lease_name: &str, now: Moment) {
        if record.lease_name == lease_name {
            *namesake = None;
            return;
        }
        let known = namesake.get_or_insert_with(|| Self::first(record, now));
        let sign_of_life = sign_of_life(record);
        if known.sign_of_life != sign_of_life {
            known.sign_of_life = sign_of_life;
            known.probe = Probe::Due(now.after(ASKS_AGAIN_AFTER));
        } else if matches!(known.probe, Probe::Sent(ping) if record.ping_time == Some(ping)) {
            known.probe = Probe::SilentSince(now);
        }
    }

    /// The answer to the ping was observed.
    pub(super) fn observe_answer(&mut self, now: Moment) {
        // The server did not keep the ping.
        if matches!(self.probe, Probe::Sent(_)) {
            self.observe_refused(now);
        }
    }

    /// The outcome of the ping is unknown.
    pub(super) fn observe_unknown(&mut self, now: Moment) {
        if matches!(self.probe, Probe::Sent(_)) {
            self.probe = Probe::Due(now);
        }
    }

    /// The server refused the last request about it.
    pub(super) fn observe_refused(&mut self, now: Moment) {
        self.probe = Probe::Due(now.after(ASKS_AGAIN_AFTER));
    }

    /// What to do about the version `record`; sets the timer of the next step.
    fn next_task(&self, record: &CandidateRecord, now: Now, plan: &mut Plan) -> Option<CandidateTask> {
        let CandidateRecord { uid, resource_version, .. } = record;
        let replace = || CandidateTask::Replace { uid: uid.clone(), resource_version: *resource_version };
        let due = match self.probe {
            // A controller has asked already.
            Probe::Due(at) if doubted_since(record).is_some() && self.noted != Some(Noted::Lives) => {
                return (now.moment >= at).then(replace);
            }
            Probe::Due(at) if now.moment >= at => {
                let ping_time = now.wall.later_than(record.ping_time).later_than(record.renewed_at());
                return Some(CandidateTask::AskNamesake { uid: uid.clone(), ping_time });
            }
            Probe::Due(at) => at,
            // The answer, the watch or a read will show it.
            Probe::Sent(_) => return None,
            Probe::SilentSince(since) => {
                let declared = record.lease_duration_seconds.unwrap_or(0).min(LONGEST_LEASE_SECONDS);
                let silent_from = since.after(SILENT_FOR.max(Duration::from_secs(u64::from(declared))));
                if now.moment >= silent_from {
                    return Some(replace());
                }
                silent_from
            }
        };
        plan.wake_at(Timer::Namesake, due);
        None
    }
}

impl Candidate {
    /// Plans the next step about a candidate that stands for another Lease.
    pub(super) fn plan_namesake(&mut self, now: Now, plan: &mut Plan) {
        if let Some(pending) = &self.pending {
            plan.await_answer(&pending.request);
            return;
        }
        let (Some(record), Some(namesake)) = (self.state.seen(), &mut self.namesake) else { return };
        let lease_name = record.lease_name.clone();
        let task = if record.owned { None } else { namesake.next_task(record, now, plan) };
        let is_in_use = record.owned || matches!(namesake.probe, Probe::Due(at) if at > now.moment);
        let noted = if is_in_use { Noted::Lives } else { Noted::Asked };
        if namesake.noted.replace(noted) != Some(noted) {
            plan.note(match noted {
                Noted::Lives => Note::CandidateOfAnotherLease { lease_name: lease_name.clone() },
                Noted::Asked => Note::NamesakeAsked { lease_name: lease_name.clone() },
            });
        }
        let task = task.or_else(|| self.must_read.then_some(CandidateTask::Read));
        let Some(task) = task.filter(|_| plan.may_request(Timer::CandidateWrite, self.next_try_at)) else { return };
        let request = plan.send(task.request(&self.own, now.wall, None, false));
        if let CandidateTask::AskNamesake { ping_time, .. } = &task {
            namesake.probe = Probe::Sent(*ping_time);
        }
        if matches!(task, CandidateTask::Replace { .. }) {
            plan.note(Note::NamesakeReplaced { lease_name });
        }
        self.must_read = false;
        self.next_try_at = plan.retry_at();
        self.pending = Some(PendingTask { request, task });
    }
}

fn sign_of_life(record: &CandidateRecord) -> NamesakeSigns {
    (record.uid.clone(), record.renew_time, record.unparsed, record.session.clone())
}
