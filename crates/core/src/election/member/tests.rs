//! One candidate, observed by a controller version by version.

use super::*;
use crate::election::damping::Damping;
use crate::election::{CandidateVerdict, Reason};
use crate::model::{Condition, RecordedStatus};

fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn now(seconds: i64) -> Now {
    Now { moment: at(seconds), wall: WireTime::from_micros(seconds * 1_000_000) }
}

fn version(resource_version: u64, renewed: i64) -> CandidateRecord {
    CandidateRecord {
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version,
        renew_time: Some(WireTime::from_micros(renewed)),
        ..CandidateRecord::default()
    }
}

/// A member that was pinged at 1 s, and the version that the ping will make.
fn pinged(renewed: i64) -> (Member, CandidateRecord) {
    let config = Config::default();
    let mut member = Member::first(version(5, 100), now(0), &config);
    member.ping(Now { moment: at(1), wall: WireTime::from_micros(1_000) }, &config);
    let ping_time = member.ping.time();
    (member, CandidateRecord { ping_time, ..version(10, renewed) })
}

fn observe(member: &mut Member, record: CandidateRecord, source: Source, seconds: i64) {
    member.observe(record, source, now(seconds), &Config::default());
}

const WRITTEN: Source = Source::Written { sent: Moment::from_micros(1_000_000) };

#[test]
fn a_renewal_older_than_the_ping_is_no_proof() {
    let (mut member, landed) = pinged(900);
    observe(&mut member, landed, WRITTEN, 2);
    assert!(!member.is_proven_since(at(0)), "its clock may be ahead, and it may have died since");
    observe(&mut member, version(4, 50), Source::Read { sent: at(3) }, 3);
    assert!(!member.is_proven_since(at(0)), "an older version from a read proves nothing either");
    assert_eq!(member.record.resource_version, 4, "although nothing was observed since that read was sent");
    observe(&mut member, version(11, 9_001), Source::Watch, 4);
    assert!(member.is_proven_since(at(4)));
}

#[test]
fn a_status_that_cannot_be_written_waits_longer_than_a_request_that_an_election_needs() {
    let (mut member, config) = (pinged(900).0, Config::default());
    for _ in 0..20 {
        member.fail_status(at(5), &config);
        member.fail_request(at(5), &config);
    }
    assert_eq!(member.status_rests_until(&RecordedStatus::default(), at(5)), Some(at(65)));
    assert_eq!(member.backoff.until(at(5)), Some(at(5).after(config.requeue)));
}

#[test]
fn a_ping_that_may_equal_another_controllers_is_repeated_once() {
    let (mut member, landed) = pinged(1_000);
    observe(&mut member, landed, WRITTEN, 2);
    assert!(member.ping.is_idle() && !member.is_proven_since(at(0)));
    member.ping(Now { moment: at(2), wall: WireTime::from_micros(900) }, &Config::default());
    assert!(member.ping.time() > Some(WireTime::from_micros(1_000)));
    let again = member.ping.time();
    observe(&mut member, CandidateRecord { ping_time: again, ..version(12, i64::MAX) }, WRITTEN, 3);
    assert!(!member.ping.is_idle(), "no ping is later than the latest time");
}

#[test]
fn an_answer_counts_even_if_the_watch_shows_it_before_the_ping_returns() {
    let (mut member, landed) = pinged(100);
    observe(&mut member, CandidateRecord { ping_time: landed.ping_time, ..version(11, 9_001) }, Source::Watch, 2);
    assert!(!member.is_proven_since(at(0)), "the version that the ping made is still unknown");
    observe(&mut member, landed, WRITTEN, 3);
    assert!(member.is_proven_since(at(3)));
    assert_eq!(member.record.resource_version, 11);
}

#[test]
fn an_answer_precedes_what_another_controller_recorded_in_the_same_version() {
    let (mut member, landed) = pinged(100);
    observe(&mut member, landed, WRITTEN, 2);
    let state = Some(CandidateState::Unresponsive);
    let status = RecordedStatus { state, unresponsive_since: Some(now(1).wall), ..RecordedStatus::default() };
    observe(&mut member, CandidateRecord { status, ..version(11, 9_001) }, Source::Watch, 3);
    assert_eq!(member.response, Response::Answered);
}

#[test]
fn a_ping_that_never_reached_the_candidate_is_no_failure_and_may_be_repeated() {
    let (mut member, _) = pinged(100);
    assert!(member.settle_ping(now(5)).is_none() && !member.ping.is_idle(), "its window has not ended");
    assert!(member.settle_ping(now(6)).is_none());
    assert!(member.ping.is_idle() && member.failed_at.is_none());
}

