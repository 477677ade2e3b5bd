//! The chart's FlowSchema keeps elections going while other service accounts overload the API server.
//!
//! Their requests wait for webhooks that never answer, so they occupy the server without using the machine.

use std::time::Duration;

use hustings_controlplane::{ControlPlane, Process};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::replica::{Replica, campaign, candidate_account, controller, install_chart, lease, until};

const LEASE: &str = "web";

/// The namespace of the accounts that overload the server, and how many of them send how many requests at a time.
const FLOOD: &str = "flood";
const ACCOUNTS: usize = 60;
const REQUESTS: usize = 3;

/// How many requests the server carries out at a time. A sixth of them is for elections, in two seats.
const SEATS: [&str; 2] = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=20"];

/// How many requests must wait before the server counts as overloaded.
const WAITING: f64 = 50.0;

/// Each webhook costs the server 10 s. Together they take longer than a lease.
const WEBHOOKS: usize = 3;

/// How long the holder must renew while the server is overloaded: longer than its lease.
const OVERLOADED_SECONDS: i64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn with_the_flow_schema_elections_continue_while_other_accounts_overload_the_server() {
    let stage = Stage::new(&["--set", "flowSchema.enabled=true"]).await;
    let flood = stage.flood().await;
    let [holder, standby] = &stage.replicas;
    let since = renewed(&stage).await;
    until(
        "the holder renews for longer than a lease",
        || holder.log(),
        async || (renewed(&stage).await.duration_since(since).as_secs() >= OVERLOADED_SECONDS).then_some(()),
    )
    .await;
    assert!(holder.leads() && holder.terms().len() == 1, "{}", holder.log());

    assert!(holder.process.stop().await.unwrap().success(), "{}", holder.log());
    let stopped = holder.says("stopped", 0).await.time;
    let led = standby.says("leading", 0).await.time;
    println!("handed over in {:#} on an overloaded server", led.duration_since(stopped));
    let overloaded = async || (stage.waiting().await >= WAITING).then_some(());
    until("the server is overloaded to the end", String::new, overloaded).await;
    drop(flood);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_flow_schema_the_same_load_costs_the_holder_its_term() {
    let stage = Stage::new(&[]).await;
    let flood = stage.flood().await;
    let [holder, _] = &stage.replicas;
    let stopped = holder.says("stopped", 0).await;
    println!("without the FlowSchema: {}", stopped.message);
    drop(flood);
}

/// A small API server, a controller and two replicas, the first of which leads.
struct Stage {
    plane: ControlPlane,
    namespace: String,
    replicas: [Replica; 2],
    _controller: Process,
}

/// Requests that overload the server until this value is dropped.
struct Flood {
    _requests: JoinSet<()>,
    _webhook: TcpListener,
}

impl Stage {
    /// Installs the chart with these flags.
    async fn new(flags: &[&str]) -> Self {
        let builder = SEATS.into_iter().fold(ControlPlane::builder(), hustings_controlplane::Builder::apiserver_flag);
        let plane = builder.start().await.unwrap();
        install_chart(&plane, flags).await;
        let process = controller(&plane, "controller", &["--settling=0s"]).await;
        let namespace = plane.create_namespace("shop").await.unwrap();
        let account = candidate_account(&plane, &namespace, "web").await;
        let join = |name: &str, version: &str| {
            let flags = ["--binary-version", version, "--emulation-version", version];
            Replica::start(&plane, &namespace, name, campaign(&account, &namespace, LEASE, name, &flags))
        };
        let first = join("a", "1.31.0");
        first.says("leading", 0).await;
        let second = join("b", "1.32.0");
        second.says("observed", 0).await;
        Self { replicas: [first, second], plane, namespace, _controller: process }
    }

    /// Overloads the server, and waits until requests wait for it.
    async fn flood(&self) -> Flood {
        let webhook = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.prepare(&format!("https://{}", webhook.local_addr().unwrap())).await;
        let mut requests = JoinSet::new();
        for account in 0..ACCOUNTS {
            let config_maps = Api::<ConfigMap>::namespaced(self.client_of(&format!("account-{account}")), FLOOD);
            for _ in 0..REQUESTS {
                let config_maps = config_maps.clone();
                requests.spawn(async move {
                    loop {
                        let metadata = ObjectMeta { generate_name: Some("c-".to_owned()), ..ObjectMeta::default() };
                        let object = ConfigMap { metadata, ..ConfigMap::default() };
                        if config_maps.create(&PostParams::default(), &object).await.is_err() {
                            tokio::time::sleep(Duration::from_millis(200)).await;
                        }
                    }
                });
            }
        }
        until("requests wait", String::new, async || (self.waiting().await >= WAITING).then_some(())).await;
        Flood { _requests: requests, _webhook: webhook }
    }

    /// Creates the namespace of the flood, lets its accounts write there, and makes each write wait for `url`.
    async fn prepare(&self, url: &str) {
        let webhooks: Vec<_> = (0..WEBHOOKS)
            .map(|number| {
                json!({
                    "name": format!("silent-{number}.example.com"), "clientConfig": { "url": url },
                    "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "scope": "Namespaced" }],
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": FLOOD } },
                    "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
                    "failurePolicy": "Ignore",
                })
            })
            .collect();
        let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": FLOOD } },
            { "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": { "name": FLOOD, "namespace": FLOOD },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "cluster-admin" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                    "name": format!("system:serviceaccounts:{FLOOD}") }] },
            { "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                "metadata": { "name": FLOOD }, "webhooks": webhooks },
        ]});
        let path = self.plane.folder().join("flood.json");
        std::fs::write(&path, objects.to_string()).unwrap();
        let applied = self.plane.kubectl(["apply", "--filename", path.to_str().unwrap()]).await.unwrap();
        super::succeed(&applied);
    }

    /// A client that acts as an account of the namespace of the flood.
    fn client_of(&self, account: &str) -> Client {
        let mut config = self.plane.config();
        config.default_retry = false;
        config.auth_info.impersonate = Some(format!("system:serviceaccount:{FLOOD}:{account}"));
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{FLOOD}")];
        config.auth_info.impersonate_groups = Some(groups.into());
        Client::try_from(config).unwrap()
    }

    /// How many requests of service accounts wait.
    async fn waiting(&self) -> f64 {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.plane.admin().request_text(request).await.unwrap();
        let series = "apiserver_flowcontrol_current_inqueue_requests{";
        let lines = text.lines().filter_map(|line| line.strip_prefix(series)?.split_once("} "));
        let lines = lines.filter(|(labels, _)| labels.contains(r#"flow_schema="service-accounts""#));
        lines.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }
}

/// When the holder last renewed.
async fn renewed(stage: &Stage) -> jiff::Timestamp {
    let lease: Value = lease(&stage.plane, &stage.namespace, LEASE).await;
    lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap()
}
