//! What a candidate declares about itself, parsed.

use crate::model::{CandidateRecord, Inadmissible, Standing, Strategy};
use crate::ranking::Rank;

/// What a candidate declares, and the rank that follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) struct Declared {
    pub(in crate::election) rank: Rank,
    pub(in crate::election) standing: Standing,
}

impl Declared {
    /// Whether it asks for a strategy other than the default one.
    pub(in crate::election) fn dissents(&self) -> bool {
        self.standing.strategy != Strategy::default()
    }

    /// What this version declares.
    pub(super) fn read(record: &CandidateRecord) -> Result<Self, Inadmissible> {
        record.standing().map(|standing| Self { rank: Rank::new(&standing, record), standing })
    }
}
