//! Native candidates, those of `coordination.k8s.io`. client-go's own electors create them. Some kube-apiservers here
//! elect them, and some do not.

use std::ops::Deref;
use std::process::Command;
use std::time::Instant;

use hustings_client::api::{NativeVersion, ReadLease, ReadNativeCandidate, names};
use hustings_controlplane::{Builder, ControlPlane, NativeElection, Shared, Tool};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Resource as _};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::controller::native_peer::NativePeer;
use crate::controller::peer::Peer;
use crate::controller::support::{Controller, World, eventually, install_crd};
use crate::replica::Replica;

const LEASE: &str = "web";
const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

impl World {
    /// A namespace of a control plane that several tests share. It serves native candidates, and elects none.
    pub(crate) async fn with_native(name: &str) -> Self {
        static SERVED: OnceCell<ControlPlane> = OnceCell::const_new();
        let start = async || ControlPlane::builder().native_election(NativeElection::Served).start().await.unwrap();
        let plane = Shared::new(SERVED.get_or_init(start).await);
        let client = plane.admin();
        install_crd(&client).await;
        let namespace = plane.create_namespace(name).await.unwrap();
        Self { plane, client, namespace }
    }
}

impl World<Box<ControlPlane>> {
    /// A namespace of a control plane of its own.
    async fn with_native_election(name: &str, native_election: NativeElection) -> Self {
        Self::with_plane(name, ControlPlane::builder().native_election(native_election)).await
    }

    async fn with_plane(name: &str, builder: Builder) -> Self {
        let plane = Box::new(builder.start().await.unwrap());
        let client = plane.admin();
        install_crd(&client).await;
        let namespace = plane.create_namespace(name).await.unwrap();
        Self { plane, client, namespace }
    }

    /// Restarts the API server, which then does or does not serve native candidates.
    async fn serve_native(&self, is_served: bool) {
        let server = self.plane.apiserver();
        server.add_argument(&format!("--runtime-config=coordination.k8s.io/v1beta1={is_served}"));
        // On SIGTERM it would wait a minute for the watches to end.
        server.kill().unwrap();
        server.restart().await.unwrap();
    }
}

impl<Plane: Deref<Target = ControlPlane>> World<Plane> {
    async fn client_go(&self, name: &str, version: &str) -> Replica {
        self.client_go_with(LEASE, name, &["--binary-version", version]).await
    }

    /// A replica of client-go; without a version, it has no candidate.
    pub(crate) async fn client_go_with(&self, lease: &str, name: &str, flags: &[&str]) -> Replica {
        let mut command = Command::new(self.plane.tool(Tool::ClientGo).await.unwrap());
        command.args(["--namespace", &self.namespace, "--lease", lease, "--identity", name]).args(TIMES);
        command.args(flags).arg("--kubeconfig").arg(self.plane.kubeconfig());
        Replica::start(&self.plane, &self.namespace, name, command)
    }

    pub(super) fn native(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&kind))
    }

    /// Waits until the holder has renewed three more times, and checks that it stays the holder until then.
    pub(super) async fn stays_with(&self, lease: &str, holder: &str) {
        for _ in 0..3 {
            let before = self.led_by(lease, holder).await.record.renew_time;
            eventually("the holder renews", || async {
                let record = self.lease(lease).await.unwrap().record;
                assert_eq!(record.holder.as_deref(), Some(holder), "the live holder stays");
                if record.renew_time > before { Ok(()) } else { Err(record) }
            })
            .await;
        }
    }

    pub(super) async fn stand_native(&self, name: &str, spec: Value) {
        let candidate = json!({ "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
            "metadata": { "name": name }, "spec": spec });
        let candidate = serde_json::from_value(candidate).unwrap();
        self.native().create(&PostParams::default(), &candidate).await.unwrap();
    }
}

#[tokio::test]
async fn candidates_of_v1alpha2_are_elected_where_no_newer_version_is_served() {
    let version = NativeVersion::V1alpha2;
    let flag = format!("--runtime-config={}=true", ReadNativeCandidate::api_version(&version));
    let world = World::with_plane("native-alpha", ControlPlane::builder().apiserver_flag(flag)).await;
    let _controller = world.controller_with(&["--native", "--settling=5s"]).await.ready().await;
    let kind = ApiResource::erase::<ReadNativeCandidate>(&version);
    let candidates = Api::<DynamicObject>::namespaced_with(world.client.clone(), &world.namespace, &kind);
    let mut peers = Vec::new();
    for (name, emulated) in [("newer", "1.36.0"), ("older", "1.35.0")] {
        let long_ago = "2020-01-01T00:00:00.000000Z";
        let spec = json!({ "leaseName": LEASE, "binaryVersion": "1.36.0", "emulationVersion": emulated,
            "strategy": "OldestEmulationVersion", "pingTime": long_ago, "renewTime": long_ago });
        let candidate = DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
        candidates.create(&PostParams::default(), &candidate).await.unwrap();
        let candidates = Api::namespaced_with(world.client.clone(), &world.namespace, &version);
        peers.push(NativePeer::live(candidates, LEASE, name));
    }
    world.led_by(LEASE, "older").await;
    world.stays_with(LEASE, "older").await;
}

