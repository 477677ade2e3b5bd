//! What becomes of terms when real processes are killed and frozen, and the API server and etcd go away. The large runs
//! are `examples/losses`, of the same scenes.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod losses {
    mod freezes;
    mod outages;
    mod short;
    mod stage;
}
#[path = "support/replica.rs"]
mod replica;
