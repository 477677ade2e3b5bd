//! The task of a campaign. It carries out the decisions of the core, and reports the results to the core. It decides
//! nothing itself.
//!
//! The rules that must hold:
//!
//! - A decision is in force before any of its actions begins.
//! - The core gets exactly one answer to each request.
//! - The task cannot fail silently. However it ends, it drops the [`Publisher`]. From then on every reader finds that
//!   this process does not lead.

use std::sync::Arc;

use futures::future::{BoxFuture, Either, select};
use futures::stream::{self, BoxStream, FuturesUnordered};
use futures::{FutureExt, StreamExt};
use hustings_core::elector::{AttemptId, Config, Draw, NoteSeverity, Observation, Source};
use hustings_core::model::{Moment, Now};
use hustings_wire::driver::{Driver as Core, Field, Line, Sending, Step};
use hustings_wire::failure::Answer;
use rand::Rng;
use tokio_util::sync::CancellationToken;
use tracing::Value;

use crate::clock::Clock;
use crate::elector::heartbeat::Heartbeat;
use crate::elector::keys::Key;
use crate::elector::telemetry::{self, Observers};
use crate::leadership::Publisher;
use crate::store::Store;

/// Everything that the task needs.
pub(crate) struct Driver {
    pub(crate) config: Config,
    pub(crate) namespace: String,
    /// Ignored in coordinated mode.
    pub(crate) key: Key,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Box<dyn Rng + Send>,
    pub(crate) publisher: Publisher,
    pub(crate) observers: Observers,
    /// The heartbeat of the work, without which the elector proves no life.
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) shutdown: CancellationToken,
}

/// What the task waits for.
enum Event {
    Observed(Observation),
    Answered(AttemptId, Answer),
    /// The next step handles it: a request has timed out, a deadline has passed, or the work has shown a heartbeat.
    Nothing,
}

/// Outstanding answers. The core sends few requests at a time, so there are few.
type PendingAnswers = FuturesUnordered<BoxFuture<'static, Event>>;

