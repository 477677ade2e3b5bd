//! The order of Istio's control planes, as a key.
//!
//! Istio records its default revision as a *revision tag*: a MutatingWebhookConfiguration with a fixed name, whose label
//! names the revision. Three states must be kept apart: the tag has not been read yet, there is none, or it names a
//! revision. Without a tag, a local control plane still ranks above a remote one.

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Client;
use kube::core::PartialObjectMeta;
use tokio::sync::watch;

use super::DEFAULT_GROUP;
use crate::watch::watch_cluster_object;

/// The object that names the default revision of an Istio in [`SYSTEM_NAMESPACE`]. In any other namespace, its name ends
/// in that of the namespace.
const DEFAULT_TAG: &str = "istio-revision-tag-default";

/// The namespace in which Istio is usually installed.
const SYSTEM_NAMESPACE: &str = "istio-system";

/// The label with the revision that a tag stands for.
const REVISION_LABEL: &str = "istio.io/rev";

/// The metadata of a revision tag, which is all that the server is asked for.
type RevisionTag = PartialObjectMeta<MutatingWebhookConfiguration>;

/// Istio's default revision, as far as this process knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultRevision {
    /// It has not been read yet.
    #[default]
    Unknown,
    /// There is no default revision.
    None,
    /// This revision is the default.
    Revision(String),
}

/// Returns the key for Istio's order. A replica of the default revision ranks above every other replica; otherwise a
/// local control plane ranks above a remote one. An empty `revision` is the revision `default`, as in Istio.
///
/// Returns `None` while the default revision is [`Unknown`](DefaultRevision::Unknown), so that a replica that has just
/// started does not ask a holder to hand over.
///
/// ```
/// use hustings_client::{DefaultRevision, istio_key};
///
/// let stable = DefaultRevision::Revision("stable".to_owned());
/// let worst_default = istio_key(&stable, "stable", false);
/// let best_other = istio_key(&stable, "canary", true);
/// assert!(worst_default > best_other && best_other > istio_key(&stable, "canary", false));
///
/// assert!(istio_key(&DefaultRevision::None, "canary", true) > istio_key(&DefaultRevision::None, "canary", false));
/// assert_eq!(istio_key(&DefaultRevision::Unknown, "canary", true), None);
/// ```
pub fn istio_key(default: &DefaultRevision, revision: &str, is_local: bool) -> Option<i64> {
    let is_default = match default {
        DefaultRevision::Unknown => return None,
        DefaultRevision::None => false,
        DefaultRevision::Revision(default) => default == normalized(revision),
    };
    Some(i64::from(is_default) * 2 + i64::from(is_local))
}

/// Follows the default revision of the Istio in `istio_namespace`, and returns the [key](istio_key) of a replica of
/// `revision`. The key changes when the default tag is created, moved or deleted.
///
/// The key is `None` until the tag has been read or found missing. If the tag cannot be watched any longer, the last key
/// stays in force.
///
/// The client needs the verbs `list` and `watch` on the `mutatingwebhookconfigurations` of `admissionregistration.k8s.io`
/// in a ClusterRole, which may name the object: `istio-revision-tag-default`, followed by `-NAMESPACE` unless
/// `istio_namespace` is `istio-system`. Call this function in a Tokio runtime: it spawns a task, which ends when every
/// receiver is gone.
pub fn follow_istio_key(
    client: Client,
    istio_namespace: &str,
    revision: impl Into<String>,
    is_local: bool,
) -> watch::Receiver<Option<i64>> {
    let revision = revision.into();
    let mut tags = watch_cluster_object::<RevisionTag>(client, &tag_name(istio_namespace)).boxed();
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                tag = tags.next() => {
                    let Some(tag) = tag else { return };
                    sender.send_replace(istio_key(&default_of(tag), &revision, is_local));
                }
                () = sender.closed() => return,
            }
        }
    });
    receiver
}

/// The revision that a tag makes the default.
fn default_of(tag: Option<RevisionTag>) -> DefaultRevision {
    let revision = tag.and_then(|tag| tag.metadata.labels?.remove(REVISION_LABEL));
    revision.filter(|revision| !revision.is_empty()).map_or(DefaultRevision::None, DefaultRevision::Revision)
}

fn tag_name(istio_namespace: &str) -> String {
    match istio_namespace {
        "" | SYSTEM_NAMESPACE => DEFAULT_TAG.to_owned(),
        namespace => format!("{DEFAULT_TAG}-{namespace}"),
    }
}

fn normalized(revision: &str) -> &str {
    if revision.is_empty() { DEFAULT_GROUP } else { revision }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_default_revision_ranks_first_and_a_local_control_plane_before_a_remote_one() {
        let names = |revision: &str| DefaultRevision::Revision(revision.to_owned());
        for (default, revision, remote, local) in [
            (DefaultRevision::Unknown, "canary", None, None),
            (DefaultRevision::None, "canary", Some(0), Some(1)),
            (names("stable"), "canary", Some(0), Some(1)),
            (names("canary"), "canary", Some(2), Some(3)),
            (names("default"), "", Some(2), Some(3)),
            (names("default"), "default", Some(2), Some(3)),
            (DefaultRevision::None, "", Some(0), Some(1)),
        ] {
            let keys = [false, true].map(|is_local| istio_key(&default, revision, is_local));
            assert_eq!(keys, [remote, local], "{default:?} {revision:?}");
        }
    }

    #[test]
    fn a_tag_names_the_default_revision_by_its_label() {
        let tag = |metadata| serde_json::from_value::<RevisionTag>(json!({ "metadata": metadata })).unwrap();
        for (tag, expected) in [
            (None, DefaultRevision::None),
            (Some(tag(json!({}))), DefaultRevision::None),
            (Some(tag(json!({ "labels": { "istio.io/tag": "default" } }))), DefaultRevision::None),
            (Some(tag(json!({ "labels": { "istio.io/rev": "" } }))), DefaultRevision::None),
            (Some(tag(json!({ "labels": { "istio.io/rev": "1-30" } }))), DefaultRevision::Revision("1-30".to_owned())),
        ] {
            assert_eq!(default_of(tag), expected);
        }
        let names = ["", "istio-system", "mesh"].map(tag_name);
        assert_eq!(names, [DEFAULT_TAG, DEFAULT_TAG, "istio-revision-tag-default-mesh"]);
    }
}
