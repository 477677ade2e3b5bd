//! Tests of what the page shows of the past of a Lease, and of the view after a silence.

use hustings_core::model::{Cause, Ending, Evidence, PastTerm, Unheld};

use hustings_core::election::Target;

use super::*;

#[test]
fn terms_before_the_start_of_this_controller_come_from_the_history_of_the_lease() {
    let mut scene = Scene::new(&two());
    let at = |second: i64| WireTime::from_micros(EPOCH + second * 1_000_000);
    let past = PastTerm::new(6, "b", (at(-90), at(-70)), Ending::Expired).to_string();
    scene.lease("a", "s/1/15", 7, &json!({ "hustings.io/history": past }));
    let expected = ["-60- a", "-70--60 the holder stopped renewing", "-90--70 b"];
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
fn an_observation_of_something_else_does_not_end_the_gap_after_an_expiry() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    scene.decided();
    scene.pass(20_000);
    scene.decided();
    scene.observe(Observation::Failed { target: Target::Candidate(CandidateKey::hustings("b")) });
    assert_eq!(timeline(&scene.decided()), ["0- the holder stopped renewing", "-60-0 a"]);
}

#[test]
fn a_gap_begins_with_the_release_or_with_the_first_observation() {
    let mut scene = Scene::new(&two());
    scene.lease("", "open", 7, &json!({}));
    assert_eq!(timeline(&scene.decided()), ["0- no holder before"]);

    for session in ["open", "unreadable"] {
        let mut scene = Scene::new(&two());
        scene.lease("a", "s/1/15", 7, &json!({}));
        scene.pass(5_000);
        scene.lease("", session, 7, &json!({}));
        assert_eq!(timeline(&scene.decided()), ["5- the holder released the Lease", "-60-5 a"], "{session}");
    }
}

#[test]
fn the_term_of_a_deleted_lease_ends_with_the_lease_and_that_of_a_lease_without_its_label_does_not() {
    for (uid, expected) in
        [("v", ["6- a", "5-6 the Lease does not exist", "-60-5 a"].as_slice()), ("u", ["-60- a"].as_slice())]
    {
        for decides in [true, false] {
            let mut scene = Scene::new(&two());
            let view = |scene: &mut Scene| if decides { scene.decided() } else { scene.on_standby() };
            scene.lease("a", "s/1/15", 7, &json!({}));
            view(&mut scene);
            scene.pass(5_000);
            scene.observe(Observation::LeaseMissing { source: Source::Watch });
            assert_eq!(timeline(&view(&mut scene)), ["-60- a"]);
            scene.pass(1_000);
            scene.uid = uid;
            scene.lease("a", "s/1/15", 7, &json!({}));
            assert_eq!(timeline(&view(&mut scene)), expected);
        }
    }
}

#[test]
fn a_holder_that_renews_again_is_no_longer_shown_as_silent() {
    for decides in [true, false] {
        let mut scene = Scene::new(&two());
        let view = |scene: &mut Scene| if decides { scene.decided() } else { scene.on_standby() };
        for _ in 0..3 {
            scene.lease("a", "s/1/15", 7, &json!({}));
            view(&mut scene);
            scene.pass(2_000);
        }
        scene.pass(6_000);
        assert_eq!(view(&mut scene).problems.len(), 1);
        scene.lease("a", "s/1/15", 7, &json!({}));
        assert_eq!(view(&mut scene).problems, []);
        scene.pass(20_000);
        scene.lease("a", "s/1/15", 7, &json!({}));
        let expected = ["32- a", "12-32 the holder stopped renewing", "-60-12 a"];
        assert_eq!(timeline(&view(&mut scene)), expected, "nothing was shown in between");
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_move_the_beginning_of_a_silence() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    scene.pass(9_000);
    scene.now.wall = WireTime::from_micros(EPOCH - 3_600_000_000);
    let gone = Observation::CandidateMissing { candidate: CandidateKey::hustings("b"), source: Source::Watch };
    scene.observe(gone);
    let view = scene.decided();
    assert_eq!(view.problems[0].since, Some(MicroTime(WireTime::from_micros(EPOCH))), "{view:?}");
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

#[test]
fn the_gap_before_a_grant_has_the_cause_that_the_lease_records() {
    let now = WireTime::from_micros(EPOCH);
    for (ending, expected) in [
        (Ending::HandedOver(Cause::BetterCandidate), "the holder handed over (better candidate)"),
        (Ending::ProvenDead(Evidence::ContainerTerminated), "the container of the holder terminated"),
        (Ending::Expired, "the holder stopped renewing"),
    ] {
        let mut scene = Scene::new(&two());
        scene.lease("a", "s/1/15", 7, &json!({ "hustings.io/preferred-holder": "b" }));
        scene.pass(5_000);
        let past = PastTerm::new(7, "a", (now, now), ending).to_string();
        scene.lease("b", "open", 8, &json!({ "hustings.io/history": past }));
        assert_eq!(timeline(&scene.decided())[0], format!("5- {expected}"));
    }
}

#[test]
fn a_late_release_by_client_go_ends_no_term_on_the_page() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    scene.pass(5_000);
    scene.lease("", "s/1/15", 7, &json!({}));
    scene.pass(1_000);
    scene.lease("a", "s/1/15", 7, &json!({}));
    assert_eq!(timeline(&scene.decided()), ["-60- a"]);
}

#[test]
fn the_gap_after_a_proven_death_begins_with_the_last_renewal() {
    let mut display = Display::new();
    let now = Now { moment: Moment::from_micros(3_000_000), wall: WireTime::from_micros(EPOCH + 3_000_000) };
    let lease = LeaseVerdict::Unheld {
        since: Moment::from_micros(0),
        cause: Unheld::Ended(Ending::Released(Cause::WorkEnded)),
    };
    display.decided(now, &decision(lease));
    assert_eq!(display.timeline.gap_since(), Some(WireTime::from_micros(EPOCH)), "any other gap, when it began");

    let mut scene = Scene::new(&two());
    let (mut election, mut display) = (Election::new(Config::default(), "n", "l"), Display::new());
    let lease = ReadLease::from_json(json!({
        "metadata": { "namespace": "n", "name": "l", "uid": "u", "resourceVersion": "7",
            "annotations": { "hustings.io/session": "s/1/15" } },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 7 },
    }));
    let report = election.observe(scene.now, Observation::Lease { record: lease.record, source: Source::Watch });
    display.observed(scene.now, &report, &election);
    scene.pass(3_000);
    let cause = Unheld::Ended(Ending::ProvenDead(Evidence::ContainerTerminated));
    let lease = LeaseVerdict::Unheld { since: scene.now.moment, cause };
    display.decided(scene.now, &decision(lease));
    assert_eq!(display.timeline.gap_since(), Some(WireTime::from_micros(EPOCH)));
}

#[test]
fn a_standby_shows_that_the_damping_of_a_candidate_has_ended() {
    let damped = json!({ "dampingCount": 1, "dampedUntil": "2026-01-02T03:00:10.000000Z" });
    let mut all = two().to_vec();
    all.push(candidate("damped", "1.31.5", &damped));
    let mut scene = Scene::new(&all);
    for second in (0..20).step_by(2) {
        scene.lease("a", "s/1/15", 7, &json!({}));
        let view = scene.on_standby();
        let last = view.candidates.iter().max_by_key(|candidate| candidate.rank).unwrap();
        if second != 10 {
            assert_eq!(last.name, if second < 10 { "damped" } else { "b" }, "after {second} s");
        }
        scene.pass(2_000);
    }
}
