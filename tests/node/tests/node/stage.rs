//! The node that all tests share, with the chart installed, and groups of pods that elect a leader.

use std::{sync::OnceLock, time::Duration};

use anyhow::{Context, Result, ensure};
use hustings_controlplane::{ControlPlane, PATIENCE, eventually, within};
use hustings_core::assist::host_name;
use hustings_node::{Images, Interval, Node};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, ServiceAccount},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::objects::create;

/// The Lease of each group.
pub(crate) const LEASE: &str = "work";

/// The release and the namespace of the chart.
pub(crate) const RELEASE: &str = "hustings";

/// Longer than the default lease.
const SETTLED: Duration = Duration::from_secs(18);

static STAGE: OnceLock<Stage> = OnceLock::new();

/// The shared node.
pub(crate) struct Stage {
    pub(crate) node: Node,
    calm: RwLock<()>,
}

/// A namespace in which pods stand for one Lease. Its name is also the group's in the reports.
pub(crate) struct Group {
    pub(crate) name: String,
    stage: &'static Stage,
    _calm: Calm,
}

/// Whether other tests may run at the same time.
enum Calm {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

impl Stage {
    /// Starts the node and installs the chart with Helm, as a user does.
    pub(crate) async fn set_up() {
        let images = Images::new(env!("CARGO_BIN_EXE_product"), env!("CARGO_BIN_EXE_worker"));
        let node = Node::start(images).await.unwrap();
        let plane = node.plane();
        create_namespace(plane, RELEASE, "restricted").await;
        assert!(STAGE.set(Self { node, calm: RwLock::new(()) }).is_ok(), "the stage is set up once");
        install(&["--set=evidence.pods=true,evidence.nodes=true,leaderLabel.enabled=true"]).await;
    }

    pub(crate) fn shared() -> &'static Self {
        STAGE.get().unwrap()
    }
}

impl Group {
    /// A group in a namespace of its own, whose pods Pod Security restricts.
    pub(crate) async fn new(name: &str) -> Self {
        let guard = Stage::shared().calm.read().await;
        Self::prepare(name, "restricted", Calm::Shared { _guard: guard }).await
    }

    /// The same for pods that mount directories of the node.
    pub(crate) async fn privileged(name: &str) -> Self {
        let guard = Stage::shared().calm.read().await;
        Self::prepare(name, "privileged", Calm::Shared { _guard: guard }).await
    }

    /// The same while no other test runs.
    pub(crate) async fn alone(name: &str) -> Self {
        let guard = Stage::shared().calm.write().await;
        Self::prepare(name, "restricted", Calm::Alone { _guard: guard }).await
    }

    /// A group of programs that know nothing of Hustings. Its pods mount programs of the machine.
    pub(crate) async fn foreign(name: &str) -> Self {
        Self::privileged(name).await.with_all_rights().await
    }

    /// The same while no other test runs.
    pub(crate) async fn foreign_alone(name: &str) -> Self {
        let guard = Stage::shared().calm.write().await;
        Self::prepare(name, "privileged", Calm::Alone { _guard: guard }).await.with_all_rights().await
    }

    async fn with_all_rights(self) -> Self {
        let binding = json!({
            "metadata": {"name": "all-rights"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": self.name}],
        });
        create::<RoleBinding>(&self.api(), binding).await;
        self
    }

    async fn prepare(name: &str, level: &str, calm: Calm) -> Self {
        let group = Self { name: name.to_owned(), stage: Stage::shared(), _calm: calm };
        create_namespace(group.plane(), name, level).await;
        let binding = json!({
            "metadata": {"name": "candidates"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hustings-candidate"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}],
        });
        create::<RoleBinding>(&group.api(), binding).await;
        group
    }

    pub(crate) fn plane(&self) -> &'static ControlPlane {
        self.stage.node.plane()
    }

    /// Objects of this group's namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.plane().admin(), &self.name)
    }

    /// The pods that are not being deleted.
    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let mut pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    /// Sends a signal to the first process of a pod's container, from outside, as a crash of the process does.
    pub(crate) async fn signal(&self, pod: &str, container: &str, signal: Signal) {
        // A container leads before the kubelet has reported which one it is.
        eventually(async || self.stage.node.signal(&self.pod(pod).await, container, signal)).await.unwrap();
    }

    /// Stops all processes of a pod's container for this time.
    pub(crate) async fn freeze(&self, pod: &str, container: &str, time: Duration) {
        let signal = async |signal| self.stage.node.signal_all(&self.pod(pod).await, container, signal).unwrap();
        signal(Signal::STOP).await;
        tokio::time::sleep(time).await;
        signal(Signal::CONT).await;
    }

