//! What an election has decided, done: requests out, what became of them back as observations.
//!
//! Every request has a deadline, and everything that becomes of it is an observation, so that the next decision rests
//! on what is known. A conflict is not repeated: the object is read live, and the election decides anew. Requests that
//! hang delay no request of another namespace: see [`Slots`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use hustings_client::api::{ReadCandidate, ReadLease, ping_patch};
use hustings_client::clock::Clock;
use hustings_client::requests::{Failure, Requests};
use hustings_core::election::{Action, Event, Observation, Source, Target};
use hustings_core::model::{CandidateState, LeaseRecord, LeaseWrite, Moment, Purpose, Set, Truth};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::events::Publisher;
use super::failure::{Reports, label};
use super::key::LeaseKey;
use super::slots::Slots;
use super::status::{self, Transitions};
use super::statuses::StatusWrite;
use super::stores::StoredCandidate;
use crate::ops::metrics::{self, Merit, Metrics, Request, Verdict};

/// How many requests are under way at a time, statuses and events aside. While all of them hang they keep fewer seats of
/// the API server busy than one of its default priority levels has.
const REQUESTS_AT_A_TIME: usize = 128;

/// How many of them are for one Lease: a crowd at one Lease leaves most of its namespace's share to other Leases.
const OF_ONE_LEASE_AT_A_TIME: usize = 8;

/// How long a request waits for a slot. After that its decision is out of date, and the next one is made.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How many holders are asked to hand over at a time. While one hands over nobody leads, and a busy server serves either
/// a few of them soon or all of them late.
const HAND_OVERS_AT_A_TIME: usize = 4;

/// For how long one that was asked counts: what a hand-over takes that meets no other.
const HEAD_START: Duration = Duration::from_millis(7);

/// How long one that is to be asked waits for others at the most. It leads meanwhile.
const LONGEST_QUEUE: Duration = Duration::from_millis(250);

/// Carries out decisions. Clones share everything.
#[derive(Clone)]
pub(super) struct Executor {
    requests: Requests,
    clock: Arc<dyn Clock>,
    publisher: Publisher,
    metrics: Metrics,
    reports: Arc<Reports>,
    forbidden: Arc<Notify>,
    /// Whether the server keeps the native copies of strategy and preferred holder, once an answer has shown it.
    keeps_native_fields: Arc<OnceLock<bool>>,
    slots: Slots,
    hand_overs: Arc<Semaphore>,
}

/// One decision's actions, with what else has to be known to carry them out.
pub(super) struct Order {
    /// What is to be done before the next decision.
    pub(super) actions: Vec<Action>,
    /// The version of the Lease that the decision rests on.
    pub(super) current: Option<LeaseRecord>,
    /// The statuses to be written, for which no decision waits.
    pub(super) statuses: Vec<StatusWrite>,
}

/// What a candidate's status said before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Former {
    /// `state`.
    pub(super) state: Option<CandidateState>,
    /// Condition `Admissible`.
    pub(super) admissible: Truth,
    /// Since when the conditions have been as they are.
    pub(super) transitions: Transitions,
}

impl Former {
    /// What this version of the candidate says.
    pub(super) fn of(candidate: &StoredCandidate) -> Self {
        let StoredCandidate { record, transitions } = candidate;
        Self { state: record.status.state, admissible: record.status.admissible.status, transitions: *transitions }
    }
}

/// How an answer is told.
type Sent<T> = (Moment, Result<T, Failure>);

impl Executor {
    /// Carries out by `requests`, which pass the write gate.
    pub(super) fn new(requests: Requests, clock: Arc<dyn Clock>, publisher: Publisher, metrics: Metrics) -> Self {
        let slots = Slots::new(REQUESTS_AT_A_TIME);
        let hand_overs = Arc::new(Semaphore::new(HAND_OVERS_AT_A_TIME));
        let (reports, forbidden, keeps_native_fields) = (Arc::default(), Arc::default(), Arc::default());
        Self { requests, clock, publisher, metrics, reports, forbidden, keeps_native_fields, slots, hand_overs }
    }

