//! The states of both kinds of model, which Stateright explores, and the rules that must hold in each state.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use stateright::{Model, Property};

/// `is_leader()` is never true in two processes at the same instant.
pub const ONE_LEADER: &str = "S1: two processes never lead at one instant";
/// Tokens grow.
pub const TOKENS_GROW: &str = "S2: tokens grow";
/// No leader loses the Lease to another process.
pub const NOBODY_IS_DEPOSED: &str = "S3: the Lease is never taken from a leader";
/// Each grant and each request to hand over goes to the right candidate.
pub const GRANTS_ARE_RIGHT: &str = "S4: each electee and preferred holder is the best that proved itself live";
/// A process leads soon.
pub const LEADER_IN_TIME: &str = "L1: a process leads within the bound";
/// A healthy holder keeps the Lease, whatever happens to the controllers.
pub const NO_TERM_RUNS_OUT: &str = "L3: no term expires while its process is awake and its requests arrive";

/// One state of a model.
pub trait State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {
    /// The processes, the possible faults, and the limits.
    type Scenario: Send + Sync + 'static;
    /// One event.
    type Step: Clone + Debug + PartialEq;

    /// The first state of a scenario.
    fn begin(scenario: &Arc<Self::Scenario>) -> Self;

    /// The limits of a scenario, and its expectations.
    fn bounds(scenario: &Self::Scenario) -> Bounds;

    /// The steps that may happen next.
    fn steps(&self) -> Vec<Self::Step>;

    /// Executes one step.
    fn take(&mut self, step: Self::Step);

    /// True time.
    fn ticks(&self) -> i64;

    /// The processes in which `is_leader()` is true at this instant.
    fn leading(&self) -> impl Iterator<Item = usize>;

    /// How many ticks have passed without a leader although nothing was wrong.
    fn vacant_ticks(&self) -> i64;

    /// Whether evidence has just freed a Lease.
    fn is_freed_by_evidence(&self) -> bool;

    /// The violations observed so far.
    fn verdict(&self) -> Verdict;
}

/// The limits of a scenario, and its expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long there may be no leader; `None` if that is not checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// When true time ends; `None` if it never does.
    pub horizon_ticks: Option<i64>,
    /// The second process must also lead in some state. A world in which it never can proves little.
    pub second_leads: bool,
    /// Evidence must also free a Lease in some state.
    pub evidence_counts: bool,
}

/// The violations on the way to a state. Without controllers there are no grants and no losses.
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// `is_leader()` was true in two processes at the same instant.
    pub do_two_lead: bool,
    /// A term has begun with a token that is not above all earlier ones.
    pub has_token_fallen: bool,
    /// The Lease was taken from a process in which `is_leader()` was true at that instant.
    pub is_deposed: bool,
    /// A grant went to a candidate that had not proved itself live, or not to the best of those that had. Or a holder
    /// was asked to hand over to an equal candidate.
    pub is_misgranted: bool,
    /// A term expired although its process was awake, none of its requests was lost and the Lease exists.
    pub has_run_out: bool,
}

/// The model that Stateright explores.
#[derive(Debug)]
pub struct Exploration<S: State>(pub Arc<S::Scenario>);

impl<S: State> Model for Exploration<S> {
    type State = S;
    type Action = S::Step;

    fn init_states(&self) -> Vec<S> {
        vec![S::begin(&self.0)]
    }

    fn actions(&self, state: &S, steps: &mut Vec<S::Step>) {
        steps.extend(state.steps());
    }

    fn next_state(&self, state: &S, step: S::Step) -> Option<S> {
        let mut next = state.clone();
        next.take(step);
        Some(next)
    }

    fn within_boundary(&self, state: &S) -> bool {
        S::bounds(&self.0).horizon_ticks.is_none_or(|horizon| state.ticks() <= horizon)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_LEADER, |_, state: &S| !state.verdict().do_two_lead),
            Property::always(TOKENS_GROW, |_, state: &S| !state.verdict().has_token_fallen),
            Property::always(NOBODY_IS_DEPOSED, |_, state: &S| !state.verdict().is_deposed),
            Property::always(GRANTS_ARE_RIGHT, |_, state: &S| !state.verdict().is_misgranted),
            Property::always(NO_TERM_RUNS_OUT, |_, state: &S| !state.verdict().has_run_out),
            Property::always(LEADER_IN_TIME, |Self(scenario), state: &S| {
                S::bounds(scenario).vacant_at_most_ticks.is_none_or(|bound| state.vacant_ticks() <= bound)
            }),
            Property::sometimes("the first leads", |_, state: &S| state.leading().any(|who| who == 0)),
        ];
        if S::bounds(&self.0).second_leads {
            properties
                .push(Property::sometimes("the second leads", |_, state: &S| state.leading().any(|who| who == 1)));
        }
        if S::bounds(&self.0).evidence_counts {
            properties
                .push(Property::sometimes("evidence frees the Lease", |_, state: &S| state.is_freed_by_evidence()));
        }
        properties
    }
}