#[test]
fn a_candidate_fails_only_after_a_live_read_sent_after_its_window() {
    let (mut member, landed) = pinged(100);
    observe(&mut member, landed.clone(), WRITTEN, 1);
    observe(&mut member, landed.clone(), Source::Read { sent: at(5) }, 6);
    assert!(member.settle_ping(now(6)).is_some(), "a read from within the window proves no failure");
    member.fail_request(at(6), &Config::default());
    assert!(member.settle_ping(now(6)).is_none() && member.failed_at.is_none(), "nor does one that failed");
    assert!(member.settle_ping(now(8)).is_some());
    observe(&mut member, landed, Source::Read { sent: at(8) }, 8);
    assert!(member.settle_ping(now(8)).is_none());
    assert_eq!(member.failed_at, Some(at(8)));
    observe(&mut member, version(12, 9_001), Source::Watch, 9);
    let may_be_pinged = [7, 8, 9].map(|started| member.may_be_pinged(at(started)));
    assert_eq!((member.failed_at, may_be_pinged), (None, [false, false, true]));
}

#[test]
fn a_standby_controller_adopts_the_status_that_the_leading_one_wrote() {
    let config = Config::default();
    let mut member = Member::first(version(5, 100), now(0), &config);
    let status = RecordedStatus {
        state: Some(CandidateState::Damped),
        damping_count: 2,
        damped_until: Some(now(40).wall),
        leading: Condition { reason: Condition::GRANT_NOT_TAKEN_UP.to_owned(), ..Condition::default() },
        ..RecordedStatus::default()
    };
    observe(&mut member, CandidateRecord { status, ..version(6, 100) }, Source::Watch, 1);
    assert_eq!((member.losses.damping.count, member.losses.forfeited), (2, true));
    assert_eq!(member.losses.damping.until(at(1)), Some(at(40)));
    assert_eq!(member.losses.reported_at, Some(at(1)));
    let status = RecordedStatus { damping_count: 2, ..RecordedStatus::default() };
    observe(&mut member, CandidateRecord { status, ..version(7, 100) }, Source::Watch, 2);
    assert_eq!(member.losses.reported_at, Some(at(1)), "the same count shows no other loss");
    assert_eq!(member.losses.damping.until(at(2)), None, "the other controller has ended it");
}

#[test]
fn a_loss_that_only_the_standby_counted_ends_with_the_status_that_does_not_show_it() {
    let config = Config::default();
    let mut member = Member::first(version(5, 100), now(0), &config);
    member.losses.damping.add(now(1), &config);
    let status = RecordedStatus { state: Some(CandidateState::Standby), ..RecordedStatus::default() };
    observe(&mut member, CandidateRecord { status, ..version(6, 100) }, Source::Watch, 2);
    assert_eq!(member.losses.damping, Damping::default());
}

#[test]
fn a_grant_that_was_not_taken_up_counts_until_the_damping_ends() {
    let config = Config::default();
    let mut member = Member::first(version(5, 100), now(0), &config);
    member.losses.forfeited = true;
    member.losses.damping.add(now(0), &config);
    assert_eq!([29, 30].map(|seconds| member.has_forfeited(at(seconds))), [true, false]);
}

#[test]
fn a_removed_renew_time_is_no_answer_and_a_native_candidate_counts_as_dead_from_then_on() {
    let (mut member, landed) = pinged(100);
    observe(&mut member, landed, WRITTEN, 2);
    observe(&mut member, CandidateRecord { renew_time: None, ..version(11, 0) }, Source::Watch, 3);
    assert!(!member.is_proven_since(at(0)));
    let native = |version| CandidateRecord { kind: CandidateKind::Native, ..version };
    let mut member = Member::first(native(version(5, 100)), now(0), &Config::default());
    observe(&mut member, native(CandidateRecord { renew_time: None, ..version(6, 0) }), Source::Watch, 10);
    assert_eq!(member.dead_since(), Some(at(10)));
}

