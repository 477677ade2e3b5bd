//! Components as their authors write and run them: the examples that everybody will copy, replicas whose API server goes
//! away or whose container restarts, and groups of which some still run on client-go.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod components {
    mod away;
    mod example;
    mod fallback;
    mod frozen;
    mod functions;
    mod mixed;
    mod preference;
    mod restart;
    mod time_range;
    mod user_agents;
    mod write_gate;
}
#[path = "support/history.rs"]
mod history;
#[path = "support/replica.rs"]
mod replica;
