//! The writes of a Lease that an elector makes, field by field.

use crate::model::{LeaseRecord, LeaseWrite, Purpose, SessionMark, SessionStamp, Set, WireTime};

/// How long a hand-over gives its successor, in seconds.
const HAND_OVER_SECONDS: u32 = 5;

/// The duration of a Lease that was given up.
const GIVEN_UP_SECONDS: u32 = 1;

/// What a write of this elector carries.
pub(super) struct Author<'a> {
    pub(super) identity: &'a str,
    pub(super) session: &'a str,
    /// TERM of the session stamp.
    pub(super) ordinal: u64,
    pub(super) seconds: u32,
    /// The holder's preference.
    pub(super) key: Option<i64>,
    /// The renew time of this attempt, which no other attempt has.
    pub(super) renew_time: WireTime,
    /// It is about to stop.
    pub(super) leaves: bool,
}

impl Author<'_> {
    /// A term begins: on a grant that names this elector (`Purpose::TakeUp`), whose transition is counted already, or
    /// on a Lease that is its to claim.
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
            hold: without(record.hold.as_ref()),
            key: self.key(record),
            leaving: Set::remove_if(record.leaving),
            ..LeaseWrite::new(purpose, record)
        }
    }

    /// A sign of life. It carries the holder's own duration, upon which its validity rests, and says once that the
    /// holder leaves. A mark that is not this holder's word is taken off, or a controller would have a healthy holder
    /// hand over to a worse candidate (L2).
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

    /// The Lease shows the key that the holder has now, and none where it has none.
    fn key(&self, record: &LeaseRecord) -> Set<i64> {
        match self.key {
            None => without(record.key.as_ref()),
            key if key == record.key => Set::Keep,
            Some(key) => Set::To(key),
        }
    }

    /// The end of a term whose work has stopped: to the preferred holder if one stands, else to nobody.
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

/// Asks the holder to hand over to `identity`. Nothing that counts as a sign of life is touched.
pub(super) fn ask(record: &LeaseRecord, identity: &str) -> LeaseWrite {
    LeaseWrite { preferred_holder: Set::To(identity.to_owned()), ..LeaseWrite::new(Purpose::Prefer, record) }
}

/// The preferred holder, if that is somebody else than `identity`.
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

    /// As somebody may have left it.
    fn record() -> LeaseRecord {
        LeaseRecord {
            hold: Some("paused".to_owned()),
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
    fn a_renewal_says_again_how_long_it_counts_for() {
        let write = author().renew(&record());
        assert_eq!((write.duration_seconds, write.leaving), (Set::To(15), Set::Remove));
    }

    #[test]
    fn who_is_handed_the_lease_acquires_it() {
        let write = author().give_up(&record());
        assert_eq!(write.acquire_time, Set::To(WireTime::from_micros(2_001)));
    }
}
