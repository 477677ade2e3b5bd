use std::hash::DefaultHasher;

use proptest::prelude::*;

use super::*;
use crate::model::Evidence;

fn millis(millis: i64) -> WireTime {
    WireTime::from_micros(millis * 1_000)
}

fn term(number: u32, holder: &str) -> PastTerm {
    let since = 1_795_000_000_000 + i64::from(number) * 60_000;
    PastTerm::new(number, holder, (millis(since), millis(since + 50_500)), Ending::Expired)
}

fn of(terms: impl IntoIterator<Item = PastTerm>) -> History {
    terms.into_iter().fold(History::default(), |history, term| history.with(&term))
}

fn numbers(history: &History) -> Vec<u32> {
    history.terms().map(|term| term.number).collect()
}

fn known_endings() -> Vec<Ending> {
    let causes = [
        Cause::Unknown,
        Cause::Stopped,
        Cause::Resigned,
        Cause::ConnectionClosed,
        Cause::Panicked,
        Cause::WorkEnded,
        Cause::BetterCandidate,
        Cause::Transfer,
        Cause::Pin,
        Cause::Exclusion,
    ];
    let others = [
        Ending::Expired,
        Ending::ProvenDead(Evidence::ContainerTerminated),
        Ending::ProvenDead(Evidence::NodeOutOfService),
        Ending::NotTakenUp,
        Ending::Reclaimed,
        Ending::LeaseDeleted,
    ];
    causes.into_iter().flat_map(|cause| [Ending::HandedOver(cause), Ending::Released(cause)]).chain(others).collect()
}

#[test]
fn the_annotation_has_one_line_per_term() {
    let handed_over = Ending::HandedOver(Cause::BetterCandidate);
    let newer = PastTerm::new(18, "web-2", (millis(1_795_549_567_020), millis(1_795_551_031_412)), handed_over);
    let history = of([term(17, "web-1"), newer]);
    assert_eq!(
        history.as_str(),
        "18 web-2 from 2026-11-24T19:46:07.020Z to 2026-11-24T20:10:31.412Z: handed over (better candidate)\n\
         17 web-1 from 2026-11-18T11:23:40.000Z to 2026-11-18T11:24:30.500Z: expired"
    );
    assert_eq!(numbers(&history), [18, 17]);
}

#[test]
fn every_written_ending_parses_to_the_same_ending() {
    for ending in known_endings() {
        let term = PastTerm::new(1, "a", (millis(1), millis(2)), ending.clone());
        assert_eq!(of([term]).terms().next().map(|term| term.ending), Some(ending));
    }
    for text in [
        "handed over (to the wolves)",
        "released (by magic)",
        "expired (twice)",
        "proven dead",
        "proven dead (by magic)",
        "gone",
        "",
    ] {
        assert_eq!(Ending::read(text), Ending::Other(text.to_owned()));
    }
    assert_eq!(Ending::ProvenDead(Evidence::NodeOutOfService).to_string(), "proven dead (node out of service)");
}

#[test]
fn eight_terms_are_kept() {
    let history = of((1..=20).map(|number| term(number, "web")));
    assert_eq!(numbers(&history), [20, 19, 18, 17, 16, 15, 14, 13]);
    let running = history.with_running(&RunningTerm::new(21, "web", millis(1), None));
    assert_eq!((history.as_str().lines().count(), running.as_str().lines().count()), (8, 9));
    assert_eq!((history.newest(20), history.newest(19)), (history.terms().next(), None));
    let nine: Vec<String> = (1..=9).map(|number| term(number, "web").to_string()).collect();
    assert_eq!(History::read(&nine.join("\n")).terms().count(), 8, "another program wrote more");
    assert_eq!(History::read(&"x".repeat(2_000)).as_str().len(), 1_024);
}

#[test]
fn the_oldest_term_is_dropped_if_the_text_would_be_a_byte_too_long() {
    let name = |length| "n".repeat(length);
    for (last, kept) in [(56, (8, History::LONGEST)), (57, (7, 895))] {
        let newer = (1_002..=1_008).map(|number| term(number, &name(55)));
        let history = of([term(1_001, &name(last))].into_iter().chain(newer));
        assert_eq!((numbers(&history).len(), history.as_str().len()), kept, "{last}");
    }
}

#[test]
fn names_of_pods_of_a_usual_length_leave_room_for_eight_terms() {
    let name = "storage-provisioner-6d5f9c7b8d-x2x4v";
    assert_eq!(numbers(&of((1_001..=1_008).map(|number| term(number, name)))).len(), History::MOST_TERMS);
}

#[test]
fn a_long_name_keeps_its_ends() {
    let name = format!("{}-x2x4v", "deployment".repeat(20));
    let kept = term(1, &name).holder;
    assert!(kept.len() == 63 && kept.starts_with("deployment") && kept.ends_with("-x2x4v"), "{kept}");
    let short = "n".repeat(64);
    assert_eq!(term(1, &short).holder, short);
    assert_eq!(term(1, &format!("{short}n")).holder.len(), 63);
}

