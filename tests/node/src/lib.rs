//! A real node for tests: kubelet, containerd, kube-proxy, kube-scheduler and kube-controller-manager, without Docker and
//! without a registry.
//!
//! Hustings runs in pods. What a kubelet does to them, from a probe that fails to a node that goes silent, is therefore
//! tested with a real one. [`Node::start`] takes some seconds once the programs are built.
//!
//! The rule that must hold: nothing of a node outlives the test run, and nothing of the machine is changed.

mod configuration;
mod containers;
mod images;
mod node;
mod policies;
mod reports;

pub use images::{Images, WORKER};
pub use node::{Components, Missing, Node};
pub use reports::{Interval, Reports, since_start};
