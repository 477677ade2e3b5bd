//! Tests of the problems that the page names.

use super::*;

#[test]
fn of_many_candidates_that_cannot_lead_three_are_named_and_the_others_are_counted() {
    for (count, expected) in
        [(2, None), (3, None), (4, Some("1 more candidates are Invalid.")), (9, Some("6 more candidates are Invalid."))]
    {
        let invalid = (0..count).map(|number| candidate(&format!("b{number}"), "none", &json!({})));
        let all: Vec<Value> = [candidate("a", "1.31.0", &json!({}))].into_iter().chain(invalid).collect();
        let mut scene = Scene::new(&all);
        scene.lease("a", "s/1/15", 7, &json!({}));
        let view = scene.decided();
        let texts = texts(&view);
        let named = texts.iter().filter(|text| text.starts_with('b')).count();
        let rest = texts.iter().find(|text| text.contains("more candidates"));
        assert_eq!((named, rest.copied()), (count.min(3), expected), "{texts:?}");
    }
}

#[test]
fn a_holder_that_no_longer_renews_is_a_problem_whether_or_not_it_has_a_candidate() {
    for holder in ["a", "stranger"] {
        let mut scene = Scene::new(&two());
        for _ in 0..3 {
            scene.lease(holder, "s/1/15", 7, &json!({}));
            scene.decided();
            scene.pass(2_000);
        }
        let expected = format!("The holder {holder} has stopped renewing. The Lease expires unless it renews.");
        assert!(!texts(&scene.decided()).contains(&&*expected));
        scene.pass(7_000);
        let view = scene.decided();
        let problem = view.problems.iter().find(|problem| problem.text == expected);
        let problem = problem.unwrap_or_else(|| panic!("{view:?}"));
        let seconds = |time: Option<MicroTime>| time.map(|time| (time.0.as_micros() - EPOCH) / 1_000_000);
        assert_eq!(
            (problem.severity, seconds(problem.since), seconds(problem.until)),
            (Severity::Warning, Some(4), Some(19))
        );
    }
}

#[test]
fn a_request_to_hand_over_that_is_ignored_for_a_minute_is_a_problem() {
    let mut scene = Scene::new(&two());
    for second in 0..70 {
        scene.lease("b", "s/1/15", 7, &json!({ "hustings.io/preferred-holder": "a" }));
        let texts = scene.decided().problems;
        let expected = usize::from(second >= 60);
        assert_eq!(texts.iter().filter(|problem| problem.severity == Severity::Warning).count(), expected, "{texts:?}");
        scene.pass(1_000);
    }
}

#[test]
fn a_lease_without_a_live_candidate_shows_how_many_fail_for_which_reason() {
    let mut excluded = candidate("x", "1.31.0", &json!({}));
    excluded["metadata"]["annotations"] = json!({ "hustings.io/exclude": "2026-01-02T04:00:00Z: drain" });
    let mut scene = Scene::new(&[candidate("a", "2.0.0", &json!({})), excluded]);
    scene.lease("", "open", 7, &json!({}));
    scene.decided();
    scene.pass(60_000);
    assert_eq!(
        texts(&scene.decided())[0],
        "No candidate can be elected: 1 not admissible, 1 excluded by an administrator."
    );
}

#[test]
fn a_status_that_the_server_does_not_keep_is_shown_as_a_problem() {
    let mut scene = Scene::new(&two());
    for _ in 0..3 {
        scene.lease("a", "s/1/15", 7, &json!({}));
        scene.decided();
        scene.pass(5_000);
    }
    scene.lease("a", "s/1/15", 7, &json!({}));
    assert_eq!(scene.decided().problems, []);
    let mut written = candidate("a", "1.31.0", &json!({}));
    written["metadata"]["resourceVersion"] = json!("60");
    let record = ReadCandidate::from_json(written).record;
    let source = Source::StatusWritten { sent: scene.now.moment };
    scene.observe(Observation::Candidate { record, source });
    let view = scene.decided();
    assert!(texts(&view).iter().any(|text| text.contains("status")), "{view:?}");
}
