//! The wall-clock time that a term owns: an instant belongs to the term whose range contains it.
//!
//! The rule that must hold: no two processes ever claim the same instant, whatever the clocks of their machines show.
//! An answer stays true forever. Comparing clocks cannot achieve this. Instead, one number orders the ranges: the
//! `renewTime` of the Lease, which each holder passes on to the next.
//!
//! - A range starts at the renew time of the write that began its term, or where the former range was closed. It ends
//!   one lease after the renew time of the last write that is known to have succeeded. The Lease shows that write or a
//!   later one of the same term.
//! - The renew time of a write that begins a term on an expired record is not before the end of that record's range
//!   ([`LeaseRecord::range_end`](crate::model::LeaseRecord::range_end)). It is not before its writer's clock either. So
//!   two ranges may touch, but never overlap. A controller's grant follows the same rule.
//! - An elector that gives its term up first closes the range at its clock. The renew time of the write that gives the
//!   term up is not before that end. From then on the elector claims no later instant. It has claimed none before,
//!   because no process may claim an instant that its clock has not shown yet. So the successor's range starts at that
//!   renew time, before the successor's term, and no time is lost. After a grant that follows a release, the range
//!   starts with the grant.
//! - A term that is lost keeps its range. A term that ends because the Lease is gone closes its range at once. An
//!   elector that creates the Lease again has observed an earlier version, and starts after everything that can have
//!   followed that version: see [`TrackedLease`](super::tracked_lease).
//! - An elector that claims its own Lease again, with no holder in between, continues its range.
//!
//! This rests on three assumptions beyond those of S1:
//!
//! - No client sets `renewTime` back.
//! - An elector that begins a term on a Lease that was deleted and created again has observed the former one.
//! - Every holder follows these rules. client-go does not: it writes its own clock.
//!
//! **Failing open** is the one exception, and it is off by default. While the newest record that this elector has
//! observed belongs to its own last term, the range continues after its end, for as long as configured. Another elector
//! may have taken over unobserved, so such an answer is marked. Failing open changes nothing but the range.

mod bounds;

use std::time::Duration;

use super::attempts::Attempt;
use crate::model::WireTime;

/// A range, and the facts that determine its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnRange {
    /// TERM of its term's session stamp.
    ordinal: u64,
    start: WireTime,
    end: WireTime,
    is_closed: bool,
}

impl OwnRange {
    /// The range of a term that begins, or is renewed, with a write that has succeeded.
    pub(super) fn extended(former: Option<Self>, landed: &Attempt, duration: Duration) -> Self {
        let end = landed.term.renew_time.after(duration);
        match former {
            Some(former) if former.ordinal == landed.term.ordinal => Self { end: former.end.max(end), ..former },
            _ => Self { ordinal: landed.term.ordinal, start: landed.term.range_start, end, is_closed: false },
        }
    }
}
