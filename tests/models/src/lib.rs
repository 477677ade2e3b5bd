//! Explicit-state models: the real electors and elections, explored in every order of events.
//!
//! The core is pure and its states are values, so that nothing is modelled of it: a model is a small world around
//! the code that runs in production, and what is found out is about that code. Everything that can happen in that world
//! is explored to the end, for true time without an end, by [Stateright](https://docs.rs/stateright). The rules that
//! must hold in each state are those of the architecture: S1 to S4, L1 and L3, as far as a state can say so.
//!
//! Electors among themselves are in [`World`], where everything is as late as it likes; electors under controllers are in
//! [`coordinated`], where what is late is one of a few faults.

mod canonical;
mod catalogue;
mod client_go;
pub mod coordinated;
mod edit;
mod exploration;
mod explore;
mod process;
mod scenario;
mod world;

pub use catalogue::{Case, case, catalogue};
pub use edit::Edit;
pub use exploration::{
    Bounds, Exploration, GRANTS_ARE_RIGHT, NO_TERM_RUNS_OUT, NOBODY_IS_DEPOSED, ONE_LEADER, SOMEBODY_LEADS, State,
    TOKENS_GROW, Verdict,
};
pub use explore::{Limits, Report, Subject, explore};
pub use process::{Rule, Seat, short_durations};
pub use scenario::Scenario;
pub use world::{Left, Step, World};
