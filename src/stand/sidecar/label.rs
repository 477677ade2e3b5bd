//! Keeps a label on this pod while this replica leads, so that a Service can select the leader.
//!
//! This rule must hold: the sidecar does not give up the Lease before it has removed the label, or has failed to remove
//! it in time. Therefore:
//!
//! - The writer sends one request at a time, so that none overtakes another.
//! - It repeats the write every minute, since a write without an answer may take effect late.

use std::time::Duration;

use hustings_client::store::is_missing;
use hustings_core::model::PodLabel;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::base::cluster::api_error;
use crate::base::hint::Hinted;

/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// The pause after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// How often to repeat the write although nothing has changed.
const REPEAT: Duration = Duration::from_mins(1);

/// How long the end of a term waits for the removal of the label. This is shorter than the stop grace.
const OFF_LIMIT: Duration = Duration::from_secs(10);

/// The pod of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID, so that the sidecar never labels a later pod of the same name. `None` if the UID is unknown, as for a
    /// static pod, to which the API server gives another UID.
    pub uid: Option<String>,
}

/// Keeps the label in the wanted state.
pub(super) struct Keeper {
    wanted: watch::Sender<bool>,
    /// The state last written, or `None` while a write is in flight.
    written: watch::Receiver<Option<bool>>,
}

struct LabelWriter {
    pods: Api<PodObject>,
    label: PodLabel,
    pod: OwnPod,
}

impl Keeper {
    /// Removes the label that an earlier process of this pod may have left. Keeps it in the wanted state from then on.
    ///
    /// # Errors
    /// Fails if the server rejects the write permanently, or if the pod does not exist.
    pub(super) async fn start(client: Client, label: PodLabel, pod: OwnPod) -> anyhow::Result<Self> {
        let writer = LabelWriter { pods: Api::namespaced(client, &pod.namespace), label, pod };
        if let Err(LabelFailure::Refused(error) | LabelFailure::Gone(error)) = writer.write(false).await {
            let OwnPod { name, namespace, .. } = &writer.pod;
            return Err(api_error(error).context(Hinted::new(
                format!("cannot label pod {namespace}/{name}"),
                "--pod-label needs POD_NAME and POD_NAMESPACE of this pod, and a Role that lets its ServiceAccount \
                 patch pods",
            )));
        }
        let (wanted, wanted_here) = watch::channel(false);
        let (written_here, written) = watch::channel(None);
        tokio::spawn(writer.keep(wanted_here, written_here));
        Ok(Self { wanted, written })
    }

    pub(super) fn put_on(&self) {
        self.wanted.send_replace(true);
    }

    /// Returns once the label is removed, or after [`OFF_LIMIT`].
    pub(super) async fn take_off(&self) {
        self.wanted.send_replace(false);
        let mut written = self.written.clone();
        let off = written.wait_for(|written| *written == Some(false));
        if !matches!(tokio::time::timeout(OFF_LIMIT, off).await, Ok(Ok(_))) {
            tracing::error!(
                "the label was not removed within {} s: it marks this pod as the leader, which it no longer is",
                OFF_LIMIT.as_secs()
            );
        }
    }
}

enum LabelFailure {
    /// The pod does not exist, or it is another pod of the same name.
    Gone(kube::Error),
    /// The server rejected the write, and would reject it again.
    Refused(kube::Error),
    /// The next attempt may succeed.
    Passing(String),
}

impl LabelWriter {
    async fn keep(self, mut wanted: watch::Receiver<bool>, written: watch::Sender<Option<bool>>) {
        loop {
            // Do this before reading `wanted`. Otherwise, `take_off` could mistake an earlier write for its own.
            written.send_replace(None);
            let on = *wanted.borrow_and_update();
            let pause = match self.write(on).await {
                Ok(()) => {
                    written.send_replace(Some(on));
                    REPEAT
                }
                // The label is gone with the pod.
                Err(LabelFailure::Gone(_)) if !on => {
                    written.send_replace(Some(on));
                    REPEAT
                }
                Err(failure) => {
                    let error = match failure {
                        LabelFailure::Refused(error) | LabelFailure::Gone(error) => api_error(error).to_string(),
                        LabelFailure::Passing(error) => error,
                    };
                    tracing::warn!(pod = self.pod.name, on, error, "cannot write the pod's label; retrying");
                    RETRY
                }
            };
            match tokio::time::timeout(pause, wanted.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                // The keeper was dropped.
                Ok(Err(_)) => return,
            }
        }
    }

