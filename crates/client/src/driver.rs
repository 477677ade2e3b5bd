//! The task that campaigns: it carries out what the core decides and tells the core what became of it.
//!
//! It decides nothing itself. What it must keep: the flag is in force before anything decided with it is begun; every
//! request is answered to the core exactly once; and it cannot fail in silence, since its end, however it comes, drops
//! the [`Publisher`], upon which everybody reads that nobody leads.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use hustings_core::elector::{Action, Config, Draw, Elector, Loss, Note, Observation, Outcome, Source};
use hustings_core::model::{LeaseRecord, LeaseWrite, Moment, Observed, Purpose};
use rand::Rng;
use tokio_util::sync::CancellationToken;

use crate::api::{ReadCandidate, ReadLease, ack_patch};
use crate::clock::Clock;
use crate::leadership::{Holder, Publisher};
use crate::nomination::Nomination;
use crate::requests::{Failure, Requests};
use crate::telemetry::Witnesses;
use crate::watch::watch_object;

/// Everything that the task needs.
pub(crate) struct Driver {
    pub(crate) namespace: String,
    pub(crate) config: Config,
    /// `None` in direct mode.
    pub(crate) nomination: Option<Arc<Nomination>>,
    pub(crate) requests: Requests,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Box<dyn Rng + Send>,
    pub(crate) publisher: Publisher,
    pub(crate) witnesses: Witnesses,
    pub(crate) shutdown: CancellationToken,
}

/// Answers that are still to come. The core sends few requests at a time, so there are few.
type Pending = FuturesUnordered<BoxFuture<'static, Observation>>;

impl Driver {
    /// Campaigns until the shutdown token is cancelled and the Lease has been given up in order.
    pub(crate) async fn drive(mut self) {
        let mut core = Elector::new(self.config.clone(), self.clock.both());
        let mut watches = self.watches();
        let mut pending = Pending::new();
        let mut stopping = false;
        let mut led = None;
        loop {
            // A deadline that has passed completes without waiting; this keeps the loop from occupying its thread.
            tokio::task::consume_budget().await;
            let now = self.clock.both();
            let decision = core.decide(now, Draw(self.rng.next_u32()));
            let holder = core.lease().and_then(|observed| {
                let identity = observed.live_holder(now.moment)?.to_owned();
                Some(Holder { identity, expires_at: observed.expires_at() })
            });
            self.publisher.publish(decision.leading, holder);
            let leads = decision.leading.map(|leading| leading.token);
            self.bear_witness(std::mem::replace(&mut led, leads), leads);
            for note in &decision.notes {
                self.log(note);
            }
            for action in decision.actions {
                pending.extend(self.perform(action, core.lease().map(Observed::record)));
            }
            if decision.finished {
                tracing::info!(lease = self.lease(), identity = self.config.identity, "elector stopped");
                return;
            }
            let deadline = self.clock.sleep_until(decision.deadline.unwrap_or(Moment::NEVER));
            let observation = tokio::select! {
                () = self.shutdown.cancelled(), if !stopping => {
                    stopping = true;
                    Observation::Stop
                }
                Some(observation) = pending.next() => observation,
                Some(observation) = watches.next() => observation,
                () = deadline => continue,
            };
            core.observe(self.clock.both(), observation);
        }
    }

