//! Components as their authors write and run them. These are the examples, replicas that lose their API server or
//! restart, and groups with replicas that still use client-go.

mod another_cluster;
mod away;
mod example;
mod fallback;
mod functions;
mod late_release;
mod mixed;
mod mixed_native;
mod namesake;
mod preference;
mod rotation;
mod time_range;
mod write_gate;
