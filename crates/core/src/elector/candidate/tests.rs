//! The elector's candidate, version by version and answer by answer.

use std::time::Duration;

use super::*;
use crate::elector::{Draw, Timing};

const SECOND: i64 = 1_000_000;

fn at(seconds: i64) -> Now {
    Now { moment: Moment::from_micros(seconds * SECOND), wall: WireTime::from_micros(seconds * SECOND) }
}

fn version(resource_version: u64) -> CandidateRecord {
    CandidateRecord {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version,
        lease_name: "l".to_owned(),
        ..CandidateRecord::default()
    }
}

fn candidate() -> Candidate {
    Candidate::new("l".to_owned(), at(0).moment)
}

/// The next action, and the number of its request.
fn next(candidate: &mut Candidate, now: i64) -> Option<(Action, AttemptId)> {
    let mut plan = Plan::new(Timing::default(), at(now).moment, Draw(0), u64::try_from(now).unwrap() * 10, Vec::new());
    candidate.plan(at(now), true, &mut plan);
    assert!(plan.actions.len() <= 1);
    let id = AttemptId(plan.last_attempt);
    plan.actions.pop().map(|action| (action, id))
}

fn created() -> Candidate {
    let mut candidate = candidate();
    let (_, attempt) = next(&mut candidate, 0).unwrap();
    candidate.observe_written(at(0), attempt, Outcome::Landed(version(5)));
    candidate
}

fn newest(candidate: &Candidate) -> Option<u64> {
    match &candidate.state {
        State::Seen(record) => Some(record.resource_version),
        State::Untried | State::Unknown | State::Missing { .. } => None,
    }
}

#[test]
fn after_a_creation_without_an_answer_the_elector_reads_the_candidate() {
    let mut candidate = candidate();
    assert!(matches!(next(&mut candidate, 0), Some((Action::CreateCandidate { .. }, _))));
    candidate.pass_time(at(4).moment);
    assert_eq!(next(&mut candidate, 4), None, "it may be answered yet");
    candidate.pass_time(at(5).moment);
    assert!(matches!(next(&mut candidate, 5), Some((Action::ReadCandidate(_), _))));
}

#[test]
fn a_renewal_without_an_answer_is_repeated() {
    let mut candidate = created();
    candidate.renew_unasked();
    assert!(matches!(next(&mut candidate, 1), Some((Action::RenewCandidate { .. }, _))));
    candidate.pass_time(at(6).moment);
    assert!(matches!(next(&mut candidate, 6), Some((Action::RenewCandidate { .. }, _))));
}

#[test]
fn after_a_conflict_the_elector_reads_the_candidate_before_it_writes() {
    let mut candidate = created();
    candidate.renew_unasked();
    let (_, attempt) = next(&mut candidate, 1).unwrap();
    candidate.observe_written(at(1), attempt, Outcome::Conflict);
    assert!(matches!(next(&mut candidate, 4), Some((Action::ReadCandidate(_), _))));
}

#[test]
fn the_deletion_names_the_uid_and_is_done_when_the_server_confirms_it() {
    let mut candidate = created();
    candidate.delete(at(30).moment);
    let Some((Action::DeleteCandidate { uid, .. }, attempt)) = next(&mut candidate, 1) else { panic!("no deletion") };
    assert_eq!((uid.as_str(), candidate.is_deleted(at(1).moment)), ("u", false));
    candidate.observe_written(at(1), attempt, Outcome::Deleted);
    assert!(candidate.is_deleted(at(1).moment));
}

#[test]
fn a_version_counts_if_it_is_newer_or_was_requested_after_the_newest() {
    let read = |sent: i64, record: CandidateRecord| {
        let mut candidate = created();
        candidate.observe_version(at(2).moment, version(7), None);
        candidate.observe_version(at(4).moment, record, Some(at(sent).moment));
        newest(&candidate)
    };
    assert_eq!(read(1, version(6)), Some(7), "it was overtaken");
    assert_eq!(read(2, version(6)), Some(7));
    assert_eq!(read(3, version(6)), Some(6));
    let mut candidate = created();
    candidate.observe_version(at(2).moment, version(7), None);
    candidate.observe_version(at(4).moment, version(7), None);
    candidate.observe_version(at(5).moment, version(6), Some(at(3).moment));
    assert_eq!(newest(&candidate), Some(6), "a replay is nothing newer");
    candidate.observe_missing(at(6), Source::Watch);
    candidate.observe_version(at(6).moment, version(5), None);
    assert_eq!(newest(&candidate), None, "an older version does not bring the candidate back");
    candidate.observe_version(at(6).moment, version(6), None);
    assert_eq!(newest(&candidate), Some(6), "but a watch may begin with a list from before");
}

#[test]
fn a_404_counts_if_nothing_was_observed_since_the_read_was_sent() {
    for (seen_at, is_missing) in [(3, true), (4, false), (5, false)] {
        let mut candidate = created();
        candidate.poll();
        let (_, read) = next(&mut candidate, 4).unwrap();
        candidate.observe_version(at(seen_at).moment, version(7), None);
        candidate.observe_missing(at(6), Source::Read(read));
        assert_eq!(newest(&candidate).is_none(), is_missing, "seen at {seen_at}");
    }
}

#[test]
fn a_late_answer_to_an_abandoned_read_does_not_answer_the_next_read() {
    let mut candidate = created();
    candidate.poll();
    let (_, first) = next(&mut candidate, 1).unwrap();
    candidate.pass_time(at(1).moment.after(Duration::from_secs(5)));
    candidate.poll();
    let (_, second) = next(&mut candidate, 7).unwrap();
    candidate.observe_read_failed(first);
    assert!(candidate.pending.is_some());
    candidate.observe_read_failed(second);
    assert!(candidate.pending.is_none());
}

#[test]
fn a_candidate_that_is_deleted_under_a_renewal_is_created_again_at_once() {
    let mut candidate = created();
    candidate.renew_unasked();
    assert!(matches!(next(&mut candidate, 3), Some((Action::RenewCandidate { .. }, _))));
    candidate.observe_missing(at(4), Source::Watch);
    assert!(matches!(next(&mut candidate, 4), Some((Action::CreateCandidate { .. }, _))));
}

#[test]
fn only_a_version_of_the_same_object_proves_a_renewal() {
    let mut candidate = created();
    candidate.renew_unasked();
    let Some((Action::RenewCandidate { renew_time, .. }, _)) = next(&mut candidate, 1) else { panic!("no renewal") };
    candidate.observe_version(
        at(2).moment,
        CandidateRecord { renew_time: Some(WireTime::from_micros(1)), ..version(6) },
        None,
    );
    assert!(candidate.unasked, "the version shows another renew time");
    candidate.observe_version(
        at(2).moment,
        CandidateRecord { uid: "v".to_owned(), renew_time: Some(renew_time), ..version(7) },
        None,
    );
    assert!(candidate.unasked, "it is another object");
    candidate.observe_version(at(2).moment, CandidateRecord { renew_time: Some(renew_time), ..version(8) }, None);
    assert!(!candidate.unasked);
}
