//! A node with its control plane, and control of its processes.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use hustings_controlplane::{
    ControlPlane, NODE, NODE_ADDRESS, Namespaces, NativeElection, Process, Tool, Tools, User, within,
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node as KubernetesNode, ServiceAccount},
};
use kube::Api;

use crate::{
    configuration::{self, CONTAINERD, MANIFESTS},
    images::Images,
    reports::Reports,
};

/// How long the node may take to be Ready. It takes 5 s on an idle machine.
const READY_LIMIT: Duration = Duration::from_mins(3);

/// How long containerd may take to answer, with a new image or without.
const CONTAINERD_LIMIT: Duration = Duration::from_mins(2);

/// The programs that no build makes, with Debian's package of each.
const PROGRAMS: [(&str, &str); 6] = [
    ("runc", "runc"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
];

/// A control plane with a node. Both end with this value, or with the process.
pub struct Node {
    // Fields drop in this order.
    kubelet: Process,
    _proxy: Process,
    scheduler: Process,
    controller_manager: Process,
    containerd: Process,
    ctr: PathBuf,
    reports: Reports,
    plane: ControlPlane,
}

/// How the kube-controller-manager and the kube-scheduler of a node lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Components {
    /// Each is the only one, and works from its start.
    Alone,
    /// Each is a native candidate, and works once a controller has elected it. The gate is off, so that the API server has no
    /// such controller.
    Elected,
}

/// Why this machine cannot run a node.
#[derive(Debug)]
pub enum Missing {
    /// It allows no namespaces or no cgroups: nothing helps.
    Permission(anyhow::Error),
    /// Programs are missing; the text says how to install them.
    Programs(String),
}

impl Node {
    /// Checks whether this machine can run a node.
    pub fn check() -> Result<(), Missing> {
        Namespaces::check().map_err(Missing::Permission)?;
        let Some(packages) = missing_packages(&PROGRAMS) else { return Ok(()) };
        Err(Missing::Programs(format!(
            "programs that a node needs are missing\nhint: apt-get update && apt-get install {packages}"
        )))
    }

    /// The same for a test: prints the reason if nothing helps.
    ///
    /// # Panics
    /// If only programs are missing.
    pub fn is_allowed() -> bool {
        match Self::check() {
            Ok(()) => true,
            Err(Missing::Permission(reason)) => {
                println!("skipped: {reason:#}");
                false
            }
            Err(Missing::Programs(message)) => panic!("{message}"),
        }
    }

    /// Builds the programs if they are missing, starts the control plane and the node, and waits until pods
    /// can run.
    pub async fn start(images: Images) -> Result<Self> {
        let node = Self::start_with(images, Components::Alone).await?;
        node.wait_ready().await?;
        Ok(node)
    }

    /// The same with components that lead in this way, but does not wait until pods can run.
    pub async fn start_with(images: Images, components: Components) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(|| {
            let tools = Tools::from_env();
            let programs = [Tool::Containerd, Tool::Ctr, Tool::Kubelet, Tool::KubeProxy];
            let servers = [Tool::Etcd, Tool::KubeApiserver, Tool::KubeControllerManager, Tool::KubeScheduler];
            tools.prepare(&[&programs[..], &servers, &[Tool::ContainerdShim, Tool::Ptp, Tool::HostLocal]].concat())?;
            programs.map(|tool| tools.path(tool)).into_iter().collect::<Result<Vec<_>>>()
        })
        .await??;
        let [containerd, ctr, kubelet, proxy] = programs.as_slice() else { unreachable!("four were asked for") };
        let (native_election, leading) = match components {
            Components::Alone => (NativeElection::Off, "--leader-elect=false"),
            Components::Elected => (NativeElection::Served, "--feature-gates=CoordinatedLeaderElection=true"),
        };
        let builder = ControlPlane::builder().namespaces().audit(true).native_election(native_election);
        let plane = builder.start().await?;
        let namespaces = plane.namespaces().context("the control plane has no namespaces")?;
        let folder = plane.folder();
        let programs = containerd.parent().context("containerd is in no folder")?;
        configuration::write(folder, programs, namespaces.cgroup(), &plane.kubeconfig_of(User::KubeProxy)?)?;

        let mut command = namespaces.inside(containerd);
        command.arg("--config").arg(folder.join("containerd.toml"));
        let containerd = plane.spawn("containerd", command)?;

        let mut command = Command::new(plane.tool(Tool::KubeControllerManager).await?);
        command.arg("--kubeconfig").arg(plane.kubeconfig_of(User::KubeControllerManager)?);
        command.arg("--service-account-private-key-file").arg(folder.join("sa.key"));
        command.arg("--root-ca-file").arg(folder.join("ca.crt"));
        command.arg("--flex-volume-plugin-dir").arg(folder.join("data/volume-plugins"));
        command.args([leading, "--secure-port=0", "--use-service-account-credentials"]);
        command.args(["--kube-api-qps=500", "--kube-api-burst=1000", "--node-monitor-grace-period=25s"]);
        let controller_manager = plane.spawn("kube-controller-manager", command)?;

