//! The leadership of this process: its handle, its terms, and the time range that they own.

pub(crate) mod handle;
pub(crate) mod publisher;
pub(crate) mod range;
mod shared;
pub(crate) mod term;
pub(crate) mod writes;

pub(crate) use handle::latest;
pub use handle::{Holder, Leadership, Obstacle, View};
pub(crate) use publisher::{Publisher, leadership};
pub use range::{HolderChange, TimeRange};
pub use term::{Term, Work};
pub(crate) use writes::TermWrite;
