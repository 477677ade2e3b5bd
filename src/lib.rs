//! The controller and the command line of Hustings.
//!
//! This package only does I/O. `hustings-core` decides who is elected, and `hustings-client` holds Leases.

pub mod access;
pub mod acts;
pub mod app;
pub mod campaign;
pub mod candidacy;
pub mod check;
pub mod cli;
pub mod cluster;
pub mod completion;
pub mod controller;
mod copy_binary;
pub mod duration;
mod environment;
pub mod explain;
mod forecast;
pub mod hint;
pub mod history;
mod nearest;
pub mod ops;
mod order;
pub mod output;
pub mod page;
pub mod program;
mod reviews;
pub mod rollout;
#[cfg(target_os = "linux")]
pub mod run;
pub mod sidecar;
mod simulation;
pub mod status;
mod terminal;

#[cfg(test)]
mod generated;
