//! Tests of what the page shows of the past of a Lease, and of the view after a silence.

use hustings_core::model::{Ending, PastTerm};

use super::*;

#[test]
fn terms_before_the_start_of_this_controller_come_from_the_history_of_the_lease() {
    let mut scene = Scene::new(&two());
    let at = |second: i64| WireTime::from_micros(EPOCH + second * 1_000_000);
    let past = PastTerm::new(6, "b", (at(-90), at(-70)), Ending::Expired).to_string();
    scene.lease("a", "s/1/15", 7, &json!({ "hustings.io/history": past }));
    let expected = ["-60- a", &format!("-70--60 {}", Ending::Expired), "-90--70 b"];
    assert_eq!(timeline(&scene.decided()), expected);
}

#[test]
fn a_renewal_after_the_expiry_is_shown_with_the_gap_before_it() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    scene.decided();
    scene.pass(20_000);
    scene.lease("a", "s/1/15", 7, &json!({}));
    assert_eq!(timeline(&scene.decided()), ["20- a", "0-20 the holder stopped renewing", "-60-0 a"]);
}

#[test]
fn a_lease_that_expires_during_a_pause_is_shown_as_on_hold() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({ "hustings.io/hold": "works" }));
    scene.decided();
    scene.pass(20_000);
    let view = scene.decided();
    assert_eq!((view.state, timeline(&view)[0].split_once(' ').unwrap().1), ("hold", "the Lease is on hold"));
}
