//! A component that migrates from client-go to Hustings: replicas with both elect one holder of one Lease.

use std::process::Command;

use hustings_controlplane::{ControlPlane, Tool, shared};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::installed::installed;
use crate::replica::{Replica, campaign, candidate_account, lease, until};

const LEASE: &str = "web";
/// The same for both.
const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];
const LEASE_DURATION: SignedDuration = SignedDuration::from_secs(10);
/// The shortest wait of client-go. It compares renewals by whole seconds, so it may miss the last of several within one
/// second, and count from the first.
const AS_CLIENT_GO_COUNTS: SignedDuration = SignedDuration::from_secs(9);

/// The longest time since the last renewal when a term ends: a jittered retry period.
const RENEWAL: SignedDuration = SignedDuration::from_millis(600);

/// Ends of terms that the replicas could not report in time.
#[derive(Default)]
pub(super) struct Silent {
    killed: Vec<(String, Timestamp)>,
    /// Ends that a frozen replica reported only after it resumed, with their true times.
    overslept: Vec<(String, Timestamp)>,
}

#[tokio::test]
async fn client_go_and_direct_mode_succeed_each_other_after_stops_and_after_crashes() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("mixed").await.unwrap();
    let mut silent = Silent::default();
    let [go, rust] = client_go_leads_beside_direct_mode(&plane, &namespace).await;

    // Stops: each releases in a form that the other treats as free.
    assert!(go.process.stop().await.unwrap().success(), "{}", go.log());
    let led = rust.says("leading", 0).await.time;
    let gap = led.duration_since(go.says("stopped", 0).await.time);
    assert!(gap < LEASE_DURATION, "what client-go releases is not waited out: {gap:#}");
    go.process.start().unwrap();
    sees(&go, "rust").await;
    assert!(rust.process.stop().await.unwrap().success(), "{}", rust.log());
    let led = go.says("leading", 1).await.time;
    let gap = led.duration_since(rust.says("stopped", 0).await.time);
    assert!(gap < AS_CLIENT_GO_COUNTS - RENEWAL, "what Hustings releases is not waited out: {gap:#}");

    // Crashes: the successor waits until the Lease expires.
    rust.process.start().unwrap();
    until("it sees the holder", || rust.log(), async || (starts(&rust) == 2).then_some(())).await;
    let renewed = silent.kill(&go, &plane, &namespace).await;
    let led = rust.says("leading", 1).await.time;
    assert!(led.duration_since(renewed) >= LEASE_DURATION, "{renewed} {led}");
    go.process.start().unwrap();
    until("it stands again", || go.log(), async || (starts(&go) == 3).then_some(())).await;
    let renewed = silent.kill(&rust, &plane, &namespace).await;
    let led = go.says("leading", 2).await.time;
    assert!(led.duration_since(renewed) >= AS_CLIENT_GO_COUNTS, "{renewed} {led}");

    silent.assert_one_at_a_time(&[&go, &rust]);
}

#[tokio::test]
async fn hustings_waits_for_the_lease_of_a_frozen_client_go_and_a_resumed_holder_reports_the_end_first() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("mixed-frozen").await.unwrap();
    let mut silent = Silent::default();
    let [go, rust] = client_go_leads_beside_direct_mode(&plane, &namespace).await;

    // client-go's claims beyond its lease are its own overlap. Hustings leads after the lease, and continues.
    go.process.pause().unwrap();
    let renewed = renewed_by(&go, &plane, &namespace).await;
    let led = rust.says("leading", 0).await.time;
    assert!(led.duration_since(renewed) >= LEASE_DURATION, "{renewed} {led}");
    go.process.resume().unwrap();
    let stopped = go.says("stopped", 0).await.time;
    println!(
        "client-go alone: it took itself for the leader for {:#} beside its successor",
        stopped.duration_since(led)
    );
    silent.overslept.push((go.name.clone(), renewed.checked_add(LEASE_DURATION).unwrap()));
    sees(&go, "rust").await;
    assert!(rust.leads(), "{}", rust.log());

    // In the other direction there is no overlap.
    let awake = rust.lines().len();
    rust.process.pause().unwrap();
    let frozen = Timestamp::now();
    let renewed = renewed_by(&rust, &plane, &namespace).await;
    let led = go.says("leading", 1).await.time;
    assert!(led.duration_since(renewed) >= AS_CLIENT_GO_COUNTS, "{renewed} {led}");
    rust.process.resume().unwrap();
    let thawed = until("it reports something", || rust.log(), async || rust.lines().into_iter().nth(awake)).await;
    assert_eq!(thawed.event, "stopped", "{}", rust.log());
    silent.overslept.push((rust.name.clone(), frozen));
    sees(&rust, "client-go").await;
    assert!(go.process.stop().await.unwrap().success(), "{}", go.log());
    rust.says("leading", 1).await;

    silent.assert_one_at_a_time(&[&go, &rust]);
}

