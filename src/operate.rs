//! The commands for people: they read elections and explain them, and write what an administrator asks for.

pub mod acts;
mod assisted;
pub mod check;
pub mod completion;
pub mod explain;
pub mod history;
mod pods;
pub mod rollout;
pub mod status;
pub mod survey;