#[test]
fn a_name_cannot_forge_a_line() {
    let term = term(1, "a\n2 b from x to y: z");
    assert_eq!(term.holder, "a_2_b_from_x_to_y:_z");
    assert_eq!(of([term.clone()]).terms().collect::<Vec<_>>(), [term]);
    assert_eq!(self::term(1, "").holder, "_");
}

#[test]
fn a_line_that_does_not_parse_is_reported_and_dropped_by_the_next_write() {
    let good = term(3, "web").to_string();
    for bad in [
        "yesterday",
        "4 web",
        "4 web from noon to 2026-11-24T19:46:07.020Z: expired",
        "-4 web from 2026-11-24T19:46:07.020Z to 2026-11-24T19:46:07.020Z: expired",
        "4 web from 2026-11-24T19:46:07.020Z to 2026-11-24T19:46:07.020Z",
    ] {
        let history = History::read(&format!("{bad}\n\n{good}"));
        assert_eq!(history.malformed().collect::<Vec<_>>(), [bad]);
        assert_eq!(numbers(&history), [3]);
        let next = history.with(&term(5, "web"));
        assert_eq!((next.malformed().count(), numbers(&next)), (0, vec![5, 3]));
    }
}

#[test]
fn another_program_may_write_fewer_digits_and_words_of_its_own() {
    let history = History::read("7 web from 2026-11-24T19:46:07Z to 2026-11-24T19:46:09.5Z: lost its database");
    let term = history.terms().next().unwrap();
    assert_eq!(term.ending, Ending::Other("lost its database".to_owned()));
    assert_eq!(term.since.until(term.until).as_millis(), 2_500);
}

#[test]
fn the_running_term_stands_first_until_it_ends() {
    let past = of([term(1, "a"), term(2, "b")]);
    let running = |request| RunningTerm::new(3, "c", millis(1_795_549_567_020), request);
    let history = past.with_running(&running(Some(Cause::Transfer)));
    let first = "3 c from 2026-11-24T19:46:07.020Z: asked to hand over (transfer)\n2 b ";
    assert!(history.as_str().starts_with(first), "{}", history.as_str());
    assert_eq!((history.running(3, "c"), numbers(&history)), (Some(running(Some(Cause::Transfer))), vec![2, 1]));
    assert_eq!((history.running(3, "d"), history.running(4, "c")), (None, None), "another elector leads since");
    assert_eq!(history.malformed().count(), 0);
    assert_eq!(history.with_running(&running(None)).running(3, "c"), Some(running(None)));
    assert_eq!(history.without_running(), past);
    assert_eq!(history.with(&term(3, "c")), past.with(&term(3, "c")));
    assert_eq!(History::new().without_running(), History::new());
    let nicely = "3 c from 2026-11-24T19:46:07.020Z: asked to hand over (nicely)";
    assert_eq!(History::read(nicely).running(3, "c").map(|running| running.request), Some(None));
    let second = format!("{}\n{}", term(4, "d"), running(None));
    assert_eq!(History::read(&second).malformed().count(), 1, "only the newest term can run");
    let long = RunningTerm::new(3, &"x".repeat(300), millis(5), None);
    assert_eq!(past.with_running(&long).running(3, &"x".repeat(300)), Some(long));
}

#[test]
fn the_hash_of_a_state_ignores_the_history() {
    let hash = |history: &History| {
        let mut hasher = DefaultHasher::new();
        history.hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(&History::default()), hash(&of([term(1, "a")])));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_history_stays_short_whatever_the_former_text(
        former in "(?s).{0,2000}",
        terms in prop::collection::vec(
            (any::<u32>(), "(?s).{0,100}", any::<(i64, i64)>(), "(?s).{0,100}", prop::sample::select(known_endings())),
            0..12,
        ),
        request in prop::option::of(Just(Cause::BetterCandidate)),
        running in any::<bool>(),
    ) {
        let mut history = History::read(&former);
        for (number, holder, (since, until), other, known) in terms {
            let times = (WireTime::from_micros(since), WireTime::from_micros(until));
            for ending in [Ending::Other(other), known] {
                let term = PastTerm::new(number, &holder, times, ending);
                prop_assert!(term.since <= term.until);
                let former: Vec<PastTerm> = history.terms().collect();
                if running {
                    history = history.with_running(&RunningTerm::new(number, &holder, times.0, request));
                    prop_assert!(history.running(number, &holder).is_some());
                    prop_assert!(history.as_str().len() <= History::LONGEST);
                }
                history = history.with(&term);
                let read: Vec<PastTerm> = history.terms().collect();
                prop_assert_eq!(read.first(), Some(&term));
                prop_assert!(former.starts_with(&read[1..]), "the older terms follow, newest first");
                prop_assert_eq!(history.malformed().count(), 0);
                prop_assert!(history.as_str().len() <= History::LONGEST && read.len() <= History::MOST_TERMS);
                prop_assert_eq!(&History::read(history.as_str()), &history);
            }
        }
    }

    #[test]
    fn every_text_is_accepted(text in "[ 0-9a-z:.,TZ()\\n-]{0,300}") {
        let history = History::read(&text);
        let lines = text.lines().filter(|line| !line.is_empty()).count();
        prop_assert!(history.terms().count() + history.malformed().count() <= lines);
        prop_assert_eq!(history.as_str(), text);
    }
}
