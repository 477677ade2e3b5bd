//! The controller and the command line of Hustings.
//!
//! This package only does I/O. `hustings-core` decides who is elected, and `hustings-client` holds Leases.

pub mod campaign;
pub mod candidacy;
pub mod cli;
pub mod cluster;
pub mod controller;
mod environment;
pub mod ops;
#[cfg(target_os = "linux")]
pub mod run;
pub mod sidecar;
pub mod status;

#[cfg(test)]
mod generated;
