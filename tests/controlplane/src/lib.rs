//! A real etcd and kube-apiserver for tests, the demo and the benchmarks.
//!
//! What Hustings promises rests on what an API server does with resourceVersions, validation, RBAC and watches, so
//! tests run against the real one. [`ControlPlane::builder`] starts a pair of them in about two seconds; [`shared`]
//! gives all tests of one binary the same pair, each test in a namespace of its own.
//!
//! The rule that must hold: whatever happens to the test run, none of its processes and no data of theirs is left.
//!
//! There is no kube-controller-manager, unless a test starts one ([`ControlPlane::elected_component`]). So a namespace
//! has no `default` ServiceAccount, and a Deployment gets no pods. Nothing is garbage-collected, and a deleted
//! namespace stays.

mod access;
mod audit;
mod builder;
mod certificates;
mod counters;
mod elected;
mod forwarder;
mod kinds;
mod namespaces;
mod patience;
mod plane;
mod preparation;
mod process;
mod releases;
mod replication;
mod run;
mod tools;
mod users;

pub use audit::AuditEvent;
pub use builder::{Builder, NativeElection};
pub use counters::RequestCount;
pub use elected::ElectedComponent;
pub use forwarder::{Forwarder, Stale};
pub use kinds::serve;
pub use namespaces::{NODE_ADDRESS, Namespaces};
pub use patience::{PATIENCE, eventually, within};
pub use plane::{Component, ControlPlane, Shared, shared};
pub use process::{Process, by_env};
pub use run::Run;
pub use tools::{Tool, Tools};
pub use users::{NODE, User};
