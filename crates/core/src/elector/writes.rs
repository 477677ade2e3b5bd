//! The writes of a Lease by an elector, field by field.

use crate::model::{Hold, LeaseRecord, LeaseWrite, Purpose, SessionMark, SessionStamp, Set, WireTime};

/// The duration of a hand-over, in seconds.
const HAND_OVER_SECONDS: u32 = 5;

/// The duration of a Lease that was given up, in seconds.
const GIVEN_UP_SECONDS: u32 = 1;

/// The values that this elector puts into a write.
pub(super) struct Author<'a> {
    pub(super) identity: &'a str,
    pub(super) session: &'a str,
    /// TERM of the session stamp.
    pub(super) ordinal: u64,
    pub(super) seconds: u32,
    /// The holder's preference.
    pub(super) key: Option<i64>,
    /// The renew time of this attempt. No other attempt has the same.
    pub(super) renew_time: WireTime,
    /// The holder is about to stop.
    pub(super) leaves: bool,
}

impl Author<'_> {
    /// Begins a term. On a grant to this elector (`Purpose::TakeUp`) the transition is already counted. Otherwise the
    /// elector claims a Lease.
    pub(super) fn begin(&self, purpose: Purpose, record: &LeaseRecord) -> LeaseWrite {
        let transitions = match purpose {
            Purpose::TakeUp => Set::Keep,
            _ => Set::To(record.transitions.saturating_add(1)),
        };
        let stamp = SessionStamp { session: self.session.to_owned(), term: self.ordinal, seconds: self.seconds };
        LeaseWrite {
            holder: Set::To(self.identity.to_owned()),
            duration_seconds: Set::To(self.seconds),
            acquire_time: Set::To(self.renew_time.later_than(record.acquire_time)),
            renew_time: Set::To(self.renew_time),
            transitions,
            session: Set::To(SessionMark::Term(stamp)),
            token: Set::To(record.next_token()),
            preferred_holder: without(record.preferred_holder.as_ref()),
            hold: Set::remove_if(record.hold.is_some() && !is_paused(record)),
            key: self.key(record),
            leaving: Set::remove_if(record.leaving),
            ..LeaseWrite::new(purpose, record)
        }
    }

    /// Renews. The write carries the holder's own duration, on which its validity rests, and announces once that the
    /// holder leaves. It removes an announcement that is not this holder's: otherwise a controller would make a healthy
    /// holder hand over to a worse candidate (L2).
    pub(super) fn renew(&self, record: &LeaseRecord) -> LeaseWrite {
        LeaseWrite {
            duration_seconds: Set::To(self.seconds),
            renew_time: Set::To(self.renew_time),
            key: self.key(record),
            leaving: match (self.leaves, record.leaving) {
                (true, false) => Set::To(()),
                (false, stands) => Set::remove_if(stands),
                (true, true) => Set::Keep,
            },
            ..LeaseWrite::new(Purpose::Renew, record)
        }
    }

    /// Makes the Lease show the holder's current key, or none if the holder has none.
    fn key(&self, record: &LeaseRecord) -> Set<i64> {
        match self.key {
            None => without(record.key.as_ref()),
            key if key == record.key => Set::Keep,
            Some(key) => Set::To(key),
        }
    }

    /// Ends a term whose work has stopped: hands over to the preferred holder, or releases the Lease if there is none.
    pub(super) fn give_up(&self, record: &LeaseRecord) -> LeaseWrite {
        let given_up = LeaseWrite {
            holder: Set::Remove,
            duration_seconds: Set::To(GIVEN_UP_SECONDS),
            renew_time: Set::To(self.renew_time),
            session: Set::To(SessionMark::Open),
            preferred_holder: without(record.preferred_holder.as_ref()),
            key: without(record.key.as_ref()),
            leaving: Set::remove_if(record.leaving),
            ..LeaseWrite::new(Purpose::Release, record)
        };
        match preferred_other(record, self.identity) {
            None => given_up,
            Some(preferred) => LeaseWrite {
                purpose: Purpose::HandOver,
                holder: Set::To(preferred.to_owned()),
                duration_seconds: Set::To(HAND_OVER_SECONDS),
                acquire_time: Set::To(self.renew_time.later_than(record.acquire_time)),
                transitions: Set::To(record.transitions.saturating_add(1)),
                ..given_up
            },
        }
    }
}

/// Whether an administrator paused the elections of this Lease. The elector never judges the end of a pause by its own
/// clock.
pub(super) fn is_paused(record: &LeaseRecord) -> bool {
    matches!(Hold::read(record.hold.as_deref()), Some(Hold::Pause(_)))
}

/// Asks the holder to hand over to `identity`. The write changes no field that counts as a sign of life.
pub(super) fn ask(record: &LeaseRecord, identity: &str) -> LeaseWrite {
    LeaseWrite { preferred_holder: Set::To(identity.to_owned()), ..LeaseWrite::new(Purpose::Prefer, record) }
}

/// The preferred holder, unless it is `identity`.
pub(super) fn preferred_other<'a>(record: &'a LeaseRecord, identity: &str) -> Option<&'a str> {
    record.preferred_holder.as_deref().filter(|preferred| !preferred.is_empty() && *preferred != identity)
}

fn without<T, U>(current: Option<&U>) -> Set<T> {
    if current.is_some() { Set::Remove } else { Set::Keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author() -> Author<'static> {
        let renew_time = WireTime::from_micros(1_000);
        Author { identity: "a", session: "s", ordinal: 1, seconds: 15, key: Some(3), renew_time, leaves: false }
    }

    /// A record with fields left over from other writers.
    fn record() -> LeaseRecord {
        LeaseRecord {
            hold: Some("disagreement".to_owned()),
            key: Some(3),
            leaving: true,
            acquire_time: Some(WireTime::from_micros(2_000)),
            preferred_holder: Some("b".to_owned()),
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn a_term_that_begins_takes_off_what_was_said_of_the_one_before() {
        let write = author().begin(Purpose::Claim, &record());
        assert_eq!((write.hold, write.leaving, write.preferred_holder), (Set::Remove, Set::Remove, Set::Remove));
        assert_eq!(write.acquire_time, Set::To(WireTime::from_micros(2_001)));
        assert_eq!(write.key, Set::Keep, "it is this one's as well");
    }

    #[test]
    fn a_pause_outlasts_the_beginning_of_a_term() {
        let paused = LeaseRecord { hold: Some("maintenance".to_owned()), ..record() };
        assert_eq!(author().begin(Purpose::TakeUp, &paused).hold, Set::Keep);
    }

    #[test]
    fn a_renewal_says_again_how_long_it_counts_for() {
        let write = author().renew(&record());
        assert_eq!((write.duration_seconds, write.leaving), (Set::To(15), Set::Remove));
    }

    #[test]
    fn the_successor_of_a_hand_over_acquires_the_lease() {
        let write = author().give_up(&record());
        assert_eq!(write.acquire_time, Set::To(WireTime::from_micros(2_001)));
    }
}
