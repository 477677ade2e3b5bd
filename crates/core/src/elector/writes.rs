//! The writes of a Lease by an elector, field by field.

use crate::model::{
    Cause, Ending, GIVEN_UP_SECONDS, GRANT_DURATION_SECONDS, History, LeaseRecord, LeaseWrite, Purpose, RunningTerm,
    SessionMark, SessionStamp, Set, WireTime,
};

use super::attempts::is_reclaimable;

/// The values that this elector puts into a write.
pub(super) struct Author<'a> {
    pub(super) identity: &'a str,
    pub(super) session: &'a str,
    /// TERM of the session stamp.
    pub(super) ordinal: u64,
    pub(super) seconds: u32,
    /// The holder's preference.
    pub(super) key: Option<i64>,
    /// The renew time of this attempt. No other attempt has the same renew time.
    pub(super) renew_time: WireTime,
    /// The wall clock. The renew time may be later.
    pub(super) wall: WireTime,
    /// The holder is about to stop.
    pub(super) leaves: bool,
    /// The past terms.
    pub(super) history: &'a History,
    /// Why this elector gives its term up; `None` if it was asked to hand over.
    pub(super) cause: Option<Cause>,
}

impl Author<'_> {
    /// Begins a term. On a grant to this elector (`Purpose::TakeUp`) the transition is already counted. Otherwise the
    /// elector claims a Lease.
    pub(super) fn begin(&self, purpose: Purpose, record: &LeaseRecord) -> LeaseWrite {
        let (transitions, history) = if purpose == Purpose::TakeUp {
            (Set::Keep, Set::Keep)
        } else {
            let is_own = is_reclaimable(record, self.identity, self.session);
            let ending = if is_own { Ending::Reclaimed } else { record.lapse(None) };
            let number = record.next_transitions();
            let own = RunningTerm::new(number, self.identity, self.wall, None);
            (Set::To(number), Set::To(record.history_after(self.history, ending, None).with_running(&own)))
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
            preferred_holder: Set::remove_if(record.preferred_holder.is_some()),
            hold: Set::remove_if(record.hold.is_some() && !record.is_paused()),
            key: self.key(record),
            leaving: Set::remove_if(record.leaving),
            history,
            ..LeaseWrite::new(purpose, record)
        }
    }

    /// Renews. The write sets the holder's own duration, on which its validity rests. It writes the holder's name back
    /// if client-go has emptied the Lease by a late release. It announces once that the holder is about to stop. It removes an announcement that another holder left behind: otherwise a controller would make
    /// a healthy holder hand over to a worse candidate (L2).
    pub(super) fn renew(&self, record: &LeaseRecord) -> LeaseWrite {
        let is_emptied = record.holder.is_none();
        LeaseWrite {
            holder: if is_emptied { Set::To(self.identity.to_owned()) } else { Set::Keep },
            duration_seconds: Set::To(self.seconds),
            // That release has replaced the acquire time by the clock of another machine.
            acquire_time: if is_emptied { Set::To(self.wall) } else { Set::Keep },
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
            None => Set::remove_if(record.key.is_some()),
            key if key == record.key => Set::Keep,
            Some(key) => Set::To(key),
        }
    }

    /// Ends a term whose work has stopped: hands over to the preferred holder, or releases the Lease if there is none.
    pub(super) fn give_up(&self, record: &LeaseRecord) -> LeaseWrite {
        let own = self.cause.unwrap_or(Cause::Unknown);
        // If the holder was asked because it announced its stop, its own cause is more precise.
        let asked = record
            .running_term()
            .and_then(|term| term.request)
            .filter(|asked| *asked != Cause::Stopped || self.cause.is_none());
        let history = |ending| record.history_after(self.history, ending, Some(self.wall));
        let given_up = LeaseWrite {
            holder: Set::Remove,
            duration_seconds: Set::To(GIVEN_UP_SECONDS),
            renew_time: Set::To(self.renew_time),
            session: Set::To(SessionMark::Open),
            preferred_holder: Set::remove_if(record.preferred_holder.is_some()),
            key: Set::remove_if(record.key.is_some()),
            leaving: Set::remove_if(record.leaving),
            history: Set::To(history(Ending::Released(own))),
            ..LeaseWrite::new(Purpose::Release, record)
        };
        match preferred_other(record, self.identity) {
            None => given_up,
            Some(preferred) => {
                let number = record.next_transitions();
                let next = RunningTerm::new(number, preferred, self.wall, None);
                LeaseWrite {
                    purpose: Purpose::HandOver,
                    holder: Set::To(preferred.to_owned()),
                    duration_seconds: Set::To(GRANT_DURATION_SECONDS),
                    acquire_time: Set::To(self.renew_time.later_than(record.acquire_time)),
                    transitions: Set::To(number),
                    history: Set::To(history(Ending::HandedOver(asked.unwrap_or(own))).with_running(&next)),
                    ..given_up
                }
            }
        }
    }
}

/// Asks the holder to hand over to `identity`. The write changes no field that counts as a sign of life.
pub(super) fn ask(record: &LeaseRecord, history: &History, identity: &str) -> LeaseWrite {
    LeaseWrite {
        preferred_holder: Set::To(identity.to_owned()),
        history: Set::To(record.history_with_request(history, Some(Cause::BetterCandidate))),
        ..LeaseWrite::new(Purpose::Prefer, record)
    }
}

