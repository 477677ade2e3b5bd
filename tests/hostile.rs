//! Objects that the API server accepts and no client should write, beside elections that must be unaffected.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod hostile {
    mod corpus;
    mod elections;
    mod fleet;
    mod load;
    #[path = "../cluster/controller/peer.rs"]
    #[allow(dead_code, reason = "the controller's tests need the rest")]
    mod peer;
    mod probe;
    mod rights;
    mod rivals;
    mod scale;
    mod sidecar;
    #[path = "../cluster/controller/support.rs"]
    #[allow(dead_code, reason = "that of the controller's tests, of which some is needed here")]
    mod support;
}
#[path = "support/replica.rs"]
mod replica;
