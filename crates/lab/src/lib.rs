//! One lab for both cores: real electors and real elections over the reference store, in virtual time.
//!
//! There is one true time, which only the [`Lab`] knows. Each process has its own clocks, and a network that delays or
//! loses its requests. Each step of a [script] changes something, runs all events that follow at once, and returns a
//! transcript of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod client_go;
mod controller;
mod lab;
mod native;
mod process;
mod replica;
pub mod script;
mod server;
mod words;

pub use controller::Controller;
pub use lab::{LEASE, Lab, config, wall_at};
pub use native::Native;
pub use process::{Fate, Process};
pub use replica::{Replica, WorkStops};
pub use server::{Server, Strips};