    /// Notified when the server has refused a request for want of a right.
    pub(super) fn forbidden(&self) -> Arc<Notify> {
        Arc::clone(&self.forbidden)
    }

    /// Carries out the actions of one decision about the Lease `key`, which rests on the version `current`, and returns
    /// their outcomes.
    pub(super) async fn carry_out(
        self,
        key: LeaseKey,
        actions: Vec<Action>,
        current: Option<LeaseRecord>,
    ) -> Vec<Observation> {
        let (executor, key, current) = (&self, &key, current.as_ref());
        let outcome = |(place, action)| async move {
            let outcome = match action {
                Action::ReadLease => executor.read_lease(key).await,
                Action::ReadCandidate { name } => executor.read_candidate(key, &name).await,
                Action::CreateLease => executor.create_lease(key).await,
                Action::WriteLease { write, event } => executor.write_lease(key, current, &write, event.as_ref()).await,
                Action::Ping { name, uid, ping_time } => executor.ping(key, &name, &ping_patch(&uid, ping_time)).await,
                Action::DeleteCandidate { name, uid, resource_version } => {
                    executor.delete_candidate(key, &name, &uid, resource_version).await
                }
                Action::Event(event) => {
                    let uid = current.map(|record| record.uid.as_str()).unwrap_or_default();
                    executor.publisher.told(key, uid, &event);
                    return (place, None);
                }
                // It is an order's own, with what has to be known beside it.
                Action::PatchStatus { .. } => return (place, None),
            };
            (place, Some(outcome))
        };
        // Not in their order: one that hangs would hold up what comes after it.
        let mut outcomes: Vec<_> = stream::iter(actions.into_iter().enumerate())
            .map(outcome)
            .buffer_unordered(OF_ONE_LEASE_AT_A_TIME)
            .collect()
            .await;
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        outcomes.into_iter().filter_map(|(_, outcome)| outcome).collect()
    }

    /// Writes a status, and returns what became of it.
    pub(super) async fn write_status(self, write: StatusWrite) -> Observation {
        let StatusWrite { key, name, uid, status, former } = write;
        let patch = status::patch(&uid, &status, &former.transitions, self.clock.wall());
        let request = self.requests.patch_candidate_status(key.namespace(), &name, &patch);
        let (sent, answer) = self.timed(request).await;
        if answer.is_ok() {
            if status.admissible.status == Truth::False && former.admissible != Truth::False {
                self.publisher.inadmissible(&key, &name, &uid, &status.admissible.reason, &status.message);
            }
            if status.state == Some(CandidateState::Unresponsive) && former.state != status.state {
                self.metrics.missed_pings.inc();
            }
        }
        self.count(Request::Status, &key, &name, &answer);
        match answer {
            Ok(candidate) => {
                Observation::Candidate { record: candidate.record, source: Source::StatusWritten { sent } }
            }
            Err(_) => Observation::Failed { target: Target::Status(name.to_string()) },
        }
    }

    async fn read_lease(&self, key: &LeaseKey) -> Observation {
        let read = self.send(key, || self.requests.read_lease(key.namespace(), key.name())).await;
        self.lease_read(key, read)
    }

    async fn read_candidate(&self, key: &LeaseKey, name: &Arc<str>) -> Observation {
        let read = self.send(key, || self.requests.read_candidate(key.namespace(), name)).await;
        self.candidate_read(key, name, read)
    }

    async fn create_lease(&self, key: &LeaseKey) -> Observation {
        let (sent, answer) = self.send(key, || self.requests.create_lease(key.namespace(), key.name())).await;
        self.count(Request::Create, key, key.name(), &answer);
        self.lease_written(key, sent, answer).await
    }

