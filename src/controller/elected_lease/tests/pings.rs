//! Tests of the counts of pings and answers.

use super::*;

#[test]
fn a_missed_ping_counts_once_when_a_candidate_becomes_unresponsive() {
    let (mut lease, metrics) = (lease_of_a(), ControllerMetrics::new().0);
    let states = [
        // An earlier controller has counted it.
        (CandidateState::Unresponsive, 0),
        (CandidateState::Standby, 0),
        (CandidateState::Unresponsive, 1),
        (CandidateState::Unresponsive, 1),
        (CandidateState::Holder, 1),
        (CandidateState::Unresponsive, 2),
    ];
    expect_missed_pings(&mut lease, &metrics, &states);
}

#[test]
fn a_missed_ping_does_not_count_again_after_another_controller_has_led() {
    let (mut lease, metrics) = (lease_of_a(), ControllerMetrics::new().0);
    expect_missed_pings(&mut lease, &metrics, &[(CandidateState::Standby, 0)]);
    lease.stand_by();
    let states = [(CandidateState::Unresponsive, 0), (CandidateState::Standby, 0), (CandidateState::Unresponsive, 1)];
    expect_missed_pings(&mut lease, &metrics, &states);
}

fn lease_of_a() -> ElectedLease {
    let mut lease = ElectedLease::new(&election::Config::default(), LeaseKey::new("n", "l"), false);
    lease.candidates.insert(CandidateKey::hustings("a"), Previous::default());
    lease
}

/// Decides on each state of the candidate `a`, and compares how many missed pings have been counted by then.
fn expect_missed_pings(lease: &mut ElectedLease, metrics: &ControllerMetrics, states: &[(CandidateState, u64)]) {
    for (state, count) in states {
        lease.count_missed_pings(&[verdict(&CandidateKey::hustings("a"), *state)], metrics);
        assert_eq!(metrics.missed_pings.get_or_create(&Kind::Hustings.label()).get(), *count, "{state:?}");
    }
}

#[test]
fn a_decision_counts_each_candidate_that_has_not_answered_its_ping() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    let record = LeaseRecord { holder: None, ..lease_of("", Some("open"), 2) };
    lease.observe(at(0), Observation::Lease { record, source: Source::Watch }, None);
    for second in 0..20 {
        let sent = at(second).moment;
        for action in lease.decide(at(second), &Stores::default(), &metrics).0.actions {
            let (candidate, ping, source) = match action {
                Action::Ping { candidate, ping_time, .. } => (candidate, Some(ping_time), Source::Written { sent }),
                Action::ReadCandidate { candidate } => (candidate, None, Source::Read { sent }),
                _ => continue,
            };
            let mut record = lease.election.candidate(&candidate).unwrap().clone();
            record.resource_version += u64::from(ping.is_some());
            record.ping_time = ping.or(record.ping_time);
            lease.observe(at(second), Observation::Candidate { record, source }, None);
        }
    }
    assert_eq!(metrics.missed_pings.get_or_create(&Kind::Hustings.label()).get(), 2);
}

#[test]
fn an_answer_to_a_ping_counts_once_and_a_renewal_without_a_ping_does_not() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    let time = |seconds: i64| Some(WireTime::from_micros(seconds * 1_000_000));
    for (version, ping_time, renew_time, count) in [
        (2, None, time(1), 0),
        (3, None, time(2), 0),
        (4, time(3), time(2), 0),
        // A new status, for example.
        (5, time(3), time(2), 0),
        (6, time(3), time(4), 1),
        (7, time(3), time(5), 1),
        // This version already contains the answer to its ping.
        (8, time(6), time(6), 1),
        (9, time(6), time(7), 1),
    ] {
        let record = CandidateRecord {
            name: "a".to_owned(),
            uid: "a".to_owned(),
            resource_version: version,
            ping_time,
            renew_time,
            ..CandidateRecord::default()
        };
        let candidate = WatchedCandidate { record: record.into(), transitions: Transitions::default() };
        lease.observe_candidate(at(1), candidate, Some(&metrics));
        assert_eq!(metrics.acks.get_or_create(&Kind::Hustings.label()).get(), count, "version {version}");
    }
}
