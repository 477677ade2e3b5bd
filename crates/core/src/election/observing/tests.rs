use std::time::Duration;

use super::*;
use crate::election::{Action, Event, LeaseVerdict, Timer};
use crate::model::{
    Annotation, CandidateState, Cause, Ending, History, PastTerm, Purpose, RecordedStatus, SessionMark,
};

fn at(seconds: i64) -> Now {
    let micros = seconds * 1_000_000;
    Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
}

fn election() -> Election {
    Election::new(Config::default(), "n", "l")
}

fn held() -> LeaseRecord {
    LeaseRecord { resource_version: 5, holder: Some("a".to_owned()), ..LeaseRecord::as_created() }
}

fn observe(election: &mut Election, record: LeaseRecord, source: Source, now: i64) {
    election.observe(at(now), Observation::Lease { record, source });
}

fn candidate() -> Observation {
    Observation::Candidate { record: named("a"), source: Source::Watch }
}

fn named(name: &str) -> CandidateRecord {
    let version = "1.0".to_owned();
    CandidateRecord {
        name: name.to_owned(),
        lease_name: "l".to_owned(),
        owned: true,
        binary_version: version.clone(),
        emulation_version: Some(version),
        ..CandidateRecord::default()
    }
}

fn term(resource_version: u64, session: &str) -> LeaseRecord {
    let renew_time = Some(WireTime::from_micros(i64::try_from(resource_version).unwrap()));
    LeaseRecord { resource_version, renew_time, session: SessionMark::read(Some(session)), ..held() }
}

#[test]
fn an_election_is_over_without_candidates_and_without_a_lease() {
    let mut election = election();
    assert_eq!((election.key(), election.lease(), election.is_over(at(0))), (("n", "l"), None, true));
    observe(&mut election, held(), Source::Watch, 0);
    assert_eq!((election.lease().map(Observed::record), election.is_over(at(0))), (Some(&held()), false));
    election.observe(at(1), Observation::LeaseMissing { source: Source::Watch });
    assert!(!election.is_over(at(1)), "it may have lost its label only");
    election.observe(at(1), Observation::LeaseMissing { source: Source::Read { sent: at(1).moment } });
    assert!(!election.is_over(at(16)), "a process may still rely on it");
    let free_from = at(1).moment.after(Duration::from_millis(15_015));
    assert!(election.is_over(Now { moment: free_from, ..at(16) }));
    election.observe(at(17), candidate());
    assert!(!election.is_over(at(17)));
}

#[test]
fn an_unlabelled_lease_without_candidates_needs_no_election() {
    let mut election = election();
    observe(&mut election, LeaseRecord { enrolled: false, ..held() }, Source::Read { sent: at(0).moment }, 0);
    assert!(election.is_over(at(0)));
    election.observe(at(0), candidate());
    assert!(!election.is_over(at(0)));
    let key = CandidateKey::hustings("a");
    assert_eq!(election.holder(), Some(key.clone()));
    assert_eq!(election.candidate(&key).map(|record| &*record.lease_name), Some("l"));
    election.observe(
        at(1),
        Observation::Candidate { record: CandidateRecord { resource_version: 5, ..named("a") }, source: Source::Watch },
    );
    let source = Source::Read { sent: at(0).moment };
    election.observe(at(1), Observation::CandidateMissing { candidate: key.clone(), source });
    assert!(election.candidate(&key).is_some(), "it was created after that read was sent");
    let record = CandidateRecord { resource_version: 6, lease_name: "other".to_owned(), ..named("a") };
    election.observe(at(1), Observation::Candidate { record, source: Source::Watch });
    assert_eq!(election.candidate(&key), None, "it is a candidate for another Lease now");
}

#[test]
fn the_first_observation_and_a_write_of_the_lease_end_the_backoff() {
    let mut election = election();
    let failed = || Observation::Failed { target: Target::Lease };
    for (source, forgotten) in
        [(Source::Watch, true), (Source::Watch, false), (Source::Written { sent: at(0).moment }, true)]
    {
        election.observe(at(0), failed());
        let record = LeaseRecord {
            resource_version: election.lease().map_or(5, |seen| seen.record().resource_version + 1),
            ..held()
        };
        observe(&mut election, record, source, 0);
        assert_eq!(election.backoff.until(at(0).moment).is_none(), forgotten, "{source:?}");
    }
    election.observe(at(0), Observation::LeaseMissing { source: Source::Watch });
    election.observe(at(0), failed());
    observe(&mut election, held(), Source::Watch, 0);
    assert!(election.backoff.until(at(0).moment).is_some(), "a replay shows nothing");
}

