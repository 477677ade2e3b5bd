//! What Stateright explores: the states of either kind of model, and the rules that must hold in each of them.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use stateright::{Model, Property};

/// Nobody else reads that it leads.
pub const ONE_LEADER: &str = "S1: two never lead at one instant";
/// Tokens grow.
pub const TOKENS_GROW: &str = "S2: tokens grow";
/// Nobody is deposed.
pub const NOBODY_IS_DEPOSED: &str = "S3: the Lease is taken from nobody who leads";
/// Grants are right.
pub const GRANTS_ARE_RIGHT: &str = "S4: whoever is granted or preferred is the best that proved itself live";
/// Somebody leads soon.
pub const SOMEBODY_LEADS: &str = "L1: somebody leads within the bound";
/// Whoever is well keeps the Lease, whatever becomes of the controllers.
pub const NO_TERM_RUNS_OUT: &str = "L3: no term runs out of a process that is awake and heard";

/// One state of a model.
pub trait State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {
    /// Who takes part, what may happen, and where that ends.
    type Scenario: Send + Sync + 'static;
    /// One event.
    type Step: Clone + Debug + PartialEq;

    /// How a scenario begins.
    fn begin(scenario: &Arc<Self::Scenario>) -> Self;

    /// Where it ends, and what is expected of it.
    fn bounds(scenario: &Self::Scenario) -> Bounds;

    /// What may happen next.
    fn steps(&self) -> Vec<Self::Step>;

    /// It happens.
    fn take(&mut self, step: Self::Step);

    /// True time.
    fn ticks(&self) -> i64;

    /// Which processes read at this instant that they lead.
    fn leading(&self) -> impl Iterator<Item = usize>;

    /// For how many ticks nobody has led although nothing was wrong.
    fn vacant_ticks(&self) -> i64;

    /// What has been seen to go wrong.
    fn verdict(&self) -> Verdict;
}

/// Where a scenario ends, and what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// For how long nobody may lead, where that is checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// Where true time ends. Otherwise it goes on for ever.
    pub horizon_ticks: Option<i64>,
    /// The second process is to lead at some time, too. A world in which that cannot be proves little.
    pub second_leads: bool,
}

/// What has been seen to go wrong on the way to a state. Without controllers nobody grants, and nobody can be lost.
#[allow(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// Two have read at one instant that they lead.
    pub do_two_lead: bool,
    /// A term has begun with a token that is not above all before.
    pub has_token_fallen: bool,
    /// Somebody has taken the Lease from a process that read at that instant that it leads.
    pub is_deposed: bool,
    /// A grant has gone to somebody who had not proved itself live, or not to the best of those who had; or a holder was asked
    /// to hand over to an equal.
    pub is_misgranted: bool,
    /// A term has ended since time passed, of a process that was awake and of which no request went astray, although the Lease
    /// stands.
    pub has_run_out: bool,
}

/// What Stateright explores.
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
            Property::always(SOMEBODY_LEADS, |Self(scenario), state: &S| {
                S::bounds(scenario).vacant_at_most_ticks.is_none_or(|bound| state.vacant_ticks() <= bound)
            }),
            Property::sometimes("the first leads", |_, state: &S| state.leading().any(|who| who == 0)),
        ];
        if S::bounds(&self.0).second_leads {
            properties
                .push(Property::sometimes("the second leads", |_, state: &S| state.leading().any(|who| who == 1)));
        }
        properties
    }
}
