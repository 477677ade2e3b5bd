//! The elector's candidate, version by version and answer by answer.

use std::time::Duration;

use super::*;
use crate::elector::{Action, Config, Timing};
use crate::model::{CandidateKey, CandidatePatch, CandidateState, Pod, Request};

const SECOND: i64 = 1_000_000;

fn at(seconds: i64) -> Now {
    Now { moment: Moment::from_micros(seconds * SECOND), wall: WireTime::from_micros(seconds * SECOND) }
}

fn version(resource_version: u64) -> CandidateRecord {
    let created = nomination().candidate(WireTime::MIN);
    CandidateRecord { uid: "u".to_owned(), resource_version, renew_time: None, ..created }
}

fn nomination() -> Nomination {
    Config::of("a").nomination().unwrap()
}

fn candidate() -> Candidate {
    Candidate::new(nomination(), at(0).moment)
}

/// The next request, and its number.
fn next(candidate: &mut Candidate, now: i64) -> Option<(Request, AttemptId)> {
    let mut plan = Plan::of(Timing::default(), at(now), u64::try_from(now).unwrap() * 10);
    candidate.plan(at(now), true, &mut plan);
    assert!(plan.actions.len() <= 1);
    match plan.actions.pop()? {
        Action::Send { attempt, request } => Some((request, attempt)),
        action => panic!("{action:?} is not about the candidate"),
    }
}

/// The timer of the next decision, and the second in which it expires.
fn timer(candidate: &mut Candidate, now: i64) -> Option<(i64, Timer)> {
    let mut plan = Plan::of(Timing::default(), at(now), 0);
    candidate.plan(at(now), true, &mut plan);
    assert_eq!(plan.actions, []);
    plan.next.map(|(moment, timer)| (moment.as_micros() / SECOND, timer))
}

fn pinged(resource_version: u64, micros: i64) -> CandidateRecord {
    CandidateRecord { ping_time: Some(WireTime::from_micros(micros)), ..version(resource_version) }
}

fn renew_time(renewal: &Request) -> WireTime {
    let Request::PatchCandidate { patch, .. } = renewal else { panic!("{renewal:?} is no renewal") };
    match patch {
        CandidatePatch::Renew(renew_time) | CandidatePatch::Refresh { renew_time, .. } => *renew_time,
        patch => panic!("{patch:?} renews nothing"),
    }
}

/// Sends a renewal, and returns the version that shows it on top of `record`.
fn renewed(candidate: &mut Candidate, now: i64, record: CandidateRecord) -> (AttemptId, CandidateRecord) {
    let (request, attempt) = next(candidate, now).unwrap();
    let renew_time = renew_time(&request);
    (attempt, CandidateRecord { renew_time: Some(renew_time), ..record })
}

fn created() -> Candidate {
    let mut candidate = candidate();
    let (_, attempt) = next(&mut candidate, 0).unwrap();
    candidate.observe_written(at(0), attempt, Outcome::Landed(version(5)));
    candidate
}

fn newest(candidate: &Candidate) -> Option<u64> {
    match &candidate.state {
        KnownCandidate::Seen(record) => Some(record.resource_version),
        KnownCandidate::Untried | KnownCandidate::Unknown | KnownCandidate::Missing { .. } => None,
    }
}

#[test]
fn after_a_creation_without_an_answer_the_elector_reads_the_candidate() {
    let mut candidate = candidate();
    assert!(matches!(next(&mut candidate, 0), Some((Request::CreateCandidate { .. }, _))));
    candidate.pass_time(at(4).moment);
    assert_eq!(next(&mut candidate, 4), None, "it may be answered yet");
    candidate.pass_time(at(5).moment);
    assert!(matches!(next(&mut candidate, 5), Some((Request::ReadCandidate { .. }, _))));
}

#[test]
fn a_renewal_without_an_answer_is_repeated() {
    let mut candidate = created();
    candidate.renew_unasked();
    assert!(matches!(next(&mut candidate, 1), Some((Request::PatchCandidate { .. }, _))));
    candidate.pass_time(at(6).moment);
    assert!(matches!(next(&mut candidate, 6), Some((Request::PatchCandidate { .. }, _))));
}

#[test]
fn after_a_conflict_the_elector_reads_the_candidate_before_it_writes() {
    let mut candidate = created();
    candidate.renew_unasked();
    let (_, attempt) = next(&mut candidate, 1).unwrap();
    candidate.observe_written(at(1), attempt, Outcome::Conflict);
    assert!(matches!(next(&mut candidate, 4), Some((Request::ReadCandidate { .. }, _))));
}

