//! Detects whether another replica held the Lease between two of its observed versions.
//!
//! The rule that must hold: no term of another replica goes unnoticed, not even if this process observed no version of
//! it. So the comparison relies on `leaseTransitions`, not on the observed names. Each term begins with a grant,
//! hand-over or claim, and each of these adds 1 to that count, whichever holder came before.
//!
//! These ambiguous cases count as a change, too:
//!
//! - The Lease was deleted.
//! - The count was edited, or cannot grow any more.
//! - Another replica was granted the Lease, and did not take it up.
//! - Another process has the same name.

use hustings_core::model::{LeaseRecord, SessionMark};

/// The term that a version of a Lease shows, unless it shows only a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedTerm {
    /// The holder.
    pub holder: String,
    lease_uid: String,
    /// `None` for a holder that is not an elector of Hustings.
    session: Option<String>,
    token: Option<u64>,
    transitions: u32,
}

impl ObservedTerm {
    /// `None` if the record names no holder, or only grants the Lease.
    pub fn of(record: &LeaseRecord) -> Option<Self> {
        let session = match &record.session {
            SessionMark::Open => return None,
            SessionMark::Term(stamp) => Some(stamp.session.clone()),
            SessionMark::Absent | SessionMark::Unreadable(_) => None,
        };
        Some(Self {
            holder: record.holder.clone()?,
            lease_uid: record.uid.clone(),
            session,
            token: record.token,
            transitions: record.transitions,
        })
    }

    /// The term of a process without an election.
    pub fn unelected(identity: &str) -> Self {
        Self { holder: identity.to_owned(), ..Self::default() }
    }

    /// Whether this is the term of `former`, or the next term of its holder with no other holder in between.
    pub fn continues(&self, former: &Self) -> bool {
        let is_next = former.transitions.checked_add(1) == Some(self.transitions);
        let of_same_holder =
            (&self.holder, &self.lease_uid, &self.session) == (&former.holder, &former.lease_uid, &former.session);
        of_same_holder && (is_next || (self.token, self.transitions) == (former.token, former.transitions))
    }
}

/// The newest term that the Lease showed, and the number of changes of the holder up to it.
#[derive(Clone, Debug)]
pub struct LatestTerm {
    /// How many changes there were.
    pub change: u64,
    /// The term.
    pub term: ObservedTerm,
}

impl LatestTerm {
    /// Records the term that the Lease shows. Returns whether that is a change of the holder.
    pub fn update(latest: &mut Option<Self>, term: ObservedTerm) -> bool {
        let is_change = latest.as_ref().is_none_or(|latest| !term.continues(&latest.term));
        let before = latest.as_ref().map_or(0, |latest| latest.change);
        *latest = Some(Self { change: before + u64::from(is_change), term });
        is_change
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::SessionStamp;

    use super::*;

    fn record(holder: &str, session: &str, token: u64, transitions: u32) -> LeaseRecord {
        let stamp = SessionStamp { session: session.to_owned(), term: 1, seconds: 15 };
        LeaseRecord {
            uid: "u".to_owned(),
            holder: Some(holder.to_owned()),
            session: SessionMark::Term(stamp),
            token: Some(token),
            transitions,
            ..LeaseRecord::default()
        }
    }

    fn continues(later: &LeaseRecord, former: &LeaseRecord) -> bool {
        ObservedTerm::of(later).unwrap().continues(&ObservedTerm::of(former).unwrap())
    }

    #[test]
    fn a_term_continues_unless_another_replica_held_or_may_have_held_the_lease_in_between() {
        let former = record("a", "s", 10, 5);
        assert!(continues(&LeaseRecord { resource_version: 99, ..former.clone() }, &former), "it was renewed");
        assert!(continues(&record("a", "s", 20, 6), &former), "it was lost, and claimed again");
        assert!(!continues(&record("b", "t", 20, 6), &former));
        assert!(!continues(&record("a", "s", 30, 7), &former), "two terms began, and one of them was another's");
        assert!(!continues(&record("a", "t", 20, 6), &former), "another process of this name");
        assert!(!continues(&record("a", "s", 20, 5), &former), "the count was edited");
        assert!(!continues(&record("a", "s", 30, 1), &former), "the count was edited");
        assert!(!continues(&LeaseRecord { uid: "v".to_owned(), ..record("a", "s", 20, 6) }, &former));
        let last = record("a", "s", 10, u32::MAX);
        assert!(continues(&last, &last) && !continues(&record("a", "s", 20, u32::MAX), &last));
    }

    #[test]
    fn holders_that_are_not_electors_of_hustings_are_distinguished_by_the_count() {
        let foreign = |transitions| LeaseRecord {
            session: SessionMark::Absent,
            // Left there by an elector of Hustings, long ago.
            token: Some(3),
            ..record("c", "", 3, transitions)
        };
        assert!(continues(&foreign(5), &foreign(5)));
        assert!(continues(&foreign(6), &foreign(5)), "released and taken again");
        assert!(!continues(&foreign(7), &foreign(5)));
    }

    #[test]
    fn a_grant_and_an_empty_lease_show_no_term() {
        let grant = LeaseRecord { session: SessionMark::Open, ..record("a", "s", 1, 1) };
        assert_eq!(ObservedTerm::of(&grant), None);
        assert_eq!(ObservedTerm::of(&LeaseRecord { holder: None, ..record("a", "s", 1, 1) }), None);
    }

    #[test]
    fn a_holder_that_claims_its_lease_again_and_again_does_not_change() {
        let mut latest = None;
        for (holder, transitions, is_change) in [("a", 1, true), ("a", 2, false), ("a", 3, false), ("b", 4, true)] {
            let record = LeaseRecord {
                holder: Some(holder.to_owned()),
                session: SessionMark::read(Some(&format!("{holder}/{transitions}/15"))),
                token: Some(u64::from(transitions)),
                transitions,
                ..LeaseRecord::default()
            };
            assert_eq!(LatestTerm::update(&mut latest, ObservedTerm::of(&record).unwrap()), is_change, "{transitions}");
        }
    }
}