    async fn write_lease(
        &self,
        key: &LeaseKey,
        current: Option<&LeaseRecord>,
        write: &LeaseWrite,
        event: Option<&Event>,
    ) -> Observation {
        let turn = match write.preferred_holder {
            Set::To(_) => self.turn().await,
            Set::Keep | Set::Remove => None,
        };
        // A decision to write rests on a version, which comes with it.
        let Some(current) = current else { return Observation::Failed { target: Target::Lease } };
        let write_lease = || self.requests.write_lease(key.namespace(), key.name(), write, current);
        let (sent, answer) = self.send(key, write_lease).await;
        if let Some(turn) = turn {
            tokio::spawn(async move {
                tokio::time::sleep(HEAD_START).await;
                drop(turn);
            });
        }
        self.count(request_of(write), key, key.name(), &answer);
        if let Ok(lease) = &answer {
            tracing::info!(lease = %key, purpose = write.purpose.as_str(), holder = lease.record.holder,
                preferred_holder = lease.record.preferred_holder, "wrote the Lease");
            self.tell_of_native_fields(lease, write);
            if let Some(verdict) = verdict_of(write) {
                self.metrics.elections.get_or_create(&verdict.label()).inc();
            }
            if let Some(Event::Preferred { criterion, .. }) = event
                && let Some(merit) = Merit::of(*criterion)
            {
                self.metrics.preemptions.get_or_create(&merit.label()).inc();
            }
            if let Some(event) = event {
                self.publisher.told(key, &lease.record.uid, event);
            }
        }
        self.lease_written(key, sent, answer).await
    }

