//! Preference in direct mode: whether this elector asks the holder to hand over to it.
//!
//! The holder's key stands on the Lease, and an elector knows its own. One whose key is strictly higher names itself as
//! preferred holder, and the holder hands over when its work has stopped, or loses the Lease when that does not
//! stop. Nobody is deposed by force. The rule that must hold: every hand-over that is asked for here goes from a lower
//! key to a higher one, so that no set of electors passes the Lease in a circle, and the highest has it in the end.
//!
//! - Only keys that are known on both sides count. A source that has not synced, an annotation that does not parse, a
//!   holder that knows no keys, and equal keys are all no reason to ask.
//! - Only the holder of a Hustings session is asked: nobody else would hand over, and an open Lease is on its way already.
//! - Whoever stands as preferred holder is left standing, since its key is not known. It takes up, shows its key, and is
//!   asked in its turn. One that has died in the meantime costs the 5 s of a hand-over that is not taken up.
//! - A term of the holder is asked about once in a lease duration at the most, whatever becomes of the write: a server that
//!   refuses it, and somebody who takes the mark away, are not written against. Only a conflict does not count, since the
//!   Lease has changed.

use crate::model::{LeaseRecord, Moment, SessionMark};

use super::writes::preferred_other;

/// This elector's key, and whom it has asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Preference {
    pub(super) key: Option<i64>,
    asked: Option<Asked>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    term: SessionMark,
    not_again_before: Moment,
}

impl Preference {
    /// From when on this elector asks the holder of the unexpired `record` to hand over; `None` if it has no reason to.
    pub(super) fn asks_from(&self, record: &LeaseRecord, identity: &str) -> Option<Moment> {
        let holder = record.holder.as_deref().filter(|holder| *holder != identity)?;
        record.session.stamp()?;
        let outranks = self.key? > record.key?;
        if !outranks || preferred_other(record, holder).is_some() {
            return None;
        }
        let asked = self.asked.as_ref().filter(|asked| asked.term == record.session);
        Some(asked.map_or(Moment::from_micros(i64::MIN), |asked| asked.not_again_before))
    }

    /// The holder of `record` is being asked.
    pub(super) fn asks(&mut self, record: &LeaseRecord, not_again_before: Moment) {
        self.asked = Some(Asked { term: record.session.clone(), not_again_before });
    }

    /// The write met another version: the question has not been put.
    pub(super) fn asked_in_vain(&mut self) {
        self.asked = None;
    }
}