#[test]
fn a_ping_is_withdrawn_after_a_native_candidate_has_answered_with_an_earlier_time() {
    let record = |kind, resource_version, renewed| CandidateRecord {
        kind,
        ping_time: Some(WireTime::from_micros(50)),
        ..version(resource_version, renewed)
    };
    for (kind, renewed, is_withdrawn) in
        [(CandidateKind::Native, 49, true), (CandidateKind::Native, 50, false), (CandidateKind::Hustings, 49, false)]
    {
        let mut member = Member::first(record(kind, 5, 10), now(0), &Config::default());
        observe(&mut member, record(kind, 6, renewed), Source::Watch, 1);
        observe(&mut member, record(kind, 7, renewed), Source::Watch, 1);
        let mut paused = member.clone();
        assert_eq!(member.withdraw_ping(at(1)).is_some(), is_withdrawn, "{kind:?} {renewed}");
        paused.fail_request(at(1), &Config::default());
        let withdrawn = [1, 2].map(|seconds| paused.withdraw_ping(at(seconds)).is_some());
        assert_eq!(withdrawn, [false, is_withdrawn], "{kind:?} {renewed}, after a failed request");
    }
}

#[test]
fn a_read_counts_unless_something_newer_was_observed_since_its_sending() {
    let mut member = Member::first(version(5, 100), now(0), &Config::default());
    let missed = |member: &Member, sent| !member.is_newer_than(Source::Read { sent: at(sent) });
    assert!(missed(&member, 0));
    observe(&mut member, version(6, 100), Source::Watch, 3);
    assert!(!missed(&member, 2) && missed(&member, 3) && missed(&member, 4));
    observe(&mut member, version(6, 100), Source::Watch, 5);
    assert!(missed(&member, 4), "a replay is nothing newer");
    observe(&mut member, version(5, 90), Source::Read { sent: at(3) }, 6);
    assert_eq!(member.record.resource_version, 6);
    observe(&mut member, version(6, 100), Source::Read { sent: at(6) }, 8);
    assert!(missed(&member, 7), "nor is a read of the same version");
}

#[test]
fn what_a_candidate_declares_follows_the_newest_version() {
    let mut member = Member::first(version(5, 100), now(0), &Config::default());
    let versions = ["1.0", "1.1", "1.1"].map(str::to_owned);
    for (resource_version, binary_version) in (6..).zip(versions) {
        let emulation_version = Some("1.0".to_owned());
        let creation_time = WireTime::from_micros(i64::from(resource_version == 8));
        let stood = member.declared.clone();
        let record = version(resource_version, 100);
        let record = CandidateRecord { creation_time, binary_version, emulation_version, ..record };
        observe(&mut member, record, Source::Watch, 1);
        assert_eq!(member.declared, Declared::read(&member.record));
        assert_ne!(member.declared, stood);
    }
}

#[test]
fn a_successful_request_ends_the_backoff_and_a_watch_event_does_not() {
    let (mut member, landed) = pinged(100);
    observe(&mut member, landed, WRITTEN, 2);
    member.fail_request(at(5), &Config::default());
    assert!(!member.ping.is_idle() && !member.ping.is_abandoned(), "it may answer yet");
    observe(&mut member, version(11, 100), Source::Watch, 5);
    assert!(member.backoff.until(at(5)).is_some());
    member.fail_request(at(6), &Config::default());
    assert!(member.ping.is_abandoned(), "its window has ended");
    observe(&mut member, version(12, 100), WRITTEN, 6);
    assert!(member.backoff.until(at(6)).is_none());
}

#[test]
fn a_recorded_end_hours_ahead_counts_once_from_its_first_observation() {
    let status = |message: &str| RecordedStatus {
        damping_count: 1,
        damped_until: Some(now(9_000).wall),
        message: message.to_owned(),
        ..RecordedStatus::default()
    };
    let first = CandidateRecord { status: status("Why."), ..version(5, 100) };
    let mut member = Member::first(first, now(0), &Config::default());
    assert_eq!(member.losses.damping.until(at(1)), Some(at(30)));
    observe(&mut member, CandidateRecord { status: status("Why not."), ..version(6, 100) }, Source::Watch, 20);
    assert_eq!(member.losses.damping.until(at(20)), Some(at(30)));
}

#[test]
fn a_new_session_may_be_preferred_again_after_a_missed_take_up() {
    let session = |session: Option<&str>| session.map(str::to_owned);
    for (former, next, forfeited) in [
        (None, None, true),
        (Some("s1"), Some("s1"), true),
        (Some("s1"), None, true),
        (None, Some("s1"), false),
        (Some("s1"), Some("s2"), false),
    ] {
        let first = CandidateRecord { session: session(former), ..version(5, 100) };
        let mut member = Member::first(first, now(0), &Config::default());
        member.losses.forfeited = true;
        observe(&mut member, CandidateRecord { session: session(next), ..version(6, 100) }, Source::Watch, 1);
        assert_eq!(member.losses.forfeited, forfeited, "{former:?} {next:?}");
    }
}

