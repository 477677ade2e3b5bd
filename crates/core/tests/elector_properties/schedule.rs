//! Generators of schedules: the events that happen to three electors.

use hustings_core::elector::ElectorMode;
use hustings_lab::coordinated;
use proptest::prelude::*;

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a condition of its own")]
pub(crate) struct Schedule {
    pub(crate) mode: ElectorMode,
    pub(crate) has_long_deadline: bool,
    /// Whether a Lease lasts longer than one without a declared duration.
    pub(crate) has_long_lease: bool,
    /// Whether processes hold the lock of their place, and so reclaim after a crash.
    pub(crate) has_places: bool,
    /// Whether there is a controller. Without one, the candidates elect among themselves.
    pub(crate) has_controller: bool,
    pub(crate) clocks: [(i64, i64, i64); 3],
    pub(crate) stubborn_work: [u8; 3],
    pub(crate) seed: u64,
    pub(crate) badness: u32,
    pub(crate) steps: Vec<(u32, Step)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Nothing,
    Grant(usize),
    Prefer(Option<usize>),
    Edit(Edit),
    Delete,
    Ping(usize),
    DeleteCandidate(usize),
    Freeze(usize, u32),
    Crash(usize),
    Resign(usize),
    Stop(usize),
    WorkEnded(usize),
    Watch(usize, Option<u32>),
    Key(usize, Option<i64>),
}

#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Holder(Option<&'static str>),
    Duration(u32),
    Transitions(u32),
    /// Another holder claims the Lease by the rules of client-go, which keeps the annotations.
    Claim,
    /// A process of client-go releases the Lease although it has lost it. It keeps the annotations.
    LateRelease,
    NoSession,
    GarbledSession,
}

fn steps() -> impl Strategy<Value = Step> {
    let who = 0..3_usize;
    prop_oneof![
        4 => Just(Step::Nothing),
        4 => who.clone().prop_map(Step::Grant),
        3 => proptest::option::weighted(0.8, who.clone()).prop_map(Step::Prefer),
        2 => edits().prop_map(Step::Edit),
        1 => Just(Step::Delete),
        1 => who.clone().prop_map(Step::Ping),
        1 => who.clone().prop_map(Step::DeleteCandidate),
        2 => (who.clone(), 0..30_000_u32).prop_map(|(who, millis)| Step::Freeze(who, millis)),
        1 => who.clone().prop_map(Step::Crash),
        1 => who.clone().prop_map(Step::Resign),
        1 => who.clone().prop_map(Step::Stop),
        2 => who.clone().prop_map(Step::WorkEnded),
        2 => (who.clone(), proptest::option::weighted(0.7, 0..8_000_u32))
            .prop_map(|(who, delay)| Step::Watch(who, delay)),
        2 => (who, proptest::option::weighted(0.8, 0..4_i64)).prop_map(|(who, key)| Step::Key(who, key)),
    ]
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        proptest::option::of(prop_oneof![Just("a"), Just("b"), Just("bogus")]).prop_map(Edit::Holder),
        prop_oneof![Just(0), Just(1), Just(15), Just(40)].prop_map(Edit::Duration),
        any::<u32>().prop_map(Edit::Transitions),
        Just(Edit::Claim),
        Just(Edit::LateRelease),
        Just(Edit::NoSession),
        Just(Edit::GarbledSession),
    ]
}

pub(crate) fn schedules() -> impl Strategy<Value = Schedule> {
    // Wall clocks that differ by years, by about the lease duration, or hardly at all.
    let wall_offset =
        prop_oneof![-900_000_000_000_000..900_000_000_000_000_i64, -30_000_000..30_000_000_i64, -5_000..5_000_i64];
    let clock = (-1_000_000_000..1_000_000_000_i64, -1_000..=1_000_i64, wall_offset);
    (
        prop_oneof![Just(ElectorMode::Direct), Just(coordinated())],
        [any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()],
        [clock.clone(), clock.clone(), clock],
        [0..4_u8, 0..4_u8, 0..4_u8],
        any::<u64>(),
        0..60_u32,
        proptest::collection::vec((0..7_000_u32, steps()), 1..40),
    )
        .prop_map(
            |(
                mode,
                [has_long_deadline, has_long_lease, has_places, has_controller],
                clocks,
                stubborn_work,
                seed,
                badness,
                steps,
            )| {
                Schedule {
                    mode,
                    has_long_deadline,
                    has_long_lease,
                    has_places,
                    has_controller,
                    clocks,
                    stubborn_work,
                    seed,
                    badness,
                    steps,
                }
            },
        )
}
