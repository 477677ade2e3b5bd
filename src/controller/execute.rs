//! What an election has decided, done: requests out, what became of them back as observations.
//!
//! Every request has a deadline, and everything that becomes of it is an observation, so that the next decision rests
//! on what is known. A conflict is not repeated: the object is read live, and the election decides anew. No request of
//! one Lease waits for more than the requests of a bounded number of others.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, select};
use hustings_client::api::{ReadCandidate, ReadLease, ping_patch};
use hustings_client::clock::Clock;
use hustings_client::requests::{Failure, Requests};
use hustings_core::election::{Action, Event, Observation, Source, Target};
use hustings_core::model::{CandidateState, LeaseRecord, LeaseWrite, Moment, Purpose, RecordedStatus, Set, Truth};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::Publisher;
use super::failure::{Reports, label};
use super::key::LeaseKey;
use super::status::{self, Transitions};
use crate::ops::metrics::{self, Metrics, Request, Verdict};

/// How many requests that an election waits for are sent at a time.
const URGENT_AT_A_TIME: usize = 64;

/// How many writes of a status are: a thousand candidates that all change state shall not hold up a grant.
const PATIENT_AT_A_TIME: usize = 16;

/// How many of these requests one Lease may have under way or waiting. A crowd leaves a quarter of the places to others,
/// and where several crowds take all, whoever comes waits for no more than these of each.
const URGENT_OF_ONE_LEASE: usize = URGENT_AT_A_TIME / 4 * 3;
const PATIENT_OF_ONE_LEASE: usize = PATIENT_AT_A_TIME / 4 * 3;

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
    /// Whether the server keeps the native copies of strategy and preferred holder, once an answer has shown it.
    keeps_native_fields: Arc<OnceLock<bool>>,
    urgent: Arc<Semaphore>,
    hand_overs: Arc<Semaphore>,
    patient: Arc<Semaphore>,
}

/// One decision's actions, with what else has to be known to carry them out.
pub(super) struct Order {
    /// The Lease.
    pub(super) key: LeaseKey,
    /// What is to be done.
    pub(super) actions: Vec<Action>,
    /// The version of the Lease that the decision rests on.
    pub(super) current: Option<LeaseRecord>,
    /// What the candidates whose status is written said before.
    pub(super) former: HashMap<Arc<str>, Former>,
}

/// What a candidate's status said before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Former {
    /// `state`.
    pub(super) state: Option<CandidateState>,
    /// Condition `Admissible`.
    pub(super) admissible: Truth,
    /// Since when the conditions have been as they are.
    pub(super) transitions: Transitions,
}

/// How an answer is told.
type Sent<T> = (Moment, Result<T, Failure>);

impl Executor {
    /// Carries out by `requests`, which pass the write gate.
    pub(super) fn new(requests: Requests, clock: Arc<dyn Clock>, publisher: Publisher, metrics: Metrics) -> Self {
        let urgent = Arc::new(Semaphore::new(URGENT_AT_A_TIME));
        let hand_overs = Arc::new(Semaphore::new(HAND_OVERS_AT_A_TIME));
        let patient = Arc::new(Semaphore::new(PATIENT_AT_A_TIME));
        let (reports, keeps_native_fields) = (Arc::default(), Arc::default());
        Self { requests, clock, publisher, metrics, reports, keeps_native_fields, urgent, hand_overs, patient }
    }

    /// Carries out all of `order`, as much of it at a time as one Lease may, and tells what became of it.
    pub(super) async fn carry_out(self, order: Order) -> Vec<Observation> {
        let Order { key, actions, current, former } = order;
        let (executor, key, current, former) = (&self, &key, current.as_ref(), &former);
        let (patient, urgent): (Vec<_>, Vec<_>) =
            actions.into_iter().enumerate().partition(|(_, action)| matches!(action, Action::PatchStatus { .. }));
        let outcome = |(place, action)| async move {
            let outcome = match action {
                Action::ReadLease => executor.read_lease(key).await,
                Action::ReadCandidate { name } => executor.read_candidate(key, &name).await,
                Action::CreateLease => executor.create_lease(key).await,
                Action::WriteLease { write, event } => executor.write_lease(key, current, &write, event.as_ref()).await,
                Action::Ping { name, uid, ping_time } => executor.ping(key, &name, &ping_patch(&uid, ping_time)).await,
                Action::PatchStatus { name, uid, status } => {
                    let former = former.get(&name).copied().unwrap_or_default();
                    executor.patch_status(key, &name, &uid, &status, &former).await
                }
                Action::DeleteCandidate { name, uid, resource_version } => {
                    executor.delete_candidate(key, &name, &uid, resource_version).await
                }
                Action::Event(event) => {
                    let uid = current.map(|record| record.uid.as_str()).unwrap_or_default();
                    executor.publisher.told(key, uid, &event);
                    None
                }
            };
            (place, outcome)
        };
        // Not in their order: one that hangs would hold up what comes after it.
        let urgent = stream::iter(urgent).map(outcome).buffer_unordered(URGENT_OF_ONE_LEASE);
        let patient = stream::iter(patient).map(outcome).buffer_unordered(PATIENT_OF_ONE_LEASE);
        let mut outcomes: Vec<_> = select(urgent, patient).collect().await;
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        outcomes.into_iter().filter_map(|(_, outcome)| outcome).collect()
    }

    async fn read_lease(&self, key: &LeaseKey) -> Option<Observation> {
        let _permit = self.urgent.acquire().await;
        let read = self.timed(self.requests.read_lease(key.namespace(), key.name())).await;
        Some(self.lease_read(key, read))
    }

