//! An outage of the API server for a minute ends every term on time, and nothing else.

use std::time::Duration;

use hustings_controlplane::ControlPlane;
use jiff::Timestamp;

use crate::replica::{Replica, assert_one_at_a_time, campaign, candidate_account, install, until};

/// Longer than any validity, any Lease and any backoff.
const OUTAGE: Duration = Duration::from_mins(1);
/// `hustings campaign`'s default.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_api_server_outage_of_a_minute_ends_no_process_and_every_term_on_time() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let controller = install(&plane).await;
    let namespace = plane.create_namespace("outage").await.unwrap();
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let replicas = ["a", "b"].map(|name| {
        let command = campaign(&kubeconfig, &namespace, "web", name, &["--binary-version", "1.0.0"]);
        Replica::start(&plane, &namespace, name, command)
    });
    let logs = || replicas.each_ref().map(Replica::log).join("\n");
    let leader = || replicas.iter().find(|replica| replica.leads());
    until("one of them leads", logs, async || leader().map(drop)).await;
    let first = leader().unwrap();

    plane.apiserver().kill().unwrap();
    let away = Timestamp::now();
    let stopped = first.says("stopped", 0).await.time;
    let held_on = Duration::try_from(stopped.duration_since(away)).unwrap();
    assert!(held_on <= RENEW_DEADLINE + Duration::from_secs(5), "{} led on for {held_on:?}", first.name);
    // The test waits for the whole outage: every process must survive it.
    tokio::time::sleep(OUTAGE.saturating_sub(held_on)).await;
    assert!(leader().is_none(), "a replica leads without an API server\n{}", logs());
    plane.apiserver().restart().await.unwrap();

    until("one of them leads again", logs, async || leader().map(drop)).await;
    assert!(controller.exit_status().unwrap().is_none(), "the controller has ended");
    let terms = assert_one_at_a_time(&replicas.each_ref(), &[]);
    assert_eq!(terms.len(), 2, "{terms:?}");
}
