//! Whether a candidate that this process creates or refreshes names an owner.
//!
//! An owner that the API server does not know gets its candidates deleted by the garbage collector, although the process
//! lives. So it is with the UID that a static pod is given by its kubelet. A candidate that had an owner and is deleted soon
//! after is created again without one.

use std::time::Duration;

use crate::model::Moment;

/// How long after the owner was named a deletion counts as the garbage collector's. It mostly takes a second, and much
/// longer only where Kubernetes' own controllers are down.
const OWNER_PROBATION: Duration = Duration::from_mins(5);

/// What is known of the owner that this process names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// No object has it.
    Unnamed,
    /// An object was given it at this moment.
    NamedAt(Moment),
    /// An object that had it was deleted soon after, so that it is not named again.
    Dropped {
        /// That has been noted.
        is_noted: bool,
    },
}

impl Owner {
    /// Whether a candidate that is created or refreshed at `now` names the owner.
    pub(super) fn is_named_at(self, now: Moment) -> bool {
        match self {
            Self::Unnamed => true,
            Self::NamedAt(moment) => now >= moment.after(OWNER_PROBATION),
            Self::Dropped { .. } => false,
        }
    }

    /// A new object was created or refreshed, which has the owner or does not.
    pub(super) fn written(&mut self, is_owned: bool, now: Moment) {
        *self = match *self {
            dropped @ Self::Dropped { .. } => dropped,
            _ if is_owned => Self::NamedAt(now),
            Self::Unnamed => Self::Unnamed,
            // Only now is it certain that the former object was deleted.
            Self::NamedAt(_) => Self::Dropped { is_noted: false },
        };
    }

    /// Whether the owner is dropped and that has not been noted before.
    pub(super) fn is_newly_dropped(&mut self) -> bool {
        match self {
            Self::Dropped { is_noted } => !std::mem::replace(is_noted, true),
            Self::Unnamed | Self::NamedAt(_) => false,
        }
    }
}
