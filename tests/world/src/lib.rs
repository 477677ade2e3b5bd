//! The world that simulates the environment of the real code: a model of the API server, imprecise clocks, and faults.
//!
//! The rule that must hold: the model gives the same answers as a real kube-apiserver. A test sends the same sequences
//! of requests to both and compares the answers.

pub mod checker;
pub mod clock;
pub mod faults;
pub mod kubelet;
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
