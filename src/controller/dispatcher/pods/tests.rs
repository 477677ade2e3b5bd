use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::election::EvidenceConfig;
use hustings_core::model::{ContainerEnd, ContainerRecord, Evidence, WireTime};
use serde_json::json;

use super::*;
use crate::controller::dispatcher::DispatcherParts;
use crate::controller::dispatcher::tests::{dispatcher_of, key, parts};
use crate::controller::watched::WatchEvent;

fn dispatcher() -> Dispatcher {
    let mut parts = parts();
    parts.config.evidence = EvidenceConfig { pods: true, nodes: true };
    dispatcher_of(DispatcherParts { ..parts }, true)
}

/// A Pod whose container ended in the term of its candidate.
fn pod(name: &str) -> PodRecord {
    let end = ContainerEnd::at(WireTime::from_micros(1_767_225_607_000_000), "Error");
    let containers = [ContainerRecord::ended("c", [end])].into();
    PodRecord { name: name.into(), uid: "p".into(), node: Some("m".into()), containers, ..PodRecord::default() }
}

fn candidate() -> WatchEvent {
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "p" }]);
    let metadata =
        json!({ "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "5", "ownerReferences": owner });
    let spec = json!({ "leaseName": "l", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    WatchEvent::Candidate(key("a"), ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).into())
}

fn lease(version: u32, session: &str) -> WatchEvent {
    let annotations = json!({ "hustings.io/session": session });
    let labels = json!({ "hustings.io/enrolled": "true" });
    let record = ReadLease::from_json(json!({
        "metadata": { "namespace": "n", "name": "l", "uid": "u", "resourceVersion": version.to_string(),
            "labels": labels, "annotations": annotations },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:05.000000Z",
            "renewTime": "2026-01-01T00:00:06.000000Z" },
    }));
    WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(record.record))
}

fn evidence(dispatcher: &Dispatcher) -> Option<Evidence> {
    dispatcher.elections.get(&LeaseKey::new("n", "l"))?.evidence().map(|(evidence, _)| evidence)
}

#[tokio::test]
async fn the_end_of_a_container_counts_whichever_watch_is_behind() {
    let [term, end, stands] = [0, 1, 2];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for is_last in [false, true] {
            let mut dispatcher = dispatcher();
            dispatcher.handle(lease(6, "open"));
            for event in order {
                assert_eq!(evidence(&dispatcher), None, "{order:?}");
                dispatcher.handle(match event {
                    event if event == term => lease(7, "p.c.n.r/1/15"),
                    event if event == stands => candidate(),
                    _ if is_last => WatchEvent::PodRemoved("n".into(), pod("pod").into()),
                    _ => WatchEvent::Pod("n".into(), pod("pod").into()),
                });
            }
            assert_eq!(evidence(&dispatcher), Some(Evidence::ContainerTerminated), "{order:?} {is_last} {end}");
        }
    }
}

#[tokio::test]
async fn a_node_that_is_off_counts_whether_its_pod_or_its_taint_is_observed_first() {
    let off = || NodeRecord { name: "m".to_owned(), is_out_of_service: true, is_ready: false };
    let running = || PodRecord { containers: [].into(), ..pod("pod") };
    for is_node_first in [true, false] {
        let mut dispatcher = dispatcher();
        for event in [lease(6, "open"), lease(7, "p.c.n.r/1/15"), candidate()] {
            dispatcher.handle(event);
        }
        let events = [WatchEvent::Node(off().into()), WatchEvent::Pod("n".into(), running().into())];
        let events: Vec<_> =
            if is_node_first { events.into_iter().collect() } else { events.into_iter().rev().collect() };
        for event in events {
            assert_eq!(evidence(&dispatcher), None);
            dispatcher.handle(event);
        }
        assert_eq!(evidence(&dispatcher), Some(Evidence::NodeOutOfService));
    }
}

#[tokio::test]
async fn a_pod_that_a_new_list_lacks_is_dropped_and_the_others_keep_their_memory() {
    let mut dispatcher = dispatcher();
    for names in [&["a", "b"][..], &["b"][..]] {
        dispatcher.handle(WatchEvent::PodListBegan(Scope::Cluster));
        let before = dispatcher.pods.as_mut().unwrap().scope("n").unwrap().get("n", "b");
        for name in names {
            dispatcher.handle(WatchEvent::Pod("n".into(), pod(name).into()));
        }
        let pods = dispatcher.pods.as_mut().unwrap().scope("n").unwrap();
        assert!(before.is_none_or(|before| Arc::ptr_eq(&before, &pods.get("n", "b").unwrap())));
        dispatcher.handle(WatchEvent::PodsListed(Scope::Cluster));
    }
    let pods = dispatcher.pods.as_mut().unwrap();
    assert_eq!((pods.len(), pods.scope("n").unwrap().get("n", "a")), (1, None));
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_kept_for_a_while_if_they_may_prove_something() {
    let mut pods = Pods::new(&[Scope::Cluster]);
    for number in 0..2 * MOST_REMOVED {
        pods.remove(&"n".into(), pod(&number.to_string()));
        pods.remove(&"n".into(), PodRecord { containers: [].into(), ..pod("running") });
    }
    assert_eq!(pods.removed.len(), MOST_REMOVED);
    tokio::time::advance(REMOVED_FOR).await;
    pods.expire();
    assert!(pods.removed.is_empty());
}

#[tokio::test]
async fn only_the_candidates_that_exist_are_known_to_run_in_a_pod() {
    let mut dispatcher = dispatcher();
    dispatcher.handle(candidate());
    let pods = dispatcher.pods.as_ref().unwrap();
    assert_eq!(pods.candidates.residents(&"n".into(), "pod").collect::<Vec<_>>(), [&key("a")]);
    dispatcher.handle(WatchEvent::CandidateRemoved(key("a")));
    let pods = dispatcher.pods.as_ref().unwrap();
    assert!(pods.candidates.is_empty());
}

#[test]
fn pods_share_the_names_of_nodes_and_containers_and_unused_names_are_dropped() {
    let mut pods = Pods::new(&[Scope::Cluster]);
    let [first, second] = ["a", "b"].map(|name| pods.put(&"n".into(), pod(name)));
    assert!(Arc::ptr_eq(first.node.as_ref().unwrap(), second.node.as_ref().unwrap()));
    assert!(Arc::ptr_eq(&first.containers[0].name, &second.containers[0].name));
    for number in 0..2 * FEW_TEXTS {
        pods.put(&"n".into(), PodRecord { node: Some(number.to_string().into()), ..pod("moving") });
    }
    assert!(pods.texts.texts.len() < FEW_TEXTS, "{}", pods.texts.texts.len());
}

/// What glibc's allocator takes for one allocation on a 64-bit machine.
const fn allocated(bytes: usize) -> usize {
    let taken = (bytes + 8).next_multiple_of(16);
    if taken < 32 { 32 } else { taken }
}

#[test]
fn a_usual_pod_takes_at_most_300_bytes() {
    let (name, uid) = ("shop-frontend-7d9f8b6c5d-x2x4k", "0f6cbb1e-6f0a-4a5e-8d7c-2b9d3f1a5c77");
    // Many Pods have the same node and the same names of containers. A set with room for its entries is at most 7/8 full,
    // and just after it has grown half as full.
    let slot = (size_of::<PodByName>() + 1) * 16 / 7;
    let counts = size_of::<usize>() * 2;
    let record = allocated(counts + size_of::<PodRecord>());
    let held = slot + record + allocated(name.len()) + allocated(uid.len()) + allocated(size_of::<ContainerRecord>());
    assert!(held <= 300, "{held}");
}
