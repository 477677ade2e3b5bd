//! The explanation of one Lease, as a value. `explain` makes it from the observations; `render` prints it.

use hustings_core::model::CandidateKind;
use serde::Serialize;

use crate::operate::status::{LeaseState, api_group};

/// The explanation of one Lease. Every text is a plain sentence, or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The namespace.
    pub namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// The state, as `hustings status` shows it.
    pub state: LeaseState,
    /// The holder that the Lease names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Which candidate leads, since when, and why.
    pub leader: Vec<String>,
    /// The candidates, best first.
    pub candidates: Vec<CandidateNote>,
    /// What would happen if the holder died now; without a holder, what happens next.
    pub prospect: Prospect,
    /// The timers that are running.
    pub waits: Vec<ExplainedWait>,
    /// The acts of administrators that are in force.
    pub acts: Vec<String>,
    /// The controllers.
    pub controllers: Vec<String>,
}

/// A candidate, and why it does or does not lead.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateNote {
    /// Its place in the order, from 1; `None` if it is not admissible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Its name.
    pub name: String,
    /// The API of its LeaseCandidate.
    #[serde(rename = "apiGroup", serialize_with = "api_group")]
    pub kind: CandidateKind,
    /// Its versions and its priority.
    pub claims: String,
    /// Its state; `None` if no controller has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// Why it does or does not lead.
    pub reason: String,
}

/// A prediction, made by the controller's own decision in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prospect {
    /// The holder whose death is assumed; `None` if the Lease has no holder to die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead: Option<String>,
    /// The candidate that would get the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// The longest time until then, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<f64>,
    /// The course of events.
    pub sentences: Vec<String>,
}

/// Something that a process waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedWait {
    /// The owner of the timer: `controller`, `holder` or `candidates`.
    pub of: &'static str,
    /// The name of the timer, as in the logs and in the source code.
    pub timer: &'static str,
    /// The longest time until it ends, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<f64>,
    /// The wall-clock time at which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What happens then.
    pub meaning: String,
}