impl Driver {
    /// Campaigns until the shutdown token is cancelled and the elector has given the Lease up.
    pub(crate) async fn drive(mut self) {
        let (config, namespace) = (self.config.clone(), self.namespace.clone());
        let mut core = Core::new(config, namespace, self.heartbeat.is_some(), self.clock.both());
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
            // Before the heartbeat is read, so that no beat is missed.
            let beat = self.heartbeat.as_ref().map(Heartbeat::next_beat);
            let (now, step) = self.decide(&mut core, draw);
            self.publisher.set_obstacle(step.obstacle);
            self.publisher.publish(step.leading, step.holder);
            if let Some(term) = step.observed_term {
                self.publisher.publish_holder(term);
            }
            let leads = step.leading.map(|leading| leading.token);
            telemetry::report_terms(&self.observers, std::mem::replace(&mut led, leads), leads, &step.lease_uid);
            if let Some(renewal) = step.renewal {
                for observer in &self.observers {
                    observer.renewed(renewal.took, renewal.succeeded);
                }
            }
            step.lines.iter().for_each(log);
            if step.stop_work {
                pending.push(self.publisher.stop_work().map(|()| Event::Observed(Observation::WorkStopped)).boxed());
            }
            if step.abort_work {
                self.publisher.abort_work();
            }
            pending.extend(step.requests.into_iter().map(|request| self.send(request)));
            if step.finished {
                return;
            }
            if let (Some(deadline), Some(timer)) = (step.deadline, step.timer) {
                let within = deadline.since(now.moment);
                tracing::debug!(timer, ?within, "waiting for an observation or a timer");
            }
            let deadline = self.clock.sleep_until(step.deadline.unwrap_or(Moment::NEVER));
            let beat = async {
                match beat.filter(|_| step.awaits_beat) {
                    Some(beat) => beat.await,
                    None => std::future::pending().await,
                }
            };
            // With a fixed order, the same answers lead to the same decisions. No input starves: each decision handles
            // everything that is due.
            let event = tokio::select! {
                biased;
                () = self.shutdown.cancelled(), if !stopping => {
                    stopping = true;
                    Event::Observed(Observation::Stop(self.publisher.stop_cause()))
                }
                () = self.publisher.resignation() => Event::Observed(Observation::Resign),
                Some(event) = pending.next() => event,
                Some(observation) = watches.next() => Event::Observed(observation),
                () = beat => Event::Nothing,
                () = deadline => Event::Nothing,
            };
            match event {
                Event::Observed(observation) => core.observe(self.clock.both(), observation),
                Event::Answered(attempt, answer) => core.answered(self.clock.both(), attempt, answer),
                Event::Nothing => {}
            }
        }
    }

    /// Decides under the lock of the time range, because the decision may close the range. Readers get no answer while
    /// the elector decides.
    fn decide(&self, core: &mut Core, draw: Draw) -> (Now, Step) {
        let mut ranges = self.publisher.ranges();
        let now = ranges.now(&*self.clock);
        if let Some(heartbeat) = &self.heartbeat {
            core.beat(now.moment.before(heartbeat.age()));
        }
        let step = core.decide(now, draw);
        ranges.set(step.range);
        (now, step)
    }

    fn watches(&self) -> BoxStream<'static, Observation> {
        let source = Source::Watch;
        let lease = self.store.watch_lease(&self.namespace, &self.config.lease_name).map(move |lease| match lease {
            Some(record) => Observation::Lease { record, source },
            None => Observation::LeaseMissing { source },
        });
        if self.config.candidate().is_none() {
            return lease.boxed();
        }
        let candidate = self.store.watch_candidate(&self.namespace, &self.config.identity);
        let candidate = candidate.map(move |candidate| match candidate {
            Some(record) => Observation::Candidate { record, source },
            None => Observation::CandidateMissing { source },
        });
        stream::select(lease, candidate).boxed()
    }

    /// Sends a request. The future returns its answer, or nothing after the deadline.
    fn send(&self, Sending { attempt, request, until }: Sending) -> BoxFuture<'static, Event> {
        let (store, namespace) = (Arc::clone(&self.store), self.namespace.clone());
        let timeout = self.clock.sleep_until(until);
        async move {
            // Dropping a request closes its connection, so that the next request does not wait behind it.
            match select(store.send(&namespace, &request), timeout).await {
                Either::Left((answer, _)) => Event::Answered(attempt, answer),
                Either::Right(_) => Event::Nothing,
            }
        }
        .boxed()
    }
}

/// Defines how to log a line with these fields: tracing knows the names of fields at compile time only.
macro_rules! log_with_fields {
    ($($name:ident)*) => {
        /// Logs a line with its fields. An absent field is not logged.
        fn log(line: &Line) {
            debug_assert!(
                line.fields.iter().all(|(name, _)| [$(stringify!($name)),*].contains(name)),
                "a field would not be logged: {line:?}"
            );
            match line.severity {
                NoteSeverity::Debug => tracing::debug!($($name = value(line, stringify!($name)),)* "{}", line.text),
                NoteSeverity::Info => tracing::info!($($name = value(line, stringify!($name)),)* "{}", line.text),
                NoteSeverity::Warning => tracing::warn!($($name = value(line, stringify!($name)),)* "{}", line.text),
                NoteSeverity::Error => tracing::error!($($name = value(line, stringify!($name)),)* "{}", line.text),
            }
        }
    };
}

log_with_fields!(
    number token holder to rest_seconds session lease_name why field found own namespace name verb resource failure
);

/// The value of a field, if the line has it.
fn value<'a>(line: &'a Line, name: &str) -> Option<Box<dyn Value + 'a>> {
    let (_, value) = line.fields.iter().find(|(field, _)| *field == name)?;
    Some(match value {
        Field::Number(number) => Box::new(*number),
        // A sentence, without quotation marks.
        Field::Text(text) if name == "failure" => Box::new(tracing::field::display(text)),
        Field::Text(text) => Box::new(&**text),
    })
}

#[cfg(test)]
pub(crate) mod tests;
