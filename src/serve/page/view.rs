//! The views of the controller and of a Lease, in the form in which the browser gets them.
//!
//! No value changes only because time passes. So a Lease at rest causes no event, however often its holder renews.

use hustings_client::api::MicroTime;
use serde::Serialize;

/// The controller that serves the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerView {
    /// Its name among the controllers.
    pub identity: String,
    /// Whether it elects. A standby shows the same Leases, with the reasons that the leading controller recorded.
    pub leads: bool,
    /// The controller that elects, if it is known.
    pub leader: Option<String>,
    /// The version of the binary.
    pub version: &'static str,
    /// The reports of the checks of `/readyz`.
    pub problems: Vec<Problem>,
}

/// A Lease with its candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ElectionView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its state, with the names of the metrics.
    pub state: &'static str,
    /// The severity of its most severe problem.
    pub severity: Severity,
    /// The holder, also one with a grant only; `None` once its lease has expired.
    pub holder: Option<String>,
    /// When the holder acquired it: `spec.acquireTime`, by the clock of its writer.
    pub since: Option<MicroTime>,
    /// Why the holder leads, or why nobody does.
    pub why: String,
    /// The number of the term.
    pub term: u32,
    /// The token of the term, as a string: it may exceed the integers that JavaScript represents exactly.
    pub token: Option<String>,
    /// The strategy that orders its candidates.
    pub strategy: Option<String>,
    /// The candidate that would lead without the holder.
    pub next: Option<NextView>,
    /// The acts of administrators.
    pub acts: Vec<ActView>,
    /// Its problems, the most severe first.
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
    /// The content of the act.
    pub text: String,
    /// When it ends; `None` if no time is set.
    pub until: Option<MicroTime>,
    /// Who asked for it, as its writer claims.
    pub asked_by: Option<String>,
}

/// Something that is wrong, or that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Its severity.
    pub severity: Severity,
    /// The problem as a sentence.
    pub text: String,
    /// When it began, if that is known.
    pub since: Option<MicroTime>,
    /// The latest time at which it ends, if that is known.
    pub until: Option<MicroTime>,
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is wrong.
    #[default]
    Ok,
    /// Worth knowing.
    Info,
    /// It may become a problem, or it may resolve itself.
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
    /// Its end; `None` if it has not ended.
    pub until: Option<MicroTime>,
    /// A term or a gap.
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
        /// Why the Lease lost its holder.
        cause: String,
    },
}

impl Problem {
    /// A problem without times.
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into(), since: None, until: None }
    }

    /// The highest severity among these problems.
    pub fn worst(problems: &[Self]) -> Severity {
        problems.iter().map(|problem| problem.severity).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_problem_counts_wherever_it_is() {
        let problems = [Severity::Info, Severity::Critical, Severity::Warning].map(|one| Problem::new(one, "text"));
        assert_eq!((Problem::worst(&problems), Problem::worst(&[])), (Severity::Critical, Severity::Ok));
    }
}
