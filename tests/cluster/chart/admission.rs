//! The chart's policies in the API server: what they reject from a pod with the role of components, and that they accept
//! everything that the protocol requires.

use std::path::PathBuf;
use std::process::Command;

use hustings_controlplane::{AuditEvent, ControlPlane};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::{pod::Pod, release::Release};
use crate::replica::{Replica, assert_one_at_a_time, campaign, candidate_account, hustings, lease, until};

const SHORT: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

#[tokio::test]
async fn policies_reject_writes_of_the_controllers_fields_and_of_other_pods_and_nothing_else() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let release = Release::new(&plane, &namespace, "hustings");
    let shop = Shop::open(&plane, "shop").await;
    let alone = Shop::open(&plane, "alone").await;
    let watched = format!("watchNamespaces={:?}", [&shop.namespace, &alone.namespace]);
    release.apply(&["admissionPolicy.enabled=true", &watched]).await;
    until("the policies are in force", String::new, async || shop.is_guarded().await.then_some(())).await;

    // Without a controller: an election among candidates, which takes 25 s at first, and one by preference.
    let unled = alone.pod("unled-0").await.start("unled", &["--binary-version=1.31.0"]);
    let low = alone.pod("direct-0").await.start("direct", &["--direct", "--key=1"]);
    low.says("leading", 0).await;
    let high = alone.pod("direct-1").await.start("direct", &["--direct", "--key=2"]);
    high.says("leading", 0).await;
    high.process.stop().await.unwrap();
    low.says("leading", 1).await;
    assert_one_at_a_time(&[&low, &high], &[]);
    unled.says("leading", 0).await;

    // With a controller: an election, a hand-over, a crash, and a sidecar.
    let controller = Pod::start(release, "hustings-0").await;
    let (a, b) = (shop.pod("web-a").await, shop.pod("web-b").await);
    let newer = a.start("web", &["--binary-version=1.32.0"]);
    newer.says("leading", 0).await;
    let older = b.start("web", &["--binary-version=1.31.0"]);
    older.says("leading", 0).await;
    shop.refuses_the_other_pod(&a, &b).await;
    older.process.stop().await.unwrap();
    newer.says("leading", 1).await;
    assert_one_at_a_time(&[&newer, &older], &[]);
    newer.process.kill().unwrap();
    let sidecar = shop.pod("web-c").await.sidecar("web");
    until("the sidecar leads", || sidecar.log(), async || (shop.holder("web").await == "web-c").then_some(())).await;

    // The administrator pauses the election, and deletes a candidate, as documented.
    let pause = ["annotate", "lease", "web", "--namespace", &shop.namespace, "hustings.io/hold=maintenance"];
    release.kubectl(&pause).await;
    release.kubectl(&["delete", "lcand", "web-a", "--namespace", &shop.namespace]).await;
    release.kubectl(&["annotate", "lease", "web", "--namespace", &shop.namespace, "hustings.io/hold-"]).await;

    unled.process.stop().await.unwrap();
    sidecar.process.stop().await.unwrap();
    assert!(controller.process.exit_status().unwrap().is_none(), "{}", controller.log());
    // Except for the manual writes, which are dry runs, no request was rejected.
    let is_refused = |event: &AuditEvent| event.response_status.as_ref().is_some_and(|status| status.code == 403);
    let refused = plane.audit_events().unwrap().into_iter().filter(is_refused);
    let (by_hand, others): (Vec<_>, Vec<_>) = refused.partition(|event| event.request_uri.contains("dryRun"));
    assert!(!by_hand.is_empty() && others.is_empty(), "{others:#?}");
}

/// A namespace whose pods may stand for Leases.
struct Shop<'a> {
    plane: &'a ControlPlane,
    namespace: String,
    account: Client,
}

/// One pod of the namespace. It never runs: its programs are processes of this machine.
struct Member<'a> {
    shop: &'a Shop<'a>,
    name: String,
    uid: String,
    kubeconfig: PathBuf,
    client: Client,
}

impl<'a> Shop<'a> {
    async fn open(plane: &'a ControlPlane, name: &str) -> Self {
        let namespace = plane.create_namespace(name).await.unwrap();
        candidate_account(plane, &namespace, "web").await;
        let account = plane.client_for_service_account(&namespace, "web").await.unwrap();
        Self { plane, namespace, account }
    }

