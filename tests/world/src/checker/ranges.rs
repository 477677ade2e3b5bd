//! Time ranges: no instant of the wall clock is ever called its own by two processes, counting every answer that was
//! given, whatever their clocks show.
//!
//! That rests on `renewTime`, which orders the ranges of a Lease. Where somebody else than an elector, a controller or the
//! third party has written it, or the Lease was deleted, ranges of before and after may overlap: what was noted until
//! then, and whatever still grows of it, is compared with nothing from the next term on.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// A process, and the first instant of a range of it.
type Place = (u64, Timestamp);

/// From the first to the last instant that a process has called its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Which process that is, of all that ever were.
    pub process: u64,
    /// Its name.
    pub name: String,
    /// The first instant of its range.
    pub first: Timestamp,
    /// The last instant that it calls its own now.
    pub last: Timestamp,
}

/// The ranges of one Lease.
#[derive(Default)]
pub struct Ranges {
    owned: BTreeMap<Place, Owned>,
    /// Those that are compared with nothing.
    void: BTreeSet<Place>,
    /// Nothing orders the ranges until the next term begins.
    is_void: bool,
    /// How often a range was found to have grown.
    pub grown: u64,
}

impl Ranges {
    /// What a process would answer now. Says what is wrong with that.
    pub fn note(&mut self, owned: Owned) -> Option<String> {
        let place = (owned.process, owned.first);
        if self.is_void {
            self.void.insert(place);
        }
        if self.void.contains(&place) || self.owned.get(&place).is_some_and(|noted| noted.last >= owned.last) {
            return None;
        }
        self.grown += 1;
        let overlaps =
            |other: &&Owned| other.process != owned.process && other.first <= owned.last && owned.first <= other.last;
        let violation = self.owned.values().find(overlaps).map(|other| {
            let at = owned.first.max(other.first);
            format!("S1: {} and {} both call {at} their own", owned.name, other.name)
        });
        self.owned.insert(place, owned);
        violation
    }

    /// From now on nothing orders the ranges.
    pub fn make_void(&mut self) {
        self.is_void = true;
        self.void.extend(std::mem::take(&mut self.owned).into_keys());
    }

    /// A term begins, beside ranges that begin at `known`.
    pub fn begin(&mut self, known: impl Iterator<Item = Place>) {
        if std::mem::take(&mut self.is_void) {
            self.void.extend(known);
        }
    }
}
