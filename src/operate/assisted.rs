//! What a command shows of an assisted Lease: whether a controller would know when its holder is dead.

use futures::{StreamExt as _, stream};
use hustings_client::api::names;
use hustings_core::assist::{AssistOptions, Identification};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::{Annotation, LeaseRecord, PodRecord};
use serde::{Serialize, Serializer};

use super::pods;
use crate::base::cluster::{Cluster, api_error, limited};
use crate::base::pages::TIMEOUT;
use crate::base::words::words;

/// How many Pods to read at once.
const PODS_AT_ONCE: usize = 16;

/// How an assisted Lease stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistance {
    /// What is known of its holder.
    pub state: AssistanceState,
    /// Why, as a sentence without its end.
    pub reason: String,
    /// The options of `hustings.io/assist`.
    #[serde(skip_serializing_if = "is_default", serialize_with = "as_text")]
    pub options: AssistOptions,
    /// The namespace and the name of the holder's Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The container that holds the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The holder, if its Pod says more.
    #[serde(skip)]
    holder: Option<String>,
    /// The Pod, if it was read and exists.
    #[serde(skip)]
    pod_record: Option<PodRecord>,
}

words! {
    /// What is known of the holder of an assisted Lease.
    pub enum AssistanceState {
        /// The end of one container proves it dead.
        Identified = "identified",
        /// Several containers could be its own.
        Ambiguous = "ambiguous",
        /// No container is known to be its own.
        Unidentified = "unidentified",
        /// The caller could not read its Pod.
        Unknown = "unknown",
        /// The Lease has no holder.
        NoHolder = "no-holder",
        /// The annotation has no effect.
        NoEffect = "no-effect",
    }
}

impl Assistance {
    /// What the Lease alone shows; `None` if it is not assisted.
    pub(crate) fn of(namespace: &str, record: &LeaseRecord, has_candidates: bool) -> Option<Self> {
        let annotation = record.acts.assist.as_ref()?;
        let options = annotation.valid().cloned().unwrap_or_default();
        let no_effect = |reason: String| (AssistanceState::NoEffect, reason);
        let (state, reason) = match annotation {
            Annotation::Malformed(malformed) => {
                no_effect(format!("its text {:?} does not parse: {}", malformed.text, malformed.why))
            }
            Annotation::Valid(_) if namespace == NODE_LEASES => {
                no_effect(format!("no controller acts in {NODE_LEASES}"))
            }
            Annotation::Valid(_) if has_candidates => {
                no_effect("the Lease has candidates, so a controller elects its holder".to_owned())
            }
            Annotation::Valid(_) if !record.enrolled => no_effect(format!(
                "the Lease lacks the label {}: {:?}; `hustings assist LEASE` adds it",
                names::ENROLLED_LABEL,
                names::ENROLLED
            )),
            Annotation::Valid(_) if record.holder.is_none() => {
                (AssistanceState::NoHolder, "the Lease has no holder".to_owned())
            }
            Annotation::Valid(_) => (AssistanceState::Unknown, "its Pod was not read".to_owned()),
        };
        let holder = record.holder.clone().filter(|_| state == AssistanceState::Unknown);
        let pod = holder
            .as_deref()
            .map(|holder| format!("{}/{}", options.namespace_of_pods(namespace), options.pod_name(holder)));
        Some(Self { state, reason, options, pod, container: None, holder, pod_record: None })
    }

    /// Whether the other one is about the same Pod with the same options, so that it need not be read again.
    pub(crate) fn is_about_the_same_pod(&self, other: &Self) -> bool {
        self.pod.is_some() && (&self.pod, &self.options) == (&other.pod, &other.options)
    }

    /// The Pod of the holder, if it was read and exists.
    pub(crate) const fn pod_record(&self) -> Option<&PodRecord> {
        self.pod_record.as_ref()
    }

    /// Reads the Pod of the holder with the caller's rights.
    pub(crate) async fn complete(&mut self, cluster: &Cluster) {
        let Some((namespace, name)) = self.pod.as_deref().and_then(|pod| pod.split_once('/')) else { return };
        // No Pod has a name that is not valid, and such a name could lead to another path.
        let read = if names::is_dns_subdomain(name) {
            let read = limited(TIMEOUT, pods::api(cluster, namespace).get_opt(name)).await;
            read.map(|pod| pod.map(pods::record))
        } else {
            Ok(None)
        };
        match read {
            Ok(pod) => self.identify(pod.as_ref()),
            Err(error) => self.reason = format!("its Pod cannot be read: {:#}", api_error(error)),
        }
    }

    /// Takes what the Pod shows.
    pub(crate) fn identify(&mut self, pod: Option<&PodRecord>) {
        let Some(holder) = &self.holder else { return };
        let found = self.options.identify(holder, pod);
        self.pod_record = pod.cloned();
        self.reason = found.to_string();
        self.state = match found {
            Identification::Identified { container, .. } => {
                self.container = Some(container);
                AssistanceState::Identified
            }
            Identification::Unidentified(_) => AssistanceState::Unidentified,
            Identification::Ambiguous(_) => {
                self.reason.push_str("; `hustings assist LEASE --container NAME` names the one that holds the Lease");
                AssistanceState::Ambiguous
            }
        };
    }
}

/// Reads the Pods of these holders.
pub(crate) async fn complete_all<'a>(cluster: &Cluster, holders: impl IntoIterator<Item = &'a mut Assistance>) {
    let reads = holders.into_iter().map(|assistance| assistance.complete(cluster));
    let mut reads = stream::iter(reads).buffer_unordered(PODS_AT_ONCE);
    while reads.next().await.is_some() {}
}

/// Whether no option is set, so that they need not be shown.
pub(super) fn is_default(options: &AssistOptions) -> bool {
    *options == AssistOptions::default()
}

/// Serializes the options as the text of the annotation.
pub(super) fn as_text<S: Serializer>(options: &AssistOptions, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(options)
}
