//! Native candidates that a real API server accepts and no component writes, before an election of client-go.

use kube::api::PostParams;
use serde_json::{Value, json};

use super::support::World;

const LEASE: &str = "web";

impl World {
    /// Creates a native candidate, and returns the status code of the answer.
    async fn create_native(&self, name: &str, spec: Value) -> u16 {
        let candidate = json!({ "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
            "metadata": { "name": name }, "spec": spec });
        let candidate = serde_json::from_value(candidate).unwrap();
        match self.native().create(&PostParams::default(), &candidate).await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn strange_native_candidates_stop_no_election_of_client_go() {
    let world = World::with_native("strange-native").await;
    let (far, old) = ("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z");
    // All of them outrank the process of client-go.
    let spec = |lease: &str, ping: Option<&str>, renew: Option<&str>| {
        json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0",
            "strategy": "OldestEmulationVersion", "pingTime": ping, "renewTime": renew })
    };
    let third_party = json!({ "leaseName": "other", "binaryVersion": "1.0.0", "strategy": "example.com/Mine" });
    let accepted = [
        ("no-renew-time", spec(LEASE, None, None)),
        ("no-ping-time", spec(LEASE, None, Some(old))),
        ("far-ping-time", spec(LEASE, Some(far), Some(old))),
        ("far-renew-time", spec(LEASE, Some(old), Some(far))),
        ("far-times", spec(LEASE, Some(far), Some(far))),
        ("No_Dns-Name", spec(LEASE, None, Some(old))),
        ("misnamed", spec("No Lease/can:have this name", None, Some(old))),
        ("third-party", third_party),
    ];
    for (name, spec) in accepted {
        assert_eq!(world.create_native(name, spec).await, 201, "{name}");
    }
    // The server rejects these. Only the transcripts show what an election does with them.
    for (name, spec) in [
        ("no-versions", json!({ "leaseName": LEASE, "strategy": "OldestEmulationVersion" })),
        ("no-strategy", json!({ "leaseName": LEASE, "binaryVersion": "1.0.0" })),
        ("no-lease", json!({ "binaryVersion": "1.0.0", "strategy": "example.com/Mine" })),
    ] {
        assert_eq!(world.create_native(name, spec).await, 422, "{name}");
    }

    let controller = world.controller_with(&["--native"]).await.ready().await;
    let replica = world.client_go_with(LEASE, "sane", &["--binary-version=1.36.0"]).await;
    replica.says("leading", 0).await;
    world.stays_with(LEASE, "sane").await;
    let note = r#"leaseName "No Lease/can:have this name" is not a valid DNS subdomain: use lower-case letters, digits, '-' and '.'."#;
    world.published("Warning", note).await;
    let log = std::fs::read_to_string(controller.process.log()).unwrap();
    assert!(!log.contains("this name"), "it sends no request about that Lease:\n{log}");
    assert_eq!(controller.process.exit_status().unwrap(), None);
}