    /// Waits until few enough others hand over.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.hand_overs).acquire_owned();
        tokio::time::timeout(LONGEST_QUEUE, turn).await.ok()?.ok()
    }

    /// Says once what an answer shows, for those who look for the native fields and do not find them.
    fn tell_of_native_fields(&self, lease: &ReadLease, write: &LeaseWrite) {
        let Some(keeps) = lease.keeps_native_fields(write) else { return };
        if self.keeps_native_fields.set(keeps).is_ok() {
            let does = if keeps { "keeps" } else { "drops" };
            tracing::info!(keeps, "the API server {does} strategy and preferredHolder of Leases");
        }
    }

    async fn ping(&self, key: &LeaseKey, name: &Arc<str>, patch: &serde_json::Value) -> Observation {
        let (sent, answer) = self.send(key, || self.requests.patch_candidate(key.namespace(), name, patch)).await;
        self.count(Request::Ping, key, name, &answer);
        let source = Source::Written { sent };
        match answer {
            Ok(candidate) => Observation::Candidate { record: candidate.record, source },
            // A proxy between may be wrong about what is missing, here and below.
            Err(Failure::Conflict | Failure::Missing) => self.read_candidate(key, name).await,
            Err(_) => Observation::Failed { target: Target::Candidate(name.to_string()) },
        }
    }

    async fn delete_candidate(&self, key: &LeaseKey, name: &Arc<str>, uid: &str, resource_version: u64) -> Observation {
        let delete = || self.requests.delete_candidate(key.namespace(), name, uid, Some(resource_version));
        let (sent, answer) = self.send(key, delete).await;
        self.count(Request::Delete, key, name, &answer);
        match answer {
            Ok(Some(kept)) => Observation::Candidate { record: kept.record, source: Source::Written { sent } },
            Ok(None) => candidate_missing(name, Source::Written { sent }),
            Err(Failure::Conflict | Failure::Missing) => self.read_candidate(key, name).await,
            Err(_) => Observation::Failed { target: Target::Candidate(name.to_string()) },
        }
    }

    /// The answer to a write of the Lease; after a conflict, what is read.
    async fn lease_written(&self, key: &LeaseKey, sent: Moment, answer: Result<ReadLease, Failure>) -> Observation {
        let source = Source::Written { sent };
        match answer {
            Ok(lease) => Observation::Lease { record: lease.record, source },
            Err(Failure::Conflict | Failure::Missing) => self.read_lease(key).await,
            Err(_) => Observation::Failed { target: Target::Lease },
        }
    }

    fn lease_read(&self, key: &LeaseKey, (sent, answer): Sent<ReadLease>) -> Observation {
        self.count(Request::ReadLease, key, key.name(), &answer);
        let source = Source::Read { sent };
        match answer {
            Ok(lease) => Observation::Lease { record: lease.record, source },
            Err(Failure::Missing) => Observation::LeaseMissing { source },
            Err(_) => Observation::Failed { target: Target::Lease },
        }
    }

    fn candidate_read(&self, key: &LeaseKey, name: &Arc<str>, (sent, answer): Sent<ReadCandidate>) -> Observation {
        self.count(Request::ReadCandidate, key, name, &answer);
        let source = Source::Read { sent };
        match answer {
            Ok(candidate) => Observation::Candidate { record: candidate.record, source },
            Err(Failure::Missing) => candidate_missing(name, source),
            Err(_) => Observation::Failed { target: Target::Candidate(name.to_string()) },
        }
    }

    /// Sends a request as soon as its namespace has a slot. Thousands may wait, so a request takes memory only from then on.
    async fn send<T, R: Future<Output = Result<T, Failure>>>(
        &self,
        key: &LeaseKey,
        request: impl FnOnce() -> R,
    ) -> Sent<T> {
        match tokio::time::timeout(LONGEST_WAIT, self.slots.take(key.namespace())).await {
            Ok(_slot) => self.timed(Box::pin(request())).await,
            Err(_) => (self.clock.now(), Err(Failure::NotSent(LONGEST_WAIT))),
        }
    }

    async fn timed<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Sent<T> {
        let sent = self.clock.now();
        (sent, request.await)
    }

    fn count<T>(&self, request: Request, key: &LeaseKey, object: &str, answer: &Result<T, Failure>) {
        let Err(failure) = answer else {
            self.metrics.requests.get_or_create(&request.label()).inc();
            return;
        };
        let kind = label(failure);
        self.metrics.failed(request, kind);
        if kind == metrics::Failure::Forbidden {
            self.forbidden.notify_one();
        }
        let told = match kind {
            // Life as usual: somebody else was faster, or the object went, or the own Lease did.
            metrics::Failure::Conflict | metrics::Failure::NotFound | metrics::Failure::NotLeading => false,
            _ => self.reports.is_due(request, kind),
        };
        let request = request.as_str();
        if told {
            tracing::warn!(lease = %key, object, request, reason = %failure, "a request failed; others may, too");
        } else {
            tracing::debug!(lease = %key, object, request, reason = %failure, "a request did not succeed");
        }
    }
}

fn candidate_missing(name: &str, source: Source) -> Observation {
    Observation::CandidateMissing { name: name.to_owned(), source }
}

const fn request_of(write: &LeaseWrite) -> Request {
    match write.purpose {
        Purpose::Prefer => match write.preferred_holder {
            Set::To(_) => Request::Prefer,
            Set::Keep | Set::Remove => Request::Withdraw,
        },
        Purpose::Hold => Request::Hold,
        Purpose::Enrol => Request::Enrol,
        // A controller writes nothing else.
        Purpose::Grant | Purpose::TakeUp | Purpose::Claim | Purpose::Renew | Purpose::HandOver | Purpose::Release => {
            Request::Grant
        }
    }
}

const fn verdict_of(write: &LeaseWrite) -> Option<Verdict> {
    match (write.purpose, &write.preferred_holder) {
        (Purpose::Grant, _) => Some(Verdict::Granted),
        (Purpose::Prefer, Set::To(_)) => Some(Verdict::Preferred),
        (Purpose::Prefer, _) => Some(Verdict::Withdrawn),
        (Purpose::Hold, _) => Some(Verdict::OnHold),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