#[tokio::test]
async fn candidates_are_elected_only_once_the_lease_of_client_go_is_free() {
    let plane = installed().await;
    let namespace = plane.create_namespace("migration").await.unwrap();
    let go = client_go(&plane, &namespace, "client-go").await;
    go.says("leading", 0).await;
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let candidate = |name: &str, version: &str| {
        let flags = [["--binary-version", version].as_slice(), &TIMES].concat();
        Replica::start(&plane, &namespace, name, campaign(&kubeconfig, &namespace, LEASE, name, &flags))
    };
    let [newer, older] = [candidate("newer", "1.2.0"), candidate("older", "1.1.0")];
    let arguments = ["get", "lcand", "--namespace", &namespace, "--output=jsonpath={.items[*].status.state}"];
    let logs = || format!("{}\n{}", newer.log(), older.log());
    until("the controller has judged both", logs, async || {
        let states = String::from_utf8(plane.kubectl(arguments).await.unwrap().stdout).unwrap();
        (states.split_whitespace().count() == 2).then_some(())
    })
    .await;
    let held = lease(&plane, &namespace, LEASE).await;
    assert_eq!(held["spec"]["holderIdentity"], "client-go");
    assert!(held["metadata"]["labels"].is_null() && held["metadata"]["annotations"].is_null(), "{held}");

    assert!(go.process.stop().await.unwrap().success(), "{}", go.log());
    older.says("leading", 0).await;
    let held = lease(&plane, &namespace, LEASE).await;
    assert!(held["metadata"]["annotations"]["hustings.io/reason"].is_string(), "the controller elected it: {held}");

    // Back again: client-go leads when the last candidate is gone, and keeps the annotations.
    go.process.start().unwrap();
    sees(&go, "older").await;
    assert!(newer.process.stop().await.unwrap().success(), "{}", newer.log());
    assert!(older.leads(), "{}", older.log());
    assert!(older.process.stop().await.unwrap().success(), "{}", older.log());
    go.says("leading", 1).await;
    let held = lease(&plane, &namespace, LEASE).await;
    assert_eq!(held["spec"]["holderIdentity"], "client-go");
    assert!(held["metadata"]["annotations"]["hustings.io/token"].is_string(), "{held}");
    // It is an ordinary holder: it keeps the Lease for longer than the lease duration.
    let keeps = async || {
        let later = lease(&plane, &namespace, LEASE).await;
        (renewed(&later).duration_since(renewed(&held)) > LEASE_DURATION).then_some(later)
    };
    let later = until("client-go keeps the Lease", || go.log(), keeps).await;
    assert_eq!(later["spec"]["holderIdentity"], "client-go");
    assert_eq!(later["spec"]["leaseTransitions"], held["spec"]["leaseTransitions"], "it is one term");
    assert!(go.process.stop().await.unwrap().success(), "{}", go.log());
    Silent::default().assert_one_at_a_time(&[&go, &newer, &older]);
}

/// Two replicas: one with client-go, which leads, and one with Hustings in direct mode, which has observed that.
async fn client_go_leads_beside_direct_mode(plane: &ControlPlane, namespace: &str) -> [Replica; 2] {
    let go = client_go(plane, namespace, "client-go").await;
    go.says("leading", 0).await;
    let flags = [["--direct"].as_slice(), &TIMES].concat();
    let command = campaign(&plane.kubeconfig(), namespace, LEASE, "rust", &flags);
    let rust = Replica::start(plane, namespace, "rust", command);
    sees(&rust, "client-go").await;
    [go, rust]
}

/// A replica with client-go, as the administrator: it updates Leases, which candidates need not do.
async fn client_go(plane: &ControlPlane, namespace: &str, name: &str) -> Replica {
    let mut command = Command::new(plane.tool(Tool::ClientGo).await.unwrap());
    command.args(["--namespace", namespace, "--lease", LEASE, "--identity", name]).args(TIMES);
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    Replica::start(plane, namespace, name, command)
}

/// When this replica last renewed the Lease.
async fn renewed_by(replica: &Replica, plane: &ControlPlane, namespace: &str) -> Timestamp {
    let held = lease(plane, namespace, LEASE).await;
    assert_eq!(held["spec"]["holderIdentity"], replica.name.as_str());
    renewed(&held)
}

fn renewed(lease: &Value) -> Timestamp {
    lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap()
}

fn starts(replica: &Replica) -> usize {
    replica.lines().iter().filter(|line| line.event == "started").count()
}

/// Waits until the replica has reported this holder since it last started.
async fn sees(replica: &Replica, holder: &str) {
    until(
        "it sees the holder",
        || replica.log(),
        async || {
            let lines = replica.lines();
            let since = lines.iter().rposition(|line| line.event == "started")?;
            lines[since..]
                .iter()
                .any(|line| line.event == "observed" && line.holder.as_deref() == Some(holder))
                .then_some(())
        },
    )
    .await;
}

impl Silent {
    /// Kills the holder once the Lease shows it, and returns its last renewal.
    async fn kill(&mut self, replica: &Replica, plane: &ControlPlane, namespace: &str) -> Timestamp {
        replica.process.kill().unwrap();
        self.killed.push((replica.name.clone(), Timestamp::now()));
        renewed_by(replica, plane, namespace).await
    }

    /// By their own reports, no two ever led at once. client-go has no tokens.
    pub(super) fn assert_one_at_a_time(&self, replicas: &[&Replica]) {
        let said = replicas.iter().flat_map(|replica| {
            let mut lines = replica.lines();
            for (_, at) in self.overslept.iter().filter(|(name, _)| *name == replica.name) {
                lines.iter_mut().find(|line| line.event == "stopped" && line.time > *at).unwrap().time = *at;
            }
            lines.retain(|line| matches!(line.event.as_str(), "leading" | "stopped"));
            lines.into_iter().map(|line| (line.time, replica.name.clone(), line.event == "leading"))
        });
        let killed = self.killed.iter().map(|(name, at)| (*at, name.clone(), false));
        let mut changes: Vec<_> = said.chain(killed).collect();
        changes.sort();
        for (index, (_, name, leads)) in changes.iter().enumerate() {
            assert_eq!(*leads, index % 2 == 0, "two led at once: {changes:#?}");
            assert!(*leads || changes[index - 1].1 == *name, "two led at once: {changes:#?}");
        }
        for pair in changes.windows(2).filter(|pair| !pair[0].2) {
            println!("{} to {}: {:#} without a holder", pair[0].1, pair[1].1, pair[1].0.duration_since(pair[0].0));
        }
    }
}
