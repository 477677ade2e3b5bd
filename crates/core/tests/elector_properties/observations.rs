//! Generators of all observations that an elector can get.

use std::fmt::Debug;
use std::time::Duration;

use hustings_core::elector::{AttemptId, Durations, LONGEST_LEASE_SECONDS, Observation, Outcome, Source};
use hustings_core::model::{CandidateRecord, Cause, LeaseRecord, SessionMark, SessionStamp, WireTime};
use proptest::prelude::*;

use hustings_lab::LEASE;

/// Valid durations, also extreme ones.
pub(crate) fn durations() -> impl Strategy<Value = Durations> {
    let durations = (1..=u64::MAX).prop_map(Duration::from_micros);
    (1..=LONGEST_LEASE_SECONDS, 2..=990_u32, 1..=999_u32, 0..=1_000_u32, [durations.clone(), durations]).prop_map(
        |(lease_duration_seconds, deadline, retry, jitter_percent, [request_timeout, stop_grace])| {
            let renew_deadline = Duration::from_millis(1) * lease_duration_seconds * deadline;
            let longest_retry_period = renew_deadline * retry / 1_000;
            let retry_period = longest_retry_period * 100 / (100 + jitter_percent);
            let wild = Durations {
                lease_duration_seconds,
                renew_deadline,
                retry_period,
                jitter_percent,
                request_timeout,
                stop_grace,
            };
            if lease_duration_seconds % 3 == 0 { wild } else { Durations::default() }
        },
    )
}

fn times() -> impl Strategy<Value = Option<WireTime>> {
    proptest::option::of(prop_oneof![
        any::<i64>().prop_map(WireTime::from_micros),
        Just(WireTime::MAX),
        Just(WireTime::from_micros(0))
    ])
}

fn leases() -> impl Strategy<Value = LeaseRecord> {
    let names = || proptest::option::of(prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just(String::new())]);
    let sessions = prop_oneof![
        Just(SessionMark::Absent),
        Just(SessionMark::Open),
        (0..6_u64, any::<u32>())
            .prop_map(|(term, seconds)| { SessionMark::Term(SessionStamp { session: "s".to_owned(), term, seconds }) }),
        Just(SessionMark::Unreadable("?".to_owned())),
    ];
    let numbers = (prop_oneof![0..20_u64, Just(u64::MAX)], any::<u32>(), any::<u32>());
    (names(), names(), sessions, numbers, [times(), times()], any::<bool>()).prop_map(
        |(holder, preferred_holder, session, (resource_version, duration_seconds, transitions), times, enrolled)| {
            let [acquire_time, renew_time] = times;
            LeaseRecord {
                resource_version,
                holder,
                duration_seconds,
                acquire_time,
                renew_time,
                transitions,
                session,
                preferred_holder,
                enrolled,
                ..LeaseRecord::default()
            }
        },
    )
}

fn candidates() -> impl Strategy<Value = CandidateRecord> {
    (0..20_u64, 0..3_u8, any::<bool>(), times(), times()).prop_map(
        |(resource_version, uid, is_ours, ping_time, renew_time)| CandidateRecord {
            name: "a".to_owned(),
            uid: uid.to_string(),
            resource_version,
            lease_name: if is_ours { LEASE.to_owned() } else { "other".to_owned() },
            ping_time,
            renew_time,
            ..CandidateRecord::default()
        },
    )
}

pub(crate) fn observations() -> impl Strategy<Value = Observation> {
    let attempt = || (0..60_u64).prop_map(AttemptId);
    let source = || prop_oneof![Just(Source::Watch), attempt().prop_map(Source::Read)];
    prop_oneof![
        4 => (leases(), source()).prop_map(|(record, source)| Observation::Lease { record, source }),
        1 => source().prop_map(|source| Observation::LeaseMissing { source }),
        4 => (attempt(), outcomes(leases())).prop_map(|(attempt, outcome)| Observation::LeaseWritten { attempt, outcome }),
        2 => (candidates(), source()).prop_map(|(record, source)| Observation::Candidate { record, source }),
        1 => source().prop_map(|source| Observation::CandidateMissing { source }),
        1 => (attempt(), proptest::option::of(proptest::collection::vec(candidates(), 0..4)))
            .prop_map(|(attempt, records)| Observation::Candidates { attempt, records }),
        2 => (attempt(), outcomes(candidates()))
            .prop_map(|(attempt, outcome)| Observation::CandidateWritten { attempt, outcome }),
        1 => attempt().prop_map(Observation::ReadFailed),
        1 => proptest::option::of(-2..3_i64).prop_map(Observation::Key),
        1 => Just(Observation::WorkStopped),
        1 => Just(Observation::Resign),
        1 => Just(Observation::Stop(Cause::Stopped)),
    ]
}

fn outcomes<R: Clone + Debug>(records: impl Strategy<Value = R>) -> impl Strategy<Value = Outcome<R>> {
    prop_oneof![
        3 => records.prop_map(Outcome::Landed),
        1 => Just(Outcome::Conflict),
        1 => Just(Outcome::Missing),
        1 => Just(Outcome::Deleted),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Unknown),
    ]
}
