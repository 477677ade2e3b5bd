//! The controller's decisions: which candidate is elected.
//!
//! An [`Election`] holds what one controller knows about one Lease and its candidates. The caller reports observations
//! ([`Election::observe`]) and carries out decisions ([`Election::decide`]). An election has no clock and sends
//! nothing.
//!
//! The rules that must hold:
//!
//! - A grant goes to the best candidate that has proved itself live in that election.
//! - While the Lease is held, no grant names another holder.
//! - If nothing has to change, the election writes nothing.

mod acts;
mod backoff;
mod config;
mod damping;
mod deciding;
mod decision;
mod eligibility;
mod evidence;
mod fingerprint;
mod hand_over;
mod ineffective;
mod inquiry;
mod judging;
mod losses;
mod member;
mod observation;
mod observing;
mod order;
mod plan;
mod reason;
mod report;
mod requests;
mod second_controller;
mod sentences;
mod status;
mod timers;
mod tracked_lease;
mod verdict;
mod writes;

pub use config::{Config, EvidenceConfig};
pub(crate) use damping::Damping;
pub use decision::{Action, Decision};
pub use evidence::Doubt;
pub use ineffective::{NoEffect, Write};
pub use observation::{Observation, Source, Target};
pub use observing::Election;
pub use reason::{AdminAct, Choice, Event, Ineligible, Reason, TransferRefusal};
pub use report::Report;
pub use sentences::release_of_assisted;
pub use timers::Timer;
pub use verdict::{CandidateVerdict, LeaseVerdict};

/// The namespace of the node heartbeats. Hustings changes nothing in it.
pub const NODE_LEASES: &str = "kube-node-lease";
