//! Time ranges: no two processes ever own the same instant of the wall clock, whatever the clocks show. Every answer
//! counts forever.
//!
//! This depends on `renewTime`, which orders the ranges of a Lease. If a writer other than an elector, a controller or
//! the third party has written it, or the Lease was deleted, earlier and later ranges may overlap. From the next term
//! on, the checker no longer compares the earlier ranges, however they grow.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// A process, and the first instant of one of its ranges.
type Place = (u64, Timestamp);

/// The first and the last instant that a process has owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The number of the process, among all processes ever started.
    pub process: u64,
    /// Its name.
    pub name: String,
    /// The first instant of its range.
    pub first: Timestamp,
    /// The last instant that it owns now.
    pub last: Timestamp,
}

/// The ranges of one Lease.
#[derive(Default)]
pub struct Ranges {
    owned: BTreeMap<Place, Owned>,
    /// Ranges that are no longer compared.
    void: BTreeSet<Place>,
    /// Nothing orders the ranges until the next term begins.
    is_void: bool,
    /// How many times a range has grown.
    pub grown: u64,
}

impl Ranges {
    /// Records what a process owns now. Returns the violation, if there is one.
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
            format!("S1: {} and {} both own {at}", owned.name, other.name)
        });
        self.owned.insert(place, owned);
        violation
    }

    /// Records that nothing orders the ranges from now on.
    pub fn make_void(&mut self) {
        self.is_void = true;
        self.void.extend(std::mem::take(&mut self.owned).into_keys());
    }

    /// Records that a term begins. `known` are the first instants of the ranges that exist by then.
    pub fn begin(&mut self, known: impl Iterator<Item = Place>) {
        if std::mem::take(&mut self.is_void) {
            self.void.extend(known);
        }
    }
}