    /// Whether both policies are in force.
    async fn is_guarded(&self) -> bool {
        let candidate = json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": { "name": "probe" },
            "spec": { "leaseName": "probe", "binaryVersion": "1", "emulationVersion": "1", "pingTime": "2026-01-01T00:00:00.000000Z" },
        });
        let lease = enrolled(&json!({ "hustings.io/session": "open" }));
        // Without its role yet, the account is refused, too.
        let says = |written: Result<(), String>, text: &str| written.is_err_and(|refusal| refusal.contains(text));
        says(self.write(&self.account, "POST", "leasecandidates", &candidate).await, "only the controller writes")
            && says(self.write(&self.account, "POST", "leases", &lease).await, "created without a session")
    }

    async fn pod(&'a self, name: &str) -> Member<'a> {
        let kubeconfig = self.plane.kubeconfig_for_pod(&self.namespace, "web", name).await.unwrap();
        let pod = Api::<KubernetesPod>::namespaced(self.plane.admin(), &self.namespace).get(name).await.unwrap();
        let read = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        Member { shop: self, name: name.to_owned(), uid: pod.metadata.uid.unwrap(), kubeconfig, client }
    }

    async fn holder(&self, name: &str) -> String {
        lease(self.plane, &self.namespace, name).await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// A dry run of a manual write: the message of the rejection.
    async fn write(&self, client: &Client, method: &str, path: &str, body: &Value) -> Result<(), String> {
        let group = if path.starts_with("leases") { "coordination.k8s.io/v1" } else { "hustings.io/v1alpha1" };
        let uri = format!("/apis/{group}/namespaces/{}/{path}?dryRun=All", self.namespace);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(uri).header("content-type", kind);
        match client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await {
            Ok(_) => Ok(()),
            // The CRD may not be served yet.
            Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Err(status.message.clone()),
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// The writes that `a` may make while `b` leads.
    async fn refuses_the_other_pod(&self, a: &Member<'_>, b: &Member<'_>) {
        let word = |name: &str, value: &str| json!({ "metadata": { "annotations": { format!("hustings.io/{name}"): value } } });
        let owner = |pod: &Member<'_>| json!([{ "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid }]);
        let claim = |uid: &str, holder: &str| {
            json!({
                "metadata": { "annotations": { "hustings.io/session": format!("{uid}.-.1.x/1/15") } },
                "spec": { "holderIdentity": holder },
            })
        };
        let renewal = json!({ "spec": { "renewTime": "2099-01-01T00:00:00.000000Z" } });
        let ping = json!({ "spec": { "pingTime": "2099-01-01T00:00:00.000000Z" } });
        let named = |name: &str, owner: Value| {
            json!({
                "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
                "metadata": { "name": name, "ownerReferences": owner },
                "spec": { "leaseName": "web", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
            })
        };
        let nothing = json!({});
        let (term, says) = ("the term of another pod", "only the controller writes");
        let acts = "only the controller and administrators write";
        for (method, path, body, refusal) in [
            ("PATCH", "leases/web", word("session", "open"), term),
            ("PATCH", "leases/web", json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } }), term),
            ("PATCH", "leases/web", renewal.clone(), term),
            ("PATCH", "leases/web", word("token", "1"), term),
            ("PATCH", "leases/web", word("key", "1"), term),
            ("PATCH", "leases/web", claim(&b.uid, "web-a"), term),
            ("PATCH", "leases/web", claim(&a.uid, ""), term),
            ("PATCH", "leases/web", word("hold", "mine"), acts),
            ("PATCH", "leases/web", word("transfer", "web-a"), acts),
            ("PATCH", "leases/web", word("pin", "web-a until 2099-01-01T00:00:00Z"), acts),
            ("PATCH", "leases/web", word("leader-label", "app=web"), acts),
            ("PATCH", "leases/web", word("assist", "container=web"), acts),
            ("PATCH", "leases/web", word("strategy", "example.com/Mine"), acts),
            ("PATCH", "leases/web", word("preferred-holder", "web-a"), says),
            ("PATCH", "leases/web", json!({ "metadata": { "labels": null } }), "the label"),
            ("PATCH", "leases/web", json!({ "metadata": { "ownerReferences": owner(a) } }), "the owners"),
            ("POST", "leases", enrolled(&json!({ "hustings.io/session": "open" })), "without a session"),
            ("PATCH", "leasecandidates/web-b", renewal.clone(), "to another pod"),
            ("PATCH", "leasecandidates/web-b", json!({ "spec": { "priority": 1 } }), "to another pod"),
            ("DELETE", "leasecandidates/web-b", nothing.clone(), "to another pod"),
            ("PATCH", "leasecandidates/web-a", ping, says),
            ("POST", "leasecandidates", named("other", owner(b)), "another the owner"),
        ] {
            let refused = self.write(&a.client, method, path, &body).await.expect_err(path);
            assert!(refused.contains(refusal), "{method} {path} {body}: {refused}");
        }
        for (method, path, body) in [
            // As if the Lease had expired.
            ("PATCH", "leases/web", claim(&a.uid, "web-a")),
            ("PATCH", "leases/web", json!({ "metadata": { "labels": { "example.com/other": "1" } } })),
            ("POST", "leases", enrolled(&json!({}))),
            ("PATCH", "leasecandidates/web-a", renewal),
            ("POST", "leasecandidates", named("other", owner(a))),
            ("DELETE", "leasecandidates/web-a", nothing),
        ] {
            self.write(&a.client, method, path, &body).await.unwrap();
        }
        // No other pod has that name, and the former pod had another UID.
        self.write(&self.account, "PATCH", "leasecandidates/web-b", &json!({ "spec": { "priority": 1 } }))
            .await
            .unwrap();
    }
}

impl Member<'_> {
    fn start(&self, lease: &str, flags: &[&str]) -> Replica {
        let flags = [&SHORT, flags].concat();
        self.run(campaign(&self.kubeconfig, &self.shop.namespace, lease, &self.name, &flags))
    }

    fn sidecar(&self, lease: &str) -> Replica {
        let mut command = hustings();
        command.args(["sidecar", "--binary-version=1.31.0", "--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"]);
        command.args(["--namespace", &self.shop.namespace, "--lease", lease]).args(SHORT);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        self.run(command)
    }

    fn run(&self, mut command: Command) -> Replica {
        command.env("POD_NAME", &self.name).env("POD_UID", &self.uid);
        Replica::start(self.shop.plane, &self.shop.namespace, &self.name, command)
    }
}

fn enrolled(annotations: &Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "probe", "labels": { "hustings.io/enrolled": "true" }, "annotations": annotations },
    })
}
