//! Whether a candidate that this process creates or refreshes names an owner.
//!
//! If the API server does not know the owner, the garbage collector deletes the candidate although the process lives.
//! The UID that a kubelet gives a static pod is such an owner. If a candidate is deleted soon after its owner was set,
//! the elector creates it again without an owner.

use std::time::Duration;

use crate::model::Moment;

/// How long after naming the owner a deletion counts as the garbage collector's. It usually takes a second, and much
/// longer only while Kubernetes' own controllers are down.
const OWNER_PROBATION: Duration = Duration::from_mins(5);

/// What is known about the owner that this process names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// No object names it yet.
    Unnamed,
    /// An object named it at this moment.
    NamedAt(Moment),
    /// An object that named it was deleted soon after, so it is not named again.
    Dropped {
        /// A note has reported that.
        is_noted: bool,
    },
}

impl Owner {
    /// Whether a candidate created or refreshed at `now` names the owner.
    pub(super) fn is_named_at(self, now: Moment) -> bool {
        match self {
            Self::Unnamed => true,
            Self::NamedAt(moment) => now >= moment.after(OWNER_PROBATION),
            Self::Dropped { .. } => false,
        }
    }

    /// Whether an object that this process has created or refreshed may name the owner.
    pub(super) const fn may_be_named(self) -> bool {
        !matches!(self, Self::Dropped { .. })
    }

    /// Records that an object was created or refreshed, with or without the owner.
    pub(super) fn written(&mut self, is_owned: bool, now: Moment) {
        *self = match *self {
            dropped @ Self::Dropped { .. } => dropped,
            _ if is_owned => Self::NamedAt(now),
            Self::Unnamed => Self::Unnamed,
            // Only now is it certain that the former object was deleted.
            Self::NamedAt(_) => Self::Dropped { is_noted: false },
        };
    }

    /// Whether the owner was dropped and no note has reported that yet.
    pub(super) fn is_newly_dropped(&mut self) -> bool {
        match self {
            Self::Dropped { is_noted } => !std::mem::replace(is_noted, true),
            Self::Unnamed | Self::NamedAt(_) => false,
        }
    }
}