    async fn write(&self, on: bool) -> Result<(), LabelFailure> {
        let PodLabel { key, value } = &self.label;
        let value = if on { json!(value) } else { Value::Null };
        let mut metadata = json!({ "labels": { key: value } });
        if let Some(uid) = &self.pod.uid {
            metadata["uid"] = json!(uid);
        }
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let parameters = PatchParams::default();
        let request = self.pods.patch_metadata(&self.pod.name, &parameters, &patch);
        match tokio::time::timeout(REQUEST_LIMIT, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if is_of_no_such_pod(&status, &self.pod.name) => {
                Err(LabelFailure::Gone(kube::Error::Api(status)))
            }
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 400..=428 | 430..=499) => {
                Err(LabelFailure::Refused(kube::Error::Api(status)))
            }
            Ok(Err(error)) => Err(LabelFailure::Passing(api_error(error).to_string())),
            Err(_) => Err(LabelFailure::Passing(format!("no answer within {} s", REQUEST_LIMIT.as_secs()))),
        }
    }
}

fn is_of_no_such_pod(status: &Status, name: &str) -> bool {
    let is_another = |details: &StatusDetails| details.causes.iter().any(|cause| cause.field == "metadata.uid");
    is_missing::<PodObject>(status, name) || (status.code == 422 && status.details.as_ref().is_some_and(is_another))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hustings_client::api::read_pod_label;

    use super::*;
    use crate::base::cluster::testing::{cluster, failure, silent_cluster};

    #[tokio::test]
    async fn only_an_answer_that_this_pod_is_gone_counts_as_such() {
        let causes = |field: &str| json!({ "causes": [{ "field": field, "message": "", "reason": "" }] });
        let gone = json!({ "name": "p", "kind": "pods", "group": "" });
        for (code, reason, details, expected) in [
            (200, "", json!({}), "written"),
            (404, "NotFound", gone, "gone"),
            (404, "NotFound", json!({ "name": "n", "kind": "namespaces" }), "refused"),
            (422, "Invalid", causes("metadata.uid"), "gone"),
            (422, "Invalid", causes("metadata.labels"), "refused"),
            (409, "Conflict", causes("metadata.uid"), "refused"),
            (403, "Forbidden", json!({}), "refused"),
            (429, "TooManyRequests", json!({}), "passing"),
            (500, "InternalError", json!({}), "passing"),
        ] {
            let object = json!({ "metadata": { "name": "p" } });
            let status = json!({ "kind": "Status", "status": "Failure", "message": "", "reason": reason,
                "details": details, "code": code });
            let answer = if code == 200 { object } else { status };
            let (cluster, requests) = cluster(move |_| Some((code, answer.clone())));
            let label = read_pod_label("hustings.io/leader=true").unwrap();
            let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: Some("u".to_owned()) };
            let writer = LabelWriter { pods: Api::namespaced(cluster.leases, "n"), label, pod };
            for (on, value) in [(true, json!("true")), (false, Value::Null)] {
                let written = match writer.write(on).await {
                    Ok(()) => "written",
                    Err(LabelFailure::Gone(_)) => "gone",
                    Err(LabelFailure::Refused(_)) => "refused",
                    Err(LabelFailure::Passing(_)) => "passing",
                };
                assert_eq!(written, expected, "{code} {reason}");
                let sent = requests.lock().unwrap().pop().unwrap();
                let metadata = json!({ "labels": { "hustings.io/leader": value }, "uid": "u" });
                assert_eq!(sent.body, json!({ "metadata": metadata }));
                assert!(sent.path.starts_with("/api/v1/namespaces/n/pods/p?"), "{}", sent.path);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_term_waits_for_the_removal_of_the_label_but_not_if_its_pod_is_gone() {
        let gone = json!({ "kind": "Status", "status": "Failure", "message": "", "reason": "NotFound", "code": 404,
            "details": { "name": "p", "kind": "pods", "group": "" } });
        for (failures, failure, expected_seconds) in [
            (0, failure(500), 0),
            (3, failure(500), 3),
            (3, failure(403), 3),
            (usize::MAX, failure(500), OFF_LIMIT.as_secs()),
            (usize::MAX, (404, gone), 0),
        ] {
            let left = Arc::new(AtomicUsize::new(0));
            let (counter, code) = (Arc::clone(&left), failure.0);
            let (cluster, requests) = cluster(move |_| {
                let fails =
                    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
                Some(if fails { failure.clone() } else { (200, json!({ "metadata": { "name": "p" } })) })
            });
            let label = read_pod_label("leader=true").unwrap();
            let pod = OwnPod { name: "p".to_owned(), namespace: "shop".to_owned(), uid: None };
            let keeper = Keeper::start(cluster.leases, label, pod).await.unwrap();
            keeper.put_on();
            keeper.written.clone().wait_for(|written| *written == Some(true)).await.unwrap();
            left.store(failures, Ordering::SeqCst);
            let started = tokio::time::Instant::now();
            keeper.take_off().await;
            assert_eq!(started.elapsed().as_secs(), expected_seconds, "{failures} answers with {code}");
            let requests = requests.lock().unwrap();
            assert!(requests.iter().all(|sent| sent.path.starts_with("/api/v1/namespaces/shop/pods/p?")));
            let bodies: Vec<_> = requests.iter().map(|sent| sent.body["metadata"].clone()).collect();
            let [off, on] = [Value::Null, json!("true")].map(|value| json!({ "labels": { "leader": value } }));
            assert_eq!([&bodies[0], &bodies[1], &bodies[2]], [&off, &on, &off]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_later_write_counts_as_the_removal_and_each_is_repeated() {
        // The server answers no write that puts the label on.
        let removals = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&removals);
        let cluster = silent_cluster(move |sent| {
            let is_removal = sent.body["metadata"]["labels"]["leader"].is_null();
            is_removal.then(|| {
                count.fetch_add(1, Ordering::SeqCst);
                (200, json!({ "metadata": { "name": "p" } }))
            })
        });
        let label = read_pod_label("leader=true").unwrap();
        let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
        let keeper = Keeper::start(cluster.leases, label, pod).await.unwrap();
        keeper.written.clone().wait_for(|written| *written == Some(false)).await.unwrap();
        keeper.put_on();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let started = tokio::time::Instant::now();
        keeper.take_off().await;
        assert!(started.elapsed() >= Duration::from_secs(4), "{:?}", started.elapsed());
        let before = removals.load(Ordering::SeqCst);
        tokio::time::sleep(3 * REPEAT + REQUEST_LIMIT).await;
        assert_eq!(removals.load(Ordering::SeqCst) - before, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_gets_no_answer_in_time_may_succeed_later() {
        let label = read_pod_label("leader=true").unwrap();
        let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
        let writer = LabelWriter { pods: Api::namespaced(silent_cluster(|_| None).leases, "n"), label, pod };
        let began = tokio::time::Instant::now();
        let Err(LabelFailure::Passing(reason)) = writer.write(true).await else { panic!("there was no answer") };
        assert_eq!((&*reason, began.elapsed().as_secs()), ("no answer within 5 s", REQUEST_LIMIT.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_label_that_could_not_be_put_on_is_tried_again_after_a_second() {
        let gone = json!({ "kind": "Status", "status": "Failure", "message": "", "reason": "NotFound", "code": 404,
            "details": { "name": "p", "kind": "pods", "group": "" } });
        for failure in [failure(500), failure(403), (404, gone)] {
            let left = AtomicUsize::new(2);
            let code = failure.0;
            let (cluster, _) = cluster(move |sent| {
                let is_on = !sent.body["metadata"]["labels"]["leader"].is_null();
                let count = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                let fails = is_on && count().is_ok();
                Some(if fails { failure.clone() } else { (200, json!({ "metadata": { "name": "p" } })) })
            });
            let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
            let keeper = Keeper::start(cluster.leases, read_pod_label("leader=true").unwrap(), pod).await.unwrap();
            let began = tokio::time::Instant::now();
            keeper.put_on();
            keeper.written.clone().wait_for(|written| *written == Some(true)).await.unwrap();
            assert_eq!(began.elapsed().as_secs(), 2 * RETRY.as_secs(), "{code}");
        }
    }

    #[tokio::test]
    async fn a_pod_that_cannot_be_labelled_is_named_with_the_remedy() {
        let (cluster, _) = cluster(|_| Some(failure(403)));
        let label = read_pod_label("leader=true").unwrap();
        let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
        let error = Keeper::start(cluster.leases, label, pod).await.err().unwrap();
        let hinted = error.downcast_ref::<Hinted>().unwrap();
        assert_eq!(hinted.to_string(), "cannot label pod n/p");
        let hint = "--pod-label needs POD_NAME and POD_NAMESPACE of this pod, and a Role that lets its ServiceAccount patch \
                    pods";
        assert_eq!(hinted.hint(), hint);
    }
}