#[test]
fn the_deletion_names_the_uid_and_is_done_when_the_server_confirms_it() {
    let mut candidate = created();
    candidate.delete(at(30).moment);
    let Some((Request::DeleteCandidate { uid, .. }, attempt)) = next(&mut candidate, 1) else { panic!("no deletion") };
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
    candidate.observe_missing(at(8), Source::Watch);
    candidate.observe_version(at(9).moment, version(5), Some(at(7).moment));
    assert_eq!(newest(&candidate), None, "an answer to an older request does not");
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
    assert!(matches!(next(&mut candidate, 3), Some((Request::PatchCandidate { .. }, _))));
    candidate.observe_missing(at(4), Source::Watch);
    assert!(matches!(next(&mut candidate, 4), Some((Request::CreateCandidate { .. }, _))));
}

#[test]
fn only_a_version_of_the_same_object_proves_a_renewal() {
    let mut candidate = created();
    candidate.renew_unasked();
    let renew_time = renew_time(&next(&mut candidate, 1).unwrap().0);
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

#[test]
fn the_answer_to_a_renewal_counts_even_if_its_version_is_lower_as_after_a_restore() {
    let mut candidate = created();
    candidate.renew_unasked();
    let (attempt, answer) = renewed(&mut candidate, 1, version(3));
    candidate.observe_written(at(2), attempt, Outcome::Landed(answer));
    assert_eq!((candidate.unasked, newest(&candidate)), (false, Some(3)));
}

#[test]
fn a_renewal_that_the_watch_shows_needs_no_answer() {
    let mut candidate = created();
    candidate.observe_version(at(1).moment, pinged(6, 1), None);
    let (_, shown) = renewed(&mut candidate, 1, pinged(7, 1));
    assert_eq!(timer(&mut candidate, 1), Some((6, Timer::RequestTimeout)));
    candidate.observe_version(at(1).moment, shown, None);
    candidate.observe_version(at(1).moment, pinged(8, 2), None);
    assert!(matches!(next(&mut candidate, 1), Some((Request::PatchCandidate { .. }, _))), "it answers the next ping");
}

#[test]
fn a_renewal_that_succeeds_late_ends_no_later_request() {
    let mut candidate = created();
    candidate.renew_unasked();
    let (_, late) = renewed(&mut candidate, 1, version(6));
    candidate.pass_time(at(6).moment);
    candidate.delete(at(11).moment);
    let Some((Request::DeleteCandidate { .. }, deletion)) = next(&mut candidate, 6) else { panic!("no deletion") };
    candidate.observe_version(at(7).moment, late, None);
    assert_eq!(candidate.request().map(|request| request.id), Some(deletion));
}

#[test]
fn a_ping_is_answered_once_for_each_object() {
    let mut candidate = created();
    candidate.observe_version(at(1).moment, pinged(6, 7), None);
    let (attempt, answer) = renewed(&mut candidate, 1, pinged(7, 7));
    candidate.observe_written(at(1), attempt, Outcome::Landed(answer));
    assert_eq!(next(&mut candidate, 1), None);
    candidate.observe_version(at(2).moment, version(8), None);
    assert_eq!(next(&mut candidate, 2), None, "a person removed the ping");
    candidate.observe_missing(at(3), Source::Watch);
    let (_, creation) = next(&mut candidate, 3).unwrap();
    let of_next = |record| CandidateRecord { uid: "v".to_owned(), ..record };
    candidate.observe_written(at(3), creation, Outcome::Landed(of_next(version(9))));
    assert_eq!(next(&mut candidate, 3), None);
    candidate.observe_version(at(4).moment, of_next(pinged(10, 7)), None);
    assert!(matches!(next(&mut candidate, 4), Some((Request::PatchCandidate { .. }, _))), "it is another object");
}

#[test]
fn the_elector_renews_each_time_that_its_candidate_is_marked_unresponsive() {
    let doubted = |record: CandidateRecord| {
        let mut record = record;
        record.status.state = Some(CandidateState::Unresponsive);
        record.status.unresponsive_since = Some(WireTime::from_micros(1));
        record
    };
    let mut candidate = created();
    for version_of_mark in [6, 9] {
        candidate.observe_version(at(1).moment, doubted(version(version_of_mark)), None);
        let (attempt, answer) = renewed(&mut candidate, 1, doubted(version(version_of_mark + 1)));
        candidate.observe_written(at(1), attempt, Outcome::Landed(answer.clone()));
        assert_eq!(next(&mut candidate, 1), None, "the same mark is answered once");
        let mut cleared = doubted(CandidateRecord { renew_time: answer.renew_time, ..version(version_of_mark + 2) });
        cleared.status.state = Some(CandidateState::Standby);
        candidate.observe_version(at(1).moment, cleared, None);
        assert_eq!(next(&mut candidate, 1), None);
    }
}

#[test]
fn a_deletion_is_done_only_if_no_creation_may_follow() {
    let mut candidate = candidate();
    let (_, first) = next(&mut candidate, 0).unwrap();
    candidate.observe_written(at(0), first, Outcome::Missing);
    let (_, second) = next(&mut candidate, 2).unwrap();
    candidate.delete(at(30).moment);
    assert!(!candidate.is_deleted(at(2).moment), "the creation may succeed yet");
    candidate.observe_written(at(2), second, Outcome::Missing);
    assert!(candidate.is_deleted(at(2).moment));
}

#[test]
fn a_candidate_of_another_lease_is_not_deleted() {
    let mut candidate = candidate();
    let other = CandidateRecord { lease_name: "other".to_owned(), ..version(5) };
    candidate.observe_version(at(0).moment, other, None);
    candidate.delete(at(30).moment);
    assert!(candidate.is_deleted(at(0).moment), "there is nothing to wait for");
}

#[test]
fn the_wait_for_a_refused_deletion_ends_before_the_next_attempt() {
    let mut candidate = created();
    candidate.delete(at(2).moment);
    let (_, attempt) = next(&mut candidate, 1).unwrap();
    candidate.observe_written(at(1), attempt, Outcome::Refused);
    assert_eq!(timer(&mut candidate, 1), Some((2, Timer::CandidateDeletion)));
}

#[test]
fn a_late_answer_to_an_abandoned_write_does_not_answer_the_next_write() {
    let mut candidate = created();
    candidate.renew_unasked();
    let (first, _) = renewed(&mut candidate, 1, version(6));
    candidate.pass_time(at(6).moment);
    let (second, _) = renewed(&mut candidate, 6, version(6));
    candidate.observe_written(at(6), first, Outcome::Conflict);
    assert_eq!(candidate.request().map(|request| request.id), Some(second));
}

#[test]
fn a_candidate_that_is_deleted_under_an_unanswered_read_is_created_again() {
    let mut candidate = created();
    candidate.poll();
    assert!(matches!(next(&mut candidate, 3), Some((Request::ReadCandidate { .. }, _))));
    candidate.observe_missing(at(4), Source::Watch);
    candidate.pass_time(at(8).moment);
    assert!(matches!(next(&mut candidate, 8), Some((Request::CreateCandidate { .. }, _))));
}

#[test]
fn each_task_is_the_request_that_it_needs() {
    let (candidate, renew_time, uid) = (CandidateKey::hustings("a"), WireTime::from_micros(3), || "u".to_owned());
    let whole = Nomination { pod: Some(Pod { name: "p".to_owned(), uid: "v".to_owned() }), ..nomination() };
    let renewal = |repairs| CandidateTask::Renew(Renewal { uid: uid(), renew_time, ping: None, repairs });
    let patch = |patch| Request::patch_candidate("a", uid(), patch);
    let delete =
        |resource_version| Request::DeleteCandidate { candidate: candidate.clone(), uid: uid(), resource_version };
    for names_owner in [false, true] {
        let nomination = Box::new(Nomination { pod: whole.pod.clone().filter(|_| names_owner), ..whole.clone() });
        let refresh = || patch(CandidatePatch::Refresh { nomination: nomination.clone(), renew_time });
        let (ours, not_ours) = (Some(uid()), Some("w".to_owned()));
        for (task, refreshed_uid, expected) in [
            (CandidateTask::Create, None, Request::CreateCandidate { nomination: nomination.clone(), renew_time }),
            (renewal(false), None, refresh()),
            (renewal(false), not_ours, refresh()),
            (renewal(true), ours.clone(), refresh()),
            (renewal(false), ours, patch(CandidatePatch::Renew(renew_time))),
            // The own candidate is deleted in any version, another one only as it was seen.
            (CandidateTask::Delete { uid: uid() }, None, delete(None)),
            (CandidateTask::Replace { uid: uid(), resource_version: 9 }, None, delete(Some(9))),
        ] {
            assert_eq!(task.request(&whole, renew_time, refreshed_uid.as_ref(), names_owner), expected, "{task:?}");
        }
    }
}