/// The preferred holder, unless it is `identity`.
pub(super) fn preferred_other<'a>(record: &'a LeaseRecord, identity: &str) -> Option<&'a str> {
    record.preferred_holder.as_deref().filter(|preferred| !preferred.is_empty() && *preferred != identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    static NO_TERMS: History = History::new();

    fn author() -> Author<'static> {
        let renew_time = WireTime::from_micros(1_000);
        let (history, cause) = (&NO_TERMS, None);
        Author {
            identity: "a",
            session: "s",
            ordinal: 1,
            seconds: 15,
            key: Some(3),
            renew_time,
            wall: renew_time,
            leaves: false,
            history,
            cause,
        }
    }

    /// How the newest term ended in the history that this write sets.
    fn ending(write: &LeaseWrite) -> Option<String> {
        let Set::To(history) = &write.history else { return None };
        history.terms().next().map(|term| term.ending.to_string())
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
    fn a_new_term_removes_the_marks_of_the_former_term() {
        let write = author().begin(Purpose::Claim, &record());
        assert_eq!((write.hold, write.leaving, write.preferred_holder), (Set::Remove, Set::Remove, Set::Remove));
        assert_eq!(write.acquire_time, Set::To(WireTime::from_micros(2_001)));
        assert_eq!(write.key, Set::Keep, "this elector has the same key");
        let without_hold = LeaseRecord { hold: None, ..record() };
        assert_eq!(author().begin(Purpose::Claim, &without_hold).hold, Set::Keep, "there is none");
        let without_key = Author { key: None, ..author() };
        assert_eq!(
            (without_key.renew(&record()).key, without_key.begin(Purpose::Claim, &record()).key),
            (Set::Remove, Set::Remove)
        );
    }

    #[test]
    fn a_claim_records_how_the_former_term_ended_and_a_take_up_records_nothing() {
        let held = |holder: &str, session: &str| LeaseRecord {
            holder: Some(holder.to_owned()),
            session: SessionMark::read(Some(session)),
            ..record()
        };
        let begin = |record: &LeaseRecord| ending(&author().begin(Purpose::Claim, record));
        assert_eq!(begin(&held("b", "t/1/15")).as_deref(), Some("expired"));
        assert_eq!(begin(&held("a", "t/1/15")).as_deref(), Some("expired"), "another instance held it");
        assert_eq!(begin(&held("a", "s/1/15")).as_deref(), Some("reclaimed"));
        assert_eq!(begin(&held("b", "open")).as_deref(), Some("not taken up"));
        assert_eq!(begin(&record()), None, "it had no holder");
        assert_eq!(author().begin(Purpose::TakeUp, &held("a", "open")).history, Set::Keep);
        assert_eq!(author().renew(&held("a", "s/1/15")).history, Set::Keep);
    }

    #[test]
    fn a_term_that_is_given_up_is_recorded_with_its_cause() {
        let held = |request: Option<Cause>, preferred: &str| LeaseRecord {
            holder: Some("a".to_owned()),
            preferred_holder: Some(preferred.to_owned()).filter(|name| !name.is_empty()),
            history: History::new().with_running(&RunningTerm::new(0, "a", WireTime::from_micros(0), request)),
            ..record()
        };
        for (request, preferred, cause, expected) in [
            (None, "", Some(Cause::Stopped), "released (stopped)"),
            (None, "", Some(Cause::ConnectionClosed), "released (connection closed)"),
            (None, "", None, "released"),
            (None, "b", None, "handed over"),
            (Some(Cause::Transfer), "b", None, "handed over (transfer)"),
            (Some(Cause::Transfer), "b", Some(Cause::Stopped), "handed over (transfer)"),
            (Some(Cause::Stopped), "b", None, "handed over (stopped)"),
            (Some(Cause::Stopped), "b", Some(Cause::ConnectionClosed), "handed over (connection closed)"),
            (None, "b", Some(Cause::Resigned), "handed over (resigned)"),
        ] {
            let write = Author { cause, ..author() }.give_up(&held(request, preferred));
            assert_eq!(ending(&write).as_deref(), Some(expected));
        }
        let write = author().give_up(&held(None, ""));
        let Set::To(history) = &write.history else { panic!("{write:?}") };
        let term = history.terms().next().unwrap();
        assert_eq!((term.since, term.until), (WireTime::from_micros(0), WireTime::from_micros(1_000)));
    }

    #[test]
    fn a_request_by_a_replica_with_a_higher_key_records_its_cause() {
        let held = LeaseRecord { holder: Some("b".to_owned()), ..record() };
        let asked = ask(&held, &NO_TERMS, "a").applied_to(&held, 9);
        assert_eq!(asked.running_term().unwrap().request, Some(Cause::BetterCandidate));
    }

    #[test]
    fn a_pause_outlasts_the_beginning_of_a_term() {
        let paused = LeaseRecord { hold: Some("maintenance".to_owned()), ..record() };
        assert_eq!(author().begin(Purpose::TakeUp, &paused).hold, Set::Keep);
    }

    #[test]
    fn an_empty_name_and_the_holders_own_name_are_no_other_preferred_holder() {
        for (preferred, other) in [(None, None), (Some(""), None), (Some("a"), None), (Some("b"), Some("b"))] {
            let record = LeaseRecord { preferred_holder: preferred.map(str::to_owned), ..record() };
            assert_eq!(preferred_other(&record, "a"), other);
        }
    }

    #[test]
    fn a_renewal_writes_the_duration_again() {
        let write = author().renew(&record());
        assert_eq!((write.duration_seconds, write.leaving), (Set::To(15), Set::Remove));
    }

    #[test]
    fn the_successor_of_a_hand_over_acquires_the_lease() {
        let write = author().give_up(&record());
        assert_eq!(write.acquire_time, Set::To(WireTime::from_micros(2_001)));
    }
}
