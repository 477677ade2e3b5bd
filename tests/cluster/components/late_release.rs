//! A replica with client-go that lost the Lease while it was cut off or paused empties the Lease of its successor when it
//! continues (E6 of docs/protocol.md). Two replicas with Hustings must not lead at once then, and the successor keeps its
//! term.

use std::process::Command;

use hustings_controlplane::{ControlPlane, Forwarder, Shared, Tool, shared};
use jiff::{SignedDuration, Timestamp};

use crate::replica::{Replica, assert_one_at_a_time, campaign, lease, token, until};

const LEASE: &str = "web";
const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(15);
/// client-go's attempt to release ends half a renew deadline after it has given up. With this deadline it gives up just
/// before the Lease expires, so its successor has 14 s for taking the Lease before the attempt ends.
const CLIENT_GO_TIMES: [&str; 3] = ["--lease-duration=30s", "--renew-deadline=29s", "--retry-period=500ms"];

/// Two replicas with Hustings, after a replica with client-go has lost the Lease to the first of them.
struct Stage {
    plane: Shared,
    namespace: String,
    client_go: Replica,
    client_go_link: Forwarder,
    successor: Replica,
    successor_link: Forwarder,
    standby: Replica,
}

#[tokio::test]
async fn a_holder_keeps_the_term_that_client_go_releases_late_and_writes_its_name_back() {
    let stage = Stage::new("late-release").await;
    stage.release_late().await;

    keeps_its_term(&stage.plane, &stage.namespace, &stage.successor).await;
    // The standby observes it, too, and takes nothing over.
    stage.standby_observes(Some("successor"), 1).await;
    assert!(stage.standby.terms().is_empty(), "{}", stage.standby.log());
}

#[tokio::test]
async fn a_lease_that_client_go_released_late_expires_before_another_replica_takes_it() {
    let stage = Stage::new("late-release-cut-off").await;
    // An ordinary stall of the holder's network, so that it cannot write its name back.
    stage.successor_link.hold();
    stage.release_late().await;
    stage.standby_observes(None, 0).await;
    let emptied = stage.standby.lines().into_iter().rfind(|line| line.holder.is_none()).unwrap().time;

    let led = stage.standby.says("leading", 0).await.time;
    assert!(led.duration_since(emptied) >= LEASE_DURATION, "{}", stage.standby.log());
    stage.successor_link.release();
    assert_one_at_a_time(&[&stage.successor, &stage.standby], &[]);
}

/// Before v0.37, client-go gave up at the conflict. Now it reads the Lease of its successor, and empties that.
#[tokio::test]
async fn a_holder_keeps_the_term_that_client_go_releases_after_a_conflict_with_its_claim() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("late-release-conflict").await.unwrap();
    let mut command = Command::new(plane.tool(Tool::ClientGo).await.unwrap());
    command.args(["--namespace", &namespace, "--lease", LEASE, "--identity=client-go", "--paused-release"]);
    command.args(["--lease-duration=15s", "--renew-deadline=14s", "--retry-period=10s", "--kubeconfig"]);
    command.arg(plane.kubeconfig());
    let client_go = Replica::start(&plane, &namespace, "client-go", command);
    client_go.says("leading", 0).await;
    let flags = ["--direct", "--retry-period=500ms"];
    let command = campaign(&plane.kubeconfig(), &namespace, LEASE, "successor", &flags);
    let successor = Replica::start(&plane, &namespace, "successor", command);
    successor.says("observed", 0).await;

    // client-go tries to release for as long as its renew deadline. The Lease must expire before that, so client-go stops
    // long after a renewal.
    let silence = SignedDuration::from_secs(7);
    let silent = async || {
        let held = lease(&plane, &namespace, LEASE).await;
        let renewed: Timestamp = held["spec"]["renewTime"].as_str()?.parse().unwrap();
        (Timestamp::now().duration_since(renewed) >= silence).then_some(())
    };
    until("client-go has not renewed for a while", || client_go.log(), silent).await;
    assert!(client_go.process.stop().await.unwrap().success(), "{}", client_go.log());

    // It waited for the successor, so it has emptied the successor's Lease.
    client_go.says("released", 0).await;
    keeps_its_term(&plane, &namespace, &successor).await;
}

/// Waits until the Lease has the name of this replica again, in its first term.
async fn keeps_its_term(plane: &ControlPlane, namespace: &str, replica: &Replica) {
    let led = replica.says("leading", 0).await;
    let written = async || {
        let held = lease(plane, namespace, LEASE).await;
        (held["spec"]["holderIdentity"] == replica.name.as_str()).then_some(held)
    };
    let held = until("the holder writes its name back", || replica.log(), written).await;
    assert_eq!(token(&held), led.token.unwrap().to_string());
    assert!(replica.leads(), "{}", replica.log());
    assert_eq!(replica.terms().len(), 1, "{}", replica.log());
}

impl Stage {
    async fn new(name: &str) -> Self {
        let plane = shared().await.unwrap();
        let namespace = plane.create_namespace(name).await.unwrap();
        let (client_go_link, kubeconfig) = plane.link().unwrap();
        let mut command = Command::new(plane.tool(Tool::ClientGo).await.unwrap());
        command.args(["--namespace", &namespace, "--lease", LEASE, "--identity=client-go", "--kubeconfig"]);
        command.arg(kubeconfig).args(CLIENT_GO_TIMES);
        let client_go = Replica::start(&plane, &namespace, "client-go", command);
        client_go.says("leading", 0).await;

        let flags = ["--direct", "--retry-period=500ms"];
        let (successor_link, kubeconfig) = plane.link().unwrap();
        let command = campaign(&kubeconfig, &namespace, LEASE, "successor", &flags);
        let successor = Replica::start(&plane, &namespace, "successor", command);
        successor.says("observed", 0).await;
        client_go_link.hold();
        successor.says("leading", 0).await;
        let command = campaign(&plane.kubeconfig(), &namespace, LEASE, "standby", &flags);
        let standby = Replica::start(&plane, &namespace, "standby", command);
        let stage = Self { plane, namespace, client_go, client_go_link, successor, successor_link, standby };
        stage.standby_observes(Some("successor"), 0).await;
        stage
    }

    /// client-go stops, as a kubelet stops it, and is connected again. Its pending release passes.
    async fn release_late(&self) {
        let stopping = async { self.client_go.process.stop().await.unwrap() };
        let connecting = async {
            self.client_go.says("stopped", 0).await;
            self.client_go_link.release();
        };
        let (stopped, ()) = tokio::join!(stopping, connecting);
        assert!(stopped.success(), "{}", self.client_go.log());
        self.standby_observes(None, 0).await;
    }

    /// Waits until the standby has reported this holder after the first `after` reports about it.
    async fn standby_observes(&self, holder: Option<&str>, after: usize) {
        let observed = async || {
            let lines = self.standby.lines();
            let is_it = |line: &&crate::replica::Line| line.event == "observed" && line.holder.as_deref() == holder;
            lines.iter().filter(is_it).nth(after).map(drop)
        };
        until("the standby observes the holder", || self.standby.log(), observed).await;
    }
}
