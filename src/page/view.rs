//! What the page shows of the controller and of a Lease, in the form in which the browser gets it.
//!
//! No value changes only because time passes. So a Lease at rest causes no event, whatever the number of its renewals.

use hustings_client::api::MicroTime;
use serde::Serialize;

/// The controller that serves the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerView {
    /// Its name among the controllers.
    pub identity: String,
    /// Whether it elects. A standby shows the same Leases, with the reasons that the leading controller has recorded.
    pub leads: bool,
    /// The controller that elects, if that is known.
    pub leader: Option<String>,
    /// The version of the binary.
    pub version: &'static str,
    /// What the checks of `/readyz` report.
    pub problems: Vec<Problem>,
}

/// A Lease with its candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its state, in the words of the metrics.
    pub state: &'static str,
    /// The severity of its worst problem.
    pub severity: Severity,
    /// `spec.holderIdentity`.
    pub holder: Option<String>,
    /// Since when: `spec.acquireTime`, by the clock of its writer.
    pub since: Option<MicroTime>,
    /// Why the holder leads, or why nobody does.
    pub why: String,
    /// The number of the term.
    pub term: u32,
    /// The token of the term. It may be greater than a number of JavaScript can be.
    pub token: Option<String>,
    /// The strategy that orders its candidates.
    pub strategy: Option<String>,
    /// The candidate that would lead without the holder.
    pub next: Option<NextView>,
    /// What administrators have asked for.
    pub acts: Vec<ActView>,
    /// What is wrong, the worst first.
    pub problems: Vec<Problem>,
    /// Its candidates, best first.
    pub candidates: Vec<CandidateView>,
    /// Its terms and the gaps between them, the newest first.
    pub timeline: Vec<Span>,
}

/// The candidate that would lead without the holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextView {
    /// Its name.
    pub name: String,
    /// Whether the holder has been asked to hand over to it.
    pub preferred: bool,
    /// Whether it has proved that it is live.
    pub live: bool,
}

/// An act of an administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActView {
    /// `pause`, `pin`, `transfer` or `exclude`.
    pub act: &'static str,
    /// What it asks for.
    pub text: String,
    /// When it ends; `None` if it has no end of its own.
    pub until: Option<MicroTime>,
    /// Who asked for it, by the word of its writer.
    pub asked_by: Option<String>,
}

/// Something that is wrong, or that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
    /// Since when.
    pub since: Option<MicroTime>,
    /// Until when it lasts at most, if that is known.
    pub until: Option<MicroTime>,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is wrong.
    #[default]
    Ok,
    /// Worth knowing.
    Info,
    /// It may become a problem, or passes by itself.
    Warning,
    /// There is no leader, and there will be none without help.
    Critical,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateView {
    /// Its place in the order, from 1; `None` if it is not admissible.
    pub rank: Option<usize>,
    /// Its name.
    pub name: String,
    /// Whether it is a candidate of Kubernetes' own API.
    pub native: bool,
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    pub emulation_version: Option<String>,
    /// `spec.priority`.
    pub priority: i32,
    /// Its state, as `status.state` spells it.
    pub state: &'static str,
    /// Why it does or does not lead.
    pub reason: String,
}

/// A term, or a time without a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its beginning.
    pub from: MicroTime,
    /// Its end; `None` if it lasts.
    pub until: Option<MicroTime>,
    /// What it is.
    #[serde(flatten)]
    pub kind: SpanKind,
}

/// A term, or a time without a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SpanKind {
    /// A holder's term.
    Term {
        /// The holder.
        holder: String,
        /// The number of the term.
        number: u32,
        /// Its token.
        token: Option<String>,
    },
    /// A time without a holder.
    Gap {
        /// What began it.
        cause: String,
    },
}

impl Problem {
    /// A problem without times.
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into(), since: None, until: None }
    }

    /// The severity of the worst of these.
    pub fn worst(problems: &[Self]) -> Severity {
        problems.iter().map(|problem| problem.severity).max().unwrap_or_default()
    }
}
