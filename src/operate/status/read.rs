//! Reads all Leases and their candidates once, page by page.

use std::collections::{BTreeMap, BTreeSet};

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::Observed;
use kube::Api;
use kube::api::ListParams;

use super::config::Config;
use super::native;
use super::snapshot::{self, LeaseRow, key, path, rows};
use crate::base::cluster::{Cluster, candidates_unknown, scoped};
use crate::base::hint::Hinted;
use crate::base::nearest;
use crate::base::pages::Pages;
use crate::operate::assisted::complete_all;

/// The warning for a user who may not list native candidates.
pub(crate) const NATIVES_NOT_SHOWN: &str =
    "you may not list leasecandidates.coordination.k8s.io: candidates of Kubernetes' own components are not shown";

/// Selects objects: one Lease or all, in one namespace or in all.
pub(super) struct Selection<'a> {
    cluster: &'a Cluster,
    lease: Option<&'a str>,
    /// The one namespace; `None` for all.
    pub(super) namespace: Option<&'a str>,
}

/// Candidates of both APIs.
pub(crate) struct CandidateLists {
    pub(crate) all: Vec<ReadCandidate>,
    /// Whether the cluster lacks the CRD. Replicas in direct mode need none.
    pub(crate) lacks_crd: bool,
    /// Whether the caller may not list native candidates.
    pub(crate) lacks_right: bool,
}

/// Reads the candidates of one Lease or of all, in one namespace or in all.
///
/// # Errors
/// Fails if a request fails, with the attempt that failed.
pub(crate) async fn list_candidates(
    cluster: &Cluster,
    lease: Option<&str>,
    namespace: Option<&str>,
) -> Result<CandidateLists, (&'static str, kube::Error)> {
    let selection = Selection { cluster, lease, namespace };
    let (api, fields) = selection.candidates();
    let (mut all, lacks_crd) = match Pages::new(api, list_params(fields)).all().await {
        Ok(candidates) => (candidates, false),
        Err(error) if cluster.lacks_candidates(&error).await => (Vec::new(), true),
        Err(error) => return Err(("cannot list LeaseCandidates", error)),
    };
    let natives = native::list(&cluster.leases, namespace, &list_params(selection.native_fields())).await;
    let natives = natives.map_err(|error| ("cannot list native LeaseCandidates", error))?;
    let lacks_right = natives.is_none();
    all.extend(natives.into_iter().flatten().filter(|candidate| selection.includes(candidate)));
    Ok(CandidateLists { all, lacks_crd, lacks_right })
}

impl<'a> Selection<'a> {
    /// The objects that a configuration asks for.
    pub(super) fn new(cluster: &'a Cluster, config: &'a Config) -> Self {
        let namespace = (!config.all_namespaces).then_some(&*cluster.namespace);
        Self { cluster, lease: config.lease.as_deref(), namespace }
    }

    /// The Leases.
    pub(super) fn leases(&self) -> (Api<ReadLease>, Option<String>) {
        (scoped(self.cluster.leases.clone(), self.namespace), self.fields("metadata.name"))
    }

    /// The candidates of `hustings.io`.
    pub(super) fn candidates(&self) -> (Api<ReadCandidate>, Option<String>) {
        (scoped(self.cluster.leases.clone(), self.namespace), self.fields("spec.leaseName"))
    }

    /// The field selector of native candidates. The server cannot select them by `spec.leaseName`.
    pub(super) fn native_fields(&self) -> Option<String> {
        if self.lease.is_some() { None } else { self.fields("") }
    }

    /// Whether a candidate stands for a Lease of this selection.
    pub(super) fn includes(&self, candidate: &ReadCandidate) -> bool {
        self.lease.is_none_or(|lease| candidate.record.lease_name == lease)
    }

    fn fields(&self, pointer: &str) -> Option<String> {
        match self.lease {
            Some(name) => Some(format!("{pointer}={name}")),
            // In a large cluster most Leases are heartbeats of nodes. No controller elects in their namespace.
            None if self.namespace.is_none() => Some(format!("metadata.namespace!={NODE_LEASES}")),
            None => None,
        }
    }
}

pub(super) fn list_params(fields: Option<String>) -> ListParams {
    ListParams { field_selector: fields, ..ListParams::default() }
}

