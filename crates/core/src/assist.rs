//! Which container a holder runs in that knows nothing of Hustings.
//!
//! client-go and controller-runtime hold a Lease as `HOSTNAME_UUID`, and the host name of a container is the name of its
//! Pod. A Pod in the network of its host has the host name of its node instead. Such a holder is identified only if an
//! option names the Pod.

use std::fmt;

use crate::model::{ContainerKind, PodRecord};
use crate::names::{LONGEST_NAME, is_dns_label, is_dns_subdomain};

/// How much of a text goes into a message, in characters.
const LONGEST_EXCERPT: usize = 64;

/// Annotation `hustings.io/assist` of a Lease: where its holders run. Its text may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssistOptions {
    /// The container that holds the Lease. Without it, the Pod must have exactly one container.
    pub container: Option<String>,
    /// The namespace of the Pods. Without it, they run in the namespace of the Lease.
    pub pod_namespace: Option<String>,
    /// The name of the Pod before `-` and the host name of the holder, as static pods have it. The host name is then
    /// that of a node.
    pub pod_prefix: Option<String>,
}

/// Whether the end of one container proves the holder dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identification {
    /// The end of this container does.
    Identified {
        /// The Pod.
        pod: String,
        /// The container.
        container: String,
    },
    /// No container's end does.
    Unidentified(Unidentified),
    /// The end of one of these containers does. The option `container` must name it.
    Ambiguous(Vec<String>),
}

/// Why no container's end proves the holder dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unidentified {
    /// No Pod has this name.
    NoPod(String),
    /// The Pod of this name uses the network of its host, so its processes take the node's host name.
    HostNetwork(String),
    /// Processes of this Pod may outlive their container.
    SharedProcesses(String),
    /// No container of this Pod is known yet.
    NoContainerYet(String),
    /// The Pod lacks the container that the option names.
    NoContainer {
        /// The Pod.
        pod: String,
        /// The name in the option.
        container: String,
        /// The containers of the Pod.
        existing: Vec<String>,
    },
}

impl AssistOptions {
    /// Parses the annotation: options, separated by commas or spaces.
    ///
    /// # Errors
    /// Fails with the part that is wrong and how to correct it.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for part in text.split(|separator: char| separator == ',' || separator.is_whitespace()) {
            if part.is_empty() {
                continue;
            }
            let (key, name) = part.split_once('=').unwrap_or((part, ""));
            let label = "at most 63 lower-case letters, digits and \"-\"";
            let (option, is_valid, hint): (_, fn(&str) -> bool, _) = match key {
                "container" => (&mut options.container, is_dns_label, label),
                "pod-namespace" => (&mut options.pod_namespace, is_dns_label, label),
                "pod-prefix" => (&mut options.pod_prefix, is_pod_prefix, "lower-case letters, digits, \"-\" and \".\""),
                _ => {
                    let key = excerpt(key);
                    return Err(format!("{key:?} is not an option: use container, pod-namespace or pod-prefix"));
                }
            };
            if !is_valid(name) {
                let part = excerpt(part);
                return Err(format!("{part:?} contains no valid name: use {hint}"));
            }
            if option.replace(name.to_owned()).is_some() {
                return Err(format!("{key:?} occurs twice: keep one"));
            }
        }
        Ok(options)
    }

    /// The name of the Pod of a holder with this identity: its host name, which ends at the first `_`, after the prefix
    /// if there is one.
    pub fn pod_name(&self, identity: &str) -> String {
        let host = host_name(identity);
        match &self.pod_prefix {
            Some(prefix) => format!("{}-{host}", prefix.trim_end_matches('-')),
            None => host.to_owned(),
        }
    }

    /// The namespace of the Pods of this Lease's holders.
    pub fn namespace_of_pods<'a>(&'a self, lease_namespace: &'a str) -> &'a str {
        self.pod_namespace.as_deref().unwrap_or(lease_namespace)
    }

    /// Identifies the container of a holder with this identity. `pod` is the Pod of the name that
    /// [`pod_name`](Self::pod_name) returns, if it exists.
    pub fn identify(&self, identity: &str, pod: Option<&PodRecord>) -> Identification {
        let Some(pod) = pod else {
            return Identification::Unidentified(Unidentified::NoPod(self.pod_name(identity)));
        };
        let name = pod.name.to_string();
        if pod.host_network && self.pod_prefix.is_none() {
            return Identification::Unidentified(Unidentified::HostNetwork(name));
        }
        if pod.shares_processes() {
            return Identification::Unidentified(Unidentified::SharedProcesses(name));
        }
        if pod.containers.is_empty() {
            return Identification::Unidentified(Unidentified::NoContainerYet(name));
        }
        let names = || pod.containers.iter().map(|container| container.name.to_string());
        match (&self.container, &*pod.containers) {
            (Some(container), _) if names().any(|name| name == *container) => {
                Identification::Identified { pod: name, container: container.clone() }
            }
            (Some(container), _) => Identification::Unidentified(Unidentified::NoContainer {
                pod: name,
                container: container.clone(),
                existing: names().collect(),
            }),
            (None, [only]) if only.kind == ContainerKind::Regular => {
                Identification::Identified { pod: name, container: only.name.to_string() }
            }
            (None, _) => Identification::Ambiguous(names().collect()),
        }
    }
}

