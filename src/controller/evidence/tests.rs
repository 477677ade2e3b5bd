//! Tests of how Pods and Nodes are parsed.

use serde_json::{Value, json};

use super::*;

fn pod(pod: Value) -> PodRecord {
    serde_json::from_value::<ReadPod>(pod).unwrap().record
}

fn time(second: i64) -> WireTime {
    WireTime::from_micros(1_767_225_600_000_000 + second * 1_000_000)
}

fn end(second: i64, reason: &str) -> ContainerEnd {
    ContainerEnd { started_at: Some(time(0)), finished_at: Some(time(second)), reason: reason.into() }
}

#[test]
fn a_pod_reads_as_the_states_of_its_containers() {
    let terminated = |second: u32, reason: &str| {
        json!({ "terminated": {
            "exitCode": 137, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": format!("2026-01-01T00:00:0{second}Z"),
            "reason": reason,
        } })
    };
    let record = pod(json!({
        "metadata": { "name": "a", "uid": "u", "annotations": { "kubernetes.io/config.hash": "h", "other": "x" } },
        "spec": {
            "nodeName": "n1", "hostNetwork": true, "containers": [],
            "initContainers": [{ "name": "beside", "restartPolicy": "Always" }, { "name": "before" }],
        },
        "status": {
            "containerStatuses": [
                { "name": "web", "image": "", "imageID": "", "ready": false, "restartCount": 2,
                  "state": terminated(3, "OOMKilled"), "lastState": terminated(1, "Error") },
                { "name": "other", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                  "state": { "running": { "startedAt": "2026-01-01T00:00:05Z" } }, "lastState": {} },
            ],
            "initContainerStatuses": [
                { "name": "before", "state": terminated(1, "Completed") },
                { "name": "beside", "image": "", "imageID": "", "ready": false, "restartCount": 1,
                  "state": { "waiting": { "reason": "CrashLoopBackOff" } }, "lastState": terminated(2, "") },
            ],
            "ephemeralContainerStatuses": [{ "name": "debugger", "state": { "running": {} } }],
        },
    }));
    assert_eq!((&*record.name, &*record.uid, record.config_hash.as_deref()), ("a", "u", Some("h")));
    assert_eq!((record.node.as_deref(), record.host_network, record.shares_processes()), (Some("n1"), true, false));
    let container = |name: &str, kind, ends: &[ContainerEnd]| ContainerRecord {
        kind,
        ..ContainerRecord::ended(name, ends.iter().cloned())
    };
    assert_eq!(
        *record.containers,
        [
            container("web", ContainerKind::Regular, &[end(3, "OOMKilled"), end(1, "Error")]),
            container("other", ContainerKind::Regular, &[]),
            container("beside", ContainerKind::RestartableInit, &[end(2, "")]),
            container("debugger", ContainerKind::Ephemeral, &[]),
        ]
    );
}

/// The API server stores it, and one Pod must not make the list of all unreadable.
#[test]
fn a_time_that_does_not_exist_here_counts_as_none() {
    for (finished_at, expected) in
        [("2026-01-01T00:00:03Z", Some(time(3))), ("9999-12-31T23:59:59Z", None), ("9999-12-31T23:59:59-12:00", None)]
    {
        let state = json!({ "terminated": { "startedAt": "2026-01-01T00:00:00Z", "finishedAt": finished_at } });
        let record = pod(json!({
            "metadata": { "name": "a" }, "status": { "containerStatuses": [{ "name": "web", "state": state }] },
        }));
        let ends: Vec<_> = record.ends("web").map(|end| (end.started_at, end.finished_at)).collect();
        assert_eq!(ends, [(Some(time(0)), expected)], "{finished_at}");
    }
}

#[test]
fn shared_process_namespaces_are_read_from_the_spec_and_assumed_without_one() {
    for spec in
        [json!({ "shareProcessNamespace": true, "containers": [] }), json!({ "hostPID": true, "containers": [] })]
    {
        assert!(pod(json!({ "metadata": {}, "spec": spec })).shares_processes(), "{spec}");
    }
    assert!(pod(json!({ "metadata": {} })).shares_processes());
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
        assert_eq!(failed.ends("web").count(), 0, "{state}");
        assert!(failed.is_over);
        let learned = PodRecord { is_over: false, ..failed };
        assert_eq!(learned, read(state, false), "the election learns only that no container starts again");
    }
}

#[test]
fn a_node_reads_as_its_taint_and_its_readiness() {
    let read = |node: Value| serde_json::from_value::<ReadNode>(node).unwrap().record;
    let node = |taint: &str, ready: &str| {
        read(json!({
            "metadata": { "name": "n1" },
            "spec": { "taints": [{ "key": "b", "effect": "NoSchedule" }, { "key": taint, "effect": "NoExecute" }] },
            "status": { "conditions": [
                { "type": "DiskPressure", "status": "True" },
                { "type": "Ready", "status": ready, "lastHeartbeatTime": "9999-12-31T23:59:59Z" },
            ] },
        }))
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
    let unknown = read(json!({ "metadata": {} }));
    assert!(!unknown.is_out_of_service && !unknown.is_ready);
}
