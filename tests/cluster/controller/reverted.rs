//! Admission policies that strip what the controller writes: the server answers 200, and the object lacks the change.
//! Also a deletion that a finalizer delays.
//!
//! The controller must not repeat such a write at once, or it would do so for ever. It must report what is lost, and
//! complete the election when the policy is gone.

use std::time::Duration;

use hustings_client::api::ReadCandidate;
use hustings_client::{Campaign, Elector, lease_client};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::elections::http_post;
use super::support::{Controller, World, eventually};

/// The first pause before such a write is repeated; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const CANDIDATES: (&str, &str) = ("hustings.io", "leasecandidates");

/// A policy that strips a field of the objects in one namespace.
struct Policy<'w> {
    world: &'w World,
    group_and_plural: (&'static str, &'static str),
    /// Whether an object has the field, in CEL.
    is_present: &'static str,
    /// Where the field is in an object.
    pointer: &'static str,
}

/// A controller and an elector in a namespace with a policy.
struct Stage<'w> {
    policy: Policy<'w>,
    controller: Controller,
    campaign: Campaign,
}

#[tokio::test]
async fn a_label_that_is_stripped_is_written_ever_more_rarely_and_reported() {
    let world = World::new("reverted-label").await;
    let stage = Stage::new(Policy {
        world: &world,
        group_and_plural: LEASES,
        is_present: r#"has(object.metadata.labels) && "hustings.io/enrolled" in object.metadata.labels"#,
        pointer: "/metadata/labels/hustings.io~1enrolled",
    })
    .await;
    stage.pauses_between("enrol", 4, "web").await;
    let lost = "enrol of Lease {namespace}/web (label hustings.io/enrolled)";
    stage
        .reports(lost, r#"the write "enrol", but does not keep the label hustings.io/enrolled. Exempt this Lease"#)
        .await;
    stage.completes().await;
}

#[tokio::test]
async fn a_ping_that_is_stripped_is_repeated_ever_more_rarely_and_reported() {
    let world = World::new("reverted-ping").await;
    let stage = Stage::new(Policy {
        world: &world,
        group_and_plural: CANDIDATES,
        is_present: "has(object.spec.pingTime)",
        pointer: "/spec/pingTime",
    })
    .await;
    stage.pauses_between("ping", 4, "a").await;
    let lost = "ping of LeaseCandidate {namespace}/a (field spec.pingTime)";
    stage
        .reports(lost, r#"the write "ping", but does not keep the field spec.pingTime. Exempt this LeaseCandidate"#)
        .await;
    stage.completes().await;
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
    eventually("readyz no longer warns", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        if body.contains("without effect") { Err(body) } else { Ok(()) }
    })
    .await;
    assert!(world.candidate("kept").await.is_none());
}

impl<'w> Stage<'w> {
    async fn new(policy: Policy<'w>) -> Self {
        policy.enforce().await;
        let world = policy.world;
        let controller = world.controller().await.ready().await;
        controller.leads().await;
        let client = lease_client(world.plane.config()).unwrap();
        let elector = Elector::coordinated(client, &*world.namespace, "web", "1.0.0").identity("a");
        let campaign = elector.fallback(false).build().unwrap().start();
        Self { policy, controller, campaign }
    }

    /// Waits until the controller has repeated a write `count` times, and checks the pauses in the audit log. They have no
    /// upper bound, since the machine may be busy.
    async fn pauses_between(&self, request: &str, count: usize, object: &str) {
        let series = format!(r#"hustings_requests_total{{request="{request}"}}"#);
        eventually(&format!("{count} writes {request}"), || async {
            let done = self.controller.metric(&series).await;
            if done >= f64::from(u32::try_from(count).unwrap()) { Ok(()) } else { Err(done) }
        })
        .await;
        let writes = self.writes(object);
        let pauses: Vec<_> = writes.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
        println!("{request}: pauses {pauses:?}");
        assert!(pauses.len() + 1 >= count, "{pauses:?}");
        for (number, pause) in pauses.iter().enumerate() {
            let least = FIRST_PAUSE * (1 << number.min(4));
            assert!(pause.as_secs_f64() >= least.as_secs_f64(), "{pauses:?}");
        }
    }

    /// When the API server received the controller's writes of this object, without statuses and creations.
    fn writes(&self, object: &str) -> Vec<Timestamp> {
        let (Policy { world, group_and_plural: (_, plural), .. }, mut writes) = (&self.policy, Vec::new());
        for event in world.plane.audit_events().unwrap() {
            let about = event.object_ref.unwrap_or_default();
            let is_its = about.namespace == world.namespace && about.resource == *plural && about.name == object;
            let is_write = event.verb == "patch" && about.subresource.is_empty();
            let is_done = event.response_status.is_some_and(|status| status.code == 200);
            if is_its && is_write && is_done && event.user_agent.starts_with("hustings-controller") {
                writes.push(event.request_received_timestamp.parse().unwrap());
            }
        }
        writes
    }

    async fn reports(&self, lost: &str, note: &str) {
        let lost = lost.replace("{namespace}", &self.policy.world.namespace);
        eventually("readyz names the object and the field", || async {
            let answer = self.controller.get("/readyz?verbose").await?;
            if answer.code == 200 && answer.body.contains(&lost) { Ok(()) } else { Err(answer.body) }
        })
        .await;
        let note = format!("The API server accepts {note} from the admission policy or webhook that changes it.");
        self.policy.world.published("Warning", &note).await;
    }

    /// Without the policy the elector leads, and the warning disappears.
    async fn completes(self) {
        self.policy.remove().await;
        self.policy.world.led_by("web", "a").await;
        eventually("readyz no longer warns", || async {
            let body = self.controller.get("/readyz?verbose").await?.body;
            if body.contains("without effect") { Err(body) } else { Ok(()) }
        })
        .await;
        eventually("it leads", async || self.campaign.leadership().is_leader().then_some(()).ok_or("it does not"))
            .await;
    }
}

impl Policy<'_> {
    /// Creates the policy and waits until it is in force.
    async fn enforce(&self) {
        let Self { world, group_and_plural: (group, plural), is_present, pointer } = self;
        let name = &world.namespace;
        // The controller writes nothing before it holds its own Lease.
        let remove = format!(
            r#"object.metadata.name != "hustings-controller" && {is_present} ? [JSONPatch{{op: "remove", path: "{pointer}"}}] : []"#
        );
        let rule = json!({ "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [plural] });
        self.post(
            POLICIES,
            "MutatingAdmissionPolicy",
            json!({
                "matchConstraints": { "resourceRules": [rule] },
                "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": remove } }],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
            }),
        )
        .await;
        self.post(
            BINDINGS,
            "MutatingAdmissionPolicyBinding",
            json!({
                "policyName": name,
                "matchResources": { "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } } },
            }),
        )
        .await;
        eventually("the policy is in force", || async {
            let answer = self.probe().await.map_err(|error| error.to_string())?;
            if answer.pointer(pointer).is_none() { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    }

    /// What the server would create from an object that has the field. It rejects candidates for a moment after their CRD
    /// was installed.
    async fn probe(&self) -> kube::Result<Value> {
        let Self { world, group_and_plural: (group, plural), .. } = self;
        let (version, kind, spec) = match *plural {
            "leases" => ("v1", "Lease", json!({})),
            _ => (
                "v1alpha1",
                "LeaseCandidate",
                json!({ "leaseName": "web", "binaryVersion": "1.0.0",
                "emulationVersion": "1.0.0", "pingTime": "2026-01-01T00:00:00.000000Z" }),
            ),
        };
        let metadata = json!({ "name": "probe", "labels": { "hustings.io/enrolled": "true" },
            "annotations": { "hustings.io/session": "open" } });
        let object =
            json!({ "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata, "spec": spec });
        let url = format!("/apis/{group}/{version}/namespaces/{}/{plural}", world.namespace);
        let mut request = http_post(&url, &object);
        *request.uri_mut() = format!("{url}?dryRun=All").parse().unwrap();
        world.client.request(request).await
    }

    async fn post(&self, url: &str, kind: &str, spec: Value) {
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": { "name": self.world.namespace }, "spec": spec });
        self.world.client.request::<Value>(http_post(url, &object)).await.unwrap();
    }

    async fn remove(&self) {
        for url in [BINDINGS, POLICIES] {
            delete(&self.world.client, &format!("{url}/{}", self.world.namespace)).await;
        }
    }
}

async fn delete(client: &Client, url: &str) {
    let request = http::Request::delete(url).body(Vec::new()).unwrap();
    client.request::<Value>(request).await.unwrap();
}
