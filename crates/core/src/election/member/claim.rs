//! A candidate's claims about itself, parsed.

use crate::model::{CandidateRecord, Inadmissible, Standing, Strategy};
use crate::ranking::Rank;

/// The claims of a candidate, and the rank that follows from them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) struct Claim {
    pub(in crate::election) rank: Rank,
    pub(in crate::election) standing: Standing,
}

impl Claim {
    /// Whether it asks for a strategy other than the default one.
    pub(in crate::election) fn dissents(&self) -> bool {
        self.standing.strategy != Strategy::OldestEmulationVersion
    }

    /// The claims of this version.
    pub(super) fn read(record: &CandidateRecord) -> Result<Self, Inadmissible> {
        record.standing().map(|standing| Self { rank: Rank::new(&standing, record), standing })
    }
}
