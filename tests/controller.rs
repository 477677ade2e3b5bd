//! The controller, as the binary that is shipped, against a real API server.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod controller {
    mod command_line;
    mod elections;
    mod forged;
    mod hanging;
    mod load;
    mod operations;
    mod peer;
    mod replicas;
    mod reverted;
    mod revoked;
    mod strange;
    mod support;
}
