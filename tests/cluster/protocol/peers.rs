//! The program in Python and `hustings campaign` stand for the same Lease.

use std::{fs, path::Path};

use hustings_controlplane::{AuditEvent, ControlPlane};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};

use super::stage::{Election, LEASE};
use crate::installed::installed;
use crate::replica::{assert_one_at_a_time, token, until};

const SHORT: [&str; 3] = ["--duration=10", "--deadline=8", "--retry=0.5"];

#[tokio::test]
async fn program_of_another_language_is_elected_renews_hands_over_releases_and_is_succeeded() {
    let plane = installed().await;
    let election = Election::new(&plane, "peers").await;

    // The Lease was moved here from another cluster with its token, as docs/backup-and-restore.md describes.
    let moved = move_lease(&election).await;

    // Alone it is elected, and leads and renews.
    let first = election.python("python-first", "1.31.0", "1.31.0", &SHORT).await;
    let leading = first.says("leading", 0).await;
    let held = election.lease().await;
    assert_eq!(
        (held["spec"]["holderIdentity"].as_str(), leading.holder.as_deref()),
        (Some("python-first"), Some("python-first"))
    );
    assert_eq!(token(&held), leading.token.unwrap().to_string());
    assert_eq!(leading.token.unwrap(), moved + 1);
    for _ in 0..2 {
        let before = election.lease().await;
        let later = until(
            "it renews",
            || first.log(),
            async || {
                Some(election.lease().await).filter(|lease| lease["spec"]["renewTime"] != before["spec"]["renewTime"])
            },
        );
        assert_eq!(token(&later.await), token(&held), "a renewal is no new term");
    }

    // A better replica with the library joins, and then a better one in Python.
    let better = election.rust("rust-better", "1.31.0", "1.30.0");
    better.says("leading", 0).await;
    assert_eq!(first.says("stopped", 0).await.message, "handing over");
    let best = election.python("python-best", "1.30.0", "1.29.0", &SHORT).await;
    best.says("leading", 0).await;
    assert_eq!(better.says("stopped", 0).await.message, "handing over");

    // It stops: it deletes its candidate, then releases the Lease, and the next best leads.
    assert!(best.process.stop().await.unwrap().success(), "{}", best.log());
    let events: Vec<_> = best.lines().into_iter().map(|line| line.event).collect();
    assert_eq!(events, ["started", "leading", "stopped", "exiting"]);
    better.says("leading", 1).await;
    assert_deleted_before_released(&plane, &election.namespace, "python-best");

    // The library's replica stops, and Python leads again.
    assert!(better.process.stop().await.unwrap().success(), "{}", better.log());
    first.says("leading", 1).await;

    // Killed, it has a successor when its lease has expired, and not before.
    let heir = election.rust("rust-heir", "1.32.0", "1.32.0");
    election.stands_by(&heir).await;
    first.process.kill().unwrap();
    let killed = Timestamp::now();
    let renewed: Timestamp = election.lease().await["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    let succeeded = heir.says("leading", 0).await.time;
    assert!(succeeded.duration_since(renewed) >= SignedDuration::from_secs(10), "{renewed} {succeeded}");

    let terms = assert_one_at_a_time(&[&first, &better, &best, &heir], &[("python-first", killed)]);
    let names: Vec<_> = terms.iter().map(|term| term.name.as_str()).collect();
    assert_eq!(names, ["python-first", "rust-better", "python-best", "rust-better", "python-first", "rust-heir"]);
}

/// Creates the Lease from the manifest of docs/backup-and-restore.md, and returns its token.
async fn move_lease(election: &Election<'_>) -> u64 {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/backup-and-restore.md")).unwrap();
    let manifest = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut lease: Lease = serde_yaml::from_str(manifest).unwrap();
    lease.metadata.name = Some(LEASE.to_owned());
    let leases = Api::<Lease>::namespaced(election.plane.admin(), &election.namespace);
    let created = serde_json::to_value(leases.create(&PostParams::default(), &lease).await.unwrap()).unwrap();
    let version: u64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let token = token(&created).parse().unwrap();
    assert!(version < token, "the token of the manifest, {token}, is not above the versions of this server");
    token
}

/// By the API server's log, the last write of the Lease by any Python replica is the release.
fn assert_deleted_before_released(plane: &ControlPlane, namespace: &str, candidate: &str) {
    let events = plane.audit_events().unwrap();
    let asked = |verb: &str, resource: &str, name: &str| -> Vec<AuditEvent> {
        let like = |event: &&AuditEvent| {
            let object = event.object_ref.as_ref();
            event.verb == verb
                && event.user_agent.starts_with("Python")
                && object.is_some_and(|object| {
                    (object.resource.as_str(), object.namespace.as_str(), object.name.as_str())
                        == (resource, namespace, name)
                })
        };
        events.iter().filter(like).cloned().collect()
    };
    // It repeats the release until it has observed it.
    let deleted = asked("delete", "leasecandidates", candidate).swap_remove(0);
    let released = asked("patch", "leases", LEASE).pop().unwrap();
    assert_eq!(deleted.response_status.unwrap().code, 200);
    assert!(deleted.request_received_timestamp < released.request_received_timestamp);
}