/// Reads the Leases and passes the rows of each page to `show`, in the order of namespaces and names. Returns the
/// number of rows.
///
/// # Errors
/// Fails if a request or `show` fails, or if the Lease that the user named does not exist.
pub(super) async fn read_pages(
    cluster: &Cluster,
    config: &Config,
    mut show: impl FnMut(Vec<LeaseRow>) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let selection = Selection::new(cluster, config);
    let listed = list_candidates(cluster, selection.lease, selection.namespace).await;
    let CandidateLists { all, lacks_crd, lacks_right } =
        listed.map_err(|(attempt, error)| cluster.explain(attempt, error))?;
    let mut waiting: BTreeMap<String, Vec<ReadCandidate>> = BTreeMap::new();
    for candidate in all {
        let (namespace, _) = key(&candidate.metadata);
        waiting.entry(path(&namespace, &candidate.record.lease_name)).or_default().push(candidate);
    }

    let (mut count, mut unexplained) = (0, false);
    let (api, fields) = selection.leases();
    let mut pages = Pages::new(api, list_params(fields));
    let explain = |error| cluster.explain("cannot list Leases", error);
    let mut page = pages.next().await.map_err(explain)?;
    while let Some(leases) = page {
        let next = pages.next().await.map_err(explain)?;
        let last = leases.last().map(|lease| key(&lease.metadata));
        // Candidates after the last Lease of this page may belong to a Lease of the next page.
        let later = match (last.filter(|_| next.is_some()), &next) {
            (Some((namespace, name)), _) => waiting.split_off(&(path(&namespace, &name) + "\0")),
            (None, Some(_)) => std::mem::take(&mut waiting),
            (None, None) => BTreeMap::new(),
        };
        let of_page = std::mem::replace(&mut waiting, later).into_values().flatten().collect();
        let mut rows = of_reads(leases, of_page, config);
        complete_all(cluster, rows.iter_mut().filter_map(|row| row.assist.as_mut())).await;
        count += rows.len();
        unexplained |= rows.iter().any(LeaseRow::has_unexplained_holder);
        // Replicas in direct mode need no CRD. A missing CRD is therefore an error only if there is nothing to show.
        if lacks_crd && count == 0 && next.is_none() && !config.watch {
            return Err(candidates_unknown().into());
        }
        if let (Some(lease), 0, None, false) = (&config.lease, count, &next, config.watch) {
            return Err(no_such_lease(cluster, config, lease).await);
        }
        show(rows)?;
        page = next;
    }
    if lacks_crd {
        tracing::warn!("the LeaseCandidate CRD is not installed in this cluster: showing Leases only");
    }
    if lacks_right && unexplained {
        tracing::warn!("{NATIVES_NOT_SHOWN}");
    }
    Ok(count)
}

/// Reads all Leases.
///
/// # Errors
/// Fails if a request fails.
pub(crate) async fn read(cluster: &Cluster, config: &Config) -> anyhow::Result<Vec<LeaseRow>> {
    let mut all = Vec::new();
    read_pages(cluster, config, |rows| {
        all.extend(rows);
        Ok(())
    })
    .await?;
    Ok(all)
}

/// The rows of objects that were read just now.
fn of_reads(leases: Vec<ReadLease>, candidates: Vec<ReadCandidate>, config: &Config) -> Vec<LeaseRow> {
    let now = SystemClock.both();
    let observed = |lease: &ReadLease| Observed::first(lease.record.clone(), now.moment);
    let observed = leases.iter().map(|lease| (snapshot::key(&lease.metadata), observed(lease))).collect();
    rows(leases, candidates, &observed, now, config.lease.is_some())
}

/// Where the command looks for Leases.
pub(super) fn place(cluster: &Cluster, config: &Config) -> String {
    if config.all_namespaces { "any namespace".to_owned() } else { format!("namespace {}", cluster.namespace) }
}

