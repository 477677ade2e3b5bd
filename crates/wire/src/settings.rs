//! Validation of an elector's settings. It reports all problems at once, each with its remedy.

use std::fmt;

use hustings_core::elector::{CandidateConfig, Durations, InvalidTiming, Timing};
use hustings_core::model::{CandidateRecord, Inadmissible, Pod, Strategy};

use crate::api::names::{LONGEST_NAME, is_dns_label, is_dns_subdomain, is_static_pod_uid};

/// The settings of an elector that need a validation.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The namespace of the Lease.
    pub namespace: &'a str,
    /// The name of the Lease.
    pub lease: &'a str,
    /// The identity, if it is known.
    pub identity: Option<&'a str>,
    /// The candidate; `None` in direct mode.
    pub candidate: Option<&'a CandidateSettings>,
    /// The durations.
    pub durations: Durations,
}

/// What a candidate declares, and whether it needs a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateSettings {
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    pub emulation_version: Option<String>,
    /// `spec.strategy`.
    pub strategy: Option<String>,
    /// `spec.priority`.
    pub priority: Option<i32>,
    /// Whether the candidates elect among themselves when no controller does.
    pub fallback: bool,
}

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
    /// The identity is longer than the name of an object may be. With several elections in a process it includes the
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

impl Settings<'_> {
    /// Returns the durations.
    ///
    /// # Errors
    /// Returns all problems at once, also those that were found `before`.
    pub fn validate(&self, before: Vec<SettingProblem>) -> Result<Timing, InvalidElector> {
        let mut problems = Vec::new();
        if !is_dns_label(self.namespace) {
            problems.push(SettingProblem::Namespace(self.namespace.to_owned()));
        }
        if !is_dns_subdomain(self.lease) {
            problems.push(SettingProblem::LeaseName(self.lease.to_owned()));
        }
        match self.identity {
            None | Some("") => problems.push(SettingProblem::IdentityMissing),
            Some(identity) if identity.len() > LONGEST_NAME => {
                problems.push(SettingProblem::IdentityTooLong(identity.to_owned()));
            }
            Some(identity) if self.candidate.is_some() && !is_dns_subdomain(identity) => {
                problems.push(SettingProblem::Identity(identity.to_owned()));
            }
            Some(_) => {}
        }
        problems.extend(before);
        problems.extend(self.candidate.and_then(candidate_problem));
        let timing = Timing::new(self.durations);
        problems.extend(timing.as_ref().err().into_iter().flatten().copied().map(SettingProblem::Timing));
        match timing {
            Ok(timing) if problems.is_empty() => Ok(timing),
            _ => Err(InvalidElector { lease: format!("{}/{}", self.namespace, self.lease), problems }),
        }
    }
}

impl CandidateSettings {
    /// A candidate with this version, and the default for everything else.
    pub const fn new(binary_version: String) -> Self {
        Self { binary_version, emulation_version: None, strategy: None, priority: None, fallback: true }
    }

    /// The configuration of valid settings.
    pub fn config(self, pod: Option<Pod>) -> CandidateConfig {
        CandidateConfig {
            emulation_version: self.emulation_version(),
            binary_version: self.binary_version,
            // Valid settings have a strategy that parses.
            strategy: self.strategy.and_then(|strategy| Strategy::read(Some(&strategy)).ok()),
            priority: self.priority,
            // The garbage collector deletes a candidate whose owner the API server does not know.
            pod: pod.filter(|pod| !is_static_pod_uid(&pod.uid) && !pod.uid.is_empty() && !pod.name.is_empty()),
            fallback: self.fallback,
        }
    }

    /// The emulation version. Under a strategy of Hustings it defaults to the binary version.
    fn emulation_version(&self) -> Option<String> {
        let strategy = Strategy::read(self.strategy.as_deref());
        let is_required = strategy.is_ok_and(|strategy| strategy.needs_emulation_version());
        let own = self.emulation_version.clone().filter(|version| !version.is_empty());
        own.or_else(|| is_required.then(|| self.binary_version.clone()))
    }
}

/// Why the API server or every controller would reject the candidate; `None` if the candidate is valid.
fn candidate_problem(candidate: &CandidateSettings) -> Option<SettingProblem> {
    if let Some(Err(why)) = candidate.strategy.as_deref().map(Strategy::check) {
        return Some(SettingProblem::Candidate(format!("strategy {why}")));
    }
    // Elections ignore what surrounds a version, but the CRD does not allow it.
    let mut versions = std::iter::once(&candidate.binary_version).chain(&candidate.emulation_version);
    if let Some(version) = versions.find(|version| version.trim() != **version) {
        let message = format!("version {version:?} begins or ends with a space or a line end");
        return Some(SettingProblem::Candidate(message));
    }
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
        Inadmissible::Priority(priority) => format!("priority {priority} is negative: use 0 or more"),
        // The strategy is checked above, the emulation version defaults to the binary version, and only an election knows
        // the other candidates.
        Inadmissible::Strategy(_)
        | Inadmissible::EmulationVersionMissing(_)
        | Inadmissible::Namesake
        | Inadmissible::RenewTimeMissing => return None,
    };
    Some(SettingProblem::Candidate(message))
}
