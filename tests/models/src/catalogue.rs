//! The scenarios that are explored, and what is to come of each: by `cargo test` the small ones, by the example all.

use std::time::Duration;

use crate::process::{Rule, Seat};
use crate::scenario::{ONE_LEADER, Scenario};
use crate::world::Left;

/// One exploration and its expected outcome.
#[derive(Clone, Debug)]
pub struct Case {
    /// How it is called.
    pub name: &'static str,
    /// What is explored.
    pub scenario: Scenario,
    /// The rule that must be found broken, in a negative control. Otherwise none may be.
    pub breaks: Option<&'static str>,
    /// Too many states for a test.
    pub is_large: bool,
}

/// All cases.
pub fn catalogue() -> Vec<Case> {
    let none = Left::default();
    let deletion = Left { deletions: 1, ..none };
    let slow = || Seat::direct("a", -1_000);
    let fast = || Seat::direct("b", 1_000);
    // Requests end within the second in which they are sent; processes and watches are as late as they like.
    let direct = || Scenario { answers_in_time: true, ..Scenario::direct() };
    let with = |left: Left| Scenario { left, ..direct() };
    let pair = |a: Seat, b: Seat| Scenario { seats: vec![a, b], ..direct() };
    // Answers may come a second late, or two, and may be lost.
    let late = || {
        let mut scenario = Scenario::direct();
        scenario.timing.request_timeout = Duration::from_millis(1_900);
        scenario
    };
    // Nobody is later than a second.
    let prompt = |left: Left| Scenario { left, punctual: true, longest_delay_ticks: Some(1), ..late() };
    let control = |name, scenario| Case { name, scenario, breaks: Some(ONE_LEADER), is_large: false };
    let small = |name, scenario| Case { name, scenario, breaks: None, is_large: false };
    let large = |name, scenario| Case { name, scenario, breaks: None, is_large: true };
    vec![
        small("direct", direct()),
        large("late-answers", late()),
        large("late-landing", Scenario { late_writes: 1, horizon_ticks: Some(7), ..Scenario::direct() }),
        small("live", Scenario { vacant_at_most_ticks: Some(6), ..prompt(Left { crashes: 1, ..none }) }),
        large("losses", Scenario { loses: true, ..direct() }),
        large("crash", with(Left { crashes: 1, ..none })),
        large("edit", with(Left { edits: 1, ..none })),
        large("stop", with(Left { stops: 1, ..none })),
        large("keys", pair(Seat { key: Some(1), ..slow() }, Seat { key: Some(2), ..fast() })),
        large("reclaim", {
            let seats = vec![Seat { place: Some(0), ..slow() }, Seat { place: Some(1), ..fast() }];
            Scenario { seats, ..with(Left { crashes: 1, ..none }) }
        }),
        large("namesakes", pair(slow(), Seat::direct("a", 1_000))),
        large("stale-watch", Scenario { stale_watch: true, ..direct() }),
        large("deletion", Scenario { memory_micros: 16_500_000, ..prompt(deletion) }),
        large("creation", Scenario { starts_missing: true, memory_micros: 16_500_000, ..prompt(none) }),
        large("client-go-3s", Scenario::client_go(3)),
        control("client-go-4s", Scenario::client_go(4)),
        control("counts-from-answer", Scenario { horizon_ticks: Some(3), ..late() }.by(Rule::CountsFromAnswer)),
        control("unconditional-writes", direct().by(Rule::WritesUnconditionally)),
        control("recognised-by-name", pair(slow(), Seat::direct("a", 1_000)).by(Rule::RecognisesByName)),
        control("deleted-is-free", Scenario { horizon_ticks: Some(2), ..with(deletion) }.by(Rule::ClaimsDeletedAtOnce)),
        control("shrunk-duration", with(Left { edits: 1, ..none }).by(Rule::ObeysShrunkDuration)),
        control("fast-clock", pair(Seat::direct("a", -20_000), Seat::direct("b", 20_000))),
        control("reclaim-without-lock", {
            let seat = |seat: Seat| Seat { place: Some(0), identity: "a", ..seat };
            pair(seat(slow()), seat(fast()))
        }),
    ]
}

/// The case of this name.
pub fn case(name: &str) -> Option<Case> {
    catalogue().into_iter().find(|case| case.name == name)
}
