//! The configuration of `hustings rollout`.

use std::time::Duration;

use crate::base::output::Output;

/// What to simulate, and how to report it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Lease from which replicas, versions, timing and acts are taken; `None` to read nothing.
    pub lease: Option<String>,
    /// The old version; `None` for the candidates' own versions.
    pub from: Option<String>,
    /// The new version.
    pub to: String,
    /// The version that the new replicas emulate; `None` for their own.
    pub emulates: Option<String>,
    /// The number of replicas; `None` for that of the Lease, or three.
    pub replicas: Option<usize>,
    /// Whether the replicas elect among themselves.
    pub direct: bool,
    /// How many replicas may run beyond the wanted number (`maxSurge`).
    pub surge: usize,
    /// How many of the wanted replicas may be unavailable (`maxUnavailable`).
    pub unavailable: usize,
    /// The order in which the old replicas stop.
    pub order: Order,
    /// How long a new replica takes until it stands and is ready.
    pub readiness: Duration,
    /// How long a replica's work takes to stop.
    pub shutdown: Duration,
    /// The lease duration in seconds; `None` for that of the Lease, or 15.
    pub lease_seconds: Option<u32>,
    /// The output format.
    pub output: Output,
}

/// The order in which the old replicas stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The youngest first, as a Deployment prefers.
    #[default]
    YoungestFirst,
    /// The leader first.
    LeaderFirst,
    /// The leader last.
    LeaderLast,
}
