//! Tests of the counts of pings and answers.

use hustings_core::model::{CandidatePatch, Request};

use super::*;

#[test]
fn a_decision_counts_each_candidate_that_has_not_answered_its_ping_once() {
    let mut scene = Scene::of_two();
    scene.lease(0, LeaseRecord { holder: None, ..lease_of("", Some("open"), 2) });
    for second in 0..40 {
        let sent = at(second).moment;
        for action in scene.decide(second).actions {
            let Action::Send { request, .. } = action else { continue };
            let (candidate, ping, source) = match request {
                Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(ping_time), .. } => {
                    (candidate, Some(ping_time), Source::Written { sent })
                }
                Request::ReadCandidate { candidate } => (candidate, None, Source::Read { sent }),
                _ => continue,
            };
            let mut record = scene.election.candidate(&candidate).unwrap().clone();
            record.resource_version += u64::from(ping.is_some());
            record.ping_time = ping.or(record.ping_time);
            scene.observe(second, Observation::Candidate { record, source });
        }
        if second == 10 {
            assert_eq!(scene.measurements.metrics.missed_pings.get_or_create(&Kind::Hustings.label()).get(), 2);
        }
    }
    assert_eq!(scene.measurements.metrics.missed_pings.get_or_create(&Kind::Hustings.label()).get(), 2);
}

#[test]
fn an_answer_to_a_ping_counts_once_and_a_renewal_without_a_ping_does_not() {
    let mut scene = Scene::of_two();
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
            lease_name: "l".into(),
            resource_version: version,
            ping_time,
            renew_time,
            ..CandidateRecord::default()
        };
        scene.observe(1, Observation::Candidate { record, source: Source::Watch });
        let acks = scene.measurements.metrics.acks.get_or_create(&Kind::Hustings.label()).get();
        assert_eq!(acks, count, "version {version}");
    }
}
