//! The scenarios and their expected outcomes. `cargo test` explores the small ones, the example all of them.

use std::time::Duration;

use crate::coordinated::{self, ControllerRule, Faults};
use crate::exploration::{
    GRANTS_ARE_RIGHT, LEADER_IN_TIME, NO_TERM_RUNS_OUT, NOBODY_IS_DEPOSED, ONE_LEADER, TOKENS_GROW,
};
use crate::explore::Subject;
use crate::process::{Rule, Seat};
use crate::scenario::Scenario;
use crate::world::Left;

/// One exploration and its expected outcome.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case.
    pub name: &'static str,
    /// The subject of the exploration.
    pub subject: Subject,
    /// The rule that a negative control must break. If `None`, no rule may be broken.
    pub breaks: Option<&'static str>,
    /// It has too many states for a test.
    pub is_large: bool,
}

/// All cases.
pub fn catalogue() -> Vec<Case> {
    [among_electors(), with_controllers()].concat()
}

fn among_electors() -> Vec<Case> {
    let case = |name, scenario, breaks, is_large| Case { name, subject: Subject::Direct(scenario), breaks, is_large };
    let none = Left::default();
    let deletion = Left { deletions: 1, ..none };
    let slow = || Seat::direct("a", -1_000);
    let fast = || Seat::direct("b", 1_000);
    // Requests end within the second in which they are sent. Processes and watches may be late without a limit.
    let direct = || Scenario { answers_in_time: true, ..Scenario::direct() };
    let with = |left: Left| Scenario { left, ..direct() };
    let pair = |a: Seat, b: Seat| Scenario { seats: vec![a, b], ..direct() };
    // Answers may be one or two seconds late, and may be lost.
    let late = || {
        let mut scenario = Scenario::direct();
        scenario.durations.request_timeout = Duration::from_millis(1_900);
        scenario
    };
    // Nothing is more than a second late.
    let prompt = |left: Left| Scenario { left, punctual: true, longest_delay_ticks: Some(1), ..late() };
    let control = |name, scenario| case(name, scenario, Some(ONE_LEADER), false);
    let small = |name, scenario| case(name, scenario, None, false);
    let large = |name, scenario| case(name, scenario, None, true);
    vec![
        // Two lengths of a lease: a term and its successor's.
        small("direct", Scenario { horizon_ticks: Some(6), ..direct() }),
        large("direct-at-any-time", direct()),
        small("live", Scenario { vacant_at_most_ticks: Some(6), ..prompt(Left { crashes: 1, ..none }) }),
        large("losses", Scenario { loses: true, ..prompt(none) }),
        large("keys", {
            let seats = vec![Seat { key: Some(1), ..slow() }, Seat { key: Some(2), ..fast() }];
            Scenario { seats, ..prompt(none) }
        }),
        large("stale-watch", Scenario { stale_watch: true, ..prompt(none) }),
        large("namesakes", Scenario { seats: vec![slow(), Seat::direct("a", 1_000)], ..prompt(none) }),
        large("edit", prompt(Left { edits: 1, ..none })),
        large("stop", prompt(Left { stops: 1, ..none })),
        large("reclaim", {
            let seats = vec![Seat { place: Some(0), ..slow() }, Seat { place: Some(1), ..fast() }];
            Scenario { seats, ..prompt(Left { crashes: 1, ..none }) }
        }),
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

fn with_controllers() -> Vec<Case> {
    let case =
        |name, scenario, breaks, is_large| Case { name, subject: Subject::Coordinated(scenario), breaks, is_large };
    let well = Faults::NONE;
    let elected = |faults| coordinated::Scenario::new(2, 1, faults);
    let small = |name, scenario| case(name, scenario, None, false);
    let large = |name, scenario| case(name, scenario, None, true);
    let control = |name, rule, breaks, faults| case(name, elected(faults).by(rule), Some(breaks), false);
    let ahead = |mut scenario: coordinated::Scenario| {
        scenario.controllers[0].wall_ahead_ticks = 2;
        scenario
    };
    let dated = elected(Faults { sleeps: 1, ..well }).by(ControllerRule::CountsFromRenewTime);
    let deletion_unseen = Faults { deletions: 1, sleeps: 1, ..well };
    let mut called = elected(Faults { controller_sleeps: 1, ..well });
    called.seats.iter_mut().for_each(|seat| seat.rule = Rule::RenewsWhileCalledHolder);
    let reported = elected(Faults { crashes: 1, ..well }).with_evidence();
    let lying = elected(Faults { sleeps: 1, lies: 1, ..well }).with_evidence();
    let loss = Faults { losses: 1, ..well };
    let waiting = coordinated::Scenario::new(1, 1, loss).by(ControllerRule::WaitsForAnswers);
    let mut counting = coordinated::Scenario::new(1, 1, Faults { deletions: 1, ..well });
    counting.seats[0].rule = Rule::CountsTermsForTokens;
    // An elector whose clock is too slow renews its candidate without a ping just after the Lease has expired. That
    // renewal would wake the controller, so the case would not test the controller's own deadline.
    let dying = || {
        let mut scenario = elected(Faults { deaths: 1, ..well });
        scenario.seats.iter_mut().for_each(|seat| seat.fast_ppm = 1_000);
        scenario
    };
    let take_over = Faults { take_overs: 1, ..well };
    vec![
        small("elected", coordinated::Scenario { is_prompt: false, ..elected(well) }),
        small("elected-crash", elected(Faults { crashes: 1, ..well })),
        small("elected-death", dying()),
        small("elected-stop", elected(Faults { stops: 1, ..well })),
        small("elected-edit", elected(Faults { edits: 1, ..well })),
        large("elected-deletion", elected(Faults { deletions: 1, ..well })),
        small("controller-restart", elected(Faults { controller_crashes: 1, ..well })),
        small("controller-sleep", elected(Faults { controller_sleeps: 1, ..well })),
        large("deletion-unseen", coordinated::Scenario { horizon_ticks: Some(2), ..elected(deletion_unseen) }),
        small("equals", coordinated::Scenario { are_equal: true, ..elected(Faults { crashes: 1, ..well }) }),
        small("loss-of-one", coordinated::Scenario::new(1, 1, loss)),
        small("take-over", coordinated::Scenario::new(1, 2, take_over)),
        small("evidence-crash", coordinated::Scenario { horizon_ticks: Some(5), ..reported.clone() }),
        large("evidence-crash-at-any-time", reported),
        small("evidence-death", dying().with_evidence()),
        large("elected-sleep", elected(Faults { sleeps: 1, ..well })),
        large("elected-loss", elected(loss)),
        large("elected-silence", elected(Faults { silences: 1, ..well })),
        large("take-over-of-two", coordinated::Scenario::new(2, 2, take_over)),
        control("grants-deleted", ControllerRule::GrantsDeletedAtOnce, ONE_LEADER, deletion_unseen),
        case("counts-from-renew-time", ahead(dated), Some(ONE_LEADER), false),
        control("grants-unconditionally", ControllerRule::WritesUnconditionally, NOBODY_IS_DEPOSED, loss),
        control("grants-unasked", ControllerRule::TakesPingForAnswer, GRANTS_ARE_RIGHT, well),
        case("lying-kubelet", lying, Some(ONE_LEADER), false),
        case("waits-for-answers", waiting, Some(LEADER_IN_TIME), false),
        case("ignores-deadlines", dying().by(ControllerRule::IgnoresDeadlines), Some(LEADER_IN_TIME), false),
        case("counts-terms-for-tokens", counting, Some(TOKENS_GROW), false),
        case("renews-while-called-holder", called, Some(NO_TERM_RUNS_OUT), false),
    ]
}

/// The case of this name.
pub fn case(name: &str) -> Option<Case> {
    catalogue().into_iter().find(|case| case.name == name)
}
