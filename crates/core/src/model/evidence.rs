//! What proves a silent holder dead. [`Doubt`](crate::election::Doubt) lists why an election may not accept it.

use std::fmt;

/// What proved a holder dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The kubelet reports that the holder's container has terminated.
    ContainerTerminated,
    /// The holder's node is not ready, and an administrator has declared it out of service.
    NodeOutOfService,
}

impl Evidence {
    /// The evidence as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerTerminated => "container-terminated",
            Self::NodeOutOfService => "node-out-of-service",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ContainerTerminated => "the container of the holder terminated",
            Self::NodeOutOfService => "the node of the holder was declared out of service",
        })
    }
}
