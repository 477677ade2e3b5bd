//! The controller and the command line of Hustings.
//!
//! This package only does I/O. `hustings-core` decides who is elected, and `hustings-client` holds Leases. There are
//! three kinds of program: the [`controller`] elects, those in [`stand`] stand in elections, and those in [`operate`]
//! serve people. No wing depends on one above it in this list: `app`, `cli`, the three, `predict`, `serve`, `base`.

pub mod app;
pub mod base;
pub mod cli;
pub mod controller;
pub mod operate;
mod predict;
pub mod serve;
pub mod stand;

#[cfg(test)]
mod generated;
