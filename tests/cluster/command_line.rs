//! `hustings campaign`, `check`, `status`, `explain`, `rollout`, `history`, `survey` and `crds`, as people and scripts use them.

mod campaign;
mod check;
mod explain;
mod history;
mod native;
mod rollout;
mod status;
mod status_many;
mod survey;
mod usage;

use std::process::Output;

/// The whole output of a program, for a failed assertion.
fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
