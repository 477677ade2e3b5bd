//! Tests over whole domains: no rounding or overflow lengthens a validity or shortens a wait, and the order of
//! candidates is total and transitive.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cmp::Ordering;
use std::time::Duration;

use hustings_core::elector::{Draw, Durations, InvalidTiming, LONGEST_LEASE_SECONDS, Timing};
use hustings_core::model::{
    CandidateKind, CandidateRecord, LeaseRecord, Moment, Observed, SessionMark, SessionStamp, Strategy, WireTime,
    drift_allowance,
};
use hustings_core::ranking::Rank;

fn timing(lease_duration_seconds: u32, renew_deadline: Duration) -> Result<Timing, Vec<InvalidTiming>> {
    let retry_period = Duration::from_micros(1);
    Timing::new(Durations { lease_duration_seconds, renew_deadline, retry_period, ..Durations::default() })
}

fn held(seconds: u32) -> LeaseRecord {
    LeaseRecord {
        resource_version: 1,
        holder: Some("a".to_owned()),
        duration_seconds: seconds,
        session: SessionMark::Term(SessionStamp { session: "s".to_owned(), term: 1, seconds }),
        ..LeaseRecord::default()
    }
}

/// Each lease has the longest deadline that is accepted. The holder's clock is too slow by 1 in 1000, and the watcher's
/// is too fast by 1 in 1000. The watcher observes the write at the instant at which it is sent.
#[test]
fn every_lease_that_is_accepted_outlasts_its_validity_whatever_the_clocks() {
    for seconds in 1..=LONGEST_LEASE_SECONDS {
        let longest = Duration::from_millis(u64::from(seconds) * 990);
        assert!(timing(seconds, longest).is_ok(), "{seconds} s");
        assert!(timing(seconds, longest + Duration::from_micros(1)).is_err(), "{seconds} s");
        let lasts = Observed::first(held(seconds), Moment::from_micros(0)).lasts();
        // In true time, this is: validity / 0.999 < wait / 1.001.
        assert!(longest.as_micros() * 1_001 < lasts.as_micros() * 999, "{seconds} s");
    }
}

#[test]
fn the_allowance_for_clocks_is_rounded_up_and_by_less_than_a_microsecond() {
    let edges = (0..5_000).chain(u64::MAX - 5_000..=u64::MAX);
    for micros in edges {
        let allowance = drift_allowance(Duration::from_micros(micros)).as_micros();
        let micros = u128::from(micros);
        assert!(allowance * 1_000 >= micros && allowance * 1_000 < micros + 1_000, "{micros} us");
    }
    assert_eq!(drift_allowance(Duration::MAX), Duration::from_micros(u64::MAX));
}

#[test]
fn no_declared_duration_expires_before_its_end_or_an_hour() {
    let edges = (0..=LONGEST_LEASE_SECONDS).chain((0..32).flat_map(|bit| [1 << bit, (1 << bit) - 1])).chain([u32::MAX]);
    for seconds in edges {
        let whole = Duration::from_secs(u64::from(seconds.min(LONGEST_LEASE_SECONDS)));
        for start in [i64::MIN, -1, 0, i64::MAX / 2, i64::MAX - 1, i64::MAX] {
            let observed = Observed::first(held(seconds), Moment::from_micros(start));
            let end = Moment::from_micros(start).after(whole);
            assert!(observed.expires_at() >= end, "{seconds} s from {start}");
            assert!(observed.expires_at() > end || seconds == 0 || end == Moment::NEVER, "{seconds} s from {start}");
        }
    }
}

#[test]
fn a_wait_is_never_shorter_than_asked_nor_longer_than_its_jitter() {
    let waits = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1]).chain([u64::MAX]).map(Duration::from_micros);
    for wait in waits {
        for jitter_percent in [0, 1, 20, 99, 100, u32::MAX] {
            // The period is so short that it ends before the deadline with any jitter.
            let retry_period = Duration::from_nanos(1);
            let timing = Timing::new(Durations { jitter_percent, retry_period, ..Durations::default() }).unwrap();
            for draw in (0..32).map(|bit| 1_u32 << bit).chain([0, u32::MAX]) {
                let jittered = timing.jittered(wait, Draw(draw));
                assert!(jittered >= wait);
                let most = wait.as_micros() + wait.as_micros() * u128::from(jitter_percent) / 100;
                assert!(jittered.as_micros() <= most, "{wait:?} with {jitter_percent} %");
            }
        }
    }
}

#[test]
fn the_order_of_candidates_is_total_and_transitive_and_merit_agrees_with_it() {
    let versions = ["1.9", "1.30.0-rc.1", "1.30", "1.30.0+build", "v1.31"];
    let mut ranks = Vec::new();
    for (binary, emulation) in versions.iter().flat_map(|binary| versions.iter().map(move |of| (binary, of))) {
        for (priority, created, name, kind) in [
            (0, 0, "a", CandidateKind::Hustings),
            (0, 0, "a", CandidateKind::Native),
            (0, 0, "b", CandidateKind::Hustings),
            (0, 1, "a", CandidateKind::Hustings),
            (1, 0, "a", CandidateKind::Hustings),
        ] {
            let record = CandidateRecord {
                kind,
                name: name.to_owned(),
                lease_name: "l".to_owned(),
                binary_version: (*binary).to_owned(),
                emulation_version: Some((*emulation).to_owned()),
                creation_time: WireTime::from_micros(created),
                priority,
                ..CandidateRecord::default()
            };
            ranks.extend(record.standing().ok().map(|standing| Rank::new(&standing, &record)));
        }
    }
    assert!(ranks.len() >= 40, "only {} are admissible", ranks.len());
    for (a, strategy) in ranks.iter().flat_map(|a| Strategy::OURS.map(|strategy| (a, strategy))) {
        for b in &ranks {
            let order = a.order(b, &strategy);
            assert_eq!(order, b.order(a, &strategy).reverse());
            assert_eq!(order == Ordering::Equal, a == b, "{a:?} {b:?}");
            assert_eq!(a.criterion(b, &strategy).is_none(), a == b, "{a:?} {b:?}");
            assert!(!a.is_better_than_holder(b, &strategy) || order == Ordering::Less);
            for c in &ranks {
                assert!(
                    order != Ordering::Less
                        || b.order(c, &strategy) == Ordering::Greater
                        || a.order(c, &strategy) == Ordering::Less
                );
                let deposes = a.is_better_than_holder(b, &strategy) && b.is_better_than_holder(c, &strategy);
                assert!(!deposes || a.is_better_than_holder(c, &strategy));
            }
        }
    }
}
