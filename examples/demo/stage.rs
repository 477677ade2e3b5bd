//! The place of the demo: a control plane of its own with Hustings in it, or an existing cluster, and the processes
//! that run against it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hustings_client::api::{LeaseCandidate, LeaseCandidateSpec};
use hustings_controlplane::{ControlPlane, NativeElection, Process, Run, Tool, Tools};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::AS_HUSTINGS;
use crate::cluster::Cluster;
use crate::install;
use crate::observer::Observer;
use crate::show::Show;

/// The Lease that the components stand for.
pub(crate) const LEASE: &str = "web";
pub(crate) const SYSTEM: &str = "hustings-system";
/// The controllers' own Lease.
pub(crate) const OWN_LEASE: &str = "hustings-controller";
/// The times of the components. A crash costs the rest of the lease, so the lease is half as long as usual.
const TIMES: [&str; 3] = ["--lease-duration=8s", "--renew-deadline=6s", "--retry-period=1s"];
/// The same for the controllers' own Lease.
const OWN_TIMES: [&str; 3] =
    ["--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"];
/// Far longer than a step takes on an idle machine. The timeline shows the actual time.
const LIMIT: Duration = Duration::from_mins(1);

/// Everything that runs.
pub(crate) struct Stage {
    components: BTreeMap<&'static str, Process>,
    controllers: BTreeMap<&'static str, Process>,
    controller_command: ControllerCommand,
    controller_kubeconfig: PathBuf,
    component_kubeconfig: PathBuf,
    pub(crate) observer: Observer,
    namespace: String,
    /// The namespace of the controllers' own Lease.
    system: String,
    // Last, so that the processes end before the control plane.
    place: Place,
}

/// How the controllers are started.
enum ControllerCommand {
    /// As the Deployment starts them.
    OfDeployment(Box<Container>),
    /// For the namespace of the demo alone.
    OfNamespace,
    /// Not at all: an installed controller elects.
    Installed,
}

/// Where the processes run.
enum Place {
    Own(Box<ControlPlane>),
    Given(Rc<Cluster>, Run),
}

impl Place {
    fn admin(&self) -> Client {
        match self {
            Self::Own(plane) => plane.admin(),
            Self::Given(cluster, _) => cluster.client(),
        }
    }

    fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        match self {
            Self::Own(plane) => plane.spawn(name, command),
            Self::Given(_, run) => run.spawn(name, command),
        }
    }
}

impl Stage {
    /// A control plane with Hustings installed, and no process yet; `native`: both elect native candidates.
    pub(crate) async fn set(show: &Show, native: bool) -> Result<Self> {
        let mut tools = vec![Tool::Etcd, Tool::KubeApiserver];
        if native {
            tools.extend([Tool::KubeControllerManager, Tool::Helm]);
        }
        tokio::task::spawn_blocking(move || Tools::from_env().prepare(&tools)).await??;
        eprintln!("starting etcd and kube-apiserver");
        let election = if native { NativeElection::On } else { NativeElection::Off };
        let plane = ControlPlane::builder().native_election(election).start().await?;
        show.event("control plane", &format!("etcd and kube-apiserver are ready at {}", plane.url()));
        if native {
            install::chart_with_native_values(&plane).await?;
            show.event("helm", "has installed the chart");
        } else {
            install::manifests(&plane.admin()).await?;
            show.event("control plane", "has the objects of deploy/install.yaml");
        }
        let deployments: Api<Deployment> = Api::namespaced(plane.admin(), SYSTEM);
        let deployment =
            deployments.list(&ListParams::default()).await?.items.pop().context("no Deployment was installed")?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("a Deployment without pods")?;
        let account = pod.service_account_name.context("the Deployment names no ServiceAccount")?;
        let controller_container = pod.containers.into_iter().next().context("a Deployment without containers")?;
        let controller_kubeconfig = plane.kubeconfig_for_service_account(SYSTEM, &account).await?;

        let namespace = plane.create_namespace("demo").await?;
        plane.create_service_account(&namespace, "web").await?;
        let binding = serde_json::from_value(json!({
            "metadata": {"name": "web-stands-for-election"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hustings-candidate"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": &namespace}],
        }))?;
        Api::<RoleBinding>::namespaced(plane.admin(), &namespace).create(&PostParams::default(), &binding).await?;
        let component_kubeconfig = plane.kubeconfig_for_service_account(&namespace, "web").await?;
        let web = plane.client_for_service_account(&namespace, "web").await?;
        let served = promptly_served(Api::namespaced(web, &namespace));
        tokio::time::timeout(LIMIT, served).await.context("LeaseCandidates are not served")??;

