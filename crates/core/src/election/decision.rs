//! What an election decides: actions, the next deadline, and reasons, all as values.

use std::sync::Arc;

use super::reason::{Event, Reason};
use crate::model::{CandidateState, Hold, LeaseWrite, Moment, RecordedStatus, WireTime};

/// The outcome of one look at a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What is to be done. All of it may be done at once and in any order.
    pub actions: Vec<Action>,
    /// When the Lease is to be looked at again, if nothing is observed before. Never later than the requeue interval.
    pub deadline: Moment,
    /// How the Lease stands.
    pub lease: LeaseVerdict,
    /// How each of its candidates stands, in the order of their rank; those that cannot stand come last.
    pub candidates: Vec<CandidateVerdict>,
}

/// Something that the election wants done. Its outcome is to be told ([`Observation`](super::Observation)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the Lease live.
    ReadLease,
    /// Read the candidate live.
    ReadCandidate {
        /// `metadata.name`.
        name: Arc<str>,
    },
    /// Create the Lease as [`LeaseRecord::as_created`](crate::model::LeaseRecord::as_created) has it.
    CreateLease,
    /// Write the Lease, conditional on the version that the write names.
    WriteLease {
        /// What is written.
        write: LeaseWrite,
        /// To be published once the write has succeeded.
        event: Option<Event>,
    },
    /// Set `spec.pingTime`, conditional on the uid alone.
    Ping {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new value.
        ping_time: WireTime,
    },
    /// Replace `status`, conditional on the uid alone.
    PatchStatus {
        /// `metadata.name`.
        name: Arc<str>,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// What it shall say.
        status: RecordedStatus,
    },
    /// Delete the candidate, which nobody stands behind any more.
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

/// How a Lease stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseVerdict {
    /// In `kube-node-lease`, where Hustings touches nothing.
    OutOfBounds,
    /// It has to be read live before anything is known.
    Unread,
    /// A candidate holds it.
    Held {
        /// The holder.
        holder: Arc<str>,
        /// Who the holder is asked to hand over to.
        preferred: Option<Arc<str>>,
        /// Whether the holder's term has begun; if not, this is a grant or a hand-over.
        taken_up: bool,
    },
    /// Somebody holds it who has no admissible candidate. It is left alone.
    Foreign {
        /// The holder.
        holder: Arc<str>,
    },
    /// Nobody holds it, and yet it counts as held: created by somebody else and not yet used, or deleted while
    /// somebody may still rely on it.
    Reserved {
        /// Until when.
        until: Moment,
    },
    /// Nobody holds it.
    Unheld {
        /// Since when, by the local clock.
        since: Moment,
        /// How it came to be.
        cause: Unheld,
    },
    /// Nobody holds it, and the last election found no candidate that is admissible and live.
    NoLiveCandidate {
        /// Since when nobody has held it, by the local clock.
        since: Moment,
        /// How it came to be without a holder.
        cause: Unheld,
    },
    /// Nobody holds it, on purpose.
    OnHold {
        /// Why.
        hold: Hold,
        /// Since when it has been without a holder.
        since: Moment,
    },
}

/// How a Lease came to be without a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unheld {
    /// There is no such object.
    Missing,
    /// It was created, or stands empty, and has never had a holder that is known.
    New,
    /// The last holder released it.
    Released,
    /// The holder stopped renewing.
    Lapsed,
    /// The electee did not take up its grant.
    GrantNotTakenUp,
}

/// How a candidate stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateVerdict {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// Its place in the order, from 1; `None` if it cannot stand.
    pub rank: Option<usize>,
    /// Where it stands.
    pub state: CandidateState,
    /// Why it does or does not lead.
    pub reason: Reason,
    /// Whether it answered when last asked; `None` if nobody knows.
    pub responsive: Option<bool>,
    /// When it was found not to answer.
    pub unresponsive_since: Option<WireTime>,
    /// Grants not taken up, lapses and reclaims since its last full term.
    pub damping_count: u32,
    /// When its last damping ends or ended, by the wall clock.
    pub damped_until: Option<WireTime>,
    /// Whether its last grant was not taken up, so that it is not preferred over a live holder while it ranks last.
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
