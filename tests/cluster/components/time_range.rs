//! `examples/time_range.rs`: one replica exports each data point, whatever happens to the Lease and the API server.

use std::collections::BTreeSet;
use std::process::Command;

use hustings_controlplane::{ControlPlane, Process};

use super::example::example;
use crate::replica::until;

/// The interval of the example.
const INTERVAL_MILLIS: i64 = 500;

#[tokio::test]
async fn each_point_is_exported_by_one_replica_and_a_release_loses_none() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let example = example("time_range");
    let start = |name: &str, mode: &str| -> Process {
        let mut command = Command::new(&example);
        command.args([name, mode]).env("KUBECONFIG", plane.kubeconfig());
        plane.spawn(name, command).unwrap()
    };
    let first = start("first", "fail-open");
    exports(&first, 4, "").await;
    let second = start("second", "");

    // The API server is down for longer than a lease. No replica leads, and the last leader fails open and reports
    // that.
    plane.apiserver().kill().unwrap();
    exports(&first, 4, ", maybe not alone").await;
    // Both may claim the Lease after the outage.
    second.pause().unwrap();
    assert!(exported(&second, "").is_empty(), "it has never led");
    plane.apiserver().restart().await.unwrap();
    let sure = exported(&first, "").len();
    exports(&first, sure + 4, "").await;
    second.resume().unwrap();
    assert_eq!(log(&first).matches("holds the Lease").count(), 1, "nobody else has had it\n{}", log(&first));

    assert!(first.stop().await.unwrap().success());
    exports(&second, 4, "").await;
    let (first, second) = (exported(&first, ""), exported(&second, ""));
    assert!(first.is_disjoint(&second), "{first:?}\n{second:?}");
    let (last, next) = (first.last().unwrap(), second.first().unwrap());
    assert_eq!(next - last, INTERVAL_MILLIS, "{first:?}\n{second:?}");
}

/// Waits until it has exported this many points in this way.
async fn exports(process: &Process, points: usize, suffix: &str) {
    let enough = async || (exported(process, suffix).len() >= points).then_some(());
    until(&format!("{points} points exported{suffix}"), || log(process), enough).await;
}

fn exported(process: &Process, suffix: &str) -> BTreeSet<i64> {
    let log = log(process);
    let points = log.lines().filter_map(|line| line.strip_prefix("exported ")?.strip_suffix(suffix)?.parse().ok());
    points.collect()
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap()
}
