//! Where the range of a term starts and ends.

use super::OwnRange;
use crate::elector::Elector;
use crate::elector::Range;
use crate::elector::attempts::{is_mine, names_session};
use crate::elector::config::{Config, FailOpen};
use crate::model::{LeaseRecord, WireTime};

impl Elector {
    /// Closes the range: it contains no later instant than now. Only decisions may do this. During a decision, the
    /// caller answers no question about the range, and `wall` is not behind any instant that the caller has claimed.
    pub(in crate::elector) fn close_range(&mut self, wall: WireTime) {
        if let Some(range) = self.range.as_mut().filter(|range| !range.is_closed) {
            range.end = range.end.min(wall).max(range.start);
            range.is_closed = true;
        }
    }

    /// The end of a closed range. No write may have an earlier renew time.
    pub(in crate::elector) fn closed_range_end(&self) -> WireTime {
        self.range.filter(|range| range.is_closed).map_or(WireTime::MIN, |range| range.end)
    }

    /// The start of the range of a term that begins on `record` with a write of this renew time, which is not before
    /// the [floor](Self::range_floor).
    pub(in crate::elector) fn first_instant(&self, record: &LeaseRecord, renew_time: WireTime) -> WireTime {
        let Config { identity, session, .. } = &self.config;
        if let Some(own) = self.range.filter(|own| !own.is_closed && is_mine(record, identity, session, own.ordinal)) {
            return own.start;
        }
        // The former term closed its range, and no later term has a range. A newly created Lease does not show that.
        let was_given_up = record.is_open() && record.token.is_some() && record.range_end().is_some();
        if was_given_up { self.range_floor(record) } else { renew_time }
    }

    /// The earliest renew time with which a term may begin on `record`.
    pub(in crate::elector) fn range_floor(&self, record: &LeaseRecord) -> WireTime {
        let Config { identity, session, .. } = &self.config;
        // On a record of this instance, no other process has claimed an instant.
        let left = if names_session(record, identity, session) { None } else { record.range_end() };
        left.max(self.lease.lost_range_end()).unwrap_or(WireTime::MIN)
    }

    pub(in crate::elector) fn current_range(&self) -> Option<Range> {
        let OwnRange { ordinal, start, end, is_closed } = self.range?;
        let Config { identity, session, fail_open, .. } = &self.config;
        let is_newest = self.lease.view().record().is_some_and(|record| is_mine(record, identity, session, ordinal));
        let fails_open_until = match fail_open {
            FailOpen::Bounded(bound) => Some(end.after(*bound)),
            FailOpen::Unbounded => Some(WireTime::MAX),
            FailOpen::Off => None,
        };
        Some(Range { start, end, fails_open_until: fails_open_until.filter(|_| is_newest && !is_closed) })
    }
}
