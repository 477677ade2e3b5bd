//! Validation of an elector's settings. It reports all problems at once, each with its remedy.

use std::fmt;

use hustings_core::elector::InvalidTiming;
use hustings_core::model::{CandidateRecord, Inadmissible};

use super::CandidateSettings;

/// All problems of an elector's settings. A retry does not help: a person must change the settings.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidElector {
    /// `namespace/name` of the Lease.
    pub lease: String,
    /// The problems, at least one.
    pub problems: Vec<SettingProblem>,
}

/// One problem of an elector's settings, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingProblem {
    /// The namespace is not a valid name.
    #[error("namespace {0:?} is not a valid DNS label: use the name of the Lease's namespace")]
    Namespace(String),
    /// The name of the Lease is not valid.
    #[error("Lease name {0:?} is not a valid DNS subdomain: use lower-case letters, digits, '-' and '.'")]
    LeaseName(String),
    /// The caller gave no identity, and the environment has none.
    #[error("no identity is set: set one, or set the environment variable POD_NAME by the downward API")]
    IdentityMissing,
    /// The identity is not a valid name for a candidate.
    #[error("identity {0:?} is not a valid DNS subdomain and cannot name a LeaseCandidate: use the name of the pod")]
    Identity(String),
    /// The identity is longer than the name of an object may be. With [`Elections`](crate::Elections) it includes the
    /// name of the Lease.
    #[error("identity {0:?} is longer than 253 characters: shorten it, or the name of the Lease")]
    IdentityTooLong(String),
    /// This setting describes a candidate, and an elector in direct mode has none.
    #[error("a direct elector has no candidate with a {0}: use Elector::coordinated, or remove the {0}")]
    CandidateMissing(&'static str),
    /// A key is set, and a controller ignores keys.
    #[error("a coordinated elector has no key: use Elector::direct, or a priority instead of the key")]
    KeyOfCandidate,
    /// The controller could never elect the candidate.
    #[error("invalid candidate: {0}")]
    Candidate(String),
    /// The durations violate a rule.
    #[error("{0}")]
    Timing(InvalidTiming),
}

impl fmt::Display for InvalidElector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot stand for Lease {}: ", self.lease)?;
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidElector {}

/// Why every controller would reject the candidate; `None` if the candidate is valid.
pub(super) fn candidate_problem(candidate: &CandidateSettings) -> Option<SettingProblem> {
    let record = CandidateRecord {
        binary_version: candidate.binary_version.clone(),
        emulation_version: candidate.emulation_version(),
        strategy: candidate.strategy.clone(),
        priority: candidate.priority.unwrap_or(0),
        ..CandidateRecord::default()
    };
    let message = match record.standing().err()? {
        Inadmissible::BinaryVersion(invalid) => format!("binary version {invalid}"),
        Inadmissible::EmulationVersion(invalid) => format!("emulation version {invalid}"),
        Inadmissible::EmulationAboveBinary { emulation, binary } => {
            let note = binary.note_on_pre_release(&emulation);
            let remedy = note.unwrap_or_else(|| "lower it, or raise the latter".to_owned());
            format!("emulation version {emulation} is above binary version {binary}: {remedy}")
        }
        Inadmissible::Strategy(text) => {
            format!("strategy {text:?} is unknown: use OldestEmulationVersion or a qualified name (domain/Name)")
        }
        Inadmissible::Priority(priority) => format!("priority {priority} is negative: use 0 or more"),
        // The emulation version defaults to the binary version, and only an election knows the other candidates.
        Inadmissible::EmulationVersionMissing(_) | Inadmissible::Namesake | Inadmissible::RenewTimeMissing => {
            return None;
        }
    };
    Some(SettingProblem::Candidate(message))
}