#[tokio::test]
async fn hustings_stands_in_for_the_api_server_and_the_api_server_is_back_when_it_is_switched_off() {
    let world = World::with_native_election("native-stand-in", NativeElection::On).await;
    let bystander = world.controller_with(&["--native", "--leader-elect=false"]).await;
    bystander.reports("elects native candidates, and Hustings leaves them alone").await;
    drop(bystander);

    let flags = ["--native", "--native-stand-in", "--leader-elect-lease-duration=15s"];
    let flags =
        [flags.as_slice(), &["--leader-elect-renew-deadline=12s", "--leader-elect-retry-period=500ms"]].concat();
    let started = Instant::now();
    let first = world.controller_with(&flags).await;
    first.reports("this controller elects native candidates").await;
    println!("from the start of the first controller to its first election: {:.1?}", started.elapsed());
    let second = world.controller_with(&flags).await.ready().await;
    second.reports("stands in and elects native candidates").await;
    let older = world.client_go("older", "1.35.0").await;
    older.says("leading", 0).await;
    let reason = world.lease(LEASE).await.unwrap().reason().map(str::to_owned);
    assert!(reason.is_some(), "only Hustings writes a reason");

    // The standby takes over from a dead leader.
    let killed = Instant::now();
    first.process.kill().unwrap();
    second.reports("this controller elects native candidates").await;
    println!("from the death of the leading controller until the standby elects: {:.1?}", killed.elapsed());
    let newer = world.client_go("newer", "1.36.0").await;
    older.process.kill().unwrap();
    newer.says("leading", 0).await;

    // Once the stand-in is switched off, kube-apiserver asks the holder to hand over to a better candidate.
    let switched_off = Instant::now();
    drop(second);
    let _without = world.controller_with(&["--native"]).await;
    let oldest = world.client_go("oldest", "1.34.0").await;
    oldest.says("leading", 0).await;
    println!("from the end of the stand-in until a better candidate leads: {:.1?}", switched_off.elapsed());
    let electors = Api::<ReadLease>::namespaced(world.client.clone(), "kube-system");
    let elector = electors.get("leader-election-controller").await.unwrap();
    let (holder, mark) = (elector.record.holder.unwrap(), &elector.metadata.annotations.unwrap()[names::STAND_IN]);
    assert!(!mark.ends_with(&holder), "{mark} is the mark of the stand-in, and {holder} elects");
}

#[tokio::test]
async fn a_native_holder_stays_while_its_api_is_not_served_and_other_elections_go_on() {
    let world = World::with_native_election("native-gone", NativeElection::Served).await;
    let controller = world.controller_with(&["--native"]).await.ready().await;
    // A restart of the API server must not cost the term.
    let flags = ["--binary-version=1.36.0", "--lease-duration=60s", "--renew-deadline=50s"];
    let holder = world.client_go_with(LEASE, "holder", &flags).await;
    holder.says("leading", 0).await;
    watches(&controller, 1).await;

    world.serve_native(false).await;
    watches(&controller, 0).await;
    warns(&controller, Some("the API server does not serve leasecandidates.coordination.k8s.io")).await;
    let peer = Peer::start(&world, "other", "a", "1.0.0").await;
    world.led_by("other", &peer.name).await;
    world.stays_with(LEASE, "holder").await;

    world.serve_native(true).await;
    watches(&controller, 1).await;
    warns(&controller, None).await;
    world.stays_with(LEASE, "holder").await;
    let lease = world.lease(LEASE).await.unwrap();
    assert_eq!(lease.record.transitions, 1, "{:?}", lease.record);
}

/// Waits until the controller watches this many native candidates.
async fn watches(controller: &Controller, count: u32) {
    eventually("the watch shows what is served", || async {
        let watched = controller.metric(r#"hustings_watched_objects{resource="native-leasecandidates"}"#).await;
        if (watched - f64::from(count)).abs() < 0.5 { Ok(()) } else { Err(watched) }
    })
    .await;
}

/// Waits until the controller is ready, and its check of native candidates has this message.
async fn warns(controller: &Controller, message: Option<&str>) {
    eventually(&format!("the check says {message:?}"), || async {
        let answer = controller.get("/readyz?verbose").await?;
        let readiness: Value = serde_json::from_str(&answer.body).unwrap();
        let mut checks = readiness["checks"].as_array().unwrap().iter();
        let is_its = |check: &&Value| check["name"].as_str().unwrap().starts_with("native-leasecandidates");
        let shown = checks.find(is_its).unwrap()["message"].as_str();
        if answer.code == 200 && shown == message { Ok(()) } else { Err(answer.body) }
    })
    .await;
}
