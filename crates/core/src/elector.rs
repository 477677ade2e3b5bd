//! Section 5: when one process may say that it leads.
//!
//! An [`Elector`] is told what became known ([`Elector::observe`]) and says what to do ([`Elector::decide`]). It has no
//! clock and sends nothing. The rule that must hold: at no instant do two electors both lead. A holder is valid for
//! the renew deadline, counted from the *sending* of a write that is known to have succeeded; everybody else waits for
//! the longer lease duration, counted from the *sight* of that write or a later one.

mod config;
mod messages;

pub use config::{Config, Draw, InvalidTiming, LONGEST_LEASE_SECONDS, Mode, Timing};
pub use messages::{Action, AttemptId, Decision, Leading, Loss, Note, Observation, Outcome, Source};

use crate::model::{Now, Observed};

/// One elector instance: a state machine whose state can be cloned, compared and hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elector {
    config: Config,
    observed: Option<Observed>,
}

impl Elector {
    /// An elector that knows nothing yet. Its timing is to be [validated](Timing::validate) by whoever builds it.
    pub fn new(config: Config, now: Now) -> Self {
        let _ = now;
        Self { config, observed: None }
    }

    /// Takes note of something. [`Elector::decide`] is to be called afterwards.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        let _ = (now, observation);
    }

    /// What is to be done now. Nothing to do means no action; the same call again says the same without actions.
    pub fn decide(&mut self, now: Now, draw: Draw) -> Decision {
        let _ = (now, draw);
        Decision { actions: Vec::new(), leading: None, deadline: None, notes: Vec::new(), finished: false }
    }

    /// How this elector is set up.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The newest version of the Lease that was seen, unless it is missing or was never seen.
    pub const fn lease(&self) -> Option<&Observed> {
        self.observed.as_ref()
    }
}
