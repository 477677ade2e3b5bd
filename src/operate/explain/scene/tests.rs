use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::{cluster, failure, list, silent_cluster};

fn version(version: &str, holder: &str, session: &str) -> Value {
    let annotations = json!({ "hustings.io/session": session });
    json!({
        "metadata": { "name": "l", "namespace": "n", "uid": "u", "resourceVersion": version, "annotations": annotations },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "renewTime": format!("2026-01-01T00:00:0{version}.000000Z") },
    })
}

#[tokio::test]
async fn only_a_write_of_the_same_session_is_a_renewal() {
    let first = version("5", "a", "s/1/15");
    let mut touched = first.clone();
    touched["metadata"]["resourceVersion"] = json!("6");
    let watched = async |newest: Option<Value>, limit: u64| {
        let (cluster, requests) = cluster(move |_| Some(list(newest.as_slice())));
        let (lease, sent) = (ReadLease::from_json(first.clone()), SystemClock.both().moment);
        let read = renewal(&cluster, "l", Some(lease), Some(Duration::from_millis(limit)), sent).await.unwrap();
        let (lease, observed, has_renewed) = read;
        assert_eq!(requests.lock().unwrap().is_empty(), limit == 0, "{limit}");
        (lease.map(|lease| lease.record.resource_version), observed.is_some(), has_renewed)
    };
    for (newest, limit, expected) in [
        (Some(version("6", "a", "s/1/15")), 60_000, (Some(6), true, true)),
        (Some(version("6", "a", "t/1/15")), 60_000, (Some(6), true, false)),
        (Some(version("6", "b", "s/1/15")), 60_000, (Some(6), true, false)),
        (Some(touched), 600, (Some(6), true, false)),
        (Some(first.clone()), 0, (Some(5), true, false)),
        (None, 60_000, (None, false, false)),
    ] {
        assert_eq!(watched(newest.clone(), limit).await, expected, "{newest:?}");
    }
}

#[tokio::test]
async fn a_controller_elects_here_if_it_watches_this_namespace_or_all() {
    let (cluster, _) = cluster(|_| None);
    for (flags, of_pods, elects_here, elects_native, evidence) in [
        ("", "n", true, false, false),
        ("--watch-namespaces=shop,n --evidence-pods", "n", true, false, true),
        ("--watch-namespaces=shop,n --evidence-pods", "shop", true, false, true),
        ("--watch-namespaces=shop,n --evidence-pods", "data", true, false, false),
        ("--watch-namespaces=shop --native", "n", false, true, false),
        ("--native --native-stand-in", "n", true, true, false),
    ] {
        let installation = Installation {
            namespace: "system".to_owned(),
            name: "hustings".to_owned(),
            service_account: String::new(),
            replicas: 2,
            available: 1,
            chart: None,
            image: None,
            config: Ok(crate::cli::testing::controller(flags).unwrap()),
        };
        let ControllerInstallation { place, available, flags: read, .. } =
            installed(&cluster, installation, of_pods).await;
        assert_eq!((&*place, available), ("Deployment hustings in namespace system", Some((1, 2))));
        let read = read.unwrap();
        assert_eq!(
            (read.elects_here, read.elects_native, read.evidence),
            (elects_here, elects_native, evidence),
            "{flags}"
        );
    }
}

#[tokio::test]
async fn the_pod_of_the_holder_is_its_owner_and_is_read_only_if_the_session_names_a_container() {
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "pod-of-a", "uid": "pod-uid" }]);
    let metadata = json!({ "name": "a", "namespace": "n", "ownerReferences": owner });
    let spec = json!({ "leaseName": "l", "binaryVersion": "1.0" });
    let candidate = ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec }));
    for (session, holder, is_read) in
        [("pod-uid.web.abc.123/1/15", "a", true), ("s/1/15", "a", false), ("pod-uid.web.abc.123/1/15", "b", false)]
    {
        let (cluster, requests) = cluster(|_| Some((200, json!({ "metadata": { "name": "p", "uid": "pod-uid" } }))));
        let lease = ReadLease::from_json(version("5", holder, session));
        let read = pod(&cluster, Some(&lease.record), std::slice::from_ref(&candidate)).await;
        let uid = if let HolderPod::Read(Some(pod)) = &read { Some(&*pod.uid) } else { None };
        assert_eq!(uid, is_read.then_some("pod-uid"), "{read:?}");
        let requests = requests.lock().unwrap();
        let paths: Vec<_> = requests.iter().map(|sent| sent.path.as_str()).collect();
        assert_eq!(paths, ["/api/v1/namespaces/n/pods/pod-of-a"][..usize::from(is_read)]);
    }
}

#[tokio::test]
async fn a_lease_without_a_term_is_not_watched() {
    let has_read = std::sync::Arc::new(AtomicBool::new(false));
    let reads = std::sync::Arc::clone(&has_read);
    let (cluster, _) = cluster(move |_| {
        reads.store(true, Ordering::SeqCst);
        Some(failure(500))
    });
    for lease in [version("5", "", "open"), version("5", "a", "open")] {
        let (lease, sent) = (ReadLease::from_json(lease), SystemClock.both().moment);
        let (lease, observed, has_renewed) = renewal(&cluster, "l", Some(lease), None, sent).await.unwrap();
        assert_eq!((lease.is_some(), observed.is_some(), has_renewed), (true, true, false));
    }
    assert!(!has_read.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn no_controller_uses_up_the_time_of_the_command() {
    let own_lease = |index: usize| {
        let mut lease = version("5", "dead", "s/1/15");
        lease["metadata"]["name"] = json!(OWN_LEASE);
        lease["metadata"]["namespace"] = json!(format!("former-{index}"));
        lease["spec"]["leaseDurationSeconds"] = json!(3_600);
        lease
    };
    for has_answer in [false, true] {
        let cluster = silent_cluster(move |sent| match &*sent.path {
            path if path.contains("/deployments") => has_answer.then(|| list(&[])),
            path if path.starts_with("/apis/coordination.k8s.io/v1/leases") => {
                Some(list(&(0..100).map(own_lease).collect::<Vec<_>>()))
            }
            path if path.ends_with(OWN_LEASE) => Some((200, own_lease(0))),
            path if path.contains("/leases?") => Some(list(&[version("5", "a", "s/1/15")])),
            path if path.contains("/leasecandidates") => Some(list(&[])),
            _ => Some(failure(404)),
        });
        let watch = Some(Duration::ZERO);
        let read = read(&cluster, "l", watch, |_, _| Err(String::new()));
        let scene = tokio::time::timeout(crate::operate::explain::limit(watch), read).await.unwrap().unwrap();
        let are_dead = |found: &[ControllerInstallation]| found.iter().all(|one| one.available == Some((0, 0)));
        let found = matches!(&scene.controllers, Controllers::Found(found) if are_dead(found));
        assert_eq!(found, has_answer, "{:?}", scene.controllers);
    }
}

#[test]
fn a_watch_lasts_a_quarter_longer_than_the_usual_interval_of_renewals_and_at_most_ten_seconds() {
    let millis = [15, 30, 3_600].map(|lease| longest_watch(lease).as_millis());
    assert_eq!(millis, [3_000, 5_500, 10_000]);
}
