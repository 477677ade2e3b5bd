//! What can be wrong with an elector. All of it is found at once, each thing with the way out.

use std::fmt;

use hustings_core::elector::InvalidTiming;
use hustings_core::model::{CandidateRecord, Inadmissible, Strategy};

use super::ElectorBuilder;
use crate::api::names::{LONGEST_NAME, is_dns_label, is_dns_subdomain};

/// Everything that is wrong with an elector. No retry helps: a person is to change what it is built from.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidElector {
    /// `namespace/name` of the Lease.
    pub lease: String,
    /// What is wrong, at least one thing.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with an elector, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The namespace cannot be one.
    #[error("namespace {0:?} is no DNS label: give the namespace of the Lease")]
    Namespace(String),
    /// The name of the Lease cannot be one.
    #[error("Lease name {0:?} is no DNS subdomain: use lower-case letters, digits, '-' and '.'")]
    LeaseName(String),
    /// No identity was given and none can be found out.
    #[error("there is no identity: give one, or set POD_NAME by the downward API")]
    IdentityMissing,
    /// The identity cannot name a candidate.
    #[error("identity {0:?} is no DNS subdomain, and cannot name a LeaseCandidate: use the name of the pod")]
    Identity(String),
    /// The identity, with the name of the Lease appended where there are many, is too long to name a candidate, or to be
    /// read again from a Lease.
    #[error("identity {0:?} is longer than 253 characters: shorten it or the Lease's name")]
    IdentityTooLong(String),
    /// Candidates stand by version.
    #[error("there is no binary version: give one, or choose direct mode to stand without a controller")]
    BinaryVersionMissing,
    /// The candidate could never be elected.
    #[error("the candidate cannot stand: {0}")]
    Candidate(String),
    /// In direct mode there is no candidate.
    #[error("direct mode has no candidate: leave out versions, strategy and priority")]
    DirectHasNoCandidate,
    /// Among candidates a controller decides, by their versions and priorities.
    #[error("a key is for direct mode: give a priority, or choose direct mode to stand without a controller")]
    KeyNeedsDirect,
    /// The times do not go together.
    #[error("{0}")]
    Timing(InvalidTiming),
}

impl ElectorBuilder {
    pub(super) fn problems(&self, identity: Option<&str>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !is_dns_label(&self.namespace) {
            problems.push(Problem::Namespace(self.namespace.clone()));
        }
        if !is_dns_subdomain(&self.lease) {
            problems.push(Problem::LeaseName(self.lease.clone()));
        }
        match identity {
            None | Some("") => problems.push(Problem::IdentityMissing),
            Some(identity) if identity.len() > LONGEST_NAME => {
                problems.push(Problem::IdentityTooLong(identity.to_owned()));
            }
            Some(identity) if !self.direct && !is_dns_subdomain(identity) => {
                problems.push(Problem::Identity(identity.to_owned()));
            }
            Some(_) => {}
        }
        match &self.binary_version {
            None if !self.direct => problems.push(Problem::BinaryVersionMissing),
            Some(binary_version) if !self.direct => problems.extend(self.candidate_problem(binary_version)),
            _ => {}
        }
        let stands = self.binary_version.is_some()
            || self.emulation_version.is_some()
            || self.strategy.is_some()
            || self.priority.is_some();
        if self.direct && stands {
            problems.push(Problem::DirectHasNoCandidate);
        }
        if self.key.is_some() && !self.direct {
            problems.push(Problem::KeyNeedsDirect);
        }
        problems.extend(self.timing.validate().err().into_iter().flatten().map(Problem::Timing));
        problems
    }

    /// The reason for which any controller would refuse the candidate.
    fn candidate_problem(&self, binary_version: &str) -> Option<Problem> {
        let strategy = self.strategy.as_deref();
        let record = CandidateRecord {
            binary_version: binary_version.to_owned(),
            emulation_version: emulation_version(binary_version, self.emulation_version.clone(), strategy),
            strategy: self.strategy.clone(),
            priority: self.priority.unwrap_or(0),
            ..CandidateRecord::default()
        };
        let message = match record.standing().err()? {
            Inadmissible::BinaryVersion(text) => {
                format!("binary version {text:?} is no semantic version, such as 1.4.0")
            }
            Inadmissible::EmulationVersion(text) => {
                format!("emulation version {text:?} is no semantic version, such as 1.4.0")
            }
            Inadmissible::EmulationVersionMissing => "its strategy needs an emulation version: give one".to_owned(),
            Inadmissible::EmulationAboveBinary { emulation, binary } => {
                format!("emulation version {emulation} is above binary version {binary}: give one that is not")
            }
            Inadmissible::Strategy(text) => {
                format!("strategy {text:?} is neither OldestEmulationVersion nor a qualified name, domain/Name")
            }
            Inadmissible::Priority(priority) => format!("priority {priority} is below 0: give 0 or more"),
        };
        Some(Problem::Candidate(message))
    }
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

/// A program that says nothing of emulation behaves as what it is.
pub(super) fn emulation_version(binary_version: &str, given: Option<String>, strategy: Option<&str>) -> Option<String> {
    let required = matches!(Strategy::read(strategy), Ok(Strategy::OldestEmulationVersion));
    given.or_else(|| required.then(|| binary_version.to_owned()))
}
