//! `hustings run` with real commands: whatever happens, no two of them run at once.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod run {
    mod admin;
    mod ends;
    mod environment;
    mod losses;
    mod manifest;
    mod outside;
    mod places;
    mod stops;
    mod unreadable;
    mod usage;
}
#[path = "support/http.rs"]
mod http;
#[path = "support/kubelet.rs"]
mod kubelet;
#[path = "support/replica.rs"]
mod replica;
#[path = "run/support.rs"]
mod support;