        let mut command = Command::new(plane.tool(Tool::KubeScheduler).await?);
        command.arg("--kubeconfig").arg(plane.kubeconfig_of(User::KubeScheduler)?);
        command.args([leading, "--secure-port=0"]);
        let scheduler = plane.spawn("kube-scheduler", command)?;

        let mut command = namespaces.inside(proxy);
        command.arg("--config").arg(folder.join("kube-proxy.json"));
        let proxy = plane.spawn("kube-proxy", command)?;

        wait_for_containerd(&plane, ctr).await?;
        for archive in images.archives(&folder.join("data"))? {
            import(&plane, ctr, &archive).await?;
        }

        let mut command = namespaces.inside(kubelet);
        command.arg("--config").arg(folder.join("kubelet.json"));
        command.arg("--kubeconfig").arg(plane.kubeconfig_of(User::Kubelet)?);
        command.args([format!("--hostname-override={NODE}"), format!("--node-ip={NODE_ADDRESS}")]);
        let kubelet = plane.spawn("kubelet", command)?;

        Ok(Self {
            kubelet,
            _proxy: proxy,
            scheduler,
            controller_manager,
            containerd,
            ctr: ctr.clone(),
            reports: Reports::start(namespaces)?,
            plane,
        })
    }

    /// The control plane, with its clients, kubectl and Helm.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// What hears the workers.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// The kube-controller-manager.
    pub fn controller_manager(&self) -> &Process {
        &self.controller_manager
    }

    /// The kube-scheduler.
    pub fn scheduler(&self) -> &Process {
        &self.scheduler
    }

    /// The folder from which the kubelet runs static pods.
    pub fn manifests(&self) -> PathBuf {
        self.plane.folder().join(MANIFESTS)
    }

    /// The kubelet. It is killed, not stopped: see [`Namespaces::inside`].
    pub fn kubelet(&self) -> &Process {
        &self.kubelet
    }

    /// Kills the kubelet and starts it again, and waits until it reports that the node is Ready.
    pub async fn restart_kubelet(&self) -> Result<()> {
        self.kubelet.kill()?;
        self.start_kubelet().await
    }

    /// Starts the kubelet again after it has ended.
    pub async fn start_kubelet(&self) -> Result<()> {
        let leases = Api::<Lease>::namespaced(self.plane.admin(), "kube-node-lease");
        let renewed = async || Ok::<_, kube::Error>(leases.get(NODE).await?.spec.and_then(|spec| spec.renew_time));
        let before = renewed().await?;
        self.kubelet.start()?;
        within(READY_LIMIT, async || {
            ensure!(renewed().await? != before, "the kubelet does not report");
            Ok(())
        })
        .await?;
        self.wait_ready().await
    }

    /// Kills containerd, whose containers live on, starts it again, and waits until it answers.
    pub async fn restart_containerd(&self) -> Result<()> {
        self.containerd.kill()?;
        self.containerd.start()?;
        wait_for_containerd(&self.plane, &self.ctr).await
    }

    /// Waits until the node is Ready and the default ServiceAccount exists, which pods need.
    pub async fn wait_ready(&self) -> Result<()> {
        let client = self.plane.admin();
        let nodes = Api::<KubernetesNode>::all(client.clone());
        within(READY_LIMIT, async || {
            let node = nodes.get(NODE).await?;
            ensure!(is_ready(&node), "the node is not Ready: {:?}", node.status.and_then(|status| status.conditions));
            Api::<ServiceAccount>::default_namespaced(client.clone()).get("default").await?;
            Ok(())
        })
        .await
    }
}

/// Debian's packages of the programs that are not in `PATH`, for a command line. `None` if all are there.
pub(crate) fn missing_packages(programs: &[(&str, &str)]) -> Option<String> {
    let search_path = env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &str| !env::split_paths(&search_path).any(|folder| folder.join(program).is_file());
    let missing = programs.iter().filter(|(program, _)| is_missing(program));
    let packages: BTreeSet<_> = missing.map(|(_, package)| *package).collect();
    (!packages.is_empty()).then(|| packages.into_iter().collect::<Vec<_>>().join(" "))
}

/// Whether the node is Ready.
fn is_ready(node: &KubernetesNode) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn wait_for_containerd(plane: &ControlPlane, ctr: &Path) -> Result<()> {
    within(CONTAINERD_LIMIT, async || run_ctr(plane, ctr, &[OsStr::new("version")]).await).await
}

/// The plugins of a containerd that answers may still be starting.
async fn import(plane: &ControlPlane, ctr: &Path, archive: &Path) -> Result<()> {
    let arguments = [OsStr::new("images"), OsStr::new("import"), archive.as_os_str()];
    within(CONTAINERD_LIMIT, async || run_ctr(plane, ctr, &arguments).await).await
}

async fn run_ctr(plane: &ControlPlane, ctr: &Path, arguments: &[&OsStr]) -> Result<()> {
    let namespaces = plane.namespaces().context("the control plane has no namespaces")?;
    let mut command = namespaces.inside(ctr);
    command.args(["--address", CONTAINERD, "--namespace", "k8s.io"]).args(arguments);
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await.context("cannot run ctr")?;
    ensure!(output.status.success(), "ctr {arguments:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
