//! The pure rules of Hustings: who is elected, and who may say that it leads.
//!
//! Observations go in, decisions come out: actions as values, the next deadline, and reasons as values. Nothing in this
//! package has a clock, waits, draws a random number or knows an API; its `clippy.toml` sees to that. It is the only
//! place of Hustings in which it is decided who leads.

pub mod election;
pub mod elector;
pub mod model;
pub mod ranking;
