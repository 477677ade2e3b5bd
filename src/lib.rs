//! The controller and the command line of Hustings.
//!
//! This package does I/O and nothing else: who is elected is decided in `hustings-core`, and a Lease is held through
//! `hustings-client`.

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
