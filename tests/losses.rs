//! What becomes of terms when real processes are killed and frozen, and the API server and etcd go away. The large runs
//! are `examples/losses`, of the same scenes.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod losses {
    mod adding;
    mod clocks;
    mod freezes;
    mod lockset;
    mod many;
    mod outages;
    mod short;
    mod stage;
    mod wire;
    mod worker;
}
#[allow(dead_code, reason = "the tests of fencing need the rest")]
#[path = "fencing/stage.rs"]
mod fenced;
#[path = "support/replica.rs"]
mod replica;
