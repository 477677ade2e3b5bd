//! Section 4: who is elected.
//!
//! An [`Election`] is what one controller knows of one Lease and of its candidates. It is told what became known
//! ([`Election::observe`]) and says what to do ([`Election::decide`]). It has no clock and sends nothing. The rules that
//! must hold: a grant goes to the best candidate that proved itself live in that election, no grant names another
//! holder while the Lease is held, and where nothing is to change nothing is written.

mod config;
mod decision;
mod observation;
mod reason;
pub mod words;

use std::sync::Arc;

pub use config::Config;
pub use decision::{Action, CandidateVerdict, Decision, LeaseVerdict, Unheld};
pub use observation::{Observation, Source, Target};
pub use reason::{Choice, Event, Reason};

use crate::model::Now;

/// The namespace of the node heartbeats, in which nothing is ever touched.
pub const NODE_LEASES: &str = "kube-node-lease";

/// What one controller knows of one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Election {
    /// An election that knows nothing yet but its Lease's namespace and name.
    pub fn new(config: Config, namespace: &str, name: &str) -> Self {
        Self { config, namespace: namespace.into(), name: name.into() }
    }

    /// Takes note of something. A controller that does not lead does this too, so that it knows the times when it does.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        let _ = (now, observation);
    }

    /// What is to be done now. Only the controller that leads calls this: what it is told to do counts as being done.
    pub fn decide(&mut self, now: Now) -> Decision {
        Decision {
            actions: Vec::new(),
            deadline: now.moment.after(self.config.requeue),
            lease: LeaseVerdict::Unread,
            candidates: Vec::new(),
        }
    }

    /// Whether nothing is left to look after: no candidates, and no Lease that had any.
    pub fn is_over(&self) -> bool {
        true
    }

    /// `namespace/name` of the Lease.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}