#[test]
fn a_recorded_state_shows_whether_the_candidate_answered_an_earlier_controller() {
    let (unknown, answered) = (Response::Unknown, Response::Answered);
    for (state, response) in [
        (None, unknown),
        (Some(CandidateState::Holder), answered),
        (Some(CandidateState::Preferred), answered),
        (Some(CandidateState::Standby), answered),
        (Some(CandidateState::Unproven), unknown),
        (Some(CandidateState::Unresponsive), Response::Missed { since: Some(now(7).wall) }),
        (Some(CandidateState::Damped), unknown),
        (Some(CandidateState::Invalid), unknown),
    ] {
        let unresponsive_since = Some(now(7).wall);
        let status = RecordedStatus { state, unresponsive_since, ..RecordedStatus::default() };
        let member = Member::first(CandidateRecord { status, ..version(5, 100) }, now(9), &Config::default());
        assert_eq!(member.response, response, "{state:?}");
        assert_eq!(member.losses.was_recorded_as_holder, state == Some(CandidateState::Holder), "{state:?}");
    }
}

#[test]
fn a_renewal_of_the_lease_ends_what_an_unanswered_ping_left() {
    let status = RecordedStatus {
        state: Some(CandidateState::Unresponsive),
        unresponsive_since: Some(now(1).wall),
        ..RecordedStatus::default()
    };
    let mut member = Member::first(CandidateRecord { status, ..version(5, 100) }, now(2), &Config::default());
    member.failed_at = Some(at(2));
    member.renew(at(3));
    assert_eq!((member.response, member.failed_at), (Response::Answered, None));
}

#[test]
fn only_the_answer_to_the_newest_status_write_shows_whether_the_status_was_kept() {
    let verdict = CandidateVerdict {
        candidate: CandidateKey::hustings("a"),
        rank: Some(1),
        state: CandidateState::Standby,
        reason: Reason::Election,
        responsive: Some(true),
        answered_early: false,
        unresponsive_since: None,
        damping_count: 0,
        damped_until: None,
        forfeited: false,
    };
    let written = |seconds| Source::StatusWritten { sent: at(seconds) };
    let mut member = Member::first(version(5, 100), now(0), &Config::default());
    member.statuses.shown = Some(verdict.clone());
    member.observe_status_sent(&verdict.status(), at(2));
    observe(&mut member, version(6, 100), written(1), 3);
    assert_eq!((member.statuses.shown.as_ref(), member.ineffective.writes().count()), (Some(&verdict), 0));
    let mut other = member.clone();
    observe(&mut member, CandidateRecord { status: verdict.status(), ..version(7, 100) }, written(2), 3);
    assert_eq!((member.statuses.shown.as_ref(), member.ineffective.writes().count()), (Some(&verdict), 0));
    observe(&mut other, version(7, 100), written(2), 3);
    assert_eq!((other.statuses.shown, other.ineffective.writes().count()), (None, 1));
}

/// Each of two controllers may take the other's status for an earlier one of its own.
#[test]
fn a_status_is_written_ever_more_rarely_while_another_controller_contests_it_even_with_one_that_is_known() {
    let config = Config::default();
    let mut member = Member::first(version(5, 100), now(0), &config);
    let status = |damping_count| RecordedStatus { damping_count, ..RecordedStatus::default() };
    member.observe_decision(at(0), &config);
    member.observe_status_sent(&status(0), at(0));
    let mut versions = 6..;
    let mut show = |member: &mut Member, count, seconds| {
        let record = CandidateRecord { status: status(count), ..version(versions.next().unwrap(), 100) };
        observe(member, record, Source::Watch, seconds);
    };
    let mut writes = 0;
    for seconds in 1..=40 {
        // The other controller contests once with a status that this one never wrote, and then with one that it wrote.
        show(&mut member, if seconds == 1 { 7 } else { 0 }, seconds);
        member.observe_decision(at(seconds), &config);
        member.observe_verdict(&status(1), at(seconds), &config);
        if member.status_rests_until(&status(1), at(seconds)).is_none_or(|until| until <= at(seconds)) {
            member.observe_status_sent(&status(1), at(seconds));
            show(&mut member, 1, seconds);
            writes += 1;
        }
    }
    assert!((2..10).contains(&writes), "{writes}");
}
