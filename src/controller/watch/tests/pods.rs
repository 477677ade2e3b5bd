//! Tests of the watch of Pods, which no store keeps.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::controller::evidence::ReadPod;

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_shows_its_last_state_and_one_that_a_list_lacks_shows_nothing() {
    let deleted = json!({ "type": "DELETED", "object": {
        "metadata": { "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "10" },
    } });
    let answers = [list(&["a", "b"]), (200, deleted), status(410), list(&[]), status(410)];
    let (sender, mut events) = mpsc::channel(16);
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let context = context(sender, &health, &metrics);
    let watch = Watch::<ReadPod>::new(Scope::Cluster, &context, None, StdRng::seed_from_u64(0));
    tokio::spawn(watch.run(server(&answers)));
    let mut reported = Vec::new();
    while reported.iter().filter(|event| *event == "listed").count() < 2 {
        reported.push(match events.recv().await.unwrap() {
            WatchEvent::PodListBegan(_) => "list".to_owned(),
            WatchEvent::Pod(namespace, pod) => format!("changed {namespace}/{}", pod.record.name),
            WatchEvent::PodRemoved(namespace, pod) => {
                format!("removed {namespace}/{} {}", pod.record.name, pod.record.uid)
            }
            WatchEvent::PodsListed(_) => "listed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reported, ["list", "changed n/a", "changed n/b", "listed", "removed n/a u", "list", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_listed_in_pages_by_the_selector_and_without_the_right_elections_continue() {
    let (cluster, requests) = cluster(|_| Some(status(403)));
    let (sender, mut events) = mpsc::channel(16);
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let context = context(sender, &health, &metrics);
    let watch = Watch::<ReadPod>::new(Scope::Namespace("n".to_owned()), &context, None, StdRng::seed_from_u64(0))
        .with_labels(Some("app=shop".to_owned()));
    tokio::spawn(watch.run(cluster.leases));
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::PodListBegan(_)));
    let event = events.recv().await.unwrap();
    assert!(matches!(event, WatchEvent::Listed(_, Resource::Pods)), "{event:?}");
    let query = requests.lock().unwrap()[0].path.clone();
    assert!(query.contains("limit=100") && query.contains("labelSelector=app%3Dshop"), "{query}");
    let check = health.readiness().checks.remove(0);
    assert!(check.ok, "{check:?}");
    assert_eq!(check.message.as_deref(), Some("not allowed: grant the verbs list and watch on pods in namespace n"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_may_no_longer_be_listed_are_reported_while_elections_and_readiness_do_not_wait() {
    let is_allowed = Arc::new(AtomicBool::new(true));
    let allowed = Arc::clone(&is_allowed);
    let (cluster, _) = cluster(move |sent| {
        Some(match sent.path.contains("watch=true") {
            _ if !allowed.load(Ordering::Relaxed) => status(403),
            true => event("MODIFIED", "a"),
            false => list(&["a"]),
        })
    });
    let (sender, mut events) = mpsc::channel(16);
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let context = context(sender, &health, &metrics);
    let watch = Watch::<ReadPod>::new(Scope::Cluster, &context, None, StdRng::seed_from_u64(0));
    tokio::spawn(watch.run(cluster.leases));
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    for (allows, reported) in [(true, 0), (false, 1), (true, 0)] {
        is_allowed.store(allows, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(13)).await;
        let unlisted = metrics.unlisted.get_or_create(&Resource::Pods.label()).get();
        assert_eq!((health.readiness().ready, unlisted), (true, reported), "allowed: {allows}");
    }
}
