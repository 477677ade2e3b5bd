//! When a watch begins, and what its lines mean.

use serde_json::{Value, json};

use super::*;
use crate::api::ReadLease;

const SECOND: i64 = 1_000_000;

const fn at(micros: i64) -> Moment {
    Moment::from_micros(micros)
}

fn watch() -> Watch<u64> {
    Watch::new::<ReadLease>("n", "l", at(0))
}

fn lease(version: &str) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": { "name": "l", "namespace": "n", "uid": "u", "resourceVersion": version },
    })
}

fn line(watch: &mut Watch<u64>, type_: &str, object: &Value) -> Shown<ReadLease> {
    watch.line(at(1), 1.0, json!({ "type": type_, "object": object }).to_string().as_bytes())
}

fn bookmark() -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": { "resourceVersion": "9", "annotations": { "k8s.io/initial-events-end": "true" } },
    })
}

#[test]
fn a_watch_shows_the_present_object_its_changes_and_its_absence() {
    let mut watch = watch();
    let (request, until) = watch.begin(at(0), 1).unwrap();
    assert_eq!(
        request.uri(),
        "/apis/coordination.k8s.io/v1/namespaces/n/leases?watch=true&fieldSelector=metadata.name%3Dl&timeoutSeconds=60\
         &sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    assert_eq!(until, at(65 * SECOND));
    assert!(watch.begin(at(0), 2).is_none(), "it is under way");
    let shown = line(&mut watch, "ADDED", &lease("7"));
    assert!(matches!(&shown, Shown::Object(lease) if lease.record.resource_version == 7), "{shown:?}");
    assert_eq!(line(&mut watch, "BOOKMARK", &bookmark()), Shown::Nothing);
    assert!(matches!(line(&mut watch, "MODIFIED", &lease("8")), Shown::Object(_)));
    assert_eq!(line(&mut watch, "DELETED", &lease("9")), Shown::Missing);
    watch.ended();
    assert!(watch.begin(at(SECOND - 1), 2).is_none(), "watches begin a second apart");
    watch.begin(at(SECOND), 2).unwrap();
    assert_eq!(watch.line::<ReadLease>(at(SECOND), 0.0, b" \r"), Shown::Nothing);
    assert_eq!(line(&mut watch, "BOOKMARK", &bookmark()), Shown::Missing, "it has shown no object");
    assert_eq!(line(&mut watch, "BOOKMARK", &bookmark()), Shown::Nothing);
}

#[test]
fn a_line_that_is_not_of_this_watch_ends_it() {
    let mut other = lease("7");
    other["metadata"]["name"] = json!("other");
    let expired = json!({ "kind": "Status", "code": 410, "message": "too old" });
    for (type_, object, reason) in [
        ("ADDED", other, "its name is"),
        ("ADDED", json!({ "message": "please sign in" }), "it has no kind"),
        ("SURPRISE", lease("7"), "its type is"),
        ("ERROR", expired, "too old (410)"),
    ] {
        let mut watch = watch();
        watch.begin(at(0), 1).unwrap();
        let Shown::Ended(line) = line(&mut watch, type_, &object) else { panic!("{type_} {object}") };
        assert!(line.text_of("reason").unwrap().contains(reason), "{line:?}");
        assert_eq!((watch.id(), line.text_of("what")), (None, Some("n/l")));
    }
}

#[test]
fn the_pauses_after_failures_grow_and_a_quiet_time_resets_them() {
    let mut watch = watch();
    let mut now = 0;
    for (chance, pause) in
        [(0.0, 800_000 * 4 / 5), (1.0, 1_600_000), (1.0, 3_200_000), (1.0, 5_000_000), (1.0, 5_000_000)]
    {
        watch.begin(at(now), 1).unwrap();
        watch.failed(at(now), chance, "refused".to_owned());
        // Watches begin at least a second apart.
        let expected = now + i64::max(pause, SECOND);
        assert_eq!(watch.deadline(), at(expected));
        now = expected;
    }
    now += 121 * SECOND;
    watch.begin(at(now), 1).unwrap();
    watch.failed(at(now + 2 * SECOND), 1.0, "refused".to_owned());
    assert_eq!(watch.deadline(), at(now + 2 * SECOND + 800_000));
}

#[test]
fn a_lasting_failure_is_a_warning_once_a_minute() {
    let mut watch = watch();
    let mut severity = |seconds: i64, reason: &str| watch.failed(at(seconds * SECOND), 0.0, reason.to_owned()).severity;
    assert_eq!(severity(0, "a"), NoteSeverity::Warning);
    assert_eq!(severity(59, "a"), NoteSeverity::Debug);
    assert_eq!(severity(59, "b: reset on port 43512"), NoteSeverity::Warning);
    assert_eq!(severity(59, "b: reset on port 43514"), NoteSeverity::Debug);
    assert_eq!(severity(119, "b: reset on port 43516"), NoteSeverity::Warning);
}

#[test]
fn a_server_that_does_not_stream_the_state_is_watched_without_it() {
    let mut watch = watch();
    for code in [422, 403] {
        let (request, _) = watch.begin(at(0), 1).unwrap();
        let streams = request.uri().query().unwrap().contains("sendInitialEvents");
        assert_eq!(streams, code == 422);
        let status = Status { code, ..Status::failure("no", "") };
        let severity = watch.refused(at(0), 0.0, &status).severity;
        assert_eq!(severity == NoteSeverity::Warning, code == 403);
    }
    let denied = r#"leases is forbidden: User "jane" cannot watch resource "leases""#;
    let status = Status { code: 403, ..Status::failure(denied, "Forbidden") };
    let line = watch.refused(at(0), 0.0, &status);
    let remedy = "not allowed: grant the verb watch on leases.coordination.k8s.io in namespace n";
    assert_eq!(line.text_of("reason"), Some(remedy));
}