/// The error for a Lease that does not exist, with the nearest names.
async fn no_such_lease(cluster: &Cluster, config: &Config, lease: &str) -> anyhow::Error {
    let all = Config { lease: None, ..config.clone() };
    let (api, fields) = Selection::new(cluster, &all).leases();
    // The user may be allowed to read only this one Lease. Then there are no names to propose.
    let existing = Pages::new(api, list_params(fields)).next().await.ok().flatten().unwrap_or_default();
    let existing: BTreeSet<_> = existing.into_iter().filter_map(|lease| lease.metadata.name).collect();
    let place = place(cluster, config);
    let all = || "`hustings status --all-namespaces` shows every Lease that is enrolled or has candidates".to_owned();
    let hint = nearest::proposal(lease, existing.iter().map(String::as_str)).unwrap_or_else(all);
    Hinted::new(format!("Lease {lease:?} does not exist in {place} and has no candidates"), hint).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::config::StatusOutput;
    use super::*;
    use crate::base::cluster::api_error;
    use crate::base::cluster::testing::{cluster, failure, list, silent_cluster};

    #[tokio::test]
    async fn each_candidate_is_shown_with_its_lease_on_whatever_page_that_is() {
        let lease = |name: &str| {
            let metadata = json!({ "name": name, "namespace": "n", "labels": { "hustings.io/enrolled": "true" } });
            json!({ "metadata": metadata, "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } })
        };
        let candidate = |name: &str, lease: &str| {
            let spec = json!({ "leaseName": lease, "binaryVersion": "1.0", "emulationVersion": "1.0" });
            json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec })
        };
        let (cluster, _) = cluster(move |request| {
            if request.path.contains("hustings.io") {
                return Some(list(&["a", "b", "bb", "c", "d"].map(|lease| candidate(&format!("of-{lease}"), lease))));
            }
            request.path.contains("/leases?").then(|| {
                let is_second = request.path.contains("continue=more");
                let (code, mut page) = if is_second { list(&[lease("c")]) } else { list(&[lease("a"), lease("b")]) };
                page["metadata"]["continue"] = if is_second { Value::Null } else { json!("more") };
                (code, page)
            })
        });
        let config = Config { lease: None, all_namespaces: false, watch: false, output: StatusOutput::Json };
        let rows = read(&cluster, &config).await.unwrap();
        let shown: Vec<_> =
            rows.iter().map(|row| (row.lease.as_str(), row.candidates.len(), row.state.as_str())).collect();
        let missing = "missing";
        let expected =
            [("a", 1, "unheld"), ("b", 1, "unheld"), ("bb", 1, missing), ("c", 1, "unheld"), ("d", 1, missing)];
        assert_eq!(shown, expected);
    }

    #[tokio::test]
    async fn a_page_without_leases_does_not_end_the_list() {
        let lease =
            json!({ "metadata": { "name": "c", "namespace": "n", "labels": { "hustings.io/enrolled": "true" } } });
        let candidate = |lease: &str| {
            json!({ "metadata": { "name": format!("of-{lease}"), "namespace": "n" },
                "spec": { "leaseName": lease, "binaryVersion": "1.0" } })
        };
        for (has_crd, expected) in [(true, &[("c", 1), ("d", 1)][..]), (false, &[("c", 0)])] {
            let (lease, candidates) = (lease.clone(), list(&[candidate("c"), candidate("d")]));
            let (cluster, _) = cluster(move |request| {
                if request.path.contains("hustings.io") {
                    return has_crd.then(|| candidates.clone());
                }
                if request.path == "/apis" {
                    return Some((
                        200,
                        json!({ "kind": "APIGroupList", "groups": [{ "name": "apps", "versions": [] }] }),
                    ));
                }
                request.path.contains("/leases?").then(|| {
                    let is_second = request.path.contains("continue=more");
                    let (code, mut page) = if is_second { list(std::slice::from_ref(&lease)) } else { list(&[]) };
                    page["metadata"]["continue"] = if is_second { Value::Null } else { json!("more") };
                    (code, page)
                })
            });
            let config = Config { lease: None, all_namespaces: false, watch: false, output: StatusOutput::Json };
            let rows = read(&cluster, &config).await.unwrap();
            let shown: Vec<_> = rows.iter().map(|row| (row.lease.as_str(), row.candidates.len())).collect();
            assert_eq!(shown, expected, "{has_crd}");
        }
    }

    #[tokio::test]
    async fn a_failed_list_of_candidates_names_their_kind() {
        for (failing, expected) in [
            ("/apis/hustings.io/", "cannot list LeaseCandidates"),
            ("/apis/coordination.k8s.io/v1", "cannot list native LeaseCandidates"),
        ] {
            let (cluster, _) =
                cluster(move |request| Some(if request.path.contains(failing) { failure(500) } else { list(&[]) }));
            let listed = list_candidates(&cluster, None, None).await;
            assert_eq!(listed.err().map(|(attempt, _)| attempt), Some(expected));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_ends_when_the_server_answers_only_the_first_list() {
        for (first, expected) in [
            (list(&[]), ("cannot list native LeaseCandidates", "no answer within 15 s")),
            // Whether the cluster lacks the CRD stays unknown.
            (failure(404), ("cannot list LeaseCandidates", "refused (404)")),
        ] {
            let cluster = silent_cluster(move |request| request.path.contains("hustings.io").then(|| first.clone()));
            let listed = tokio::time::timeout(Duration::from_mins(1), list_candidates(&cluster, None, None)).await;
            let (attempt, error) = listed.expect("it ends").err().unwrap();
            assert_eq!((attempt, &*format!("{:#}", api_error(error))), expected);
        }
    }
}
