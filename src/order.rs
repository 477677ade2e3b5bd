//! Describes the ranking of candidates: the place of the holder, and the criterion that decides it.

use hustings_core::model::{CandidateRecord, CandidateState, Pin};
use hustings_core::ranking::{Criterion, Rank};

/// The place of the holder in the ranking, and the criterion that decides it. `ranked` contains the admissible
/// candidates, best first. `rank` is the place of the holder among them, from 1.
pub(crate) fn place(rank: usize, ranked: &[&CandidateRecord], pin: Option<&Pin>) -> Option<String> {
    let holder = ranked.get(rank.checked_sub(1)?)?;
    if ranked.len() == 1 {
        return Some(format!("{} is the only admissible candidate.", holder.name));
    }
    let place = format!("{} ranks {} of {}", holder.name, ordinal(rank), ranked.len());
    if rank > 1 && pin.is_some_and(|pin| pin.candidate == holder.name) {
        return Some(format!("{place} by merit, but an administrator pinned the Lease to it."));
    }
    let (other, relation) = match rank {
        1 => (ranked.get(1)?, "before"),
        _ => (ranked.first()?, "behind"),
    };
    Some(format!("{place}, {relation} {}{}.", other.name, difference(holder, other)))
}

/// Names the criterion that decides between two candidates.
fn difference(one: &CandidateRecord, other: &CandidateRecord) -> String {
    let is_damped = |record: &CandidateRecord| record.status.state == Some(CandidateState::Damped);
    if is_damped(one) != is_damped(other) {
        let damped = if is_damped(one) { one } else { other };
        return format!(": {} ranks last for a while", damped.name);
    }
    let rank =
        |record: &CandidateRecord| record.standing().ok().map(|standing| (Rank::new(&standing, record), standing));
    let (Some((rank_one, one_stands)), Some((rank_other, other_stands))) = (rank(one), rank(other)) else {
        return String::new();
    };
    let emulation = |record: &CandidateRecord| record.emulation_version.clone().unwrap_or_default();
    match rank_one.criterion(&rank_other) {
        Some(Criterion::Priority) => {
            format!(
                ": its priority is {}, and that of {} is {}",
                one_stands.priority, other.name, other_stands.priority
            )
        }
        Some(Criterion::EmulationVersion) => {
            format!(": it emulates {}, and {} emulates {}", emulation(one), other.name, emulation(other))
        }
        Some(Criterion::BinaryVersion) => {
            format!(
                ": its binary version is {}, and that of {} is {}",
                one.binary_version, other.name, other.binary_version
            )
        }
        Some(Criterion::CreationTime) => format!(
            ": their versions and priorities are equal, and its candidate is from {}, that of {} from {}",
            one.creation_time, other.name, other.creation_time
        ),
        Some(_) => ": they are equal in everything but their names".to_owned(),
        None => String::new(),
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
    use hustings_core::model::WireTime;

    use super::*;

    #[test]
    fn ordinals_read_as_people_write_them() {
        let ordinals: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 112].map(ordinal).into();
        assert_eq!(ordinals, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"]);
    }

    fn candidate(name: &str, emulation: &str) -> CandidateRecord {
        CandidateRecord {
            name: name.to_owned(),
            binary_version: "1.32".to_owned(),
            emulation_version: Some(emulation.to_owned()),
            ..CandidateRecord::default()
        }
    }

    #[test]
    fn each_criterion_that_decides_a_place_has_its_own_words() {
        let base = || candidate("a", "1.31");
        let other = |change: fn(&mut CandidateRecord)| {
            let mut other = CandidateRecord { name: "b".to_owned(), ..base() };
            change(&mut other);
            other
        };
        for (other, expected) in [
            (other(|b| b.priority = 1), "behind b: its priority is 0, and that of b is 1."),
            (
                other(|b| b.binary_version = "1.33".to_owned()),
                "before b: its binary version is 1.32, and that of b is 1.33.",
            ),
            (
                other(|b| b.creation_time = WireTime::from_micros(1_000_000)),
                "before b: their versions and priorities are equal, and its candidate is from 1970-01-01T00:00:00Z, that of \
                 b from 1970-01-01T00:00:01Z.",
            ),
            (other(|_| {}), "before b: they are equal in everything but their names."),
            (
                other(|b| {
                    b.emulation_version = Some("1.30".to_owned());
                    b.status.state = Some(CandidateState::Damped);
                }),
                "before b: b ranks last for a while.",
            ),
        ] {
            let is_behind = expected.starts_with("behind");
            let (a, rank) = (base(), if is_behind { 2 } else { 1 });
            let ranked = if is_behind { [&other, &a] } else { [&a, &other] };
            let ordinal = if is_behind { "2nd" } else { "1st" };
            assert_eq!(place(rank, &ranked, None).unwrap(), format!("a ranks {ordinal} of 2, {expected}"));
        }
    }

    #[test]
    fn the_place_of_a_holder_names_the_criterion_that_decides_it() {
        let (a, b) = (candidate("a", "1.31"), candidate("b", "1.32"));
        let place = |rank, pin| place(rank, &[&a, &b], pin);
        assert_eq!(place(1, None).unwrap(), "a ranks 1st of 2, before b: it emulates 1.31, and b emulates 1.32.");
        assert_eq!(place(2, None).unwrap(), "b ranks 2nd of 2, behind a: it emulates 1.32, and a emulates 1.31.");
        let pin = Pin { candidate: "b".to_owned(), until: WireTime::from_micros(0) };
        let expected = "b ranks 2nd of 2 by merit, but an administrator pinned the Lease to it.";
        assert_eq!(place(2, Some(&pin)).unwrap(), expected);
        let pin = Pin { candidate: "a".to_owned(), ..pin };
        assert_eq!(place(1, Some(&pin)), place(1, None), "it ranks first anyway");
        assert_eq!((place(0, None), place(3, None)), (None, None), "it is not admissible");
        let c = candidate("c", "1.32");
        let expected = "c ranks 3rd of 3, behind a: it emulates 1.32, and a emulates 1.31.";
        assert_eq!(super::place(3, &[&a, &b, &c], None).unwrap(), expected);
        assert_eq!(super::place(1, &[&a], None).unwrap(), "a is the only admissible candidate.");
    }
}