#[test]
fn a_label_that_another_client_writes_is_no_longer_reported_as_lost() {
    let mut election = election();
    let record = LeaseRecord { enrolled: false, strategy: Some("s".to_owned()), ..held() };
    election.ineffective.note(Write::Create, Some("deleted at once"), at(0).moment, &Config::default());
    election.written = Some((LeaseWrite::new(Purpose::Enrol, &record), vec![Part::label()]));
    observe(&mut election, record.clone(), Source::Written { sent: at(0).moment }, 0);
    let lost: Vec<_> = election.ineffective_writes().collect();
    assert_eq!(lost, [(None, Write::Enrol, NoEffect::Dropped("label hustings.io/enrolled"))]);
    let unruled = LeaseRecord { enrolled: true, resource_version: 6, strategy: None, ..record.clone() };
    observe(&mut election, unruled, Source::Watch, 1);
    assert_eq!(election.ineffective_writes().count(), 1, "the strategy is lost with it");
    let labelled = LeaseRecord { enrolled: true, resource_version: 7, ..record };
    observe(&mut election, labelled, Source::Watch, 1);
    assert_eq!(election.ineffective_writes().count(), 0);
}

#[test]
fn a_decision_names_the_timer_that_expires_first() {
    let mut election = election();
    observe(&mut election, held(), Source::Watch, 0);
    let timers = [0, 5].map(|now| election.decide(at(now)).timer);
    assert_eq!(timers, [Timer::Requeue, Timer::EarlyPings], "the holder is silent after 9 s");
    let released = LeaseRecord { resource_version: 6, session: SessionMark::Open, ..LeaseRecord::as_created() };
    observe(&mut election, released, Source::Watch, 5);
    election.observe(at(5), candidate());
    assert_eq!(election.decide(at(5)).timer, Timer::PingWindow);
}

#[test]
fn the_verdict_names_the_cause_of_a_lease_without_a_holder() {
    let released = LeaseRecord { resource_version: 5, session: SessionMark::Open, ..LeaseRecord::as_created() };
    let grant = LeaseRecord { session: SessionMark::Open, ..held() };
    let ended = [Cause::ConnectionClosed, Cause::Panicked, Cause::WorkEnded].map(|cause| {
        let term = PastTerm::new(1, "a", (at(0).wall, at(1).wall), Ending::Released(cause));
        let history = History::new().with(&term);
        (LeaseRecord { transitions: 1, history, ..released.clone() }, 1, Unheld::Ended(Ending::Released(cause)))
    });
    let cases = [
        (LeaseRecord { transitions: 1, ..released.clone() }, 1, Unheld::Ended(Ending::Released(Cause::Unknown))),
        (LeaseRecord { transitions: 2, ..released.clone() }, 1, Unheld::Ended(Ending::Released(Cause::Unknown))),
        (released, 1, Unheld::New),
        (held(), 16, Unheld::Ended(Ending::Expired)),
        (grant, 16, Unheld::Ended(Ending::NotTakenUp)),
    ]
    .into_iter()
    .chain(ended);
    for (record, now, expected) in cases {
        let mut election = election();
        observe(&mut election, record, Source::Watch, 0);
        let LeaseVerdict::Unheld { cause, .. } = election.decide(at(now)).lease else { panic!("held") };
        assert_eq!(cause, expected);
    }
}

#[test]
fn each_period_without_a_holder_has_its_own_cause() {
    let mut election = election();
    let released = LeaseRecord { session: SessionMark::Open, transitions: 1, ..LeaseRecord::as_created() };
    observe(&mut election, LeaseRecord { resource_version: 4, ..released }, Source::Watch, 0);
    let unheld = |since, cause| LeaseVerdict::Unheld { since, cause };
    assert_eq!(election.decide(at(1)).lease, unheld(at(0).moment, Unheld::Ended(Ending::Released(Cause::Unknown))));
    observe(&mut election, held(), Source::Watch, 2);
    election.decide(at(2));
    let expiry = at(2).moment.after(Duration::from_millis(15_015));
    assert_eq!(election.decide(at(20)).lease, unheld(expiry, Unheld::Ended(Ending::Expired)));
}

#[test]
fn a_candidate_that_was_observed_before_the_lease_may_have_held_the_one_before_it() {
    let mut election = election();
    let status = RecordedStatus { state: Some(CandidateState::Holder), ..RecordedStatus::default() };
    let record = CandidateRecord { status, lease_duration_seconds: Some(40), ..named("a") };
    election.observe(at(0), Observation::Candidate { record, source: Source::Watch });
    observe(&mut election, LeaseRecord { holder: None, ..held() }, Source::Watch, 0);
    let until = at(0).moment.after(Duration::from_millis(40_040));
    assert_eq!(election.decide(at(1)).lease, LeaseVerdict::Reserved { until });
}

