//! The requests for one label: which Pods have it, and who gets or loses it.
//!
//! Each write is conditional on the uid of its Pod, so that a new Pod of the same name is not mistaken. Only an answer
//! that shows the new state of the Pod counts as its acknowledgement.

use std::fmt;
use std::time::Duration;

use hustings_client::store::{Failure, failure_of};
use hustings_core::leader_label::{LabelRefusal, LabelStep, LabelledPod, next_step};
use hustings_core::model::{Pod, PodLabel};
use k8s_openapi::api::core::v1::Pod as PodObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::LabelKey;
use crate::controller::execute::Executor;
use crate::controller::key::LeaseKey;
use crate::serve::metrics::RequestKind;

/// The most Pods in one list. Usually one Pod has the label.
const MOST_LISTED: u32 = 100;

/// The most lists of a job. Each one follows writes that found their Pods changed, or that had no effect.
const MOST_LISTS: usize = 4;

/// Sends the requests. Clones share everything.
#[derive(Clone)]
pub(in crate::controller) struct LabelRequests {
    /// For reads.
    pub(in crate::controller) reads: Client,
    /// For writes, behind the write gate.
    pub(in crate::controller) writes: Client,
    /// How long each request may take.
    pub(in crate::controller) timeout: Duration,
    /// Counts and logs the requests.
    pub(in crate::controller) executor: Executor,
}

/// Whether a job has written anything.
pub(super) struct HasWritten(pub(super) bool);

/// Why a label is not where it belongs.
#[derive(Debug)]
pub(super) enum JobFailure {
    /// It must not be touched.
    Refused(LabelRefusal),
    /// Requests failed, or had no effect.
    Failed(String),
}

/// The Pods of a namespace, for the requests of one job.
struct LabelJob<'a> {
    requests: &'a LabelRequests,
    lease: &'a LeaseKey,
    key: &'a LabelKey,
}

impl LabelRequests {
    /// Takes the label of this Lease from all Pods but the holder's, and adds it there.
    pub(super) async fn keep(
        &self,
        lease: &LeaseKey,
        key: &LabelKey,
        holder: Option<&Pod>,
    ) -> Result<HasWritten, JobFailure> {
        LabelJob { requests: self, lease, key }.run(holder).await
    }
}

impl LabelJob<'_> {
    async fn run(&self, holder: Option<&Pod>) -> Result<HasWritten, JobFailure> {
        let mut has_written = false;
        for _ in 0..MOST_LISTS {
            let (mut seen, is_complete) = self.seen(holder).await?;
            let has_changed = loop {
                match next_step(&self.key.label, holder, &seen) {
                    LabelStep::Remove(pods) => {
                        has_written = true;
                        if !self.write_all(&pods, false, &mut seen).await? {
                            break true;
                        }
                    }
                    LabelStep::Add(pod) if is_complete => {
                        has_written = true;
                        if !self.write_all(&[pod], true, &mut seen).await? {
                            break true;
                        }
                    }
                    LabelStep::Add(_) => break true,
                    LabelStep::Done => break !is_complete,
                    LabelStep::Refuse(why) => return Err(JobFailure::Refused(why)),
                }
            };
            if !has_changed {
                return Ok(HasWritten(has_written));
            }
        }
        Err(JobFailure::Failed("the Pods change all the time, or undo the writes of the controller".to_owned()))
    }

    /// The Pods that have the label, and the Pod of the holder, and whether these are all.
    async fn seen(&self, holder: Option<&Pod>) -> Result<(Vec<LabelledPod>, bool), JobFailure> {
        let LabelKey { label, .. } = self.key;
        let pods = self.api(&self.requests.reads);
        let labelled = ListParams::default().labels(&label.to_string()).limit(MOST_LISTED);
        let list = self.send(pods.list_metadata(&labelled), "").await.map_err(|failure| failed(&failure))?;
        let is_complete = list.metadata.continue_.as_deref().unwrap_or_default().is_empty();
        let mut seen: Vec<_> = list.items.iter().map(|pod| of_metadata(&pod.metadata, label)).collect();
        if let Some(holder) = holder.filter(|holder| seen.iter().all(|pod| pod.pod.uid != holder.uid)) {
            match self.send(pods.get_metadata(&holder.name), &holder.name).await {
                Ok(pod) => seen.push(of_metadata(&pod.metadata, label)),
                Err(Failure::Missing) => {}
                Err(failure) => return Err(failed(&failure)),
            }
        }
        Ok((seen, is_complete))
    }

    /// Writes each of these Pods, and what the answers show into `seen`. Returns whether all writes were acknowledged.
    async fn write_all(&self, pods: &[Pod], on: bool, seen: &mut [LabelledPod]) -> Result<bool, JobFailure> {
        let PodLabel { key, value } = &self.key.label;
        let value = if on { json!(value) } else { Value::Null };
        let api = self.api(&self.requests.writes);
        let parameters = PatchParams { field_manager: Some("hustings".to_owned()), ..PatchParams::default() };
        let mut all_done = true;
        for pod in pods {
            let patch = Patch::Merge(json!({ "metadata": { "uid": pod.uid, "labels": { key: value } } }));
            match self.send(api.patch_metadata(&pod.name, &parameters, &patch), &pod.name).await {
                Ok(written) => {
                    let shown = of_metadata(&written.metadata, &self.key.label);
                    all_done &= shown.value.is_some() == on;
                    tracing::info!(lease = %self.lease, pod = pod.name, label = %self.key.label, on, "wrote the label of a Pod");
                    seen.iter_mut().filter(|known| known.pod.uid == pod.uid).for_each(|known| *known = shown.clone());
                }
                // It is gone, or another one of its name has replaced it.
                Err(Failure::Missing | Failure::Conflict) => all_done = false,
                Err(failure) => return Err(failed(&failure)),
            }
        }
        Ok(all_done)
    }

    /// Sends a request about this Pod.
    async fn send<T>(&self, request: impl Future<Output = kube::Result<T>>, pod: &str) -> Result<T, Failure> {
        let timeout = self.requests.timeout;
        let answer = match tokio::time::timeout(timeout, request).await {
            Ok(answer) => answer.map_err(failure_of),
            Err(_) => Err(Failure::TimedOut(timeout)),
        };
        self.requests.executor.record(self.lease, RequestKind::Label, pod, answer.as_ref().err());
        answer
    }

    fn api(&self, client: &Client) -> Api<PodObject> {
        Api::namespaced(client.clone(), &self.key.namespace)
    }
}

/// What the metadata of a Pod show of this label.
fn of_metadata(metadata: &ObjectMeta, label: &PodLabel) -> LabelledPod {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let value = metadata.labels.as_ref().and_then(|labels| labels.get(&label.key)).cloned();
    // The manager that owns fields of the spec has created the Pod. The server gives a label to the manager that last
    // changed its value.
    let owns = |fields: &Value| {
        let labels = fields.get("f:metadata").and_then(|metadata| metadata.get("f:labels"));
        fields.get("f:spec").is_some() && labels.and_then(|labels| labels.get(format!("f:{}", label.key))).is_some()
    };
    let mut fields = metadata.managed_fields.iter().flatten().filter_map(|entry| entry.fields_v1.as_ref());
    let is_original = value.is_some() && fields.any(|fields| owns(&fields.0));
    LabelledPod { pod: Pod { name: text(&metadata.name), uid: text(&metadata.uid) }, value, is_original }
}

fn failed(failure: &Failure) -> JobFailure {
    JobFailure::Failed(failure.to_string())
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => why.fmt(f),
            Self::Failed(why) => f.write_str(why),
        }
    }
}
