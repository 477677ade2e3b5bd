//! The rights that the user lacks, and how an administrator grants them.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Error, ResourceExt as _};

use super::read::Inventory;
use crate::base::cluster::{Cluster, api_error, limited};
use crate::base::hint::Hinted;
use crate::base::reviews::{RoleRule, Subject, TIMEOUT};

/// How many namespaces to try for a hint.
const NAMESPACES: u32 = 100;

/// How many reviews to ask for at once.
const REVIEWS_AT_ONCE: usize = 8;

/// How many namespaces a message names.
const NAMED: usize = 5;

const LEASES: RoleRule = RoleRule::new("coordination.k8s.io", "leases", &["list"]);

/// The error for a user who may not list Leases, with the namespaces where that user may.
pub(super) async fn no_leases(cluster: &Cluster, namespace: Option<&str>, error: Error) -> anyhow::Error {
    let grant = format!("ask for the right to list: {}", commands(namespace, "leases.coordination.k8s.io,pods"));
    let readable = if namespace.is_none() { readable(cluster).await } else { Vec::new() };
    let hint = match &readable[..] {
        [] => grant,
        [first, ..] => format!("you may list those of {}: use --namespace {first}; or {grant}", named(&readable)),
    };
    let place = namespace.map_or_else(|| "in all namespaces".to_owned(), |name| format!("in namespace {name}"));
    api_error(error).context(Hinted::new(format!("you may not list Leases {place}"), hint))
}

/// What the command could not read, with the commands that grant the rights.
pub(super) fn missing(inventory: &Inventory, namespace: Option<&str>) -> Vec<String> {
    let mut missing = Vec::new();
    let unread: Vec<_> =
        inventory.pods.iter().filter(|(_, pods)| pods.is_none()).map(|(name, _)| name.clone()).collect();
    if !unread.is_empty() {
        let (place, commands) = (self::named(&unread), commands(namespace, "pods"));
        missing.push(format!(
            "you may not list Pods in {place}, so no holder there is identified: ask for the right to list: {commands}"
        ));
    }
    if inventory.lacks_candidates {
        missing.push(
            "you may not list leasecandidates.hustings.io: only the label hustings.io/enrolled shows which Leases \
             Hustings elects"
                .to_owned(),
        );
    }
    if inventory.lacks_natives {
        missing.push(
            "you may not list leasecandidates.coordination.k8s.io: a Lease that Kubernetes' controller elects may seem ready"
                .to_owned(),
        );
    }
    missing
}

/// The commands with which an administrator grants the verb list on these resources.
fn commands(namespace: Option<&str>, resources: &str) -> String {
    let (role, place) = match namespace {
        Some(namespace) => ("role", format!(" --namespace {namespace}")),
        None => ("clusterrole", String::new()),
    };
    format!(
        "`kubectl create {role} hustings-survey --verb=list --resource={resources}{place}`, `kubectl create \
         {role}binding hustings-survey --{role}=hustings-survey --user=NAME{place}`"
    )
}

/// The namespaces in which the user may list Leases, of those that the user can find out about.
async fn readable(cluster: &Cluster) -> Vec<String> {
    let all = Api::<Namespace>::all(cluster.leases.clone());
    let first = ListParams::default().limit(NAMESPACES);
    let mut names = vec![cluster.namespace.clone()];
    if let Ok(list) = limited(TIMEOUT, all.list(&first)).await {
        names.extend(list.into_iter().map(|namespace| namespace.name_any()).filter(|name| *name != cluster.namespace));
    }
    let readable = stream::iter(names).map(|name| async {
        let missing = LEASES.missing(&cluster.leases, &Subject::Own, Some(&name), None).await;
        missing.is_ok_and(|verbs| verbs.is_empty()).then_some(name)
    });
    readable.buffered(REVIEWS_AT_ONCE).filter_map(std::future::ready).collect().await
}

/// Some namespaces, as words.
fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match (names.len(), names.len().saturating_sub(NAMED)) {
        (1, _) => format!("namespace {shown}"),
        (_, 0) => format!("namespaces {shown}"),
        (_, more) => format!("namespaces {shown} and {more} more"),
    }
}
