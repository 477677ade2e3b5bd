//! `hustings campaign`, `hustings status` and `hustings crds` as a person and a script meet them.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod command_line {
    mod campaign;
    mod proxy;
    mod status;
    mod usage;
}
#[path = "support/replica.rs"]
mod replica;

use std::process::Output;

/// What a program said, in full, for a failed assertion.
fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
