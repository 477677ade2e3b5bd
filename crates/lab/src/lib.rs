//! Electors, elections and client-go's electors side by side over the reference store, in virtual time.
//!
//! There is one true time, which only the [`Lab`] knows. Each process has its own clocks, and a network that delays or
//! loses its requests. This rule must hold: only the two cores decide who leads, so the same process would lead in a
//! real cluster.

mod bare;
mod checks;
pub mod client_go;
mod controller;
mod lab;
mod native;
mod news;
mod process;
mod replica;
mod reverting;
mod server;

pub use bare::{Bare, BareTerm, released};
pub use checks::Checks;
pub use controller::Controller;
pub use lab::{LEASE, Lab, candidate, config, coordinated};
pub use native::Native;
pub use news::{Entry, News, Who};
pub use process::{Fate, Process, micros, seconds, wall_at};
pub use replica::{Replica, WorkStops};
pub use reverting::Reverting;
pub use server::{Faults, Server, Strips};
