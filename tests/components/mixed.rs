//! A component on its way from client-go to Hustings: replicas on both elect one holder of one Lease.

use std::process::Command;

use hustings_controlplane::{ControlPlane, Tool, shared};
use jiff::{SignedDuration, Timestamp};

use crate::replica::{Replica, campaign, candidate_account, install, lease, until};

const LEASE: &str = "web";
/// The same for both.
const TIMES: [&str; 3] = ["--lease-duration=4s", "--renew-deadline=3s", "--retry-period=500ms"];

/// When replicas were killed, which could not say so themselves.
#[derive(Default)]
struct Killed(Vec<(String, Timestamp)>);

#[tokio::test]
async fn client_go_and_direct_mode_succeed_each_other_in_order_and_after_crashes() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("mixed").await.unwrap();
    let mut killed = Killed::default();
    let go = client_go(&plane, &namespace, "client-go").await;
    go.says("leading", 0).await;
    let flags = [["--direct"].as_slice(), &TIMES].concat();
    let command = campaign(&plane.kubeconfig(), &namespace, LEASE, "rust", &flags);
    let rust = Replica::start(&plane, &namespace, "rust", command);
    sees(&rust, "client-go").await;

    // In order: each releases in a form that the other takes for free.
    assert!(go.process.stop().await.unwrap().success(), "{}", go.log());
    rust.says("leading", 0).await;
    go.process.start().unwrap();
    sees(&go, "rust").await;
    assert!(rust.process.stop().await.unwrap().success(), "{}", rust.log());
    go.says("leading", 1).await;

    // A crash of either is waited out.
    rust.process.start().unwrap();
    until("it sees the holder", || rust.log(), async || (starts(&rust) == 2).then_some(())).await;
    let renewed = killed.kill(&go, &plane, &namespace).await;
    let led = rust.says("leading", 1).await.time;
    assert!(led.duration_since(renewed) >= SignedDuration::from_secs(4), "{renewed} {led}");
    go.process.start().unwrap();
    until("it stands again", || go.log(), async || (starts(&go) == 3).then_some(())).await;
    let renewed = killed.kill(&rust, &plane, &namespace).await;
    let led = go.says("leading", 2).await.time;
    assert!(led.duration_since(renewed) >= SignedDuration::from_secs(4), "{renewed} {led}");

    killed.assert_one_at_a_time(&[&go, &rust]);
}

#[tokio::test]
async fn candidates_leave_the_lease_of_client_go_alone_until_it_is_free_and_are_then_elected() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let _controller = install(&plane).await;
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
    until("the controller has looked at both", logs, async || {
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
    Killed::default().assert_one_at_a_time(&[&go, &newer, &older]);
}

/// A replica that stands by client-go, as the administrator: it updates Leases, which candidates need not.
async fn client_go(plane: &ControlPlane, namespace: &str, name: &str) -> Replica {
    let mut command = Command::new(plane.tool(Tool::ClientGo).await.unwrap());
    command.args(["--namespace", namespace, "--lease", LEASE, "--identity", name]).args(TIMES);
    command.arg("--kubeconfig").arg(plane.kubeconfig());
    Replica::start(plane, namespace, name, command)
}

fn starts(replica: &Replica) -> usize {
    replica.lines().iter().filter(|line| line.event == "started").count()
}

/// Waits until the replica has told of this holder since it last started.
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

impl Killed {
    /// Kills the holder when the Lease has been seen to be its, and returns its last renewal.
    async fn kill(&mut self, replica: &Replica, plane: &ControlPlane, namespace: &str) -> Timestamp {
        replica.process.kill().unwrap();
        self.0.push((replica.name.clone(), Timestamp::now()));
        let held = lease(plane, namespace, LEASE).await;
        assert_eq!(held["spec"]["holderIdentity"], replica.name.as_str());
        held["spec"]["renewTime"].as_str().unwrap().parse().unwrap()
    }

    /// By their own words no two ever led at once. Tokens are not client-go's to give.
    fn assert_one_at_a_time(&self, replicas: &[&Replica]) {
        let said = replicas.iter().flat_map(|replica| {
            let lines = replica.lines().into_iter().filter(|line| matches!(line.event.as_str(), "leading" | "stopped"));
            lines.map(|line| (line.time, replica.name.clone(), line.event == "leading"))
        });
        let killed = self.0.iter().map(|(name, at)| (*at, name.clone(), false));
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
