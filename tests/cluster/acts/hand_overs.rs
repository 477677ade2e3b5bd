//! The Lease is transferred back and forth between real processes that work: the leader adds numbers to a set, with no
//! protection other than the order of the hand-over. No two lead at once, and no acknowledged number is lost.

use std::time::Duration;

use hustings_controlplane::Process;
use serde_json::json;

use super::Scene;
use crate::controller::support::eventually;
use crate::fenced::NAME;
use crate::losses::lockset::{Arena, Protection, additions};
use crate::times::percentiles;

/// How many transfers a test makes. `HUSTINGS_TRANSFERS` changes that.
const TRANSFERS: usize = 12;

const VERSION: &str = "1.32.0";

#[tokio::test(flavor = "multi_thread")]
async fn transfers_forth_and_back_make_one_leader_at_a_time_and_lose_no_write() {
    let scene = Scene::new("acts-transfer", &[]).await;
    let count = std::env::var("HUSTINGS_TRANSFERS").ok().map_or(TRANSFERS, |count| count.parse().unwrap());
    let arena = Arena::new(&scene.world.plane, &scene.world.namespace, Protection::TermOnly).await;
    let a = arena.start_candidate("a", VERSION);
    adds(&a, 0).await;
    let b = arena.start_candidate("b", VERSION);
    scene.world.standing("b").await;

    let (mut acts, mut commands) = (Vec::new(), Vec::new());
    for round in 0..count {
        let (to, process, flags) = if round % 2 == 0 { ("b", &b, vec!["--to", "b"]) } else { ("a", &a, vec![]) };
        let before = additions(process);
        let arguments = [&["transfer", NAME, "--wait", "--reason", "drill"], flags.as_slice()].concat();
        let (done, took) = scene.timed(&arguments).await;
        assert_eq!((&done[0]["happened"], &done[0]["holder"]), (&json!(true), &json!(to)), "{round}: {done:?}");
        acts.push(Duration::from_secs_f64(done[0]["seconds"].as_f64().unwrap()));
        commands.push(took);
        adds(process, before).await;
    }
    let note = "a was asked to hand over to b: an administrator transfers the Lease (asked by admin: drill).";
    scene.world.published("Normal", note).await;

    let outcome = arena.end(&[a, b]).await;
    println!("{count} transfers: {outcome:?}");
    println!("from the write to the new term: {}", percentiles(acts));
    println!("the whole command: {}", percentiles(commands));
    assert_eq!((outcome.lost, outcome.late), (0, 0), "two leaders added at once: {outcome:?}");
    assert!(outcome.terms > count, "a leader did not add: {outcome:?}");
}

/// Waits until the server has acknowledged more numbers of this process than `before`.
async fn adds(process: &Process, before: usize) {
    eventually("the leader adds", || async {
        let now = additions(process);
        if now > before { Ok(()) } else { Err(now) }
    })
    .await;
}
