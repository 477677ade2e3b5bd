//! Objects that the API server accepts and nobody should write, beside elections that do not care.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod hostile {
    mod corpus;
    mod elections;
    mod fleet;
    mod load;
    mod probe;
    mod rights;
    mod rivals;
    mod sidecar;
    #[path = "../controller/support.rs"]
    #[allow(dead_code, reason = "that of the controller's tests, of which some is needed here")]
    mod support;
}
#[path = "support/replica.rs"]
mod replica;
