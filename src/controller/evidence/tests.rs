//! Tests of how Pods and Nodes are parsed, and of the limit on reads.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use kube::client::Body;
use serde_json::{Value, json};

use super::pace::READS_PER_SECOND;
use super::*;

fn pod(pod: Value) -> PodRecord {
    read_pod(serde_json::from_value(pod).unwrap())
}

fn end(container: &str, second: i64, reason: &str) -> ContainerEnd {
    let finished_at = Some(WireTime::from_micros(1_767_225_600_000_000 + second * 1_000_000));
    ContainerEnd { container: container.to_owned(), finished_at, reason: reason.to_owned() }
}

#[test]
fn a_pod_reads_as_the_ends_of_its_containers() {
    let terminated = |second: u32, reason: &str| json!({ "terminated": { "exitCode": 137, "finishedAt": format!("2026-01-01T00:00:0{second}Z"), "reason": reason } });
    let record = pod(json!({
        "metadata": { "uid": "u", "annotations": { "kubernetes.io/config.hash": "h" } },
        "spec": { "nodeName": "n1", "containers": [] },
        "status": {
            "containerStatuses": [
                { "name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 2,
                  "state": terminated(3, "OOMKilled"), "lastState": terminated(1, "Error") },
                { "name": "other", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                  "state": { "running": {} } },
            ],
            "initContainerStatuses": [
                { "name": "beside", "image": "", "imageID": "", "ready": false, "restartCount": 1,
                  "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": terminated(2, "") },
            ],
        },
    }));
    assert_eq!((&*record.uid, record.config_hash.as_deref(), record.node.as_deref()), ("u", Some("h"), Some("n1")));
    assert!(!record.shares_processes);
    assert_eq!(record.ends, [end("web", 3, "OOMKilled"), end("web", 1, "Error"), end("beside", 2, "")]);
}

#[test]
fn shared_process_namespaces_are_read_from_the_spec_and_assumed_without_one() {
    for spec in
        [json!({ "shareProcessNamespace": true, "containers": [] }), json!({ "hostPID": true, "containers": [] })]
    {
        assert!(pod(json!({ "metadata": {}, "spec": spec })).shares_processes, "{spec}");
    }
    assert!(pod(json!({ "metadata": {} })).shares_processes);
}

/// Kubernetes' pod garbage collector marks the Pods of a lost node as failed, and administrators delete such Pods.
/// Their processes may still run.
#[test]
fn neither_the_phase_nor_a_deletion_ends_a_container() {
    let read = |state: Value, is_failed: bool| {
        let mut object = json!({
            "metadata": { "uid": "u" },
            "spec": { "nodeName": "n1", "containers": [] },
            "status": { "phase": "Running", "containerStatuses": [
                { "name": "web", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state },
            ] },
        });
        if is_failed {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            object["status"]["phase"] = json!("Failed");
            object["status"]["reason"] = json!("NodeLost");
            object["status"]["conditions"] =
                json!([{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC" }]);
        }
        pod(object)
    };
    for state in [json!({ "running": {} }), json!({ "waiting": { "reason": "ContainerCreating" } }), json!(null)] {
        let failed = read(state.clone(), true);
        assert_eq!(failed.ends, [], "{state}");
        assert_eq!(failed, read(state, false), "the election cannot tell the two apart");
    }
}

#[test]
fn a_node_reads_as_its_taint_and_its_readiness() {
    let node = |taint: &str, ready: &str| {
        read_node(
            &serde_json::from_value(json!({
                "metadata": { "name": "n1" },
                "spec": { "taints": [{ "key": "b", "effect": "NoSchedule" }, { "key": taint, "effect": "NoExecute" }] },
                "status": { "conditions": [
                    { "type": "DiskPressure", "status": "True" }, { "type": "Ready", "status": ready },
                ] },
            }))
            .unwrap(),
        )
    };
    for (taint, ready, out, is_ready) in [
        ("node.kubernetes.io/out-of-service", "Unknown", true, false),
        ("node.kubernetes.io/out-of-service", "True", true, true),
        ("node.kubernetes.io/unreachable", "False", false, false),
    ] {
        let record = node(taint, ready);
        assert_eq!(
            (record.is_out_of_service, record.is_ready, &*record.name),
            (out, is_ready, "n1"),
            "{taint} {ready}"
        );
    }
    let unknown = read_node(&Node::default());
    assert!(!unknown.is_out_of_service && !unknown.is_ready);
}

#[tokio::test(start_paused = true)]
async fn reads_of_all_leases_share_one_limit_and_bypass_the_cache() {
    let received = Arc::<Mutex<Vec<_>>>::default();
    let server = tower::service_fn({
        let received = Arc::clone(&received);
        move |request: http::Request<Body>| {
            received.lock().unwrap().push(tokio::time::Instant::now());
            assert_eq!(request.uri().query(), None, "a read of a cache");
            assert!(matches!(request.uri().path(), "/api/v1/namespaces/n/pods/a" | "/api/v1/nodes/n1"));
            let missing =
                json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404 }).to_string();
            async move {
                Ok::<_, Infallible>(Response::builder().status(404).body(Body::from(missing.into_bytes())).unwrap())
            }
        }
    });
    let reader = EvidenceReader::new(Client::new(server, "default"));
    let lease = |number: usize| LeaseKey::new("n", &format!("l{number}"));
    let reads = (0..2 * READS_PER_SECOND as usize).map(|number| {
        let (reader, lease) = (reader.clone(), lease(number));
        async move { if number % 2 == 0 { reader.pod(&lease, "a").await } else { reader.node(&lease, "n1").await } }
    });
    let outcomes = futures::future::join_all(reads).await;
    let sent = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(sent, received.lock().unwrap().len());
    assert!(sent <= READS_PER_SECOND as usize, "{sent}");
    for pair in received.lock().unwrap().windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1) / READS_PER_SECOND, "{:?}", pair[1] - pair[0]);
    }
    assert!(matches!(outcomes.last(), Some(Err(Failure::NotSent(_)))), "{:?}", outcomes.last());

    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(reader.node(&lease(0), "n1").await, Ok(Observation::Node { record: None })));
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_ends_after_a_second() {
    let server =
        tower::service_fn(|_: http::Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let reader = EvidenceReader::new(Client::new(server, "n"));
    let began = tokio::time::Instant::now();
    let [first, second] = ["l", "m"].map(|name| LeaseKey::new("n", name));
    assert!(matches!(reader.pod(&first, "a").await, Err(Failure::TimedOut(TIMEOUT))));
    assert!(matches!(reader.node(&second, "n1").await, Err(Failure::TimedOut(TIMEOUT))));
    assert!(began.elapsed() < 5 * TIMEOUT, "{:?}", began.elapsed());
}
