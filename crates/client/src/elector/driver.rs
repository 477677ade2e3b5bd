//! The task of a campaign. It carries out the decisions of the core, and reports the results to the core. It decides
//! nothing itself.
//!
//! The rules that must hold:
//!
//! - A decision is in force before any of its actions begins.
//! - The core gets exactly one answer to each request.
//! - The task cannot fail silently. However it ends, it drops the [`Publisher`]. From then on every reader finds that
//!   this process does not lead.

pub(crate) mod asking;

use std::sync::Arc;

use asking::Asking;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use hustings_core::elector::{
    Action, Config, Decision, Draw, EditedField, Elector, Loss, Note, Observation, Source, Withheld,
};
use hustings_core::model::{Moment, Now, Object, Purpose, Request};
use rand::Rng;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::elector::keys::Key;
use crate::elector::telemetry::{self, Observers};
use crate::leadership::range::observed_term::ObservedTerm;
use crate::leadership::{Holder, Publisher};
use crate::store::{Store, reply_of};

/// Everything that the task needs.
pub(crate) struct Driver {
    pub(crate) config: Config,
    /// Ignored in coordinated mode.
    pub(crate) key: Key,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Box<dyn Rng + Send>,
    pub(crate) publisher: Publisher,
    pub(crate) observers: Observers,
    pub(crate) asking: Arc<Asking>,
    pub(crate) shutdown: CancellationToken,
}

/// Outstanding answers. The core sends few requests at a time, so there are few.
type PendingAnswers = FuturesUnordered<BoxFuture<'static, Observation>>;

impl Driver {
    /// Campaigns until the shutdown token is cancelled and the elector has given the Lease up.
    pub(crate) async fn drive(mut self) {
        let mut core = Elector::new(self.config.clone(), self.clock.both());
        // This precedes the first write, so that the write contains the key.
        core.observe(self.clock.both(), Observation::Key(self.key.current()));
        let mut watches = stream::select(self.watches(), self.key.changes().map(Observation::Key));
        let mut pending = PendingAnswers::new();
        let mut stopping = false;
        let mut led = None;
        loop {
            // A deadline that has passed completes at once. Without this call, the loop could block its thread.
            tokio::task::consume_budget().await;
            let draw = Draw(self.rng.next_u32());
            let (now, decision) = self.decide(&mut core, draw);
            let holder = core.lease().and_then(|observed| {
                let identity = observed.live_holder(now.moment)?.to_owned();
                Some(Holder { identity, expires_at: observed.expires_at() })
            });
            self.publisher.set_obstacle(core.candidate_stands_for());
            self.publisher.publish(decision.leading, holder);
            if let Some(term) = core.lease().and_then(|observed| ObservedTerm::of(observed.record())) {
                self.publisher.publish_holder(term);
            }
            let leads = decision.leading.map(|leading| leading.token);
            let lease_uid = core.lease().map_or("", |observed| &observed.record().uid);
            telemetry::report_terms(&self.observers, std::mem::replace(&mut led, leads), leads, lease_uid);
            for note in &decision.notes {
                Self::log(note);
            }
            for action in decision.actions {
                pending.extend(self.perform(action));
            }
            if decision.finished {
                tracing::info!("elector stopped");
                return;
            }
            if let (Some(deadline), Some(timer)) = (decision.deadline, decision.timer) {
                let within = deadline.since(now.moment);
                tracing::debug!(timer = timer.as_str(), ?within, "waiting for an observation or a timer");
            }
            let deadline = self.clock.sleep_until(decision.deadline.unwrap_or(Moment::NEVER));
            // With a fixed order, the same answers lead to the same decisions. No input starves: each decision handles
            // everything that is due.
            let observation = tokio::select! {
                biased;
                () = self.shutdown.cancelled(), if !stopping => {
                    stopping = true;
                    Observation::Stop(self.publisher.stop_cause())
                }
                () = self.publisher.resignation() => Observation::Resign,
                Some(observation) = pending.next() => observation,
                Some(observation) = watches.next() => observation,
                () = deadline => continue,
            };
            core.observe(self.clock.both(), observation);
        }
    }

    /// Decides under the lock of the time range, because the decision may close the range. Readers get no answer while
    /// the elector decides.
    fn decide(&self, core: &mut Elector, draw: Draw) -> (Now, Decision) {
        let mut ranges = self.publisher.ranges();
        let now = ranges.now(&*self.clock);
        let decision = core.decide(now, draw);
        ranges.set(decision.range);
        (now, decision)
    }

