//! An admission policy that strips what the controller writes: the server answers 200, and the object lacks the change.
//! Also a deletion that a finalizer delays.
//!
//! The controller must not repeat such a write at once, or it would do so for ever. It must report what is lost, and
//! complete the election when the policy is gone.

use std::time::Duration;

use hustings_client::api::ReadCandidate;
use hustings_client::{Elector, lease_client};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::elections::http_post;
use super::support::{Controller, World, eventually};

/// The first pause before such a write is repeated; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

#[tokio::test]
async fn a_label_that_is_stripped_is_written_ever_more_rarely_and_reported() {
    let world = World::new("reverted-label").await;
    strip_labels(&world).await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let client = lease_client(world.plane.config()).unwrap();
    let elector = Elector::coordinated(client, &*world.namespace, "web", "1.0.0").identity("a");
    let campaign = elector.fallback(false).build().unwrap().start();

    eventually("four writes", || async {
        let done = writes(&world).len();
        if done >= 4 { Ok(()) } else { Err(done) }
    })
    .await;
    // They have no upper bound, since the machine may be busy.
    let pauses: Vec<_> = writes(&world).windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
    assert!(pauses.len() >= 3, "{pauses:?}");
    for (number, pause) in pauses.iter().enumerate() {
        let least = FIRST_PAUSE * (1 << number.min(4));
        assert!(pause.as_secs_f64() >= least.as_secs_f64(), "{pauses:?}");
    }
    let lost = format!("enrol of Lease {}/web (label hustings.io/enrolled)", world.namespace);
    eventually("readyz names the object and the field", || async {
        let answer = controller.get("/readyz?verbose").await?;
        if answer.code == 200 && answer.body.contains(&lost) { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let note = "The API server accepts the write \"enrol\", but does not keep the label hustings.io/enrolled. Exempt \
                this Lease from the admission policy or webhook that changes it.";
    world.published("Warning", note).await;

    for url in [BINDINGS, POLICIES] {
        let request = http::Request::delete(format!("{url}/{}", world.namespace)).body(Vec::new()).unwrap();
        world.client.request::<Value>(request).await.unwrap();
    }
    world.led_by("web", "a").await;
    warns_no_longer(&controller).await;
    eventually("it leads", async || campaign.leadership().is_leader().then_some(()).ok_or("it does not")).await;
}

#[tokio::test]
async fn a_dead_candidate_that_a_finalizer_keeps_is_reported_until_it_is_gone() {
    let world = World::new("reverted-deletion").await;
    let controller = world.controller_with(&["--candidate-validity", "10s"]).await.ready().await;
    world
        .create(json!({
            "metadata": { "name": "kept", "finalizers": ["example.com/kept"] },
            "spec": { "leaseName": "web", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        }))
        .await;
    let lost = format!("delete of LeaseCandidate {}/kept (finalizer)", world.namespace);
    eventually("readyz names the candidate", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        if body.contains(&lost) { Ok(()) } else { Err(body) }
    })
    .await;
    let note = "The API server accepts the write \"delete\", but a finalizer keeps the LeaseCandidate. Remove the \
                finalizer, or repair the controller that should remove it.";
    world.published("Warning", note).await;
    let candidates: Api<ReadCandidate> = Api::namespaced(world.client.clone(), &world.namespace);
    let released = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    candidates.patch("kept", &PatchParams::default(), &released).await.unwrap();
    warns_no_longer(&controller).await;
    assert!(world.candidate("kept").await.is_none());
}

async fn warns_no_longer(controller: &Controller) {
    eventually("readyz no longer warns", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        if body.contains("without effect") { Err(body) } else { Ok(()) }
    })
    .await;
}

/// When the API server received the controller's writes of the Lease.
fn writes(world: &World) -> Vec<Timestamp> {
    let mut writes = Vec::new();
    for event in world.plane.audit_events().unwrap() {
        let about = event.object_ref.unwrap_or_default();
        let is_its = about.namespace == world.namespace && about.resource == "leases" && about.name == "web";
        let is_done = event.response_status.is_some_and(|status| status.code == 200);
        if is_its && event.verb == "patch" && is_done && event.user_agent.starts_with("hustings-controller") {
            writes.push(event.request_received_timestamp.parse().unwrap());
        }
    }
    writes
}

/// Strips the label from each Lease of the namespace. The controller writes nothing before it holds its own Lease, which
/// therefore keeps it.
async fn strip_labels(world: &World) {
    let name = &world.namespace;
    let remove = r#"object.metadata.name != "hustings-controller" && has(object.metadata.labels)
        && "hustings.io/enrolled" in object.metadata.labels
        ? [JSONPatch{op: "remove", path: "/metadata/labels/hustings.io~1enrolled"}] : []"#;
    let rule = json!({ "apiGroups": ["coordination.k8s.io"], "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"], "resources": ["leases"] });
    let policy = json!({ "matchConstraints": { "resourceRules": [rule] },
        "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": remove } }],
        "failurePolicy": "Fail", "reinvocationPolicy": "Never" });
    let here = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    let binding = json!({ "policyName": name, "matchResources": { "namespaceSelector": here } });
    for (url, kind, spec) in
        [(POLICIES, "MutatingAdmissionPolicy", policy), (BINDINGS, "MutatingAdmissionPolicyBinding", binding)]
    {
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": { "name": name }, "spec": spec });
        world.client.request::<Value>(http_post(url, &object)).await.unwrap();
    }
    let probe = json!({ "metadata": { "name": "probe", "labels": { "hustings.io/enrolled": "true" } } });
    let probe: Lease = serde_json::from_value(probe).unwrap();
    let leases = Api::<Lease>::namespaced(world.client.clone(), name);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the policy is in force", || async {
        let labels = leases.create(&dry_run, &probe).await.map_err(|error| error.to_string())?.metadata.labels;
        if labels.is_none_or(|labels| labels.is_empty()) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}
