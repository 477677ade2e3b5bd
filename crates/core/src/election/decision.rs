//! The decision of an election: actions, the next deadline, and reasons, all as values.

use std::sync::Arc;

use super::reason::{Event, Reason};
use crate::model::{CandidateState, Hold, LeaseWrite, Moment, RecordedStatus, WireTime};

/// One decision about a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The actions to perform. They may run concurrently and in any order.
    pub actions: Vec<Action>,
    /// When to decide again at the latest, even without an observation. Never later than the requeue interval.
    pub deadline: Moment,
    /// The state of the Lease.
    pub lease: LeaseVerdict,
    /// The verdict on each candidate, in the order of their ranks. Candidates that are not admissible come last.
    pub candidates: Vec<CandidateVerdict>,
}

/// An output of the election. The caller carries it out and reports the outcome as an
/// [`Observation`](super::Observation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the Lease live.
    ReadLease,
    /// Read the candidate live.
    ReadCandidate {
        /// `metadata.name`.
        name: Arc<str>,
    },
    /// Create the Lease as [`LeaseRecord::as_created`](crate::model::LeaseRecord::as_created) specifies.
    CreateLease,
    /// Write the Lease, conditional on the version in the write.
    WriteLease {
        /// The write.
        write: LeaseWrite,
        /// To publish after the write has succeeded.
        event: Option<Event>,
    },
    /// Set `spec.pingTime`, conditional only on the uid.
    Ping {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new value.
        ping_time: WireTime,
    },
    /// Replace `status`, conditional only on the uid.
    PatchStatus {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new status.
        status: RecordedStatus,
    },
    /// Delete the candidate, whose process no longer answers.
    DeleteCandidate {
        /// `metadata.name`.
        name: Arc<str>,
        /// The uid on which the deletion is conditional.
        uid: Arc<str>,
        /// The version on which the deletion is conditional.
        resource_version: u64,
    },
    /// Publish an event.
    Event(Event),
}

/// The state of a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseVerdict {
    /// The Lease is in `kube-node-lease`, where Hustings changes nothing.
    OutOfBounds,
    /// The state is unknown until the Lease has been read live.
    Unread,
    /// A candidate holds it.
    Held {
        /// The holder.
        holder: Arc<str>,
        /// The preferred holder, if the holder was asked to hand over.
        preferred: Option<Arc<str>>,
        /// Whether the holder's term has begun; if not, this is a grant or a hand-over.
        taken_up: bool,
    },
    /// The holder has no admissible candidate. It is left alone.
    Foreign {
        /// The holder.
        holder: Arc<str>,
    },
    /// The Lease has no holder, but counts as held. Either another client created it and has not used it yet, or it was
    /// deleted and its holder may still rely on it.
    Reserved {
        /// Until when.
        until: Moment,
    },
    /// The Lease has no holder.
    Unheld {
        /// Since when, by the local clock.
        since: Moment,
        /// Why it has none.
        cause: Unheld,
    },
    /// The Lease has no holder, and the last election found no admissible and live candidate.
    NoLiveCandidate {
        /// Since when it has had no holder, by the local clock.
        since: Moment,
        /// Why it has none.
        cause: Unheld,
    },
    /// The Lease deliberately has no holder.
    OnHold {
        /// Why.
        hold: Hold,
        /// Since when it has had no holder.
        since: Moment,
    },
}

/// Why a Lease has no holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unheld {
    /// The Lease does not exist.
    Missing,
    /// It was created, or is empty, and no holder before is known.
    New,
    /// The last holder released it.
    Released,
    /// The holder stopped renewing.
    Lapsed,
    /// The electee did not take up its grant.
    GrantNotTakenUp,
}

/// The verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateVerdict {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// Its place in the order, from 1; `None` if it is not admissible.
    pub rank: Option<usize>,
    /// Its state.
    pub state: CandidateState,
    /// Why it does or does not lead.
    pub reason: Reason,
    /// Whether it answered its last ping; `None` if that is unknown.
    pub responsive: Option<bool>,
    /// When it was found unresponsive.
    pub unresponsive_since: Option<WireTime>,
    /// Grants not taken up, expired terms and reclaims since its last full term.
    pub damping_count: u32,
    /// The end of its last damping, by the wall clock.
    pub damped_until: Option<WireTime>,
    /// Whether it did not take up its last grant. While it is damped, it is then not preferred over a live holder.
    pub forfeited: bool,
}

impl LeaseVerdict {
    /// The verdict as a metric label.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds",
            Self::Unread => "unread",
            Self::Held { .. } => "held",
            Self::Foreign { .. } => "foreign",
            Self::Reserved { .. } => "reserved",
            Self::Unheld { .. } => "unheld",
            Self::NoLiveCandidate { .. } => "no-live-candidate",
            Self::OnHold { .. } => "hold",
        }
    }
}

impl Unheld {
    /// The cause as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::New => "new",
            Self::Released => "released",
            Self::Lapsed => "lapsed",
            Self::GrantNotTakenUp => "grant-not-taken-up",
        }
    }
}