    fn watches(&self) -> BoxStream<'static, Observation> {
        let client = self.requests.client();
        let source = Source::Watch;
        let lease =
            watch_object::<ReadLease>(client.clone(), &self.namespace, &self.config.lease_name).map(move |lease| {
                match lease {
                    Some(lease) => Observation::Lease { record: lease.record, source },
                    None => Observation::LeaseMissing { source },
                }
            });
        let Some(nomination) = &self.nomination else { return lease.boxed() };
        let candidate =
            watch_object::<ReadCandidate>(client.clone(), &self.namespace, &nomination.name).map(move |candidate| {
                match candidate {
                    Some(candidate) => Observation::Candidate { record: candidate.record, source },
                    None => Observation::CandidateMissing { source },
                }
            });
        stream::select(lease, candidate).boxed()
    }

    /// Begins an action. What becomes of it is the observation that the future brings.
    fn perform(&self, action: Action, current: Option<&LeaseRecord>) -> Option<BoxFuture<'static, Observation>> {
        let requests = self.requests.clone();
        let (namespace, lease) = (self.namespace.clone(), self.config.lease_name.clone());
        let identity = self.config.identity.clone();
        Some(match action {
            Action::ReadLease(attempt) => async move {
                let source = Source::Read(attempt);
                match requests.read_lease(&namespace, &lease).await {
                    Ok(lease) => Observation::Lease { record: lease.record, source },
                    Err(Failure::Missing) => Observation::LeaseMissing { source },
                    Err(failure) => {
                        tracing::warn!(namespace, lease, %failure, "cannot read the Lease");
                        Observation::ReadFailed(attempt)
                    }
                }
            }
            .boxed(),
            Action::CreateLease(attempt) => async move {
                let answer = requests.create_lease(&namespace, &lease).await;
                let outcome = outcome(answer, |lease| lease.record, &lease, "create");
                Observation::LeaseWritten { attempt, outcome }
            }
            .boxed(),
            Action::WriteLease { attempt, write } => {
                let current = version_of(&write, current);
                let is_renewal = write.purpose == Purpose::Renew;
                let witnesses = if is_renewal { self.witnesses.clone() } else { Witnesses::new() };
                let clock = Arc::clone(&self.clock);
                async move {
                    let sent = clock.now();
                    let answer = requests.write_lease(&namespace, &lease, &write, &current).await;
                    let took = clock.now().since(sent);
                    for witness in &witnesses {
                        witness.renewed(took, answer.is_ok());
                    }
                    let outcome = outcome(answer, |lease| lease.record, &lease, write.purpose.as_str());
                    Observation::LeaseWritten { attempt, outcome }
                }
                .boxed()
            }
            Action::ReadCandidate(attempt) => async move {
                let source = Source::Read(attempt);
                match requests.read_candidate(&namespace, &identity).await {
                    Ok(candidate) => Observation::Candidate { record: candidate.record, source },
                    Err(Failure::Missing) => Observation::CandidateMissing { source },
                    Err(failure) => {
                        tracing::warn!(namespace, identity, %failure, "cannot read the candidate");
                        Observation::ReadFailed(attempt)
                    }
                }
            }
            .boxed(),
            Action::CreateCandidate { attempt, renew_time } => {
                let candidate = self.nomination.as_ref()?.candidate(renew_time);
                async move {
                    let answer = requests.create_candidate(&namespace, &candidate).await;
                    let outcome = outcome(answer, |candidate| candidate.record, &identity, "nominate");
                    Observation::CandidateWritten { attempt, outcome }
                }
                .boxed()
            }
            Action::RenewCandidate { attempt, uid, renew_time, refresh } => {
                let nomination = self.nomination.as_ref()?;
                let patch =
                    if refresh { nomination.refresh_patch(&uid, renew_time) } else { ack_patch(&uid, renew_time) };
                async move {
                    let answer = requests.patch_candidate(&namespace, &identity, &patch).await;
                    let outcome = outcome(answer, |candidate| candidate.record, &identity, "renew candidate");
                    Observation::CandidateWritten { attempt, outcome }
                }
                .boxed()
            }
            Action::DeleteCandidate { attempt, uid } => async move {
                let outcome = match requests.delete_candidate(&namespace, &identity, &uid, None).await {
                    Ok(()) | Err(Failure::Missing) => Outcome::Missing,
                    Err(failure) => {
                        tracing::warn!(namespace, identity, %failure, "cannot delete the candidate");
                        failure.outcome()
                    }
                };
                Observation::CandidateWritten { attempt, outcome }
            }
            .boxed(),
            Action::StopWork => self.publisher.stop_work().map(|()| Observation::WorkStopped).boxed(),
            Action::AbortWork => {
                self.publisher.abort_work();
                return None;
            }
        })
    }

    /// Tells which term is over and which has begun, by their tokens.
    fn bear_witness(&self, former: Option<u64>, current: Option<u64>) {
        for witness in self.witnesses.iter().filter(|_| former != current) {
            if former.is_some() {
                witness.ended();
            }
            if current.is_some() {
                witness.began();
            }
        }
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.config.lease_name)
    }

    fn log(&self, note: &Note) {
        let (lease, identity) = (self.lease(), self.config.identity.as_str());
        match note {
            Note::Began { number, token } => tracing::info!(lease, identity, number, token, "term began"),
            Note::Lost(Loss::NotRenewed) => tracing::warn!(lease, identity, "term lost: it was not renewed in time"),
            Note::Lost(Loss::LeaseMissing) => tracing::warn!(lease, identity, "term lost: the Lease is gone"),
            Note::Lost(Loss::NotMine { holder }) => {
                tracing::warn!(lease, identity, holder, "term lost: the Lease is another's");
            }
            Note::HandOverAsked { to } => tracing::info!(lease, identity, to, "handing over to the preferred holder"),
            Note::GaveUp => tracing::info!(lease, identity, "gave the Lease up"),
            Note::GiveUpAbandoned => {
                tracing::warn!(lease, identity, "could not give the Lease up in time: it runs out");
            }
            Note::WorkDidNotStop => {
                tracing::error!(lease, identity, "the work did not stop within its grace: the Lease runs out");
            }
            Note::NamesakeHolds { session } => {
                tracing::warn!(lease, identity, session, "another process holds the Lease under this identity");
            }
            Note::LandedTooLate => tracing::warn!(lease, identity, "the Lease was won too late to lead by it"),
            Note::Conflict => tracing::debug!(lease, identity, "somebody else wrote the Lease first"),
            Note::Refused => tracing::debug!(lease, identity, "the server refused a write of the Lease"),
            Note::OutcomeUnknown => tracing::warn!(lease, identity, "nobody knows whether a write of the Lease landed"),
            Note::CandidateOfAnotherLease { lease_name } => {
                tracing::error!(lease, identity, lease_name, "the candidate of this name stands for another Lease");
            }
        }
    }
}

/// The version that `write` is conditional on. The core writes on what it saw last; of anything else nothing is known,
/// and nothing needs to be, since such a write conflicts.
fn version_of(write: &LeaseWrite, current: Option<&LeaseRecord>) -> LeaseRecord {
    current.filter(|record| record.resource_version == write.resource_version).cloned().unwrap_or_default()
}

fn outcome<Object, Record>(
    answer: Result<Object, Failure>,
    record: impl FnOnce(Object) -> Record,
    object: &str,
    purpose: &str,
) -> Outcome<Record> {
    match answer {
        Ok(object) => Outcome::Landed(record(object)),
        Err(failure) => {
            match failure {
                // Mostly a missing permission: only the server's own words help.
                Failure::Refused(_) => tracing::warn!(object, purpose, %failure, "write refused"),
                // Whoever creates misses no object.
                Failure::Missing if matches!(purpose, "create" | "nominate") => {
                    tracing::warn!(object, purpose, "cannot create: there is no such namespace, or no such kind");
                }
                _ => tracing::debug!(object, purpose, %failure, "write failed"),
            }
            failure.outcome()
        }
    }
}

#[cfg(test)]
mod tests;
