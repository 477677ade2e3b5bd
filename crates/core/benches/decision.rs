//! The time that one decision takes: `cargo bench -p hustings-core --bench decision`.
//!
//! Except for the sorting, a decision is O(candidates of its Lease). The benchmark measures decisions about a held
//! Lease without news, which a controller makes most often, and decisions just after the holder has renewed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a benchmark looks at the clock")]

use std::hint::black_box;
use std::time::Instant;

use hustings_core::election::{Config, Election, Observation, Source};
use hustings_core::model::{CandidateRecord, LeaseRecord, Moment, Now, SessionMark, WireTime};

fn main() {
    for candidates in [10_u32, 1000] {
        let mut election = Election::new(Config::default(), "default", "l");
        let now = |micros| Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) };
        for index in 0..candidates {
            let record = CandidateRecord {
                name: format!("candidate-{index:04}"),
                uid: format!("uid-{index}"),
                resource_version: 1,
                owned: true,
                lease_name: "l".to_owned(),
                binary_version: "1.33.0".to_owned(),
                emulation_version: Some(format!("1.{}.0", 31 + index % 3)),
                ..CandidateRecord::default()
            };
            election.observe(now(0), Observation::Candidate { record, source: Source::Watch });
        }
        let lease = |version: u64| LeaseRecord {
            uid: "uid".to_owned(),
            resource_version: version,
            holder: Some("candidate-0000".to_owned()),
            duration_seconds: 15,
            renew_time: Some(WireTime::from_micros(i64::try_from(version).unwrap_or(0))),
            session: SessionMark::read(Some("pod.container.net.random/1/15")),
            enrolled: true,
            ..LeaseRecord::default()
        };
        let rounds = 2_000_000 / candidates;
        let mut version = 1;
        let mut renew = |election: &mut Election, micros| {
            version += 1;
            let record = lease(version);
            election.observe(now(micros), Observation::Lease { record, source: Source::Watch });
        };
        renew(&mut election, 0);
        black_box(election.decide(now(0)));
        let start = Instant::now();
        for _ in 0..rounds {
            black_box(election.decide(now(1)));
        }
        let at_rest = start.elapsed();
        let start = Instant::now();
        for round in 0..rounds {
            renew(&mut election, i64::from(round) + 2);
            black_box(election.decide(now(i64::from(round) + 2)));
        }
        let renewed = start.elapsed();
        let per_round = |time: std::time::Duration| time.as_nanos() / u128::from(rounds);
        println!(
            "{candidates:>5} candidates: {:>8} ns per decision at rest, {:>8} ns per renewal seen and decided on",
            per_round(at_rest),
            per_round(renewed)
        );
    }
}
