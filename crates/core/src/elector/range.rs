//! The wall-clock time that a term owns: an instant belongs to the term whose range holds it.
//!
//! The rule that must hold: whatever the clocks of the machines show, no instant is ever called its own by two processes,
//! counting every answer that was ever given. Clocks are not compared for that, and cannot be; what orders the ranges is the
//! one number that the holders of a Lease hand to each other, its `renewTime`.
//!
//! - A range starts at the renew time of the write with which its term began, or where the one before was closed, and ends
//!   one lease after the renew time of the last write that is known to have succeeded. That write is on the Lease, or a later
//!   one of the same term is.
//! - Whoever begins a term on a record that ran out gives its write a renew time not before the end of that record's
//!   range ([`LeaseRecord::range_end`]), and not before its own clock. So the ranges meet at the most. A controller does
//!   the same when it grants.
//! - Whoever gives a term up writes the renew time first of all, and closes the range with it: from then on it calls no later
//!   instant its own. Nor has it before, since nobody may call an instant its own that its clock has not shown yet. So the
//!   range of a successor starts where this one was closed, before its term does, and no time is lost. After a grant upon a
//!   release it starts with the grant.
//! - A term that is lost keeps what it has. One that ends since the Lease is gone is closed at once; whoever creates the
//!   Lease anew has seen an earlier version, and starts after all that can have followed upon that: see
//!   [`Sight`](super::sight).
//! - An elector that claims its own Lease again before anybody else had it goes on with the range that it had.
//!
//! What this rests on beyond the premises of S1: nobody sets `renewTime` back, and whoever begins a term on a Lease that
//! was deleted and created anew has seen the one before. A client-go neighbour writes its own clock.
//!
//! **Failing open** is the one exception, and off unless it is asked for. While the newest record that this elector has
//! seen is its own last term's, its range goes on after its end, for as long as it is allowed to. Another may have taken
//! over unseen, so that such an answer is marked, and nothing but the range follows from it.

use std::time::Duration;

use super::config::FailOpen;
use super::term::{Attempt, is_mine, names_session};
use super::{Config, Elector};
use crate::model::{LeaseRecord, WireTime};

/// The range of the last term of an elector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first instant.
    pub start: WireTime,
    /// The first instant that does not belong to it any more, unless the term goes on. An instant that the own clock has
    /// not shown yet does not belong to it either.
    pub end: WireTime,
    /// While nobody is known to have taken over, and this is allowed: until when the range goes on after its end.
    pub fails_open_until: Option<WireTime>,
}

/// The same, with what decides about its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnRange {
    /// TERM of the session stamp of the term that it belongs to.
    ordinal: u64,
    start: WireTime,
    end: WireTime,
    is_closed: bool,
}

impl OwnRange {
    /// The range of a term that begins, or goes on, with a write that has landed.
    pub(super) fn extended(former: Option<Self>, landed: &Attempt, duration: Duration) -> Self {
        let end = landed.renew_time.after(duration);
        match former {
            Some(former) if former.ordinal == landed.ordinal && former.is_closed => former,
            Some(former) if former.ordinal == landed.ordinal => Self { end: former.end.max(end), ..former },
            _ => Self { ordinal: landed.ordinal, start: landed.range_start, end, is_closed: false },
        }
    }
}

impl Elector {
    /// From now on no later instant belongs to the range. Only decisions do this: while the elector decides, its caller
    /// answers nobody, and the wall clock that it passes is not behind any instant that it has called its own.
    pub(super) fn close_range(&mut self, wall: WireTime) {
        if let Some(range) = self.range.as_mut().filter(|range| !range.is_closed) {
            range.end = range.end.min(wall).max(range.start);
            range.is_closed = true;
        }
    }

    /// Before which nothing may be written any more: the end of a range that was closed.
    pub(super) fn closed_range_end(&self) -> WireTime {
        self.range.filter(|range| range.is_closed).map_or(WireTime::MIN, |range| range.end)
    }

    /// Where the range starts of a term that begins on `record` by a write of this renew time.
    pub(super) fn first_instant(&self, record: &LeaseRecord, renew_time: WireTime) -> WireTime {
        let Config { identity, session, .. } = &self.config;
        if let Some(own) = self.range.filter(|own| !own.is_closed && is_mine(record, identity, session, own.ordinal)) {
            return own.start;
        }
        // Its range was closed, and nobody has had one since. A Lease that was created anew says nothing of that.
        let was_given_up = record.is_open() && record.token.is_some() && record.range_end().is_some();
        if was_given_up { self.range_floor(record).min(renew_time) } else { renew_time }
    }

    /// Before which no term may begin on `record`.
    pub(super) fn range_floor(&self, record: &LeaseRecord) -> WireTime {
        let Config { identity, session, .. } = &self.config;
        // Nobody but this instance has called anything its own by a record of its own.
        let left = if names_session(record, identity, session) { None } else { record.range_end() };
        left.max(self.sight.lost_range_end()).unwrap_or(WireTime::MIN)
    }

    pub(super) fn told_range(&self) -> Option<Range> {
        let OwnRange { ordinal, start, end, is_closed } = self.range?;
        let Config { identity, session, fail_open, .. } = &self.config;
        let is_newest = self.sight.record().is_some_and(|record| is_mine(record, identity, session, ordinal));
        let fails_open_until = match fail_open {
            FailOpen::Bounded(bound) => Some(end.after(*bound)),
            FailOpen::Unbounded => Some(WireTime::MAX),
            FailOpen::Off => None,
        };
        Some(Range { start, end, fails_open_until: fails_open_until.filter(|_| is_newest && !is_closed) })
    }
}
