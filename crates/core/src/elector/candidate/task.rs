//! What an elector knows of its candidate, and what it does about it.

use super::Candidate;
use crate::elector::plan::PlannedRequest;
use crate::model::{CandidatePatch, CandidateRecord, CandidateState, Nomination, Now, Request, WireTime};

/// What is known about the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum KnownCandidate {
    /// Nothing was tried yet. The elector creates the candidate without a read: most candidates do not exist before
    /// their process does, and a conflict reveals one that does.
    Untried,
    Unknown,
    Missing {
        /// Whether a live request found that. A watch may begin with a list that is older than the creation.
        live: bool,
    },
    Seen(Box<CandidateRecord>),
}

impl KnownCandidate {
    /// The newest version, if the candidate is known to exist.
    pub(super) fn seen(&self) -> Option<&CandidateRecord> {
        match self {
            Self::Seen(record) => Some(record),
            Self::Untried | Self::Unknown | Self::Missing { .. } => None,
        }
    }
}

impl Candidate {
    /// What to do next; `None` if the candidate is as it should be.
    pub(super) fn next_task(&self, now: Now) -> Option<CandidateTask> {
        let deleting = self.delete_until.is_some();
        let record = match &self.state {
            KnownCandidate::Untried | KnownCandidate::Missing { .. } if !deleting => {
                return Some(CandidateTask::Create);
            }
            KnownCandidate::Untried | KnownCandidate::Unknown => return Some(CandidateTask::Read),
            // A stopping process verifies this by a live read. Otherwise the candidate could remain and be elected
            // again.
            KnownCandidate::Missing { live } => return (!live).then_some(CandidateTask::Read),
            KnownCandidate::Seen(record) => record,
        };
        if deleting {
            return Some(CandidateTask::Delete { uid: record.uid.clone() });
        }
        let is_refreshed = self.refreshed_uid.as_ref() == Some(&record.uid);
        let is_answered = is_refreshed && (record.ping_time.is_none() || record.ping_time == self.answered);
        let is_refuted = doubted_since(record).is_none_or(|since| Some(since) == self.refuted);
        let is_current = is_answered && is_refuted && !self.unasked;
        let is_edited = is_refreshed && self.edits.need_repair();
        if is_current && !is_edited {
            return self.must_read.then_some(CandidateTask::Read);
        }
        // An answer does not wait for a repair that must wait.
        let repairs = is_edited && (is_current || now.moment >= self.edits.not_before(now.moment));
        let later = now.wall.later_than(record.renewed_at());
        let renew_time = record.ping_time.map_or(later, |ping| ping.max(later));
        Some(CandidateTask::Renew(Renewal { uid: record.uid.clone(), renew_time, ping: record.ping_time, repairs }))
    }
}

/// The request that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingTask {
    pub(super) request: PlannedRequest,
    pub(super) task: CandidateTask,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CandidateTask {
    Read,
    Create,
    Renew(Renewal),
    Delete {
        uid: String,
    },
    /// Ping a candidate that stands for another Lease.
    AskNamesake {
        uid: String,
        ping_time: WireTime,
    },
    /// Delete a candidate that stands for another Lease and that no process answers for.
    Replace {
        uid: String,
        resource_version: u64,
    },
}

impl CandidateTask {
    /// The request of this task, for the candidate with the values `own`. `refreshed_uid` is the object into which this
    /// process has written these values. Where the request writes them, it names the owner only if `names_owner`.
    pub(super) fn request(
        &self,
        own: &Nomination,
        wall: WireTime,
        refreshed_uid: Option<&String>,
        names_owner: bool,
    ) -> Request {
        let candidate = own.key();
        let nomination = || {
            let pod = own.pod.clone().filter(|_| names_owner);
            Box::new(Nomination { pod, ..own.clone() })
        };
        match self {
            Self::Read => Request::ReadCandidate { candidate },
            Self::Create => Request::CreateCandidate { nomination: nomination(), renew_time: wall },
            Self::Renew(Renewal { uid, renew_time, repairs, .. }) => {
                let renew_time = *renew_time;
                let patch = if *repairs || refreshed_uid != Some(uid) {
                    CandidatePatch::Refresh { nomination: nomination(), renew_time }
                } else {
                    CandidatePatch::Renew(renew_time)
                };
                Request::patch_candidate(candidate, uid, patch)
            }
            Self::Delete { uid } => Request::DeleteCandidate { candidate, uid: uid.clone(), resource_version: None },
            Self::AskNamesake { uid, ping_time } => {
                Request::patch_candidate(candidate, uid, CandidatePatch::Ping(*ping_time))
            }
            Self::Replace { uid, resource_version } => {
                Request::DeleteCandidate { candidate, uid: uid.clone(), resource_version: Some(*resource_version) }
            }
        }
    }
}

/// A write of a new renew time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) uid: String,
    pub(super) renew_time: WireTime,
    /// The ping that it answers.
    pub(super) ping: Option<WireTime>,
    /// It writes the fields again that another client has changed.
    pub(super) repairs: bool,
}

/// Since when a controller marks the candidate Unresponsive.
pub(super) fn doubted_since(record: &CandidateRecord) -> Option<WireTime> {
    record.status.unresponsive_since.filter(|_| record.status.state == Some(CandidateState::Unresponsive))
}