#[test]
fn a_lapse_counts_although_the_lease_is_deleted_then_and_a_new_lease_is_no_reclaim() {
    for (deleted_at, losses) in [(60, 1), (4, 0)] {
        let mut election = election();
        election.observe(at(0), candidate());
        observe(&mut election, term(5, "s/1/15"), Source::Watch, 0);
        observe(&mut election, term(6, "s/1/15"), Source::Watch, 2);
        let source = Source::Read { sent: at(deleted_at).moment };
        election.observe(at(deleted_at), Observation::LeaseMissing { source });
        observe(&mut election, term(7, "s/2/15"), Source::Watch, 90);
        assert_eq!(
            election.members[&CandidateKey::hustings("a")].losses.damping.count,
            losses,
            "deleted at {deleted_at} s"
        );
    }
}

#[test]
fn a_write_without_effect_is_forgotten_once_no_decision_repeats_it() {
    let mut election = election();
    observe(&mut election, held(), Source::Watch, 0);
    election.observe(at(0), candidate());
    let (config, key) = (Config::default(), CandidateKey::hustings("a"));
    election.ineffective.note(Write::Prefer, Some("x"), at(0).moment, &config);
    let member = election.members.get_mut(&key).unwrap();
    member.ineffective.note(Write::Ping, Some("y"), at(0).moment, &config);
    election.decide(at(1));
    let lost: Vec<_> = election.ineffective_writes().collect();
    assert_eq!(
        lost,
        [(None, Write::Prefer, NoEffect::Dropped("x")), (Some(&key), Write::Ping, NoEffect::Dropped("y"))]
    );
    election.decide(at(60));
    assert_eq!(election.ineffective_writes().count(), 0);
}

#[test]
fn a_controller_that_finds_its_verdict_in_the_status_does_not_adopt_an_edit_of_it() {
    let restarted = |status: &RecordedStatus| {
        let mut election = election();
        let record = CandidateRecord { status: status.clone(), ..named("a") };
        election.observe(at(0), Observation::Candidate { record, source: Source::Watch });
        observe(&mut election, term(5, "s/1/15"), Source::Watch, 0);
        election
    };
    let mut status = RecordedStatus::default();
    for _ in 0..2 {
        status = restarted(&status).decide(at(0)).candidates[0].status();
    }
    let mut election = restarted(&status);
    election.decide(at(0));
    let edited = RecordedStatus { damping_count: 9, damped_until: Some(at(60).wall), ..status.clone() };
    let record = CandidateRecord { resource_version: 1, status: edited, ..named("a") };
    election.observe(at(1), Observation::Candidate { record, source: Source::Watch });
    let actions = election.decide(at(1)).actions;
    let is_restored =
        |action: &Action| matches!(action, Action::PatchStatus { status: written, .. } if *written == status);
    assert!(actions.iter().any(is_restored), "{actions:?}");
}

#[test]
fn a_request_to_hand_over_counts_from_the_decision_that_finds_it() {
    let mut election = election();
    for name in ["a", "b"] {
        let record = CandidateRecord { priority: i32::from(name == "b"), ..named(name) };
        election.observe(at(0), Observation::Candidate { record, source: Source::Watch });
    }
    for (seconds, version) in [(0, 5), (56, 6), (57, 7), (58, 8)] {
        let asked = LeaseRecord { preferred_holder: Some("b".to_owned()), ..term(version, "s/1/15") };
        observe(&mut election, asked, Source::Watch, seconds);
        election.decide(at(seconds));
    }
    assert_eq!(election.preferred_since(), Some(at(0).moment));
    let decision = election.decide(at(58));
    assert_eq!((decision.timer, decision.deadline), (Timer::IgnoredRequest, at(60).moment));
}

#[test]
fn an_exclusion_that_does_not_parse_is_reported_for_its_candidate() {
    let mut election = election();
    let mut record = CandidateRecord { uid: "u".to_owned(), ..named("a") };
    let malformed = Malformed::new("hustings.io/exclude", "noon".to_owned(), "it is not a time".to_owned());
    record.acts.exclude = Some(Annotation::Malformed(malformed.clone()));
    election.observe(at(0), Observation::Candidate { record, source: Source::Watch });
    observe(&mut election, held(), Source::Watch, 0);
    let candidate = Some((CandidateKey::hustings("a"), "u".into()));
    let event = Event::MalformedAct { malformed: *malformed, candidate };
    assert!(election.decide(at(0)).actions.contains(&Action::Event(event)));
}

#[test]
fn an_answer_brings_no_deleted_candidate_back() {
    let sent = at(1).moment;
    for source in [Source::Read { sent }, Source::Written { sent }, Source::StatusWritten { sent }] {
        let mut election = election();
        election.observe(at(0), candidate());
        let Observation::Candidate { record, .. } = candidate() else { unreachable!() };
        let key = record.key();
        election.observe(at(2), Observation::CandidateMissing { candidate: key, source: Source::Watch });
        election.observe(at(3), Observation::Candidate { record, source });
        assert_eq!(election.candidates().len(), 0, "{source:?}");
    }
}
