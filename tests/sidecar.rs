//! `hustings sidecar` as the program beside it, a load balancer and a Service meet it.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod sidecar {
    mod answers;
    mod beside;
    mod command_line;
    mod freezing;
    mod labels;
    mod manifest;
    mod range;
}
#[path = "support/history.rs"]
mod history;
#[path = "support/http.rs"]
mod http;
#[path = "support/kubelet.rs"]
mod kubelet;
#[path = "support/replica.rs"]
mod replica;
