//! The key of a candidate. Its kind is part of the key, because candidates of two APIs may have the same name.

use std::fmt;
use std::sync::Arc;

/// The API group of a LeaseCandidate. An election may have candidates of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CandidateKind {
    /// `hustings.io`.
    #[default]
    Hustings,
    /// `coordination.k8s.io`.
    Native,
}

/// The kind and the name of a candidate. Its namespace is that of the Lease.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateKey {
    /// `metadata.name`: the identity under which the candidate holds the Lease.
    pub name: Arc<str>,
    /// Its API.
    pub kind: CandidateKind,
}

impl CandidateKey {
    /// The LeaseCandidate of `hustings.io` with this name.
    pub fn hustings(name: &str) -> Self {
        Self { name: name.into(), kind: CandidateKind::Hustings }
    }

    /// The LeaseCandidate of `coordination.k8s.io` with this name.
    pub fn native(name: &str) -> Self {
        Self { name: name.into(), kind: CandidateKind::Native }
    }
}

/// The LeaseCandidate of `hustings.io` with this name.
impl From<&str> for CandidateKey {
    fn from(name: &str) -> Self {
        Self::hustings(name)
    }
}

impl From<&String> for CandidateKey {
    fn from(name: &String) -> Self {
        Self::hustings(name)
    }
}

impl From<&Self> for CandidateKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

/// The name, and the API group of a native candidate.
impl fmt::Display for CandidateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.kind {
            CandidateKind::Hustings => Ok(()),
            CandidateKind::Native => f.write_str(" (coordination.k8s.io)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_distinguishes_candidates_of_one_name_and_is_shown_only_if_native() {
        let (hustings, native) = (CandidateKey::hustings("a"), CandidateKey::native("a"));
        assert!(hustings < native && native < CandidateKey::hustings("b"));
        assert_eq!([hustings, native].map(|key| key.to_string()), ["a", "a (coordination.k8s.io)"]);
    }
}
