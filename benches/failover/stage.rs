//! The place: a control plane, the chart in it, and two controllers that run as its Deployment says.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hustings_client::api::{LeaseCandidate, ReadCandidate, ReadLease};
use hustings_client::lease_client;
use hustings_controlplane::{ControlPlane, Process};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::json;

/// Where the controllers are.
pub(crate) const SYSTEM: &str = "hustings-system";
/// The ServiceAccount of all electors, in the namespace of the same name.
pub(crate) const ELECTORS: &str = "electors";
const OWN_LEASE: &str = "hustings-controller";
const CONTROLLERS: [&str; 2] = ["hustings-0", "hustings-1"];
/// Far longer than any step takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
/// How many clients all electors share. A client's pool of connections has one lock, so hundreds of electors need a
/// few.
const CLIENTS: usize = 4;

/// Everything that runs.
pub(crate) struct Stage {
    controllers: HashMap<&'static str, Process>,
    account: String,
    clients: Vec<Client>,
    spread: Duration,
    // Last, so that the processes end before the control plane.
    plane: ControlPlane,
}

impl Stage {
    /// A control plane with the chart, installed with these arguments, and two controllers, one of which leads.
    pub(crate) async fn set(audit: bool, spread: Duration, arguments: &[&str]) -> Result<Self> {
        eprintln!("starting etcd and kube-apiserver (the first time they are built, which takes minutes)");
        let plane = ControlPlane::builder().audit(audit).start().await?;
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/hustings");
        let chart = chart.to_str().context("the path of the chart is not UTF-8")?;
        let install = ["install", "hustings", chart, "--namespace", SYSTEM, "--create-namespace"];
        let output = plane.helm(install.iter().chain(arguments)).await?;
        ensure!(output.status.success(), "helm install failed: {}", String::from_utf8_lossy(&output.stderr));
        let deployments = Api::<Deployment>::namespaced(plane.admin(), SYSTEM).list(&ListParams::default()).await?;
        let deployment = deployments.items.into_iter().next().context("the chart has no Deployment")?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("a Deployment without pods")?;
        let account = pod.service_account_name.context("the Deployment names no ServiceAccount")?;
        let container = pod.containers.into_iter().next().context("a Deployment without containers")?;

        create_namespace(&plane, ELECTORS).await?;
        plane.create_service_account(ELECTORS, ELECTORS).await?;
        let config = plane.config_for_service_account(ELECTORS, ELECTORS).await?;
        let clients = (0..CLIENTS).map(|_| lease_client(config.clone())).collect::<Result<_, _>>()?;
        // It takes a moment until the server serves a new resource.
        let candidates = Api::<ReadCandidate>::all(plane.admin());
        until("LeaseCandidates are not served", async || candidates.list(&ListParams::default()).await).await?;
        // The server delays the first creations of a new resource by two seconds. Let it delay this one, not a measured
        // one.
        let first = json!({
            "metadata": {"name": "first"},
            "spec": {"leaseName": "first", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0"},
        });
        let trial = PostParams { dry_run: true, ..PostParams::default() };
        let candidates = Api::<LeaseCandidate>::namespaced(plane.admin(), ELECTORS);
        candidates.create(&trial, &serde_json::from_value(first)?).await?;
        let mut stage = Self { controllers: HashMap::new(), account, clients, spread, plane };
        for name in CONTROLLERS {
            stage.start_controller(name, &container).await?;
        }
        let leading = stage.leading_controller().await?;
        eprintln!("{leading} leads the controllers");
        Ok(stage)
    }

    /// The time over which the events of the Leases are spread.
    pub(crate) const fn spread(&self) -> Duration {
        self.spread
    }

    /// A namespace in which electors may stand.
    pub(crate) async fn namespace(&self, prefix: &str) -> Result<String> {
        let namespace = self.plane.create_namespace(prefix).await?;
        let binding = serde_json::from_value(json!({
            "metadata": {"name": ELECTORS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hustings-candidate"},
            "subjects": [{"kind": "ServiceAccount", "name": ELECTORS, "namespace": ELECTORS}],
        }))?;
        Api::<RoleBinding>::namespaced(self.admin(), &namespace).create(&PostParams::default(), &binding).await?;
        // The server's authorizer reads from a cache.
        let leases = Api::<ReadLease>::namespaced(self.client(0), &namespace);
        until("the electors are not allowed to stand", async || leases.list(&ListParams::default()).await).await?;
        Ok(namespace)
    }

    /// A client of an elector; few electors share one.
    pub(crate) fn client(&self, number: usize) -> Client {
        self.clients[number % CLIENTS].clone()
    }

    pub(crate) fn admin(&self) -> Client {
        self.plane.admin()
    }

    pub(crate) fn config(&self) -> Config {
        self.plane.config()
    }

    pub(crate) fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The user name of the controllers.
    pub(crate) fn controllers_user(&self) -> String {
        format!("system:serviceaccount:{SYSTEM}:{}", self.account)
    }

    /// The controllers' processes, the leader first.
    pub(crate) async fn controllers_pids(&self) -> Result<[(&'static str, u32); 2]> {
        let leading = self.leading_controller().await?;
        let standby = if leading == CONTROLLERS[0] { CONTROLLERS[1] } else { CONTROLLERS[0] };
        Ok([("leading", self.controllers[leading].pid()), ("standby", self.controllers[standby].pid())])
    }

    async fn leading_controller(&self) -> Result<&'static str> {
        let leases = Api::<ReadLease>::namespaced(self.admin(), SYSTEM);
        let held = async {
            loop {
                let record = leases.get_opt(OWN_LEASE).await?.map(|lease| lease.record);
                let holder = record.filter(|record| !record.is_open()).and_then(|record| record.holder);
                if let Some(name) = CONTROLLERS.into_iter().find(|name| holder.as_deref() == Some(name)) {
                    return Ok::<_, kube::Error>(name);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if let Ok(name) = tokio::time::timeout(LIMIT, held).await {
            return Ok(name?);
        }
        let logs = self.controllers.values().filter_map(|process| std::fs::read_to_string(process.log()).ok());
        bail!("no controller leads after {LIMIT:?}\n{}", logs.collect::<String>())
    }

    async fn start_controller(&mut self, name: &'static str, container: &Container) -> Result<()> {
        let mut environment = HashMap::new();
        for variable in container.env.iter().flatten() {
            let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
            let value = match (&variable.value, field.map(|field| field.field_path.as_str())) {
                (Some(value), _) => value.as_str(),
                (None, Some("metadata.name")) => name,
                (None, Some("metadata.namespace")) => SYSTEM,
                // There is no Pod to name.
                (None, _) => continue,
            };
            environment.insert(variable.name.as_str(), value);
        }
        let expand = |argument: &String| {
            environment.iter().fold(argument.clone(), |text, (name, value)| text.replace(&format!("$({name})"), value))
        };
        let arguments = container.args.iter().flatten().filter(|argument| !argument.starts_with("--admin-address"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_hustings"));
        command
            .args(arguments.map(expand))
            // All controllers of this machine share its ports.
            .arg("--admin-address=127.0.0.1:0")
            .envs(&environment)
            .env("KUBECONFIG", self.plane.kubeconfig_for_service_account(SYSTEM, &self.account).await?);
        self.controllers.insert(name, self.plane.spawn(name, command)?);
        Ok(())
    }
}

async fn create_namespace(plane: &ControlPlane, name: &str) -> Result<()> {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    Api::<k8s_openapi::api::core::v1::Namespace>::all(plane.admin()).create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Repeats a request until it succeeds.
async fn until<T>(otherwise: &'static str, request: impl AsyncFn() -> kube::Result<T>) -> Result<()> {
    let succeeded = async {
        while request().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, succeeded).await.context(otherwise)
}
