//! A container that is killed and restarts in its pod leads again at once.

use std::time::Duration;

use hustings_controlplane::shared;
use jiff::Timestamp;

use crate::replica::{Replica, campaign};

/// Far longer than the test: a wait for the expiry would fail it.
const TIMES: [&str; 3] = ["--lease-duration=10m", "--renew-deadline=5m", "--retry-period=1s"];

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_container_killed_in_its_pod_leads_again_long_before_its_lease_expires() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("restart").await.unwrap();
    let flags = [["--direct"].as_slice(), &TIMES].concat();
    let mut command = campaign(&plane.kubeconfig(), &namespace, "web", "pod-1", &flags);
    command.env("POD_UID", &namespace).env("CONTAINER_NAME", "web");
    let replica = Replica::start(&plane, &namespace, "pod-1", command);
    let first = replica.says("leading", 0).await;
    replica.process.kill().unwrap();
    let killed = Timestamp::now();
    replica.process.start().unwrap();
    let second = replica.says("leading", 1).await;
    let gap = Duration::try_from(second.time.duration_since(killed)).unwrap();
    println!("led again after {gap:?}");
    assert!(gap < Duration::from_mins(2), "{gap:?}");
    assert_eq!(second.term.unwrap(), first.term.unwrap() + 1);
    assert!(second.token > first.token);
}
