//! Explicit-state models: the real electors, explored in every order of events.
//!
//! The core is pure and its states are values, so that nothing is modelled of it: a model is a small world around
//! the code that runs in production, and what is found out is about that code. Everything that can happen in that world
//! is explored to the end, for true time without an end, by [Stateright](https://docs.rs/stateright). The rules that
//! must hold in each state are those of the architecture: S1, S2, S3, and L1 where the world is kind.

mod canonical;
mod catalogue;
mod client_go;
mod explore;
mod process;
mod scenario;
mod world;

pub use catalogue::{Case, case, catalogue};
pub use explore::{Limits, Report, explore};
pub use process::{Rule, Seat, short_timing};
pub use scenario::{Exploration, NOBODY_IS_DEPOSED, ONE_LEADER, SOMEBODY_LEADS, Scenario, TOKENS_GROW};
pub use world::{Edit, Left, Step, World};
