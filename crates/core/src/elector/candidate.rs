//! One elector's own candidate: created, kept, its pings answered, deleted at the end.
//!
//! Every ping that this process has not answered is answered with a later renew time, the first that it sees included,
//! since the answer is what proves that *this* process lives. What a former process of the same name wrote proves
//! nothing, so a candidate that is found at the start is written anew once.
//!
//! A status that calls this process Unresponsive is answered, too. Controllers ping nobody again whom they call that, and
//! the ping that was not answered in time need not stand any more.

mod owner;

use super::messages::{Action, AttemptId, Note, Outcome, Source};
use super::plan::{Plan, Request};
use super::unkept::Unkept;
use crate::model::{CandidateRecord, CandidateState, Moment, Now, WireTime};
use owner::Owner;

/// What is known of the candidate, and what is under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    lease_name: String,
    sight: Sight,
    newest_version: u64,
    /// When the newest knowledge arrived.
    newest_at: Moment,
    /// The object into which this process has written its versions and owner.
    refreshed_uid: Option<String>,
    owner: Owner,
    /// The newest ping that this process has answered in that object.
    answered: Option<WireTime>,
    /// Since when a controller calls this candidate Unresponsive, if the newest renewal of this process has met that.
    refuted: Option<WireTime>,
    under_way: Option<UnderWay>,
    /// The last renewal that may have landed: a version that shows it proves it, whatever its answer was.
    renewal: Option<Renewal>,
    /// When the next attempt may be made, after one that did not succeed.
    next_try_at: Moment,
    /// Renewals whose answer did not show them.
    unkept: Unkept,
    /// When the candidate may be created again: something may delete it as often as that is done.
    next_creation_at: Moment,
    /// A sign of life is wanted that nobody asked for.
    unasked: bool,
    /// Nothing was heard for long: what is known may be no longer so.
    must_read: bool,
    /// The candidate is to be deleted, and nobody waits for that after this moment.
    delete_until: Option<Moment>,
    /// It was told that the candidate stands for another Lease.
    was_told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Sight {
    /// Nothing was tried yet. Most candidates do not exist before their process does, and a creation finds out, too.
    Untried,
    Unknown,
    Missing {
        /// The server said so live. A watch may begin with a list that is older than the creation.
        live: bool,
    },
    Seen(Box<CandidateRecord>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnderWay {
    request: Request,
    task: Task,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    Read,
    Create,
    Renew(Renewal),
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Renewal {
    uid: String,
    renew_time: WireTime,
    /// The ping that it answers.
    ping: Option<WireTime>,
}

impl Candidate {
    pub(super) fn new(lease_name: String, now: Moment) -> Self {
        Self {
            lease_name,
            sight: Sight::Untried,
            newest_version: 0,
            newest_at: now,
            refreshed_uid: None,
            owner: Owner::Unnamed,
            answered: None,
            refuted: None,
            under_way: None,
            renewal: None,
            next_try_at: now,
            unkept: Unkept::default(),
            next_creation_at: now,
            unasked: false,
            must_read: false,
            delete_until: None,
            was_told: false,
        }
    }

    /// Asks for one sign of life.
    pub(super) const fn renew_unasked(&mut self) {
        self.unasked = true;
    }

    /// The candidate is needed no more. Nobody waits for its deletion longer than `until`.
    pub(super) fn delete(&mut self, until: Moment) {
        self.delete_until.get_or_insert(until);
    }

    /// Whether the deletion that was asked for is done or is waited for no more.
    pub(super) fn is_deleted(&self, now: Moment) -> bool {
        let gone = self.sight == Sight::Missing { live: true } && self.under_way.is_none();
        self.delete_until.is_some_and(|until| gone || self.stands_elsewhere().is_some() || now >= until)
    }

    /// Whether a controller has asked this process for a sign of life.
    pub(super) const fn was_pinged(&self) -> bool {
        self.answered.is_some()
    }

    /// The ping that stands in the object, or the earliest of times; `None` where the object is not known.
    pub(super) fn pinged_at(&self) -> Option<WireTime> {
        match &self.sight {
            Sight::Seen(record) => Some(record.ping_time.unwrap_or(WireTime::from_micros(i64::MIN))),
            Sight::Untried | Sight::Unknown | Sight::Missing { .. } => None,
        }
    }

    /// Asks for a live read, since nothing is heard.
    pub(super) const fn poll(&mut self) {
        self.must_read = true;
    }

    pub(super) fn observe(&mut self, now: Now, record: CandidateRecord, source: Source) {
        let sent = self.finish(source);
        self.see(now.moment, record, sent);
    }

    pub(super) fn observe_missing(&mut self, now: Now, source: Source) {
        let sent = self.finish(source);
        if sent.map_or(source == Source::Watch, |sent| self.is_newest(sent)) {
            self.lose_sight(now.moment, sent.is_some());
        }
    }

    pub(super) fn observe_read_failed(&mut self, attempt: AttemptId) {
        self.finish(Source::Read(attempt));
    }

    pub(super) fn observe_written(&mut self, now: Now, attempt: AttemptId, outcome: Outcome<CandidateRecord>) {
        let Some(UnderWay { request, task }) = self.under_way.take_if(|under_way| under_way.request.id == attempt)
        else {
            return; // too late: it was given up, and the watch tells what became of it
        };
        match outcome {
            Outcome::Deleted => self.lose_sight(now.moment, true),
            Outcome::Landed(record) => {
                if task == Task::Create {
                    self.refreshed_uid = Some(record.uid.clone());
                    self.owner.written(record.owned, now.moment);
                    self.answered = None;
                }
                if let Task::Renew(renewal) = &task {
                    self.unkept.answered(record.renew_time == Some(renewal.renew_time));
                }
                self.next_try_at = now.moment;
                self.see(now.moment, record, Some(request.sent));
            }
            // There is no place in which to create it.
            Outcome::Missing if task == Task::Create => self.lose_sight(now.moment, true),
            // A proxy between may be wrong about it: a live read decides whether the candidate is gone.
            Outcome::Missing => {
                self.sight = Sight::Unknown;
                self.next_try_at = now.moment;
            }
            // It exists: the watch has shown it, or a read will.
            Outcome::Conflict if task == Task::Create => {
                self.leave_unknown(&task);
                self.next_try_at = now.moment;
            }
            // Something else stands than this process believes.
            Outcome::Conflict => self.sight = Sight::Unknown,
            Outcome::Unknown => self.leave_unknown(&task),
            Outcome::Refused => {}
        }
    }

    /// The request that is under way.
    pub(super) fn request(&self) -> Option<&Request> {
        self.under_way.as_ref().map(|under_way| &under_way.request)
    }

    /// A request that was not answered in time is waited for no more.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if let Some(late) = self.under_way.take_if(|under_way| under_way.request.until <= now) {
            self.leave_unknown(&late.task);
        }
    }

    /// Plans the next step. `may_stand` is false while work of an ended term still runs.
    pub(super) fn plan(&mut self, now: Now, may_stand: bool, plan: &mut Plan) {
        if let Some(lease_name) = self.stands_elsewhere() {
            if !self.was_told {
                plan.note(Note::CandidateOfAnotherLease { lease_name: lease_name.to_owned() });
                self.was_told = true;
            }
            return;
        }
        if self.owner.is_newly_dropped() {
            plan.note(Note::OwnerDropped);
        }
        if self.unkept.is_news() {
            plan.note(Note::CandidateNotKept);
        }
        if self.is_deleted(now.moment) || !(may_stand || self.delete_until.is_some()) {
            return;
        }
        if let Some(until) = self.delete_until {
            plan.wake_at(until);
        }
        if let Some(under_way) = &self.under_way {
            plan.wake_at(under_way.request.until);
            return;
        }
        let Some(task) = self.next_task(now) else { return };
        let is_poll = task == Task::Read && matches!(self.sight, Sight::Seen(_));
        let not_before = match &task {
            Task::Create => self.next_try_at.max(self.next_creation_at),
            Task::Read if is_poll => now.moment,
            Task::Renew(_) => self.next_try_at.max(self.unkept.not_before(now.moment)),
            Task::Read | Task::Delete => self.next_try_at,
        };
        let not_before = not_before.max(plan.asks_from);
        if now.moment < not_before {
            plan.wake_at(not_before);
            return;
        }
        let names_owner = self.owner.is_named_at(now.moment);
        let request = plan.request();
        plan.act(match &task {
            Task::Read => Action::ReadCandidate(request.id),
            Task::Create => Action::CreateCandidate { attempt: request.id, renew_time: now.wall, names_owner },
            Task::Renew(Renewal { uid, renew_time, .. }) => Action::RenewCandidate {
                attempt: request.id,
                uid: uid.clone(),
                renew_time: *renew_time,
                refresh: self.refreshed_uid.as_ref() != Some(uid),
                names_owner,
            },
            Task::Delete => Action::DeleteCandidate { attempt: request.id, uid: self.uid().unwrap_or_default() },
        });
        plan.wake_at(request.until);
        self.must_read = false;
        if !is_poll {
            self.next_try_at = plan.retry_at();
        }
        match &task {
            Task::Create => self.next_creation_at = plan.retry_at(),
            Task::Renew(renewal) => {
                self.renewal = Some(renewal.clone());
                self.unkept.sent(plan);
            }
            Task::Read | Task::Delete => {}
        }
        self.under_way = Some(UnderWay { request, task });
    }

    fn next_task(&self, now: Now) -> Option<Task> {
        let deleting = self.delete_until.is_some();
        let record = match &self.sight {
            Sight::Untried | Sight::Missing { .. } if !deleting => return Some(Task::Create),
            Sight::Untried | Sight::Unknown => return Some(Task::Read),
            // Whoever stops makes sure: it would be elected again, and its candidate stay behind.
            Sight::Missing { live } => return (!live).then_some(Task::Read),
            Sight::Seen(record) => record,
        };
        if deleting {
            return Some(Task::Delete);
        }
        let is_refreshed = self.refreshed_uid.as_ref() == Some(&record.uid);
        let is_answered = is_refreshed && (record.ping_time.is_none() || record.ping_time == self.answered);
        let is_refuted = doubted_since(record).is_none_or(|since| Some(since) == self.refuted);
        if is_answered && is_refuted && !self.unasked {
            return self.must_read.then_some(Task::Read);
        }
        let later = now.wall.later_than(record.renew_time);
        let renew_time = record.ping_time.map_or(later, |ping| ping.max(later));
        Some(Task::Renew(Renewal { uid: record.uid.clone(), renew_time, ping: record.ping_time }))
    }

    /// Takes a version. It counts if it is newer than the newest seen, or answers a request since whose sending nothing
    /// was seen: what it shows may be older than a ping.
    fn see(&mut self, now: Moment, record: CandidateRecord, sent: Option<Moment>) {
        // What a list did not have yet, and a watch then shows, may be the very version that a creation was answered by.
        let reappears = matches!(self.sight, Sight::Missing { .. }) && record.resource_version == self.newest_version;
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
            self.under_way.take_if(|under_way| matches!(under_way.task, Task::Renew(_)));
        }
        self.sight = Sight::Seen(Box::new(record));
    }

    /// Whether nothing was seen since `sent`.
    fn is_newest(&self, sent: Moment) -> bool {
        matches!(self.sight, Sight::Untried | Sight::Unknown) || self.newest_at < sent
    }

    /// A candidate that may have been created is looked for.
    fn leave_unknown(&mut self, task: &Task) {
        if *task == Task::Create && matches!(self.sight, Sight::Untried | Sight::Missing { .. }) {
            self.sight = Sight::Unknown;
        }
    }

    fn lose_sight(&mut self, now: Moment, live: bool) {
        let was_live = match self.sight {
            Sight::Missing { live } => live,
            Sight::Untried | Sight::Unknown | Sight::Seen(_) => {
                self.next_try_at = now;
                false
            }
        };
        self.sight = Sight::Missing { live: live || was_live };
        self.newest_at = now;
        // A write to an object that is gone will not be answered by any version.
        self.under_way.take_if(|under_way| matches!(under_way.task, Task::Renew(_)));
    }

    /// The other Lease for which the candidate of this name stands.
    pub(super) fn stands_elsewhere(&self) -> Option<&str> {
        match &self.sight {
            Sight::Seen(record) if record.lease_name != self.lease_name => Some(&record.lease_name),
            Sight::Seen(_) | Sight::Untried | Sight::Unknown | Sight::Missing { .. } => None,
        }
    }

    fn uid(&self) -> Option<String> {
        match &self.sight {
            Sight::Seen(record) => Some(record.uid.clone()),
            Sight::Untried | Sight::Unknown | Sight::Missing { .. } => None,
        }
    }

    /// When the read was sent that is under way and that `source` answers.
    fn finish(&mut self, source: Source) -> Option<Moment> {
        let Source::Read(id) = source else { return None };
        let read = self.under_way.take_if(|under_way| under_way.request.id == id && under_way.task == Task::Read);
        read.map(|read| read.request.sent)
    }
}

/// Since when a controller has called the candidate Unresponsive.
fn doubted_since(record: &CandidateRecord) -> Option<WireTime> {
    record.status.unresponsive_since.filter(|_| record.status.state == Some(CandidateState::Unresponsive))
}

#[cfg(test)]
mod tests;
