//! What users run, against a real etcd and kube-apiserver: the shipped binary, the chart, the examples, the manifests, and
//! a candidate in Python that knows docs/protocol.md only.
//!
//! One binary, so that the tests of all rooms wait side by side and share one control plane. `cargo test --test cluster
//! sidecar::` runs one room.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod access;
mod acts;
mod availability;
mod chart;
mod command_line;
mod components;
mod controller;
mod fencing;
mod go;
mod hostile;
mod installed;
mod kubectl;
mod losses;
mod manifests;
mod monitoring;
mod protocol;
mod quickstart;
#[cfg(target_os = "linux")]
mod run;
mod sidecar;
#[cfg(target_os = "linux")]
mod stalled;
mod times;
mod ui;

use fencing::stage as fenced;

#[path = "../kit/history.rs"]
mod history;
#[path = "../kit/http.rs"]
mod http;
#[path = "../kit/kubelet.rs"]
mod kubelet;
#[path = "../kit/page.rs"]
mod page;
#[path = "../kit/replica.rs"]
mod replica;
