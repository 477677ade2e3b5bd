//! Explicit-state models: the real electors and elections, explored in every order of events.
//!
//! The core is pure and its states are values, so the models do not imitate it. A model is a small world around the
//! code that runs in production, and its results hold for that code. [Stateright](https://docs.rs/stateright) explores
//! every order of events in that world, for unlimited true time. The rules that must hold in each state are S1 to S4,
//! L1 and L3 of the architecture, as far as a single state can show them.
//!
//! [`World`] has electors without controllers, and there is no limit to how late an event may be. [`coordinated`] has
//! electors with controllers, and each delay counts as one of a few faults.

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
    Bounds, Exploration, GRANTS_ARE_RIGHT, LEADER_IN_TIME, NO_TERM_RUNS_OUT, NOBODY_IS_DEPOSED, ONE_LEADER, State,
    TOKENS_GROW, Verdict,
};
pub use explore::{Limits, Report, Subject, explore};
pub use process::{Rule, Seat, short_durations};
pub use scenario::Scenario;
pub use world::{Left, Step, World};
