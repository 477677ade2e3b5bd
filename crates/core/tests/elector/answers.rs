//! Answers that arrive late, show nothing, or report a conflict. Each case needs an exact instant.

use std::time::Duration;

use hustings_core::elector::{
    Action, AttemptId, Draw, Durations, ElectorMode, Note, Observation, Outcome, Source, Timer,
};
use hustings_core::model::{Purpose, Request};

use super::steps::{Steps, at, free, held};

/// Whether the elector only reads the Lease.
fn is_read(actions: &[Action]) -> bool {
    matches!(actions, [Action::Send { request: Request::ReadLease { .. }, .. }])
}

#[test]
fn three_conflicts_in_a_row_are_followed_by_another_attempt_at_once() {
    for is_shown_first in [false, true] {
        let mut steps = Steps::new(ElectorMode::Direct);
        let mut version = 1;
        for seconds in [0, 3, 6] {
            steps.at(at(seconds));
            steps.see(free(version));
            let mut written = 0;
            while let Some((attempt, _)) = steps.write() {
                written += 1;
                assert!(written < 9, "it does not rest");
                version += 1;
                if is_shown_first {
                    steps.see(free(version));
                }
                steps.answer(attempt, Outcome::Conflict);
                steps.see(free(version));
            }
            assert_eq!(written, 4, "at {seconds} s");
        }
    }
}

#[test]
fn a_holder_also_waits_after_more_conflicts_than_three_since_its_last_success() {
    let mut steps = Steps::new(ElectorMode::Direct);
    let mut held = steps.lead();
    steps.at(at(2));
    for written in 1..=6 {
        let (attempt, write) = steps.write().unwrap();
        assert_eq!(write.purpose, Purpose::Renew, "{written}");
        held.resource_version += 1;
        if written == 2 {
            held = write.applied_to(&held, held.resource_version);
            steps.answer(attempt, Outcome::Landed(held.clone()));
            steps.at(at(4));
        } else {
            steps.answer(attempt, Outcome::Conflict);
            steps.see(held.clone());
        }
    }
    let actions = steps.actions();
    assert!(is_read(&actions), "another client is at fault: {actions:?}");
    steps.at(at(6));
    assert!(steps.write().is_some());
}

#[test]
fn an_answer_does_not_revive_a_term_that_has_just_expired() {
    let mut steps = Steps::new(ElectorMode::Direct);
    let held = steps.lead();
    steps.at(at(6));
    let (attempt, write) = steps.write().unwrap();
    steps.at(at(10));
    steps.answer(attempt, Outcome::Landed(write.applied_to(&held, 3)));
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).leading, None);
}

#[test]
fn a_claim_of_unknown_outcome_begins_no_term_once_the_lease_was_missing() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.at(at(3));
    steps.see(free(1));
    let (attempt, write) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Unknown);
    steps.at(at(4));
    steps.observe(Observation::LeaseMissing { source: Source::Watch });
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    steps.see(write.applied_to(&free(1), 2));
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).leading, None, "the watch lags behind");
}

#[test]
fn a_creation_of_unknown_outcome_is_followed_by_a_read() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.at(at(2));
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    let creation = steps.create().unwrap();
    steps.answer(creation, Outcome::Unknown);
    assert!(steps.read().is_some());
    // The same if it is not answered, unless it is repeated sooner.
    let mut steps =
        Steps::with(ElectorMode::Direct, Durations { retry_period: Duration::from_secs(8), ..Durations::default() });
    steps.at(at(8));
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    assert!(steps.create().is_some());
    steps.at(at(13));
    assert!(steps.read().is_some());
}

#[test]
fn an_answer_that_a_newer_version_overtook_is_followed_by_a_read() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.at(at(3));
    steps.see(free(1));
    let (attempt, write) = steps.write().unwrap();
    steps.see(held(9, 3));
    steps.answer(attempt, Outcome::Landed(write.applied_to(&free(1), 2)));
    assert!(steps.read().is_some());
}

#[test]
fn a_read_that_was_sent_before_a_conflict_or_a_404_does_not_answer_it() {
    for outcome in [Outcome::Conflict, Outcome::Missing] {
        let mut steps = Steps::new(ElectorMode::Direct);
        steps.see(held(1, 3));
        assert_eq!(steps.actions(), []);
        steps.at(at(14));
        let read = steps.read().unwrap();
        steps.at(steps.elector.lease().unwrap().expires_at());
        let (attempt, _) = steps.write().unwrap();
        steps.answer(attempt, outcome);
        steps.observe(Observation::Lease { record: held(1, 3), source: Source::Read(read) });
        let mut actions = steps.actions();
        steps.at(steps.now.moment.after(Duration::from_millis(250)));
        actions.extend(steps.actions());
        assert!(is_read(&actions), "it does not know the reason yet: {actions:?}");
    }
}

#[test]
fn a_claim_that_is_shown_when_its_validity_ends_begins_no_term() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.see(free(1));
    let (_, write) = steps.write().unwrap();
    steps.at(at(10));
    steps.see(write.applied_to(&free(1), 2));
    assert!(steps.elector.decide(steps.now, Draw(0)).notes.contains(&Note::LandedTooLate));
}

#[test]
fn a_refused_write_is_repeated_after_the_retry_period() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.see(free(1));
    let (attempt, _) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Refused);
    let decision = steps.elector.decide(steps.now, Draw(0));
    assert_eq!((decision.timer, decision.deadline), (Some(Timer::Write), Some(at(2))));
}

#[test]
fn an_answer_to_an_unknown_request_is_ignored() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.see(held(1, 3));
    assert_eq!(steps.actions(), []);
    steps.at(at(3));
    steps.observe(Observation::LeaseMissing { source: Source::Read(AttemptId(77)) });
    assert_eq!(steps.actions(), []);
    steps.observe(Observation::LeaseMissing { source: Source::Watch });
    assert!(is_read(&steps.actions()));
}

#[test]
fn a_hand_over_request_that_met_a_conflict_is_sent_again() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.observe(Observation::Key(Some(5)));
    steps.see(held(1, 3));
    for version in [1, 2] {
        let (attempt, write) = steps.write().unwrap();
        assert_eq!((write.purpose, write.resource_version), (Purpose::Prefer, version));
        steps.answer(attempt, Outcome::Conflict);
        steps.see(held(version + 1, 3));
    }
    let (attempt, _) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Refused);
    steps.see(held(4, 3));
    steps.at(at(4));
    assert!(steps.write().is_none(), "whatever else becomes of it, it is put once");
}
