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
    Action, Config, Decision, Draw, EditedField, Elector, Loss, Note, NoteSeverity, Observation, Source,
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
                log(note);
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
}

/// Logs a note with its values. An absent value is not logged.
fn log(note: &Note) {
    let (number, token) =
        if let Note::Began { number, token } = note { (Some(*number), Some(*token)) } else { (None, None) };
    let holder = match note {
        Note::Asked { holder } => Some(holder.as_str()),
        Note::Lost(Loss::NotMine { holder }) => holder.as_deref(),
        _ => None,
    };
    let to = if let Note::HandOverAsked { to } = note { Some(to.as_str()) } else { None };
    let rest_seconds = if let Note::Resigned { cooldown } = note { Some(cooldown.as_secs()) } else { None };
    let session = match note {
        Note::NamesakeHolds { session } | Note::Reclaims { session } => Some(session.as_str()),
        _ => None,
    };
    let lease_name = match note {
        Note::CandidateOfAnotherLease { lease_name }
        | Note::NamesakeAsked { lease_name }
        | Note::NamesakeReplaced { lease_name } => Some(lease_name.as_str()),
        _ => None,
    };
    let why = if let Note::Withheld(why) = note { Some(why.to_string()) } else { None };
    let sentence = note.sentence();
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(number, token, holder, to, rest_seconds, session, lease_name, why, "{sentence}")
        };
    }
    match (note, note.severity()) {
        (Note::CandidateEdited { fields, again_and_again }, _) => log_edits(sentence, fields, *again_and_again),
        (_, NoteSeverity::Debug) => log!(debug),
        (_, NoteSeverity::Info) => log!(info),
        (_, NoteSeverity::Warning) => log!(warn),
        (_, NoteSeverity::Error) => log!(error),
    }
}

fn log_edits(sentence: &str, fields: &[EditedField], again_and_again: bool) {
    for EditedField { field, found, own } in fields {
        tracing::warn!(field, found, own, "{sentence}");
    }
    if again_and_again {
        tracing::warn!(
            "another client changes the candidate again and again: look for a file that is applied repeatedly, or another \
             process of this identity; the next changes are not logged"
        );
    }
}

#[cfg(test)]
pub(crate) mod tests;
