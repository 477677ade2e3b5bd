//! Preference in direct mode: whether this elector asks the holder to hand over to it.
//!
//! The Lease records the holder's key, and an elector knows its own. An elector with a strictly higher key names itself
//! as preferred holder. The holder hands over when its work has stopped. If the work does not stop, the Lease expires:
//! nothing deposes a holder. The rule that must hold: every hand-over requested here goes from a lower key to a higher
//! one. So electors never pass the Lease in a circle, and the elector with the highest key gets it in the end.
//!
//! - Only keys known on both sides count. The elector does not ask if its key is not known yet, the holder has no key
//!   or one that does not parse, or the keys are equal.
//! - Only the holder of a Hustings session is asked. No other holder would hand over, and an open Lease is already
//!   changing hands.
//! - The elector does not replace another preferred holder, because it does not know that elector's key. The preferred
//!   holder takes up the Lease, shows its key, and the elector asks it in turn. If the preferred holder has died, this
//!   costs the 5 s of a hand-over that nobody takes up.
//! - A term of the holder gets at most one request per lease duration, whatever happens to the write. So the elector
//!   does not fight a server that rejects the write, or a client that removes the request. A conflict does not count,
//!   because the Lease has changed.

use crate::model::{LeaseRecord, Moment, SessionMark};

use super::super::writes::preferred_other;

/// This elector's key, and its last request to hand over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::elector) struct Preference {
    pub(in crate::elector) key: Option<i64>,
    last_request: Option<LastRequest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LastRequest {
    term: SessionMark,
    not_before: Moment,
}

impl Preference {
    /// When this elector may ask the holder of the unexpired `record` to hand over; `None` if it has no reason to.
    pub(in crate::elector) fn request_from(&self, record: &LeaseRecord, identity: &str) -> Option<Moment> {
        let holder = record.holder.as_deref().filter(|holder| *holder != identity)?;
        record.session.stamp()?;
        let outranks = self.key? > record.key?;
        if !outranks || preferred_other(record, holder).is_some() {
            return None;
        }
        let asked = self.last_request.as_ref().filter(|asked| asked.term == record.session);
        Some(asked.map_or(Moment::from_micros(i64::MIN), |asked| asked.not_before))
    }

    /// Records that the holder of `record` is being asked.
    pub(in crate::elector) fn observe_request(&mut self, record: &LeaseRecord, not_before: Moment) {
        self.last_request = Some(LastRequest { term: record.session.clone(), not_before });
    }

    /// The write met a conflict, so the holder was not asked.
    pub(in crate::elector) fn withdraw_request(&mut self) {
        self.last_request = None;
    }
}
