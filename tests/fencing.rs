//! `examples/manifests/fencing.yaml` on a real API server: what is written under a term that is over is refused, also if
//! it comes from a process that was frozen and knows nothing of it.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod fencing {
    mod policy;
    mod stage;
    mod thawed;
    mod writer;
}
#[path = "support/replica.rs"]
mod replica;