    pub(crate) async fn pod(&self, name: &str) -> Pod {
        self.api::<Pod>().get(name).await.unwrap()
    }

    /// Waits until so many pods run and stand for the Lease.
    pub(crate) async fn wait_for_candidates(&self, number: usize) {
        let candidates = self.api::<hustings_client::api::LeaseCandidate>();
        let outcome = within(PATIENCE, async || {
            let found = candidates.list(&ListParams::default()).await?.items.len();
            ensure!(found >= number, "{found} of {number} candidates stand");
            Ok(())
        });
        outcome.await.unwrap_or_else(|error| panic!("{}: {error:#}", self.name));
    }

    /// The replica that leads now, by its own reports and by the Lease.
    pub(crate) async fn leader(&self) -> Interval {
        self.leader_if("any", |_| true, PATIENCE).await
    }

    /// The leader, once evidence of its end would count. The controller first learns how often it renews, and a term that
    /// follows evidence begins, on the record, when the former lease would have ended.
    pub(crate) async fn settled_leader(&self) -> Interval {
        self.leader_if("settled", |latest| latest.lasts() > SETTLED, PATIENCE).await
    }

    /// The first term that begins after this one.
    pub(crate) async fn leader_after(&self, former: &Interval, limit: Duration) -> Interval {
        self.leader_if("new", |latest| latest.led_before > former.led_after && !latest.is_same(former), limit).await
    }

    /// The replica that leads, once it meets a condition.
    async fn leader_if(&self, what: &str, condition: impl Fn(&Interval) -> bool, limit: Duration) -> Interval {
        let leases = self.api::<Lease>();
        let outcome = within(limit, async || -> Result<Interval> {
            let latest = self.stage.node.reports().leading(&self.name).context("no replica leads")?;
            ensure!(condition(&latest), "{latest:?} leads");
            let lease = leases.get(LEASE).await?;
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            ensure!(is_in(&holder, &latest.replica), "{} leads, and the Lease names {holder:?}", latest.replica);
            Ok(latest)
        });
        outcome.await.unwrap_or_else(|error| panic!("{}: no {what} leader within {limit:?}: {error:#}", self.name))
    }

    /// Fails if two replicas led at the same time, and removes the pods.
    pub(crate) async fn end(self) {
        self.stage.node.reports().check(&self.name).unwrap();
        for pair in self.stage.node.reports().intervals(&self.name).windows(2) {
            println!(
                "{}: {} led, then after {:?} {}",
                self.name,
                pair[0].replica,
                pair[0].gap_to(&pair[1]),
                pair[1].replica
            );
        }
        let namespaces = Api::<Namespace>::all(self.plane().admin());
        namespaces.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    /// Runs a command in a container, and returns its output.
    pub(crate) async fn exec(&self, pod: &str, container: &str, command: &[&str]) -> String {
        let arguments = ["exec", pod, "--namespace", &self.name, "--container", container, "--"];
        let output = self.plane().kubectl(arguments.iter().chain(command)).await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Labels all pods.
    pub(crate) async fn label_pods(&self, name: &str, value: &str) {
        for pod in self.pods().await {
            let patch = json!({"metadata": {"labels": {name: value}}});
            let pods = self.api::<Pod>();
            pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    }

    pub(crate) async fn delete(&self, pod: &str, params: &DeleteParams) {
        self.api::<Pod>().delete(pod, params).await.unwrap();
    }
}

/// Whether a holder of this identity runs in this pod. Processes of Hustings have the name of their pod, those of client-go
/// their host name and a number. The host name in a static pod is that of its node.
pub(crate) fn is_in(identity: &str, pod: &str) -> bool {
    let host = host_name(identity);
    !host.is_empty() && (host == pod || pod.strip_suffix(host).is_some_and(|prefix| prefix.ends_with('-')))
}

/// Installs or upgrades the chart, with these flags of Helm.
pub(crate) async fn install(flags: &[&str]) {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/hustings");
    let mut arguments =
        vec!["upgrade", "--install", RELEASE, chart, "--namespace", RELEASE, "--wait", "--timeout=110s"];
    // Nothing enforces policies on this node: this shows that the API server accepts the chart's. ../policy.rs has more.
    arguments.push("--set=networkPolicy.enabled=true");
    arguments.extend(flags);
    let output = Stage::shared().node.plane().helm(arguments).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn create_namespace(plane: &ControlPlane, name: &str, level: &str) {
    let namespaces = Api::<Namespace>::all(plane.admin());
    let labels = json!({"pod-security.kubernetes.io/enforce": level});
    create(&namespaces, json!({"metadata": {"name": name, "labels": labels}})).await;
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), name);
    hustings_controlplane::eventually(async || accounts.get("default").await).await.unwrap();
}
