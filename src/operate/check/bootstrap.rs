//! Warns if kube-controller-manager and kube-scheduler depend on controllers that they themselves would have to create and
//! place: all of them run in a Deployment, and nothing else elects these two components.

use hustings_client::store::discover_native;
use hustings_core::model::CandidateRecord;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};

use super::limit::TIMEOUT;
use super::own_lease;
use super::report::Finding;
use crate::base::cluster::{api_error, limited, scoped_native};
use crate::controller::{Config, NATIVE_ELECTOR, NativeMode, SYSTEM_NAMESPACE};
use crate::operate::pods::MIRROR;

const CHECK: &str = "bootstrap";

/// The components that create and place the Pods of a Deployment, by their Leases.
const COMPONENTS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// Checks a Deployment with this configuration. `None` if there is nothing to warn of.
pub(super) async fn check(client: &Client, config: &Config) -> Option<Finding> {
    if config.native == NativeMode::Off || !may_elect_components(client).await {
        return None;
    }
    // Kubernetes' controller elects until Hustings does, and again when all controllers are gone.
    if own_lease::leads(&own_lease::check(client, SYSTEM_NAMESPACE, NATIVE_ELECTOR).await) {
        return None;
    }
    let pods = Api::<Pod>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    match limited(TIMEOUT, pods.list(&ListParams::default())).await {
        Ok(pods) if pods.items.iter().any(is_static_controller) => None,
        Ok(_) => Some(Finding::warn(
            CHECK,
            "only the Deployment's Pods elect kube-controller-manager and kube-scheduler, which create and place these Pods: \
             once all of them are gone, nothing starts them again",
            "run the controller in static pods, too: docs/native.md has the steps",
        )),
        Err(error) => {
            let reason = format!("cannot look for static pods in namespace {SYSTEM_NAMESPACE}: {:#}", api_error(error));
            Some(Finding::unknown(CHECK, reason))
        }
    }
}

/// Whether the components stand for election, or may do so once they are configured: other candidates show that the API is
/// for other components.
async fn may_elect_components(client: &Client) -> bool {
    let Ok(Some(version)) = discover_native(client).await else { return false };
    let candidates = limited(TIMEOUT, scoped_native(client.clone(), None, version).list(&ListParams::default())).await;
    let Ok(candidates) = candidates else { return true };
    let is_of_component = |record: &CandidateRecord| COMPONENTS.contains(&record.lease_name.as_str());
    candidates.items.is_empty() || candidates.items.iter().any(|candidate| is_of_component(&candidate.record))
}

/// Whether this is a static pod of the controller with `--native`.
fn is_static_controller(pod: &Pod) -> bool {
    let is_mirror = pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR));
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let arguments = containers.map(|container| container.args.as_deref().unwrap_or_default());
    let elects = |arguments: &[String]| {
        let mut flags = arguments.iter().map(String::as_str);
        flags.next() == Some("controller") && flags.any(|flag| matches!(flag, "--native" | "--native=true"))
    };
    is_mirror && arguments.into_iter().any(elects)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::{Sent, cluster, failure, list};
    use crate::cli::testing::controller;
    use crate::operate::check::report::Verdict;

    fn native(lease: &str) -> Value {
        let time = "2026-01-02T03:04:05.000000Z";
        json!({ "metadata": { "name": "a", "namespace": "kube-system", "uid": "u", "resourceVersion": "1" }, "spec": {
            "leaseName": lease, "binaryVersion": "1.36.0", "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion", "renewTime": time, "pingTime": time } })
    }

    fn pod(is_static: bool, argument: &str) -> Value {
        let annotations = if is_static { json!({ "kubernetes.io/config.mirror": "0" }) } else { json!({}) };
        json!({ "metadata": { "name": "a", "annotations": annotations },
            "spec": { "containers": [{ "name": "controller", "args": ["controller", argument] }] } })
    }

    /// Kubernetes' controller renews this Lease.
    fn elector(renewals: &std::sync::atomic::AtomicI64) -> (u16, Value) {
        let version = renewals.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (
            200,
            json!({ "metadata": { "name": "leader-election-controller", "namespace": "kube-system", "uid": "u",
                "resourceVersion": version.to_string() },
            "spec": { "holderIdentity": "apiserver", "leaseDurationSeconds": 15,
                "renewTime": format!("2026-01-02T03:04:{version:02}.000000Z") } }),
        )
    }

    struct Scene {
        flags: &'static str,
        served: bool,
        elects: bool,
        candidates: Vec<Value>,
        pods: Option<Vec<Value>>,
    }

    async fn verdict(Scene { flags, served, elects, candidates, pods }: Scene) -> Option<Verdict> {
        let renewals = std::sync::atomic::AtomicI64::new(1);
        let answer = move |sent: &Sent| {
            let resource = json!({ "name": "leasecandidates", "singularName": "", "namespaced": true,
                "kind": "LeaseCandidate", "verbs": ["list"] });
            let group = json!({ "kind": "APIResourceList", "groupVersion": "coordination.k8s.io/v1beta1",
                "resources": [resource] });
            match sent.path.split('?').next().unwrap() {
                "/apis/coordination.k8s.io/v1beta1" if served => Some((200, group)),
                "/apis/coordination.k8s.io/v1beta1/leasecandidates" => Some(list(&candidates)),
                path if path.ends_with("/leases/leader-election-controller") && elects => Some(elector(&renewals)),
                "/api/v1/namespaces/kube-system/pods" => Some(pods.as_ref().map_or(failure(403), |pods| list(pods))),
                _ => None,
            }
        };
        let (cluster, _) = cluster(answer);
        check(&cluster.leases, &controller(flags).unwrap()).await.map(|finding| finding.verdict)
    }

    #[tokio::test(start_paused = true)]
    async fn a_deployment_alone_that_elects_what_would_place_its_pods_is_a_warning() {
        let scene = || Scene {
            flags: "--native",
            served: true,
            elects: false,
            candidates: vec![native("other"), native("kube-scheduler")],
            pods: Some(vec![pod(false, "--native"), pod(true, "--evidence-pods")]),
        };
        assert_eq!(verdict(scene()).await, Some(Verdict::Warn));
        assert_eq!(verdict(Scene { flags: "--native --native-stand-in", ..scene() }).await, Some(Verdict::Warn));
        assert_eq!(verdict(Scene { candidates: Vec::new(), ..scene() }).await, Some(Verdict::Warn));
        for quiet in [
            Scene { flags: "", ..scene() },
            Scene { served: false, ..scene() },
            Scene { elects: true, ..scene() },
            Scene { candidates: vec![native("other")], ..scene() },
            Scene { pods: Some(vec![pod(true, "--native")]), ..scene() },
        ] {
            assert_eq!(verdict(quiet).await, None);
        }
        assert_eq!(verdict(Scene { pods: None, ..scene() }).await, Some(Verdict::Unknown));
    }
}
