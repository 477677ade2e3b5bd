//! The pure rules of Hustings: who is elected, and who may lead.
//!
//! This package contains two state machines. An [`election::Election`] decides for a controller which candidate gets a
//! Lease. An [`elector::Elector`] decides for a process when it may lead. No other code of Hustings makes these
//! decisions. Neither does any I/O: they read no clock, never wait, draw no random numbers and call no API. The
//! `clippy.toml` of this package enforces that.
//!
//! # The driver
//!
//! The caller is the driver. It performs the I/O, in a loop:
//!
//! 1. It reports each observation with `observe`: a watch event, the answer to a request, or a failure.
//! 2. It calls `decide` after each batch of observations, and when the deadline of the last decision has passed.
//! 3. It carries out the returned actions and reports the result of each one.
//!
//! It must keep these rules:
//!
//! - Every call gets the current [`model::Now`]. Its local clock never runs backwards and counts suspended time. The
//!   wall clock is only written into objects and displayed.
//! - **Order**: an elector's `leading` must be in force before any of the decision's actions begins. The driver carries
//!   out an elector's actions in the given order. It need not wait for an answer before it sends the next request. It
//!   may carry out the actions of an election concurrently.
//! - **Sending times**: the validity of a term and the value of an answer count from the sending of the request. An
//!   elector takes the time of its decision as the time of sending, and names each request with an
//!   [`elector::AttemptId`]. A later sending is safe, an earlier one is impossible. An answer to an election carries
//!   `sent`, a moment no later than the one at which the request left the process: see [`election::Source`].
//! - **Deadlines**: every request has a deadline. If no answer has arrived by then, the driver reports a failure. For a
//!   write, that is [`Outcome::Unknown`](elector::Outcome::Unknown) or [`Failed`](election::Observation::Failed): the
//!   write may still take effect.
//! - Every update and every deletion is conditional on the version or the uid that its action names.
//!
//! # Example
//!
//! An elector in direct mode finds its Lease free, claims it and leads:
//!
//! ```
//! use hustings_core::elector::{
//!     Action, Config, Draw, Elector, FailOpen, ElectorMode, Observation, Outcome, Source, Timing,
//! };
//! use hustings_core::model::{LeaseRecord, Moment, Now, Request, SessionMark, WireTime};
//!
//! let at = |micros| Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) };
//! let config = Config {
//!     identity: "web-0".to_owned(),
//!     lease_name: "web".to_owned(),
//!     session: "17ff".to_owned(),
//!     mode: ElectorMode::Direct,
//!     timing: Timing::default(),
//!     fail_open: FailOpen::Off,
//!     keeps_on_stop: false,
//! };
//! let mut elector = Elector::new(config, at(0));
//!
//! // The watch shows a Lease that was released.
//! let released = LeaseRecord { resource_version: 7, session: SessionMark::Open, ..LeaseRecord::default() };
//! elector.observe(at(10), Observation::Lease { record: released.clone(), source: Source::Watch });
//! let decision = elector.decide(at(10), Draw(0));
//! assert!(decision.leading.is_none());
//! let [Action::Send { attempt, request: Request::WriteLease { write, .. } }] = &decision.actions[..] else {
//!     panic!("no claim")
//! };
//!
//! // The driver sends the write. The server stores it as version 8 and returns it.
//! let stored = write.applied_to(&released, 8);
//! elector.observe(at(30), Observation::LeaseWritten { attempt: *attempt, outcome: Outcome::Landed(stored) });
//! let decision = elector.decide(at(30), Draw(0));
//!
//! // The validity counts from the decision to send, not from the answer.
//! let leading = decision.leading.expect("the claim succeeded");
//! assert_eq!(leading.valid_until, at(10).moment.after(Timing::default().renew_deadline()));
//! // The driver decides again at the deadline: the next renewal.
//! assert!(decision.deadline.is_some_and(|deadline| deadline < leading.valid_until));
//! ```

pub mod assist;
mod backoff;
pub mod election;
pub mod elector;
pub mod leader_label;
pub mod model;
pub mod names;
mod plan;
pub mod ranking;
pub mod stand_in;
