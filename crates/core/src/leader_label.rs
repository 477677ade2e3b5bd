//! On which Pod to keep the label that leads to the leader.
//!
//! These rules must hold:
//!
//! - The controller never adds the label while another Pod has it. It removes the label first, and waits for the answer.
//! - It takes a label from no Pod that was created with it, because the owner of that Pod may select its Pods by it: it
//!   would create another one, without end.

use std::fmt;

use crate::model::{Pod, PodLabel};

/// The domains of labels that belong to Kubernetes.
const DOMAINS_OF_KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The labels without a domain by which controllers of Kubernetes find their Pods.
const KEYS_OF_KUBERNETES: [&str; 5] =
    ["pod-template-hash", "controller-revision-hash", "pod-template-generation", "controller-uid", "job-name"];

/// The domain of Hustings' own labels, and the only one of them that leads to a leader.
const OWN_DOMAIN: &str = "hustings.io/";
const OWN_KEY: &str = "hustings.io/leader";

/// One version of a Pod, as far as the label matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPod {
    /// The Pod.
    pub pod: Pod,
    /// The value of the label's key; `None` if the Pod lacks the key.
    pub value: Option<String>,
    /// Whether the Pod has had this key and value since it was created.
    pub is_original: bool,
}

/// What to do next about a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelStep {
    /// Remove the label from these Pods, then decide again.
    Remove(Vec<Pod>),
    /// Add the label to the Pod of the holder.
    Add(Pod),
    /// Nothing: the label is where it belongs, or the holder's Pod no longer exists.
    Done,
    /// Nothing, because the label must not be touched.
    Refuse(LabelRefusal),
}

/// Why a label is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelRefusal {
    /// This Pod was created with it.
    Original(String),
    /// The Pod of the holder has another value under its key.
    OtherValue {
        /// The name of the Pod.
        pod: String,
        /// That value.
        value: String,
    },
}

impl PodLabel {
    /// Checks that the label may lead to a leader: its key belongs neither to Kubernetes nor to Hustings.
    ///
    /// # Errors
    /// Fails with the key and the remedy.
    pub fn check_leads(&self) -> Result<(), String> {
        let key = &self.key;
        let domain = key.split_once('/').map(|(domain, _)| domain);
        let is_of = |parent: &&str| {
            let prefix = domain.and_then(|domain| domain.strip_suffix(*parent));
            prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        };
        let is_reserved = DOMAINS_OF_KUBERNETES.iter().any(is_of)
            || KEYS_OF_KUBERNETES.contains(&&**key)
            || (key.starts_with(OWN_DOMAIN) && key != OWN_KEY);
        if is_reserved {
            return Err(format!("{key:?} belongs to Kubernetes or to Hustings: use another key, such as {OWN_KEY:?}"));
        }
        Ok(())
    }
}

/// Decides what to do next. `holder` is the Pod of the Lease's holder, if it has one. `seen` are the Pods of its namespace
/// that have the label, and the Pod of the holder if it exists, after the answers to all earlier writes.
pub fn next_step(label: &PodLabel, holder: Option<&Pod>, seen: &[LabelledPod]) -> LabelStep {
    let is_labelled = |pod: &&LabelledPod| pod.value.as_ref() == Some(&label.value);
    if let Some(original) = seen.iter().filter(is_labelled).find(|pod| pod.is_original) {
        return LabelStep::Refuse(LabelRefusal::Original(original.pod.name.clone()));
    }
    let is_holder = |pod: &LabelledPod| holder.is_some_and(|holder| holder.uid == pod.pod.uid);
    let strays: Vec<_> =
        seen.iter().filter(is_labelled).filter(|pod| !is_holder(pod)).map(|pod| pod.pod.clone()).collect();
    if !strays.is_empty() {
        return LabelStep::Remove(strays);
    }
    match seen.iter().find(|pod| is_holder(pod)) {
        Some(LabelledPod { pod, value: None, .. }) => LabelStep::Add(pod.clone()),
        Some(LabelledPod { pod, value: Some(value), .. }) if *value != label.value => {
            LabelStep::Refuse(LabelRefusal::OtherValue { pod: pod.name.clone(), value: value.clone() })
        }
        _ => LabelStep::Done,
    }
}

impl fmt::Display for LabelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original(pod) => {
                write!(f, "Pod {pod} was created with it: use a label that no template of a Pod has")
            }
            Self::OtherValue { pod, value } => {
                write!(f, "Pod {pod} of the holder has the value {value:?} under this key: use another key")
            }
        }
    }
}

#[cfg(test)]
mod tests;
