//! Tests of the labels against a server that stores Pods.

use std::sync::Mutex;

use futures::FutureExt as _;
use hustings_client::clock::SystemClock;
use hustings_client::store::Kubernetes;
use hustings_core::assist::AssistOptions;
use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::{Sent, cluster, failure};
use crate::controller::events::EventPublisher;
use crate::controller::execute::Executor;
use crate::serve::metrics::ControllerMetrics;

/// The values of the label `role` on the Pods `a` and `b`, and how often each was written.
pub(in crate::controller) type Server = Arc<Mutex<BTreeMap<String, (Option<String>, u32)>>>;

/// What keeps the label of this Lease from its place.
pub(in crate::controller) fn problem<'a>(labels: &'a LeaderLabels, lease: &LeaseKey) -> Option<&'a str> {
    labels.desired.get(lease)?.problem.as_deref()
}

fn lease(name: &str) -> LeaseKey {
    LeaseKey::new("n", name)
}

fn change(name: &str, problem: Option<&str>) -> ProblemChange {
    ProblemChange { lease: lease(name), problem: problem.map(str::to_owned) }
}

fn label(namespace: &str, value: &str) -> LabelKey {
    LabelKey { namespace: namespace.into(), label: PodLabel { key: "role".to_owned(), value: value.to_owned() } }
}

fn pod(name: &str) -> Pod {
    Pod { name: name.to_owned(), uid: name.to_owned() }
}

fn record(name: &str) -> PodRecord {
    PodRecord { name: name.into(), uid: name.into(), ..PodRecord::default() }
}

fn metadata(name: &str, value: Option<&String>) -> Value {
    let labels = value.map_or_else(|| json!({}), |value| json!({ "role": value }));
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": { "namespace": "n", "name": name, "uid": name, "labels": labels } })
}

/// The labels over a server with the Pods `a` and `b`. `fails` says which requests it rejects.
pub(in crate::controller) fn labels(
    assist: &[AssistedLease],
    fails: impl Fn(&Sent) -> bool + Send + Sync + 'static,
) -> (LeaderLabels, Server) {
    let server = Server::default();
    server.lock().unwrap().extend(["a", "b"].map(|name| (name.to_owned(), (None, 0))));
    let pods = Arc::clone(&server);
    let (cluster, _) = cluster(move |sent| {
        if fails(sent) {
            return Some(failure(403));
        }
        let mut pods = pods.lock().unwrap();
        let (path, _) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
        let name = path.rsplit('/').next()?;
        if name == "pods" {
            let items: Vec<_> = pods
                .iter()
                .filter(|(_, (value, _))| value.as_deref().is_some_and(|value| sent.path.contains(value)))
                .map(|(name, (value, _))| metadata(name, value.as_ref()))
                .collect();
            return Some((200, json!({ "kind": "PartialObjectMetadataList", "metadata": {}, "items": items })));
        }
        let (value, writes) = pods.get_mut(name)?;
        if let Some(labels) = sent.body["metadata"].get("labels") {
            *value = labels["role"].as_str().map(str::to_owned);
            *writes += 1;
        }
        Some((200, metadata(name, value.as_ref())))
    });
    let (client, clock, metrics) = (cluster.leases, SystemClock::shared(), ControllerMetrics::new().0);
    let (publisher, _) = EventPublisher::new(client.clone(), "test", metrics.clone());
    let timeout = Duration::from_secs(5);
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), timeout);
    let executor = Executor::new(store, clock, publisher, metrics);
    let (reads, writes) = (client.clone(), client);
    (LeaderLabels::new(LabelRequests { reads, writes, timeout, executor }, assist), server)
}

/// Waits for all jobs, and returns what they report.
pub(in crate::controller) async fn settle(labels: &mut LeaderLabels) -> Vec<ProblemChange> {
    let mut reports = Vec::new();
    while !labels.jobs.is_empty() {
        reports.extend(labels.finished().await);
    }
    reports
}

