use super::*;
use crate::election::{LeaseVerdict, Timer};
use crate::model::{Purpose, SessionMark};

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
    let record = CandidateRecord { name: "a".to_owned(), lease_name: "l".to_owned(), ..CandidateRecord::default() };
    Observation::Candidate { record, source: Source::Watch }
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
    assert!(election.is_over(at(17)));
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
}

#[test]
fn a_label_that_another_client_writes_is_no_longer_reported_as_lost() {
    let mut election = election();
    let record = LeaseRecord { enrolled: false, strategy: Some("s".to_owned()), ..held() };
    election.written = Some(LeaseWrite::new(Purpose::Enrol, &record));
    observe(&mut election, record.clone(), Source::Written { sent: at(0).moment }, 0);
    let lost: Vec<_> = election.ineffective_writes().collect();
    assert_eq!(lost, [(None, Write::Enrol, "label hustings.io/enrolled")]);
    let labelled = LeaseRecord { enrolled: true, resource_version: 6, ..record };
    observe(&mut election, labelled, Source::Watch, 1);
    assert_eq!(election.ineffective_writes().count(), 0);
}

#[test]
fn a_decision_names_the_timer_that_expires_first() {
    let mut election = election();
    observe(&mut election, held(), Source::Watch, 0);
    let timers = [0, 5].map(|now| election.decide(at(now)).timer);
    assert_eq!(timers, [Timer::Requeue, Timer::EarlyPings], "the holder is silent after 9 s");
}

#[test]
fn the_verdict_names_the_cause_of_a_lease_without_a_holder() {
    let released = LeaseRecord { resource_version: 5, session: SessionMark::Open, ..LeaseRecord::as_created() };
    let grant = LeaseRecord { session: SessionMark::Open, ..held() };
    let cases = [
        (LeaseRecord { transitions: 1, ..released.clone() }, 1, Unheld::Released),
        (LeaseRecord { transitions: 2, ..released.clone() }, 1, Unheld::Released),
        (released, 1, Unheld::New),
        (held(), 16, Unheld::Lapsed),
        (grant, 16, Unheld::GrantNotTakenUp),
    ];
    for (record, now, expected) in cases {
        let mut election = election();
        observe(&mut election, record, Source::Watch, 0);
        let LeaseVerdict::Unheld { cause, .. } = election.decide(at(now)).lease else { panic!("held") };
        assert_eq!(cause, expected);
    }
}
