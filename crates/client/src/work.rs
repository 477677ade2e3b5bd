//! The work of a leader: functions that run in a term, writes that only a leader sends, and fences.

pub(crate) mod fence;
pub(crate) mod functions;
pub mod gate;
pub(crate) mod panics;

pub use fence::Fence;
pub use functions::{FunctionResult, Functions, OnFailure};
pub use gate::WriteGate;
pub use panics::release_on_panic;
