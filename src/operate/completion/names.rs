//! The names in the cluster that complete an argument.
//!
//! The flags before the word determine the cluster and the namespace. This module reads them from the arguments of this
//! process, because clap does not pass them to a completer.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use hustings_client::api::names::{ENROLLED, ENROLLED_LABEL};
use hustings_client::api::{ReadCandidate, ReadLease};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Resource};

use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::environment::variable_name;
use crate::base::terminal::visible;
use crate::operate::survey::is_lock;

/// How long the cluster may take. Users who would wait longer type the name instead.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most objects to read. More would not help in a terminal.
const LIMIT: u32 = 500;

/// The enrolled Leases.
pub(super) fn leases() -> Vec<CompletionCandidate> {
    names(|cluster| list_leases(cluster, enrolled_ones(), |_| true))
}

/// The locks that a controller could assist. One that is assisted already may lack an option.
pub(super) fn assistable_leases() -> Vec<CompletionCandidate> {
    names(|cluster| list_leases(cluster, first_ones(), is_assistable))
}

/// The assisted Leases.
pub(super) fn assisted_leases() -> Vec<CompletionCandidate> {
    names(|cluster| list_leases(cluster, first_ones(), is_assisted))
}

/// The candidates of all Leases.
pub(super) fn candidates() -> Vec<CompletionCandidate> {
    names(list_candidates)
}

/// The namespaces of the cluster.
pub(super) fn namespaces() -> Vec<CompletionCandidate> {
    names(list_names::<Namespace>)
}

/// The nodes of the cluster.
pub(super) fn nodes() -> Vec<CompletionCandidate> {
    names(list_names::<Node>)
}

/// The contexts of the kubeconfig file.
pub(super) fn contexts() -> Vec<CompletionCandidate> {
    access().contexts().into_iter().map(|context| CompletionCandidate::new(visible(&context))).collect()
}

/// The names that a request returns, each with its meaning. A request that fails or takes too long returns none.
fn names<F: Future<Output = kube::Result<BTreeMap<String, String>>>>(
    list: impl FnOnce(Cluster) -> F,
) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let found = async { list(Cluster::connect(&access(), "completion").await.ok()?).await.ok() };
    let found = runtime.block_on(in_time(found));
    let candidate = |(name, meaning): (String, String)| {
        let help = (!meaning.is_empty()).then(|| visible(&meaning).into());
        CompletionCandidate::new(visible(&name)).help(help)
    };
    found.unwrap_or_default().into_iter().map(candidate).collect()
}

/// Returns what `found` returns, or nothing if that takes too long.
async fn in_time<T>(found: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, found).await.ok().flatten()
}

fn is_assistable(lease: &ReadLease) -> bool {
    is_lock(lease) && (!lease.record.enrolled || is_assisted(lease))
}

fn is_assisted(lease: &ReadLease) -> bool {
    lease.record.acts.assist.is_some()
}

async fn list_leases(
    cluster: Cluster,
    params: ListParams,
    which: fn(&ReadLease) -> bool,
) -> kube::Result<BTreeMap<String, String>> {
    let leases = Api::<ReadLease>::namespaced(cluster.leases, &cluster.namespace).list(&params).await?;
    let of_lease = |lease: ReadLease| {
        let holder = lease.record.holder.map(|holder| format!("held by {holder}"));
        (name(&lease.metadata), holder.unwrap_or_else(|| "without a holder".to_owned()))
    };
    Ok(leases.items.into_iter().filter(which).map(of_lease).collect())
}

async fn list_candidates(cluster: Cluster) -> kube::Result<BTreeMap<String, String>> {
    let candidates = Api::<ReadCandidate>::namespaced(cluster.leases, &cluster.namespace).list(&first_ones()).await?;
    let of_candidate = |candidate: ReadCandidate| {
        let state = candidate.status.state.map(|state| format!(" ({state})")).unwrap_or_default();
        (name(&candidate.metadata), format!("stands for {}{state}", candidate.record.lease_name))
    };
    Ok(candidates.items.into_iter().map(of_candidate).collect())
}

async fn list_names<K>(cluster: Cluster) -> kube::Result<BTreeMap<String, String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let objects = Api::<K>::all(cluster.leases).list(&first_ones()).await?;
    Ok(objects.items.iter().map(|object| (name(object.meta()), String::new())).collect())
}

fn enrolled_ones() -> ListParams {
    first_ones().labels(&format!("{ENROLLED_LABEL}={ENROLLED}"))
}

