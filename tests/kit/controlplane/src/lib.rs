//! A real etcd and kube-apiserver for tests, the demo and the benchmarks.
//!
//! Hustings depends on the API server's resourceVersions, validation, RBAC and watches, so its tests use a real server.
//! [`ControlPlane::builder`] starts one etcd and one API server in about two seconds. With [`shared`], all tests of one
//! binary share them, each test in a namespace of its own.
//!
//! The rule that must hold: whatever happens to the test run, it leaves no process and no data behind.
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
mod go;
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
pub use builder::{Builder, NativeElection, free_port};
pub use certificates::ClientCertificate;
pub use counters::RequestCount;
pub use elected::ElectedComponent;
pub use forwarder::{Forwarder, Stale};
pub use kinds::serve;
pub use namespaces::{NODE_ADDRESS, Namespaces, run_in_network};
pub use patience::{PATIENCE, eventually, within};
pub use plane::{Component, ControlPlane, Shared, shared};
pub use process::{Process, by_env};
pub use run::Run;
pub use tools::{Tool, Tools};
pub use users::{NODE, User};
