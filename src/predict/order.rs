//! Describes the place of the holder in the order of the election, and the criterion that decides it.

use hustings_core::election::Election;
use hustings_core::model::{CandidateKey, CandidateRecord, Now};
use hustings_core::ranking::Criterion;

/// The place of the holder in the order, and the criterion that decides it; `None` if it is no admissible candidate.
pub(crate) fn place(holder: &CandidateKey, election: &Election, now: Now) -> Option<String> {
    let ranking = election.ranking(now);
    let ranked: Vec<_> = ranked(&ranking).collect();
    let index = ranked.iter().position(|candidate| *candidate == holder)?;
    if ranked.len() == 1 {
        return Some(format!("{} is the only admissible candidate.", holder.name));
    }
    let (other, relation) = if index == 0 { (ranked.get(1)?, "before") } else { (ranked.first()?, "behind") };
    let place = format!("{} ranks {} of {}, {relation} {}", holder.name, ordinal(index + 1), ranked.len(), other.name);
    let why = election.criterion(holder, other, now).and_then(|criterion| {
        let (better, worse) = if index == 0 { (holder, *other) } else { (*other, holder) };
        Some(difference(criterion, better, worse, election.candidate(holder)?, election.candidate(other)?))
    });
    Some(why.map_or_else(|| format!("{place}."), |why| format!("{place}: {why}.")))
}

/// The admissible candidates of a ranking.
fn ranked(ranking: &[(CandidateKey, Option<usize>)]) -> impl Iterator<Item = &CandidateKey> {
    ranking.iter().filter(|(_, place)| place.is_some()).map(|(candidate, _)| candidate)
}

/// Names the criterion that decides between two candidates.
fn difference(
    criterion: Criterion,
    better: &CandidateKey,
    worse: &CandidateKey,
    holder: &CandidateRecord,
    other: &CandidateRecord,
) -> String {
    let emulation = |record: &CandidateRecord| record.emulation_version.clone().unwrap_or_default();
    match criterion {
        Criterion::Exclusion => format!("an administrator excludes {}", worse.name),
        Criterion::Damping => format!("{} ranks last for a while", worse.name),
        Criterion::Pin => format!("an administrator pinned the Lease to {}", better.name),
        Criterion::Transfer => format!("an administrator transfers the Lease to {}", better.name),
        Criterion::Priority => {
            format!("its priority is {}, and that of {} is {}", holder.priority, other.name, other.priority)
        }
        Criterion::EmulationVersion | Criterion::NewerEmulationVersion => {
            format!("it emulates {}, and {} emulates {}", emulation(holder), other.name, emulation(other))
        }
        Criterion::BinaryVersion | Criterion::NewerBinaryVersion => format!(
            "its binary version is {}, and that of {} is {}",
            holder.binary_version, other.name, other.binary_version
        ),
        Criterion::CreationTime => format!(
            "they are equal in all that the strategy compares, and its candidate is from {}, that of {} from {}",
            holder.creation_time, other.name, other.creation_time
        ),
        Criterion::Name | Criterion::Kind => "they are equal in everything but their names".to_owned(),
    }
}

/// `1st`, `2nd`, `3rd`, `4th`.
fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use hustings_core::election::{Config, Observation, Source};
    use hustings_core::model::{Annotation, CandidateState, Exclusion, LeaseRecord, Moment, Pin, Transfer, WireTime};

    use super::*;

    const NOW: Now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
    const LATER: WireTime = WireTime::from_micros(30_000_000);

    #[test]
    fn ordinals_read_as_people_write_them() {
        let ordinals: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();
        assert_eq!(ordinals, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]);
    }

    fn candidate(name: &str) -> CandidateRecord {
        CandidateRecord {
            name: name.to_owned(),
            lease_name: "l".to_owned(),
            binary_version: "1.32".to_owned(),
            emulation_version: Some("1.31".to_owned()),
            resource_version: 1,
            ..CandidateRecord::default()
        }
    }

    /// What is said of the place of a in a group of a and b, after `change`.
    fn place_of_a(change: fn(&mut LeaseRecord, &mut CandidateRecord, &mut CandidateRecord)) -> String {
        let mut lease = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
        let (mut a, mut b) = (candidate("a"), candidate("b"));
        change(&mut lease, &mut a, &mut b);
        let mut election = Election::new(Config::default(), "n", "l");
        election.observe(NOW, Observation::Lease { record: lease, source: Source::Watch });
        for record in [a, b] {
            election.observe(NOW, Observation::Candidate { record, source: Source::Watch });
        }
        place(&"a".into(), &election, NOW).unwrap_or_default()
    }

    #[test]
    fn each_criterion_that_decides_a_place_has_its_own_words() {
        for (expected, change) in [
            (
                "a ranks 1st of 2, before b: an administrator excludes b.",
                (|_, _, b| b.acts.exclude = Some(Annotation::Valid(Exclusion { until: LATER, reason: String::new() })))
                    as fn(&mut LeaseRecord, &mut CandidateRecord, &mut CandidateRecord),
            ),
            ("a ranks 2nd of 2, behind b: a ranks last for a while.", |_, a, _| {
                (a.status.state, a.status.damping_count, a.status.damped_until) =
                    (Some(CandidateState::Damped), 1, Some(LATER));
            }),
            ("a ranks 2nd of 2, behind b: an administrator pinned the Lease to b.", |lease, _, _| {
                lease.acts.pin = Some(Annotation::Valid(Pin { candidate: "b".to_owned(), until: LATER }));
            }),
            ("a ranks 2nd of 2, behind b: its priority is 0, and that of b is 1.", |_, _, b| b.priority = 1),
            ("a ranks 1st of 2, before b: it emulates 1.31, and b emulates 1.32.", |_, _, b| {
                b.emulation_version = Some("1.32".to_owned());
            }),
            ("a ranks 1st of 2, before b: its binary version is 1.32, and that of b is 1.33.", |_, _, b| {
                b.binary_version = "1.33".to_owned();
            }),
            ("a ranks 2nd of 2, behind b: an administrator transfers the Lease to b.", |lease, _, _| {
                lease.acts.transfer = Some(Transfer::To("b".to_owned()));
            }),
            (
                "a ranks 1st of 2, before b: they are equal in all that the strategy compares, and its candidate is from \
                 1970-01-01T00:00:00Z, that of b from 1970-01-01T00:00:30Z.",
                |_, _, b| b.creation_time = LATER,
            ),
            ("a ranks 1st of 2, before b: they are equal in everything but their names.", |_, _, _| {}),
            ("a is the only admissible candidate.", |_, _, b| b.binary_version = "none".to_owned()),
            ("", |_, a, _| a.binary_version = "none".to_owned()),
        ] {
            assert_eq!(place_of_a(change), expected);
        }
    }
}
