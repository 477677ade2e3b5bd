//! What a command shows of an assisted Lease: whether a controller would know when its holder is dead.

use std::fmt;

use futures::{StreamExt as _, stream};
use hustings_client::api::{ReadCandidate, names};
use hustings_core::assist::{AssistOptions, Identification};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::{Annotation, CandidateKind, LeaseRecord, PodRecord};
use serde::{Serialize, Serializer};

use super::pods;
use crate::base::cluster::{Cluster, api_error, limited};
use crate::base::pages::TIMEOUT;
use crate::base::words::words;
use crate::controller::OWN_LEASE;

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
        /// The caller could not read its Pod, or only a controller without `--native` assists it.
        Unknown = "unknown",
        /// The Lease has no holder.
        NoHolder = "no-holder",
        /// The annotation has no effect.
        NoEffect = "no-effect",
    }
}

/// Why controllers leave the holder of a Lease alone, whatever the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unassisted<'a> {
    /// The Lease is in `kube-node-lease`.
    OfNode,
    /// The controllers elect their leader with it.
    OwnLease,
    /// A controller elects its holder. This is one of its candidates.
    Elected(&'a str),
    /// It has native candidates alone, such as this one. Only a controller that does not elect these assists its holder.
    ElectedNatively(&'a str),
}

impl<'a> Unassisted<'a> {
    /// What the Lease, its candidates and the installations of the controller show. `own_leases` are the namespaces and
    /// the names of the controllers' own Leases, as far as the caller knows them.
    pub(super) fn of(
        key: (&str, &str),
        record: &LeaseRecord,
        candidates: &'a [ReadCandidate],
        own_leases: &[(String, String)],
    ) -> Option<Self> {
        let is_native = |candidate: &&ReadCandidate| candidate.record.kind == CandidateKind::Native;
        if key.0 == NODE_LEASES {
            Some(Self::OfNode)
        } else if let Some(candidate) = candidates.iter().find(|candidate| !is_native(candidate)) {
            Some(Self::Elected(&candidate.record.name))
        } else if let [candidate, ..] = candidates {
            Some(Self::ElectedNatively(&candidate.record.name))
        } else {
            is_own_lease(key, record.token, own_leases).then_some(Self::OwnLease)
        }
    }

    /// What to do instead.
    pub(super) const fn hint(self) -> &'static str {
        match self {
            Self::OfNode | Self::OwnLease => "`hustings survey` lists the locks of the cluster",
            Self::Elected(_) => {
                "with the chart's value evidence.pods, the death of a holder with a candidate is proven, too"
            }
            Self::ElectedNatively(_) => {
                "neither uses evidence for a native holder: after a crash, its Lease has to expire"
            }
        }
    }
}

impl fmt::Display for Unassisted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfNode => write!(f, "the Leases in {NODE_LEASES} are heartbeats of nodes, not locks"),
            Self::OwnLease => f.write_str("this is the Lease of the controllers themselves"),
            Self::Elected(candidate) => {
                write!(f, "the Lease has candidates, such as {candidate}, so a controller elects its holder")
            }
            Self::ElectedNatively(candidate) => write!(
                f,
                "the Lease has native candidates, such as {candidate}, so Kubernetes' controller or one with --native \
                 elects its holder"
            ),
        }
    }
}

/// Whether controllers elect their leader with this Lease. They hold it in direct mode. One that runs by other means than
/// a Deployment usually has the usual name.
pub(super) fn is_own_lease((namespace, name): (&str, &str), token: Option<u64>, known: &[(String, String)]) -> bool {
    let is_named = name == OWN_LEASE || known.iter().any(|own| (&*own.0, &*own.1) == (namespace, name));
    is_named && token.is_some()
}

impl Assistance {
    /// What the Lease, its candidates and the controllers' own Leases show; `None` if it is not assisted.
    pub(crate) fn of(
        key: (&str, &str),
        record: &LeaseRecord,
        candidates: &[ReadCandidate],
        own_leases: &[(String, String)],
    ) -> Option<Self> {
        let annotation = record.acts.assist.as_ref()?;
        let options = annotation.valid().cloned().unwrap_or_default();
        let unassisted = Unassisted::of(key, record, candidates, own_leases);
        let no_effect = |reason: String| (AssistanceState::NoEffect, reason);
        let (state, reason) = match annotation {
            Annotation::Malformed(malformed) => {
                no_effect(format!("its text {:?} does not parse: {}", malformed.text, malformed.why))
            }
            Annotation::Valid(_)
                if let Some(why @ Unassisted::ElectedNatively(_)) = unassisted
                    && record.enrolled =>
            {
                (AssistanceState::Unknown, format!("{why}; only a controller without --native assists it"))
            }
            Annotation::Valid(_) if let Some(why) = unassisted => no_effect(why.to_string()),
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
        let holder = record.holder.clone().filter(|_| state == AssistanceState::Unknown && unassisted.is_none());
        let pod = holder
            .as_deref()
            .map(|holder| format!("{}/{}", options.namespace_of_pods(key.0), options.pod_name(holder)));
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
