//! Writes the statuses of candidates. No election waits for them.
//!
//! - Each candidate has at most one status in flight and one waiting, the newest. So the newest is written last.
//! - Statuses have their own slots, so that they do not delay other requests.

use std::collections::HashMap;
use std::sync::Arc;

use hustings_core::election::Observation;
use tokio::task::JoinError;
use tokio_util::task::JoinMap;

use super::execute::Executor;
use super::key::{LeaseKey, ObjectKey};
use super::slots::{Slot, Slots};
use super::status::StatusWrite;

/// The most statuses in flight. A thousand candidates that change state together must not load the API server while
/// others wait for a grant.
const CONCURRENT_STATUSES: usize = 32;

/// The statuses in flight and those that wait.
pub(super) struct Statuses {
    executor: Executor,
    slots: Slots,
    /// The newest status of each candidate that was not sent yet. A task of the candidate runs meanwhile.
    unsent: HashMap<ObjectKey, StatusWrite>,
    tasks: JoinMap<ObjectKey, TaskResult>,
}

/// The result of a candidate's task.
enum TaskResult {
    /// The task got a slot.
    Admitted(Slot),
    /// The task wrote a status, with this outcome.
    Written(LeaseKey, Box<Observation>),
}

impl Statuses {
    pub(super) fn new(executor: Executor) -> Self {
        Self { executor, slots: Slots::new(CONCURRENT_STATUSES), unsent: HashMap::new(), tasks: JoinMap::new() }
    }

    /// Writes a status once there is a slot. It replaces a status of the same candidate that was not sent yet.
    pub(super) fn submit(&mut self, write: StatusWrite) {
        let candidate =
            ObjectKey { namespace: Arc::clone(write.key.namespace()), name: Arc::clone(&write.candidate.name) };
        self.unsent.insert(candidate.clone(), write);
        if !self.tasks.contains_key(&candidate) {
            self.wait_for_slot(candidate);
        }
    }

    /// Waits for the next outcome. Returns `None` if no status is in flight or waits. This function is cancel safe.
    pub(super) async fn outcome(&mut self) -> Option<(LeaseKey, Observation)> {
        loop {
            let (candidate, result) = self.tasks.join_next().await?;
            if let Some(outcome) = self.advance(candidate, result) {
                return Some(outcome);
            }
        }
    }

    fn advance(
        &mut self,
        candidate: ObjectKey,
        result: Result<TaskResult, JoinError>,
    ) -> Option<(LeaseKey, Observation)> {
        match result {
            Ok(TaskResult::Admitted(slot)) => {
                let write = self.unsent.remove(&candidate)?;
                let executor = self.executor.clone();
                self.tasks.spawn(candidate, async move {
                    let key = write.key.clone();
                    let outcome = executor.write_status(write).await;
                    drop(slot);
                    TaskResult::Written(key, Box::new(outcome))
                });
                None
            }
            Ok(TaskResult::Written(key, outcome)) => {
                self.start_next(candidate);
                Some((key, *outcome))
            }
            Err(error) => {
                tracing::error!(%error, "a status could not be written");
                self.start_next(candidate);
                None
            }
        }
    }

    /// Writes the newest status that was submitted in the meantime, if any.
    fn start_next(&mut self, candidate: ObjectKey) {
        if self.unsent.contains_key(&candidate) {
            self.wait_for_slot(candidate);
        }
    }

    fn wait_for_slot(&mut self, candidate: ObjectKey) {
        let (slots, namespace) = (self.slots.clone(), Arc::clone(&candidate.namespace));
        self.tasks.spawn(candidate, async move { TaskResult::Admitted(slots.take(&namespace).await) });
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use http::{Request, Response};
    use hustings_client::clock::SystemClock;
    use hustings_client::store::Kubernetes;
    use hustings_core::model::{CandidateKey, RecordedStatus};
    use kube::Client;
    use kube::client::Body;
    use serde_json::Value;
    use tokio::time::timeout;

    use super::*;
    use crate::controller::events::EventPublisher;
    use crate::controller::status::Transitions;
    use crate::serve::metrics::ControllerMetrics;

    /// How long each request takes.
    const ROUND_TRIP: Duration = Duration::from_secs(1);

    /// A writer of statuses over a slow server, and the messages that the server has received.
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
        let (client, clock, metrics) = (Client::new(service, "n"), SystemClock::shared(), ControllerMetrics::new().0);
        let (publisher, _) = EventPublisher::new(client.clone(), "test", metrics.clone());
        let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_mins(1));
        (written, Statuses::new(Executor::new(store, clock, publisher, metrics)))
    }

    fn write(candidate: &str, message: &str) -> StatusWrite {
        let status = RecordedStatus { message: message.to_owned(), ..RecordedStatus::default() };
        let candidate = CandidateKey::hustings(candidate);
        let (uid, transitions) = (Arc::clone(&candidate.name), Transitions::default());
        StatusWrite { key: LeaseKey::new("n", "l"), candidate, uid, status, transitions }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_newest_status_is_written_after_the_one_in_flight() {
        let (written, mut statuses) = statuses();
        statuses.submit(write("a", "1"));
        assert!(timeout(ROUND_TRIP / 2, statuses.outcome()).await.is_err(), "it is in flight");
        for message in ["2", "3", "4"] {
            statuses.submit(write("a", message));
        }
        assert!(statuses.outcome().await.is_some());
        assert!(statuses.outcome().await.is_some());
        assert!(statuses.outcome().await.is_none());
        assert_eq!(*written.lock().unwrap(), ["1", "4"]);
        assert!(statuses.unsent.is_empty() && statuses.tasks.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_panics_does_not_hold_up_the_next_status() {
        let (written, mut statuses) = statuses();
        let candidate = ObjectKey { namespace: "n".into(), name: "a".into() };
        statuses.tasks.spawn(candidate, async { panic!("planned") });
        statuses.submit(write("a", "next"));
        assert!(statuses.outcome().await.is_some());
        assert_eq!(*written.lock().unwrap(), ["next"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_waits_for_a_slot_is_replaced_by_a_newer_one() {
        let (written, mut statuses) = statuses();
        for number in 0..CONCURRENT_STATUSES {
            statuses.submit(write(&format!("c{number}"), "first"));
        }
        assert!(timeout(ROUND_TRIP / 2, statuses.outcome()).await.is_err());
        let last = format!("c{}", CONCURRENT_STATUSES - 1);
        statuses.submit(write(&last, "second"));
        while statuses.outcome().await.is_some() {}
        let written = written.lock().unwrap();
        assert_eq!(written.len(), CONCURRENT_STATUSES);
        assert_eq!(written.iter().filter(|message| *message == "second").count(), 1);
    }
}