/// The host name in an identity of client-go: everything before the first `_`.
pub fn host_name(identity: &str) -> &str {
    identity.split_once('_').map_or(identity, |(host, _)| host)
}

/// Whether this identity names one process, and not only its Pod: client-go's usual one has a UUID after the host name. The
/// next process in a Pod has the same identity otherwise, and goes on with the term of the former one.
pub fn names_process(identity: &str) -> bool {
    let is_uuid = |text: &str| {
        text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
    };
    identity.rsplit_once('_').is_some_and(|(_, process)| is_uuid(process))
}

/// Whether the names of Pods can begin with this text before `-`, which it may contain at its end.
pub fn is_pod_prefix(text: &str) -> bool {
    text.len() <= LONGEST_NAME && is_dns_subdomain(text.trim_end_matches('-'))
}

fn excerpt(text: &str) -> String {
    text.chars().take(LONGEST_EXCERPT).collect()
}

/// The text of the annotation.
impl fmt::Display for AssistOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container, pod_namespace, pod_prefix } = self;
        let named = [("container", container), ("pod-namespace", pod_namespace), ("pod-prefix", pod_prefix)];
        let parts: Vec<_> =
            named.iter().filter_map(|(key, name)| name.as_ref().map(|name| format!("{key}={name}"))).collect();
        f.write_str(&parts.join(","))
    }
}

impl fmt::Display for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identified { pod, container } => write!(f, "container {container} of Pod {pod} holds it"),
            Self::Unidentified(why) => why.fmt(f),
            Self::Ambiguous(containers) => write!(f, "its Pod has several containers: {}", containers.join(", ")),
        }
    }
}