    fn watches(&self) -> BoxStream<'static, Observation> {
        let source = Source::Watch;
        let lease =
            self.store.watch_lease(&self.asking.namespace, &self.config.lease_name).map(move |lease| match lease {
                Some(record) => Observation::Lease { record, source },
                None => Observation::LeaseMissing { source },
            });
        if self.config.candidate().is_none() {
            return lease.boxed();
        }
        let candidate = self.store.watch_candidate(&self.asking.namespace, &self.config.identity);
        let candidate = candidate.map(move |candidate| match candidate {
            Some(record) => Observation::Candidate { record, source },
            None => Observation::CandidateMissing { source },
        });
        stream::select(lease, candidate).boxed()
    }

    /// Begins an action. The future returns its result as an observation.
    fn perform(&self, action: Action) -> Option<BoxFuture<'static, Observation>> {
        let (attempt, request) = match action {
            Action::Send { attempt, request } => (attempt, request),
            Action::StopWork => return Some(self.publisher.stop_work().map(|()| Observation::WorkStopped).boxed()),
            Action::AbortWork => {
                self.publisher.abort_work();
                return None;
            }
        };
        let store = Arc::clone(&self.store);
        let asking = Arc::clone(&self.asking);
        let observers = self.observers.clone();
        Some(
            async move {
                let sent = asking.clock.now();
                let answer = asking.send(&*store, &request).await;
                if let Request::WriteLease { write, .. } = &request
                    && write.purpose == Purpose::Renew
                {
                    let took = asking.clock.now().since(sent);
                    let is_renewed = matches!(&answer, Ok(Some(Object::Lease(record))) if write.is_kept_in(record));
                    for observer in &observers {
                        observer.renewed(took, is_renewed);
                    }
                }
                asking.pause(sent, &answer).await;
                Observation::of_reply(attempt, &request, reply_of(answer))
            }
            .boxed(),
        )
    }

    fn log(note: &Note) {
        match note {
            Note::Began { number, token } => tracing::info!(number, token, "term began"),
            Note::Lost(Loss::NotRenewed) => tracing::warn!("term lost: no renewal succeeded in time"),
            Note::Lost(Loss::LeaseMissing) => tracing::warn!("term lost: the Lease is missing"),
            Note::Lost(Loss::NotMine { holder }) => {
                tracing::warn!(holder, "term lost: the Lease belongs to another term");
            }
            Note::HandOverAsked { to } => tracing::info!(to, "handing over to the preferred holder"),
            Note::Resigned { cooldown } => {
                tracing::warn!(rest_seconds = cooldown.as_secs(), "giving the term up: it was resigned");
            }
            Note::Asked { holder } => {
                tracing::info!(holder, "asking the holder to hand over: its key is lower");
            }
            Note::GaveUp => tracing::info!("gave the Lease up"),
            Note::LeftToRunOut => {
                tracing::info!("stopping: letting the Lease expire, as configured");
            }
            Note::GiveUpAbandoned => {
                tracing::warn!("could not give the Lease up in time: it expires");
            }
            Note::WorkDidNotStop => {
                tracing::error!("the work did not stop within its grace: the Lease expires");
            }
            Note::NamesakeHolds { session } => {
                tracing::warn!(session, "another process holds the Lease under this identity");
            }
            Note::Reclaims { session } => {
                tracing::info!(session, "reclaiming the Lease of this container's previous process");
            }
            Note::LandedTooLate => tracing::warn!("a take-up or claim of the Lease succeeded too late to lead"),
            Note::Conflict => tracing::debug!("another writer wrote the Lease first"),
            Note::Refused => tracing::debug!("the server refused a write of the Lease"),
            Note::OutcomeUnknown => tracing::debug!("a write of the Lease has an unknown outcome"),
            Note::WriteReverted => tracing::warn!(
                "the server accepts writes of the Lease but does not keep their content: check for an admission policy or \
                 webhook that changes spec or the annotations hustings.io/* of Leases"
            ),
            Note::CandidateWriteReverted => tracing::warn!(
                "the server accepts writes of the candidate but does not keep its renewTime: check for an admission \
                 policy or webhook that changes LeaseCandidates"
            ),
            Note::CandidateDeleted => tracing::warn!(
                "another client deletes the candidate soon after each creation: check for a tool that deletes the \
                 LeaseCandidates that its manifests do not contain"
            ),
            Note::NoController => {
                tracing::info!("no controller elects: the candidates elect among themselves");
            }
            Note::NoCandidates => tracing::warn!(
                "the cluster has no LeaseCandidates: the Lease is claimed without an order among the replicas"
            ),
            Note::Withheld(withheld) => {
                tracing::warn!(why = withheld_because(withheld), "the Lease is free, and no replica is elected");
            }
            Note::OwnerDropped => tracing::warn!(
                "the candidate was deleted soon after its owner was set: the API server does not know the pod by this UID \
                 (POD_UID), as with static pods; creating the candidate without an owner"
            ),
            Note::CandidateOfAnotherLease { lease_name } => {
                tracing::error!(
                    lease_name,
                    "the candidate of this name stands for another Lease, and its process lives or it has an owner: give \
                     each elector an identity of its own (--identity)"
                );
            }
            Note::NamesakeAsked { lease_name } => tracing::warn!(
                lease_name,
                "the candidate of this name stands for another Lease: it is replaced unless its process answers a ping"
            ),
            Note::NamesakeReplaced { lease_name } => tracing::warn!(
                lease_name,
                "replacing the candidate of this name that stands for another Lease: no process has answered for it"
            ),
            Note::CandidateEdited { fields, again_and_again } => log_edits(fields, *again_and_again),
            Note::Emptied => tracing::warn!(
                "a replica with client-go has emptied the Lease, which it lost before: writing the holder back"
            ),
        }
    }
}

fn log_edits(fields: &[EditedField], again_and_again: bool) {
    for EditedField { field, found, own } in fields {
        tracing::warn!(field, found, own, "another client has changed the candidate: writing its own value again");
    }
    if again_and_again {
        tracing::warn!(
            "another client changes the candidate again and again: look for a file that is applied repeatedly, or another \
             process of this identity; the next changes are not logged"
        );
    }
}

fn withheld_because(withheld: &Withheld) -> String {
    match withheld {
        Withheld::TurnedOff => "no controller elects, and this elector is configured to wait for one".to_owned(),
        Withheld::NoList => "no controller elects, and the candidates cannot be listed".to_owned(),
        Withheld::Hold(hold) => format!("the Lease is on hold: {hold}"),
        Withheld::ThirdPartyStrategy(strategy) => format!("strategy {strategy} is a third party's"),
        Withheld::Disagreement => "the candidates of the highest binary version disagree on the strategy".to_owned(),
        Withheld::Inadmissible(inadmissible) => {
            format!("no controller elects, and this candidate is not admissible: {inadmissible}")
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
