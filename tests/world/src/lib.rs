//! The world in which the real code is simulated: a model of the API server, clocks that err, and faults.
//!
//! The rule that must hold: what the model answers, a real kube-apiserver answers. A test sends both the same sequences
//! of requests and compares.

pub mod checker;
pub mod clock;
pub mod faults;
pub mod link;
pub mod machine;
pub mod process;
pub mod reach;
pub mod server;
pub mod shrink;
pub mod trouble;
pub mod webhook;
pub mod wire;
pub mod work;
pub mod world;
