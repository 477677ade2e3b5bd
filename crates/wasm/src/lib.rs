//! The elector as a WebAssembly module. `docs/abi.md` is its interface; a host in another language brings a loop, HTTP and
//! a clock.
//!
//! The rule that must hold: no input causes a trap. Any bytes are a valid input of every function, and give an answer.

mod answer;
mod config;
mod elector;
mod event;
#[cfg(target_arch = "wasm32")]
mod exports;
mod gate;
mod module;

pub use gate::gate;
pub use module::{ABI, Module};