impl fmt::Display for Unidentified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPod(pod) => write!(f, "there is no Pod {pod}"),
            Self::HostNetwork(pod) => write!(f, "Pod {pod} uses the network of its host, so no holder has its name"),
            Self::SharedProcesses(pod) => {
                write!(f, "Pod {pod} shares a process namespace, so a process may outlive its container")
            }
            Self::NoContainerYet(pod) => write!(f, "no container of Pod {pod} is known yet"),
            Self::NoContainer { pod, container, existing } => {
                write!(f, "Pod {pod} has no container {container}, only {}", existing.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ContainerRecord;

    fn options(text: &str) -> AssistOptions {
        AssistOptions::read(text).unwrap()
    }

    #[test]
    fn an_annotation_lists_options_in_any_order() {
        for (text, shown) in [
            ("", ""),
            (" , ", ""),
            ("container=app", "container=app"),
            ("pod-prefix=kube.scheduler-, container=a", "container=a,pod-prefix=kube.scheduler-"),
            ("pod-namespace=n\ncontainer=c", "container=c,pod-namespace=n"),
        ] {
            assert_eq!(options(text).to_string(), shown, "{text:?}");
            assert_eq!(options(shown), options(text));
        }
    }

    #[test]
    fn a_wrong_option_is_named_with_the_way_to_correct_it() {
        for (text, expected) in [
            ("on", "\"on\" is not an option: use container, pod-namespace or pod-prefix"),
            ("Container=a", "\"Container\" is not an option: use container, pod-namespace or pod-prefix"),
            ("container", "\"container\" contains no valid name: use at most 63 lower-case letters, digits and \"-\""),
            (
                "pod-prefix=A",
                "\"pod-prefix=A\" contains no valid name: use lower-case letters, digits, \"-\" and \".\"",
            ),
            ("container=a,container=a", "\"container\" occurs twice: keep one"),
        ] {
            assert_eq!(AssistOptions::read(text), Err(expected.to_owned()), "{text}");
        }
        let long = |length: usize| AssistOptions::read(&format!("container={}", "a".repeat(length)));
        assert!(long(63).is_ok() && long(64).is_err_and(|error| error.len() < 200));
        for text in
            ["container=a.b", "container=a-", "pod-namespace=a.b", "pod-prefix=-", "pod-prefix=a.", "pod-prefix=a..b"]
        {
            assert!(AssistOptions::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_pod_has_the_host_name_of_its_holder_after_the_prefix() {
        for (annotation, identity, pod) in [
            ("", "web-0_5e7c", "web-0"),
            ("", "web-0_5e7c_x", "web-0"),
            ("", "web-0", "web-0"),
            ("", "_5e7c", ""),
            ("", "", ""),
            ("pod-prefix=kube-scheduler", "cp-0_5e7c", "kube-scheduler-cp-0"),
            ("pod-prefix=kube-scheduler-", "cp-0_5e7c", "kube-scheduler-cp-0"),
        ] {
            assert_eq!(options(annotation).pod_name(identity), pod, "{annotation} {identity}");
        }
        assert_eq!(
            ["", "pod-namespace=pods"].map(|text| options(text).namespace_of_pods("leases").to_owned()),
            ["leases", "pods"]
        );
    }

    #[test]
    fn a_holder_is_identified_if_one_container_is_certain_to_be_its_own() {
        let container =
            |name: &&str, kind| ContainerRecord { name: (*name).into(), kind, ..ContainerRecord::default() };
        let pod = |regular: &[&str], others: &[&str]| PodRecord {
            name: "web-0".into(),
            containers: regular
                .iter()
                .map(|name| container(name, ContainerKind::Regular))
                .chain(others.iter().map(|name| container(name, ContainerKind::Ephemeral)))
                .collect(),
            ..PodRecord::default()
        };
        let one = pod(&["app"], &[]);
        let on_host = PodRecord { host_network: true, ..one.clone() };
        let shared = PodRecord { share_process_namespace: true, ..one.clone() };
        for (annotation, pod, expected) in [
            ("", Some(&one), "container app of Pod web-0 holds it"),
            ("container=app", Some(&one), "container app of Pod web-0 holds it"),
            ("container=ap", Some(&one), "Pod web-0 has no container ap, only app"),
            ("", None, "there is no Pod web-0"),
            ("pod-prefix=p", None, "there is no Pod p-web-0"),
            ("", Some(&on_host), "Pod web-0 uses the network of its host, so no holder has its name"),
            ("container=app", Some(&on_host), "Pod web-0 uses the network of its host, so no holder has its name"),
            ("pod-prefix=p", Some(&on_host), "container app of Pod web-0 holds it"),
            ("", Some(&shared), "Pod web-0 shares a process namespace, so a process may outlive its container"),
            (
                "container=app",
                Some(&shared),
                "Pod web-0 shares a process namespace, so a process may outlive its container",
            ),
            ("", Some(&pod(&["a", "b"], &[])), "its Pod has several containers: a, b"),
            ("", Some(&pod(&["a"], &["mesh"])), "its Pod has several containers: a, mesh"),
            ("", Some(&pod(&[], &["mesh"])), "its Pod has several containers: mesh"),
            ("", Some(&pod(&[], &[])), "no container of Pod web-0 is known yet"),
            ("container=b", Some(&pod(&[], &[])), "no container of Pod web-0 is known yet"),
            ("container=b", Some(&pod(&["a", "b"], &[])), "container b of Pod web-0 holds it"),
            ("container=mesh", Some(&pod(&["a"], &["mesh"])), "container mesh of Pod web-0 holds it"),
        ] {
            assert_eq!(options(annotation).identify("web-0_5e7c", pod).to_string(), expected, "{annotation} {pod:?}");
        }
    }
}