        let observer = Observer::new();
        observer.watch_lease(plane.admin(), &namespace, LEASE);
        Ok(Self {
            components: BTreeMap::new(),
            controllers: BTreeMap::new(),
            controller_command: ControllerCommand::OfDeployment(Box::new(controller_container)),
            controller_kubeconfig,
            component_kubeconfig,
            observer,
            namespace,
            system: SYSTEM.to_owned(),
            place: Place::Own(Box::new(plane)),
        })
    }

    /// An existing cluster, with a namespace for the demo, and no process yet. All processes have the rights of the
    /// user.
    pub(crate) async fn set_in(cluster: &Rc<Cluster>, show: &Show) -> Result<Self> {
        let installed = cluster.installed_controller(show).await?;
        let namespace = cluster.prepare(show).await?;
        let controller_command = match installed {
            Some(holder) => {
                show.event("cluster", &format!("has a controller, {holder}; the demo starts none of its own"));
                ControllerCommand::Installed
            }
            None => ControllerCommand::OfNamespace,
        };
        let served = promptly_served(Api::namespaced(cluster.client(), &namespace));
        tokio::time::timeout(LIMIT, served).await.context("LeaseCandidates are not served")??;
        let observer = Observer::new();
        observer.watch_lease(cluster.client(), &namespace, LEASE);
        Ok(Self {
            components: BTreeMap::new(),
            controllers: BTreeMap::new(),
            controller_command,
            controller_kubeconfig: cluster.kubeconfig().to_owned(),
            component_kubeconfig: cluster.kubeconfig().to_owned(),
            observer,
            system: namespace.clone(),
            namespace,
            place: Place::Given(Rc::clone(cluster), Run::new()?),
        })
    }

    /// Whether the demo runs the controllers, and may kill them.
    pub(crate) const fn has_controllers(&self) -> bool {
        !matches!(self.controller_command, ControllerCommand::Installed)
    }

    /// Starts a controller.
    pub(crate) fn start_controller(&mut self, name: &'static str) -> Result<()> {
        let mut command = match &self.controller_command {
            ControllerCommand::OfDeployment(container) => as_in_pod(container, name)?,
            ControllerCommand::OfNamespace => {
                let mut command = hustings()?;
                command.args(["controller", "--log-format", "json", "--namespace", &self.namespace]);
                command.args(["--watch-namespaces", &self.namespace]).env("POD_NAME", name);
                command
            }
            ControllerCommand::Installed => bail!("the installed controllers are not the demo's"),
        };
        // Two controllers on one machine cannot share a port: each gets a free one.
        command.args(["--admin-address=127.0.0.1:0"]).args(OWN_TIMES).env("KUBECONFIG", &self.controller_kubeconfig);
        self.controllers.insert(name, self.place.spawn(name, command)?);
        Ok(())
    }

    /// Waits until a controller has logged this.
    pub(crate) async fn wait_logged(&self, message: &str, limit: Duration) -> Result<()> {
        let is_logged = |controller: &Process| {
            std::fs::read(controller.log()).is_ok_and(|log| String::from_utf8_lossy(&log).contains(message))
        };
        let logged = async {
            while !self.controllers.values().any(is_logged) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(limit, logged).await.with_context(|| format!("no controller has logged {message:?}"))
    }

    /// The address of a controller's page, which its log names. It listens on a loopback address, so it serves the page.
    pub(crate) async fn page(&self, controller: &str) -> Result<String> {
        let process = self.controllers.get(controller).with_context(|| format!("{controller} does not run"))?;
        let named = async {
            loop {
                let log = std::fs::read(process.log()).unwrap_or_default();
                let url = |line| Some(serde_json::from_slice::<Value>(line).ok()?["url"].as_str()?.to_owned());
                if let Some(url) = log.split(|byte| *byte == b'\n').find_map(url) {
                    return url;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, named).await.with_context(|| format!("{controller} serves no page"))
    }

    /// The demo's own control plane.
    pub(crate) fn plane(&self) -> Result<&ControlPlane> {
        match &self.place {
            Place::Own(plane) => Ok(plane),
            Place::Given(..) => bail!("a cluster that is there is not the demo's control plane"),
        }
    }

    /// Starts a component that stands for the Lease.
    pub(crate) fn start_component(&mut self, name: &'static str, binary: &str, emulation: &str) -> Result<()> {
        let mut command = hustings()?;
        command
            .args(["campaign", "--lease", LEASE, "--namespace", &self.namespace, "--identity", name])
            .args(["--binary-version", binary, "--emulation-version", emulation, "-o", "json"])
            .args(TIMES)
            .env("KUBECONFIG", &self.component_kubeconfig);
        let process = self.place.spawn(name, command)?;
        self.observer.read_lines(name, process.log().to_owned());
        self.components.insert(name, process);
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill_component(&mut self, name: &str) -> Result<()> {
        self.components.remove(name).with_context(|| format!("{name} does not run"))?.kill()?;
        self.observer.killed(name);
        Ok(())
    }

    /// SIGTERM, until the process has ended.
    pub(crate) async fn stop_component(&mut self, name: &str) -> Result<()> {
        let status = self.components.remove(name).with_context(|| format!("{name} does not run"))?.stop().await?;
        ensure!(status.success(), "{name} ended with {status}");
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill_controller(&mut self, name: &str) -> Result<()> {
        self.controllers.remove(name).with_context(|| format!("{name} does not run"))?.kill()
    }

    /// Waits until the holder of the controllers' own Lease satisfies `accepts`, and returns its name.
    pub(crate) async fn leading_controller(&self, accepts: impl Fn(&str) -> bool) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.place.admin(), &self.system);
        let held = async {
            loop {
                let lease = leases.get_opt(OWN_LEASE).await?;
                let open = lease.as_ref().is_some_and(|lease| {
                    lease.annotations().get("hustings.io/session").is_some_and(|mark| mark == "open")
                });
                let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
                if let Some(holder) = holder.filter(|holder| !holder.is_empty() && !open && accepts(holder)) {
                    return Ok::<_, anyhow::Error>(holder);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        match tokio::time::timeout(LIMIT, held).await {
            Ok(holder) => holder,
            Err(_) => bail!("no controller leads after {LIMIT:?}"),
        }
    }

    /// Waits until the candidate's status shows that it could lead.
    pub(crate) async fn wait_standby(&self, name: &str) -> Result<()> {
        let candidates: Api<LeaseCandidate> = Api::namespaced(self.place.admin(), &self.namespace);
        let stands = async {
            loop {
                let candidate = candidates.get_opt(name).await?;
                if candidate.and_then(|candidate| candidate.status).is_some() {
                    return Ok::<_, anyhow::Error>(());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, stands).await.with_context(|| format!("{name} has no status after {LIMIT:?}"))?
    }

    /// The renew time of the Lease, as text.
    pub(crate) async fn renew_time(&self) -> Result<String> {
        let lease = Api::<Lease>::namespaced(self.place.admin(), &self.namespace).get(LEASE).await?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time).context("a Lease that was never renewed")?;
        Ok(renewed.0.to_string())
    }

    /// The last lines of every process's log, to explain why a step failed.
    pub(crate) fn print_logs(&self) {
        for (name, process) in self.controllers.iter().chain(&self.components) {
            let log = std::fs::read(process.log()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the end of the log of {name}:");
            for line in &lines[lines.len().saturating_sub(12)..] {
                eprintln!("  {line}");
            }
        }
    }

    /// Names of the components that run.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        self.components.keys().copied().collect()
    }
}

/// Waits until creating a candidate takes its usual time. The API server takes a moment to apply a new binding, and delays
/// creations of a kind younger than 5 s by 2 s.
async fn promptly_served(candidates: Api<LeaseCandidate>) -> Result<()> {
    let spec = LeaseCandidateSpec {
        lease_name: LEASE.to_owned(),
        binary_version: "1.0.0".to_owned(),
        emulation_version: Some("1.0.0".to_owned()),
        ..LeaseCandidateSpec::default()
    };
    let trial = LeaseCandidate::new("trial", spec);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    loop {
        let sent = Instant::now();
        let created = candidates.create(&dry_run, &trial).await;
        if created.is_ok() && sent.elapsed() < Duration::from_secs(1) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// This program, as the `hustings` binary.
fn hustings() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command.arg(AS_HUSTINGS);
    Ok(command)
}

/// A controller with the arguments and the environment that the Deployment gives it, but for those that the demo sets.
fn as_in_pod(container: &Container, name: &str) -> Result<Command> {
    let mut command = hustings()?;
    let mut environment: Vec<(&str, &str)> = Vec::new();
    for variable in container.env.iter().flatten() {
        let field = variable.value_from.as_ref().and_then(|from| from.field_ref.as_ref());
        let value = match (&variable.value, field.map(|field| field.field_path.as_str())) {
            (Some(value), _) => value,
            (None, Some("metadata.name")) => name,
            (None, Some("metadata.namespace")) => SYSTEM,
            // There is no Pod to name.
            (None, _) => continue,
        };
        environment.push((&variable.name, value));
    }
    for argument in container.args.iter().flatten() {
        let expanded =
            environment.iter().fold(argument.clone(), |text, (key, value)| text.replace(&format!("$({key})"), value));
        let flag = |argument: &str| argument.split('=').next().map(str::to_owned);
        if !OWN_TIMES.into_iter().chain(["--admin-address"]).any(|own| flag(own) == flag(&expanded)) {
            command.arg(expanded);
        }
    }
    command.envs(environment);
    Ok(command)
}
