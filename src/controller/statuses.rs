//! The statuses of candidates, which no election waits for.
//!
//! Of each candidate at most one status is under way, and of those decided meanwhile only the newest is kept: the last
//! one written is the newest. Statuses have slots of their own, so that they delay no other request.

use std::collections::HashMap;
use std::sync::Arc;

use hustings_core::election::Observation;
use hustings_core::model::RecordedStatus;
use tokio::task::{Id, JoinError, JoinSet};

use super::execute::{Executor, Former};
use super::key::{LeaseKey, ObjectKey};
use super::slots::{Slot, Slots};

/// How many statuses are written at a time. A thousand candidates that change state together must not load the API
/// server while others wait for a grant.
const STATUSES_AT_A_TIME: usize = 32;

/// A status to be written.
pub(super) struct StatusWrite {
    /// The Lease for which the candidate stands.
    pub(super) key: LeaseKey,
    /// The candidate.
    pub(super) name: Arc<str>,
    /// The candidate's `metadata.uid`, on which the write is conditional.
    pub(super) uid: Arc<str>,
    /// The new status.
    pub(super) status: RecordedStatus,
    /// The former status.
    pub(super) former: Former,
}

/// The statuses that are under way or wait.
pub(super) struct Statuses {
    executor: Executor,
    slots: Slots,
    /// The candidates for which a task runs, each with the newest status that has not been sent.
    unsent: HashMap<ObjectKey, Option<StatusWrite>>,
    tasks: JoinSet<Step>,
    candidates: HashMap<Id, ObjectKey>,
}

/// What a task has done for its candidate.
enum Step {
    /// It has a slot.
    Admitted(Slot),
    /// It has written a status.
    Written(LeaseKey, Box<Observation>),
}

impl Statuses {
    pub(super) fn new(executor: Executor) -> Self {
        let slots = Slots::new(STATUSES_AT_A_TIME);
        Self { executor, slots, unsent: HashMap::new(), tasks: JoinSet::new(), candidates: HashMap::new() }
    }

    /// Writes a status as soon as there is a slot, instead of any other status of its candidate that was not sent yet.
    pub(super) fn put(&mut self, write: StatusWrite) {
        let candidate = ObjectKey { namespace: Arc::clone(write.key.namespace()), name: Arc::clone(&write.name) };
        if self.unsent.insert(candidate.clone(), Some(write)).is_none() {
            self.wait_for_slot(candidate);
        }
    }

    /// Waits for the next outcome; `None` if nothing is to be written. Nothing is lost when the future is dropped.
    pub(super) async fn outcome(&mut self) -> Option<(LeaseKey, Observation)> {
        loop {
            let done = self.tasks.join_next_with_id().await?;
            if let Some(outcome) = self.advance(done) {
                return Some(outcome);
            }
        }
    }

    fn advance(&mut self, done: Result<(Id, Step), JoinError>) -> Option<(LeaseKey, Observation)> {
        let (id, step) = match done {
            Ok((id, step)) => (id, Some(step)),
            Err(error) => {
                tracing::error!(%error, "a status could not be written");
                (error.id(), None)
            }
        };
        let candidate = self.candidates.remove(&id)?;
        match step {
            Some(Step::Admitted(slot)) => {
                let write = self.unsent.get_mut(&candidate)?.take()?;
                let executor = self.executor.clone();
                self.run(candidate, async move {
                    let key = write.key.clone();
                    let outcome = executor.write_status(write).await;
                    drop(slot);
                    Step::Written(key, Box::new(outcome))
                });
                None
            }
            Some(Step::Written(key, outcome)) => {
                self.go_on(candidate);
                Some((key, *outcome))
            }
            None => {
                self.go_on(candidate);
                None
            }
        }
    }

    /// Writes the status that was decided in the meantime, if any.
    fn go_on(&mut self, candidate: ObjectKey) {
        if self.unsent.get(&candidate).is_some_and(Option::is_some) {
            self.wait_for_slot(candidate);
        } else {
            self.unsent.remove(&candidate);
        }
    }

    fn wait_for_slot(&mut self, candidate: ObjectKey) {
        let (slots, namespace) = (self.slots.clone(), Arc::clone(&candidate.namespace));
        self.run(candidate, async move { Step::Admitted(slots.take(&namespace).await) });
    }

    fn run(&mut self, candidate: ObjectKey, step: impl Future<Output = Step> + Send + 'static) {
        let task = self.tasks.spawn(step);
        self.candidates.insert(task.id(), candidate);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use http::{Request, Response};
    use hustings_client::clock::SystemClock;
    use hustings_client::requests::Requests;
    use kube::Client;
    use kube::client::Body;
    use serde_json::Value;
    use tokio::time::timeout;

    use super::*;
    use crate::controller::events::Publisher;
    use crate::ops::metrics::Metrics;

    /// How long each request takes.
    const ROUND_TRIP: Duration = Duration::from_secs(1);

    /// The messages written before a server that answers each of them late, and the statuses to write.
    fn statuses() -> (Arc<Mutex<Vec<String>>>, Statuses) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let service = tower::service_fn({
            let written = Arc::clone(&written);
            move |request: Request<Body>| {
                let written = Arc::clone(&written);
                async move {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    written.lock().unwrap().push(patch["status"]["message"].as_str().unwrap().to_owned());
                    tokio::time::sleep(ROUND_TRIP).await;
                    Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap())
                }
            }
        });
        let (client, clock, metrics) = (Client::new(service, "n"), SystemClock::shared(), Metrics::new().0);
        let (publisher, _) = Publisher::new(client.clone(), "test", metrics.clone());
        let requests = Requests::new(client, Arc::clone(&clock), Duration::from_mins(1));
        (written, Statuses::new(Executor::new(requests, clock, publisher, metrics)))
    }

    fn write(candidate: &str, message: &str) -> StatusWrite {
        let status = RecordedStatus { message: message.to_owned(), ..RecordedStatus::default() };
        let (name, former): (Arc<str>, _) = (candidate.into(), Former::default());
        StatusWrite { key: LeaseKey::new("n", "l"), uid: Arc::clone(&name), name, status, former }
    }

    #[tokio::test(start_paused = true)]
    async fn of_the_statuses_decided_while_one_is_under_way_only_the_newest_is_written() {
        let (written, mut statuses) = statuses();
        statuses.put(write("a", "1"));
        assert!(timeout(ROUND_TRIP / 2, statuses.outcome()).await.is_err(), "it is under way");
        for message in ["2", "3", "4"] {
            statuses.put(write("a", message));
        }
        assert!(statuses.outcome().await.is_some());
        assert!(statuses.outcome().await.is_some());
        assert!(statuses.outcome().await.is_none());
        assert_eq!(*written.lock().unwrap(), ["1", "4"]);
        assert!(statuses.unsent.is_empty() && statuses.candidates.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_waits_for_a_slot_is_replaced_by_a_newer_one() {
        let (written, mut statuses) = statuses();
        for number in 0..STATUSES_AT_A_TIME {
            statuses.put(write(&format!("c{number}"), "first"));
        }
        assert!(timeout(ROUND_TRIP / 2, statuses.outcome()).await.is_err());
        let last = format!("c{}", STATUSES_AT_A_TIME - 1);
        statuses.put(write(&last, "second"));
        while statuses.outcome().await.is_some() {}
        let written = written.lock().unwrap();
        assert_eq!(written.len(), STATUSES_AT_A_TIME);
        assert_eq!(written.iter().filter(|message| *message == "second").count(), 1);
    }
}