fn first_ones() -> ListParams {
    ListParams::default().limit(LIMIT)
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

/// The access from the arguments of this process, or else from their environment variables.
fn access() -> Access {
    let words: Vec<OsString> = std::env::args_os().collect();
    access_of(&words, |variable| std::env::var(variable).ok())
}

fn access_of(words: &[OsString], variables: impl Fn(String) -> Option<String>) -> Access {
    let given = |long: &str, short| {
        let variable = variable_name(long.trim_start_matches('-'));
        let value = flag(words, long, short).or_else(|| variables(variable));
        value.filter(|value| !value.is_empty())
    };
    Access {
        kubeconfig: given("--kubeconfig", None),
        context: given("--context", None),
        namespace: given("--namespace", Some("-n")),
    }
}

/// The value of a flag in the words of a command line that may be incomplete or wrong.
fn flag(words: &[OsString], long: &str, short: Option<&str>) -> Option<String> {
    let is_flag = |word: &OsStr| word == long || short.is_some_and(|short| word == short);
    let after = |(word, next): (&OsString, &OsString)| is_flag(word).then(|| next.to_string_lossy().into_owned());
    let within = |word: &OsString| Some(word.to_str()?.strip_prefix(long)?.strip_prefix('=')?.to_owned());
    words.iter().find_map(within).or_else(|| words.iter().zip(words.iter().skip(1)).find_map(after))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::{cluster, list};

    #[test]
    fn the_cluster_is_that_of_the_flags_or_else_of_the_environment() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Access { kubeconfig, context, namespace } = access_of(&words, |variable| match &*variable {
                "HUSTINGS_KUBECONFIG" => Some("/k".to_owned()),
                "HUSTINGS_CONTEXT" => Some(String::new()),
                "HUSTINGS_NAMESPACE" => Some("shop".to_owned()),
                _ => None,
            });
            [kubeconfig, context, namespace]
        };
        let given = |texts: [&str; 3]| texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        assert_eq!(of("hustings status"), given(["/k", "", "shop"]));
        assert_eq!(of("hustings status --kubeconfig /own --context=c -n n w"), given(["/own", "c", "n"]));
    }

    #[test]
    fn a_flag_is_found_in_an_incomplete_command_line() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let namespace = |line: &str| flag(&words(line), "--namespace", Some("-n"));
        assert_eq!(namespace("hustings status -n shop w").as_deref(), Some("shop"));
        assert_eq!(namespace("hustings --namespace=shop status --what").as_deref(), Some("shop"));
        assert_eq!((namespace("hustings status -n"), namespace("hustings status")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_does_not_answer_is_not_waited_for() {
        let began = tokio::time::Instant::now();
        assert_eq!(in_time(std::future::pending::<Option<u32>>()).await, None);
        assert_eq!((began.elapsed(), in_time(async { Some(1) }).await), (PATIENCE, Some(1)));
        assert!(PATIENCE <= Duration::from_secs(3), "a user waits for the word");
    }

    #[tokio::test]
    async fn assist_proposes_locks_that_nobody_elects_and_unassist_those_that_are_assisted() {
        let lease = |namespace: &str, name: &str, labels: Value, annotations: Value| {
            let metadata =
                json!({ "name": name, "namespace": namespace, "labels": labels, "annotations": annotations });
            json!({ "metadata": metadata, "spec": {} })
        };
        let enrolled = || json!({ "hustings.io/enrolled": "true" });
        let (cluster, _) = cluster(move |_| {
            Some(list(&[
                lease("n", "operator", json!({}), json!({})),
                lease("n", "elected", enrolled(), json!({})),
                lease("n", "assisted", enrolled(), json!({ "hustings.io/assist": "" })),
                lease("n", "mistyped", enrolled(), json!({ "hustings.io/assist": "on" })),
                lease("kube-system", "apiserver", json!({ "apiserver.kubernetes.io/identity": "x" }), json!({})),
                lease("kube-node-lease", "node", json!({}), json!({})),
            ]))
        });
        let names = async |which| {
            let found = list_leases(cluster.clone(), first_ones(), which).await.unwrap();
            found.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(names(is_assistable).await, ["assisted", "mistyped", "operator"]);
        assert_eq!(names(is_assisted).await, ["assisted", "mistyped"]);
    }

    #[tokio::test]
    async fn names_are_proposed_with_their_meaning_and_only_of_leases_that_are_enrolled() {
        let lease =
            |name: &str, holder: &str| json!({ "metadata": { "name": name }, "spec": { "holderIdentity": holder } });
        let candidate = |name: &str, status: Value| json!({ "metadata": { "name": name }, "spec": { "leaseName": "web" }, "status": status });
        let (cluster, requests) = cluster(move |request| {
            Some(if request.path.contains("/leases?") {
                list(&[lease("web", "a"), lease("free", "")])
            } else if request.path.contains("/leasecandidates?") {
                list(&[candidate("a", json!({ "state": "Holder" })), candidate("b", json!({}))])
            } else {
                list(&[json!({ "metadata": { "name": "n1" } })])
            })
        });
        let pairs = |found: kube::Result<BTreeMap<String, String>>| found.unwrap().into_iter().collect::<Vec<_>>();
        let expected = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, meaning)| ((*name).to_owned(), (*meaning).to_owned())).collect()
        };
        let leases = [("free", "without a holder"), ("web", "held by a")];
        assert_eq!(pairs(list_leases(cluster.clone(), enrolled_ones(), |_| true).await), expected(&leases));
        let candidates = [("a", "stands for web (Holder)"), ("b", "stands for web")];
        assert_eq!(pairs(list_candidates(cluster.clone()).await), expected(&candidates));
        assert_eq!(pairs(list_names::<Node>(cluster).await), expected(&[("n1", "")]));
        let requests = requests.lock().unwrap();
        let paths: Vec<_> = requests.iter().map(|sent| sent.path.split('?').next().unwrap()).collect();
        let of_leases = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
        let of_candidates = "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates";
        assert_eq!(paths, [of_leases, of_candidates, "/api/v1/nodes"]);
        assert!(requests[0].path.contains("labelSelector=hustings.io%2Fenrolled%3Dtrue"), "{}", requests[0].path);
        assert!(requests.iter().all(|sent| sent.path.contains("limit=500")), "{requests:?}");
    }
}
