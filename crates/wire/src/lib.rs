//! Hustings on the wire: the objects, the requests about them, and what an answer or a failure means.
//!
//! The rule that must hold: no I/O, no clock and no randomness. The Rust client and the WebAssembly module stand on the
//! same code.

pub mod api;
pub mod attributes;
pub mod driver;
pub mod exchange;
pub mod expected;
pub mod failure;
pub mod instance;
pub mod request;
pub mod settings;
pub mod watch;
