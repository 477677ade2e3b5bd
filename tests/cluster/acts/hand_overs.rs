//! The Lease is transferred forth and back by real processes: never two leaders, and in milliseconds.

use serde_json::json;

use super::{LEASE, Scene};
use crate::replica::{Replica, assert_one_at_a_time};

/// How many transfers a test makes. `HUSTINGS_TRANSFERS` changes that.
const TRANSFERS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn transfers_forth_and_back_make_one_leader_at_a_time() {
    let scene = Scene::new("acts-transfer", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let count = std::env::var("HUSTINGS_TRANSFERS").ok().map_or(TRANSFERS, |count| count.parse().unwrap());
    let mut seconds = Vec::new();
    for round in 0..count {
        let (to, flags) = if round % 2 == 0 { ("b", vec!["--to", "b"]) } else { ("a", vec![]) };
        let done = scene.done(&[&["transfer", LEASE, "--wait", "--reason", "drill"], flags.as_slice()].concat()).await;
        assert_eq!((&done[0]["happened"], &done[0]["holder"]), (&json!(true), &json!(to)), "{round}: {done:?}");
        seconds.push(done[0]["seconds"].as_f64().unwrap());
    }
    seconds.sort_by(f64::total_cmp);
    let at = |percent: usize| 1_000.0 * seconds[(seconds.len() * percent).div_ceil(100) - 1];
    println!("{count} transfers: p50 {:.1} ms, p95 {:.1} ms, longest {:.1} ms", at(50), at(95), at(100));
    let replicas: Vec<&Replica> = scene.replicas.iter().collect();
    let terms = assert_one_at_a_time(&replicas, &[]);
    assert!(terms.len() > count, "{} terms", terms.len());
    let note = "a was asked to hand over to b: an administrator transfers the Lease (asked by admin: drill).";
    scene.world.published("Normal", note).await;
}
