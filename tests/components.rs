//! Components as their authors write and run them: the examples that everybody will copy, and replicas whose API server
//! goes away.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod components {
    mod example;
    mod outage;
    mod write_gate;
}
#[path = "support/replica.rs"]
mod replica;