pub(in crate::controller) fn on_pods(server: &Server) -> Vec<(String, String)> {
    let pods = server.lock().unwrap();
    pods.iter().filter_map(|(name, (value, _))| Some((name.clone(), value.clone()?))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(pod, value)| ((*pod).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_label_that_two_leases_ask_for_leads_to_the_first_one_until_that_no_longer_asks() {
    let (mut labels, server) = labels(&[], |_| false);
    assert_eq!(labels.set_desired(&lease("y"), Some((label("n", "leader"), Some(pod("a"))))), None);
    let problem = labels.set_desired(&lease("x"), Some((label("n", "leader"), Some(pod("b")))));
    let taken = "The label role=leader is not kept: the Lease n/y has it already. Use another label".to_owned();
    assert_eq!(problem, Some(change("x", Some(&taken))));
    settle(&mut labels).await;
    assert_eq!(on_pods(&server), pairs(&[("a", "leader")]));
    labels.set_desired(&lease("y"), None);
    assert_eq!(settle(&mut labels).await, [change("x", None)]);
    assert_eq!(on_pods(&server), pairs(&[("b", "leader")]));
    // Another value of the same key.
    labels.set_desired(&lease("x"), Some((label("n", "other"), Some(pod("b")))));
    assert_eq!(settle(&mut labels).await, []);
    assert_eq!(on_pods(&server), pairs(&[("b", "other")]));
    labels.set_desired(&lease("x"), None);
    settle(&mut labels).await;
    assert!(on_pods(&server).is_empty() && labels.labels.is_empty() && labels.homes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_a_listed_lease_labels_pods_of_another_namespace() {
    let options = AssistOptions::read("pod-namespace=m").unwrap();
    let listed = AssistedLease { namespace: "n".to_owned(), name: "listed".to_owned(), options };
    let (mut labels, server) = labels(&[listed], |_| false);
    let wanted = |namespace| Some((label(namespace, "leader"), Some(pod("a"))));
    for (name, namespace) in [("other", "m"), ("listed", "o")] {
        let problem = labels.set_desired(&lease(name), wanted(namespace)).and_then(|change| change.problem);
        assert!(problem.is_some_and(|problem| problem.contains("assist.leases")), "{name}");
    }
    assert!(labels.jobs.is_empty() && on_pods(&server).is_empty());
    assert_eq!(labels.set_desired(&lease("listed"), wanted("m")), Some(change("listed", None)));
    settle(&mut labels).await;
    assert_eq!(on_pods(&server), pairs(&[("a", "leader")]));
}

#[tokio::test(start_paused = true)]
async fn failures_and_other_writers_are_met_with_growing_pauses_and_a_move_at_once() {
    let (mut labels, server) = labels(&[], |sent| sent.path.contains("pods/b?") && !sent.body.is_null());
    labels.set_desired(&lease("l"), Some((label("n", "leader"), Some(pod("b")))));
    let reports = settle(&mut labels).await;
    let [ProblemChange { problem: Some(problem), .. }] = &*reports else { panic!("{reports:?}") };
    assert!(problem.starts_with("The label role=leader is not kept: refused: "), "{problem}");
    let mut attempts = 0;
    for _ in 0..130 {
        tokio::time::advance(Duration::from_secs(1)).await;
        labels.start_due();
        attempts += labels.jobs.len();
        assert!(settle(&mut labels).await.is_empty(), "it is reported once");
    }
    // After 1, 2, 4, 8, 16, 32 and 60 s.
    assert_eq!(attempts, 7);
    labels.set_desired(&lease("l"), Some((label("n", "leader"), Some(pod("a")))));
    assert_eq!(settle(&mut labels).await, [change("l", None)]);
    assert_eq!(on_pods(&server), pairs(&[("a", "leader")]));

    // A person takes it away again and again.
    tokio::time::advance(2 * CALM).await;
    for _ in 0..100 {
        server.lock().unwrap().get_mut("a").unwrap().0 = None;
        labels.observe(&"n".into(), &record("a"), &[]);
        settle(&mut labels).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let writes = server.lock().unwrap()["a"].1;
    assert!((6..=8).contains(&writes), "{writes}");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_cannot_be_removed_delays_no_other_value_of_its_key() {
    let removes = |sent: &Sent| !sent.body.is_null() && sent.body["metadata"]["labels"]["role"].is_null();
    let (mut labels, server) = labels(&[], move |sent| sent.path.contains("pods/b?") && removes(sent));
    labels.set_desired(&lease("x"), Some((label("n", "other"), Some(pod("b")))));
    settle(&mut labels).await;
    labels.set_desired(&lease("x"), None);
    labels.set_desired(&lease("y"), Some((label("n", "leader"), Some(pod("a")))));
    settle(&mut labels).await;
    assert_eq!(on_pods(&server), pairs(&[("a", "leader"), ("b", "other")]));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_labelled_as_it_should_be_causes_no_job() {
    let (mut labels, _) = labels(&[], |_| false);
    labels.set_desired(&lease("l"), Some((label("n", "leader"), Some(pod("a")))));
    settle(&mut labels).await;
    let role = |value| vec![label("n", value).label];
    for (namespace, name, own, is_disturbed) in [
        ("n", "a", role("leader"), false),
        ("n", "b", role("standby"), false),
        ("n", "b", vec![], false),
        ("m", "b", role("leader"), false),
        ("n", "b", role("leader"), true),
        ("n", "a", vec![], true),
        ("n", "a", role("standby"), true),
    ] {
        labels.observe(&namespace.into(), &record(name), &own);
        assert_eq!(!labels.jobs.is_empty(), is_disturbed, "{namespace}/{name} {own:?}");
        settle(&mut labels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_no_longer_leads_forgets_everything_and_its_jobs_end() {
    let (mut labels, server) = labels(&[], |_| false);
    labels.set_desired(&lease("l"), Some((label("n", "leader"), Some(pod("a")))));
    labels.clear();
    assert!(labels.desired.is_empty() && labels.labels.is_empty());
    assert!(labels.finished().now_or_never().is_none(), "the job has not ended yet");
    labels.set_desired(&lease("l"), Some((label("n", "leader"), Some(pod("b")))));
    assert_eq!(labels.jobs.len(), 1, "a label has one job at a time");
    settle(&mut labels).await;
    assert_eq!(on_pods(&server), pairs(&[("b", "leader")]));
    labels.stop().await;
    assert!(labels.jobs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_so_many_labels_are_being_removed_at_a_time() {
    let (mut labels, _) = labels(&[], |_| true);
    for number in 0..=MOST_LEAVING + 5 {
        labels.set_desired(&lease("l"), Some((label("n", &number.to_string()), None)));
    }
    assert_eq!(labels.labels.len(), MOST_LEAVING + 1, "and the one that is asked for");
}
