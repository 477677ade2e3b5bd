//! The verdicts of a decision: the state of the Lease, and for each candidate whether it leads, and why.

use std::sync::Arc;

use super::{Doubt, Reason};
use crate::model::{CandidateKey, CandidateState, Hold, Moment, Unheld, WireTime};

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
        holder: CandidateKey,
        /// The preferred holder, if the holder was asked to hand over.
        preferred: Option<CandidateKey>,
        /// Whether the holder's term has begun; if not, this is a grant or a hand-over.
        taken_up: bool,
    },
    /// The holder has no admissible candidate. It is left alone.
    Foreign {
        /// The holder.
        holder: Arc<str>,
    },
    /// The Lease is assisted: its holder knows nothing of Hustings. It is released once its holder is proven dead.
    Assisted {
        /// The holder.
        holder: Arc<str>,
        /// Why the end of no container would prove it dead.
        unprovable: Option<Doubt>,
        /// Why the controller does not release the Lease even then.
        hold: Option<Hold>,
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

/// The verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateVerdict {
    /// Its kind and name.
    pub candidate: CandidateKey,
    /// Its place in the order, from 1; `None` if it is not admissible.
    pub rank: Option<usize>,
    /// Its state.
    pub state: CandidateState,
    /// Why it does or does not lead.
    pub reason: Reason,
    /// Whether it answered its last ping; `None` if that is unknown.
    pub responsive: Option<bool>,
    /// Whether its answer to its last ping has a time before that ping.
    pub answered_early: bool,
    /// When it was found unresponsive.
    pub unresponsive_since: Option<WireTime>,
    /// How often it lost the Lease since its last full term.
    pub damping_count: u32,
    /// The end of its last damping, by the wall clock.
    pub damped_until: Option<WireTime>,
    /// Whether it is damped and did not take up its last grant. It is then not preferred over a live holder.
    pub forfeited: bool,
}

impl LeaseVerdict {
    /// The name of the holder, if the Lease has one.
    pub(super) const fn holder(&self) -> Option<&Arc<str>> {
        match self {
            Self::Held { holder: CandidateKey { name: holder, .. }, .. }
            | Self::Foreign { holder }
            | Self::Assisted { holder, .. } => Some(holder),
            _ => None,
        }
    }

    /// The verdict as metrics and `hustings status` name it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds",
            Self::Unread => "unread",
            Self::Held { .. } => "held",
            Self::Foreign { .. } => "foreign",
            Self::Assisted { .. } => "assisted",
            Self::Reserved { .. } => "reserved",
            Self::Unheld { .. } => "unheld",
            Self::NoLiveCandidate { .. } => "no-candidate",
            Self::OnHold { .. } => "hold",
        }
    }
}