    async fn read_candidate(&self, key: &LeaseKey, name: &Arc<str>) -> Option<Observation> {
        let _permit = self.urgent.acquire().await;
        let read = self.timed(self.requests.read_candidate(key.namespace(), name)).await;
        Some(self.candidate_read(key, name, read))
    }

    async fn create_lease(&self, key: &LeaseKey) -> Option<Observation> {
        let _permit = self.urgent.acquire().await;
        let (sent, answer) = self.timed(self.requests.create_lease(key.namespace(), key.name())).await;
        self.count(Request::Create, key, key.name(), &answer);
        Some(self.lease_written(key, sent, answer).await)
    }

    async fn write_lease(
        &self,
        key: &LeaseKey,
        current: Option<&LeaseRecord>,
        write: &LeaseWrite,
        event: Option<&Event>,
    ) -> Option<Observation> {
        let turn = match write.preferred_holder {
            Set::To(_) => self.turn().await,
            Set::Keep | Set::Remove => None,
        };
        let _permit = self.urgent.acquire().await;
        // A decision to write rests on a version, which comes with it.
        let Some(current) = current else { return Some(Observation::Failed { target: Target::Lease }) };
        let write_lease = self.requests.write_lease(key.namespace(), key.name(), write, current);
        let (sent, answer) = self.timed(write_lease).await;
        if let Some(turn) = turn {
            tokio::spawn(async move {
                tokio::time::sleep(HEAD_START).await;
                drop(turn);
            });
        }
        self.count(request_of(write.purpose), key, key.name(), &answer);
        if let Ok(lease) = &answer {
            tracing::info!(lease = %key, purpose = write.purpose.as_str(), holder = lease.record.holder,
                preferred_holder = lease.record.preferred_holder, "wrote the Lease");
            self.tell_of_native_fields(lease, write);
            if let Some(verdict) = verdict_of(write) {
                self.metrics.elections.get_or_create(&verdict.label()).inc();
            }
            if let Some(event) = event {
                self.publisher.told(key, &lease.record.uid, event);
            }
        }
        Some(self.lease_written(key, sent, answer).await)
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

    async fn ping(&self, key: &LeaseKey, name: &Arc<str>, patch: &serde_json::Value) -> Option<Observation> {
        let _permit = self.urgent.acquire().await;
        let answer = self.timed(self.requests.patch_candidate(key.namespace(), name, patch)).await;
        Some(self.candidate_written(Request::Ping, key, name, answer).await)
    }

    async fn patch_status(
        &self,
        key: &LeaseKey,
        name: &Arc<str>,
        uid: &str,
        status: &RecordedStatus,
        former: &Former,
    ) -> Option<Observation> {
        let _permit = self.patient.acquire().await;
        let patch = status::patch(uid, status, &former.transitions, self.clock.wall());
        let answer = self.timed(self.requests.patch_candidate_status(key.namespace(), name, &patch)).await;
        if answer.1.is_ok() {
            if status.admissible.status == Truth::False && former.admissible != Truth::False {
                self.publisher.inadmissible(key, name, uid, &status.admissible.reason, &status.message);
            }
            if status.state == Some(CandidateState::Unresponsive) && former.state != status.state {
                self.metrics.missed_pings.inc();
            }
        }
        Some(self.candidate_written(Request::Status, key, name, answer).await)
    }

    async fn delete_candidate(
        &self,
        key: &LeaseKey,
        name: &Arc<str>,
        uid: &str,
        resource_version: u64,
    ) -> Option<Observation> {
        let _permit = self.urgent.acquire().await;
        let delete = self.requests.delete_candidate(key.namespace(), name, uid, Some(resource_version));
        let (sent, answer) = self.timed(delete).await;
        self.count(Request::Delete, key, name, &answer);
        Some(match answer {
            Ok(()) | Err(Failure::Missing) => candidate_missing(name, Source::Written { sent }),
            Err(Failure::Conflict) => self.reread_candidate(key, name).await,
            Err(_) => Observation::Failed { target: Target::Candidate(name.to_string()) },
        })
    }

    /// The answer to a write of the Lease; after a conflict, what is read.
    async fn lease_written(&self, key: &LeaseKey, sent: Moment, answer: Result<ReadLease, Failure>) -> Observation {
        let source = Source::Written { sent };
        match answer {
            Ok(lease) => Observation::Lease { record: lease.record, source },
            Err(Failure::Missing) => Observation::LeaseMissing { source },
            Err(Failure::Conflict) => {
                let read = self.timed(self.requests.read_lease(key.namespace(), key.name())).await;
                self.lease_read(key, read)
            }
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

    /// The answer to a write of a candidate; after a conflict, what is read.
    async fn candidate_written(
        &self,
        request: Request,
        key: &LeaseKey,
        name: &Arc<str>,
        (sent, answer): Sent<ReadCandidate>,
    ) -> Observation {
        self.count(request, key, name, &answer);
        let source = Source::Written { sent };
        match answer {
            Ok(candidate) => Observation::Candidate { record: candidate.record, source },
            Err(Failure::Missing) => candidate_missing(name, source),
            Err(Failure::Conflict) => self.reread_candidate(key, name).await,
            Err(_) => Observation::Failed { target: Target::Candidate(name.to_string()) },
        }
    }

    async fn reread_candidate(&self, key: &LeaseKey, name: &Arc<str>) -> Observation {
        let read = self.timed(self.requests.read_candidate(key.namespace(), name)).await;
        self.candidate_read(key, name, read)
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

const fn request_of(purpose: Purpose) -> Request {
    match purpose {
        Purpose::Prefer => Request::Prefer,
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
