//! The timers of an election: what sets each timer, for how long, and why. A decision names the one that expires first.

/// What an election waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Set by a Lease that is held, or that counts as held, for the rest of its duration: then it is granted.
    Expiry,
    /// Set by the same, until the successor has just enough time to answer before the expiry: then it is pinged.
    EarlyPings,
    /// Set by a ping, for `window`: later answers do not count in this election.
    PingWindow,
    /// Set by a running election, for `window`, twice: then it closes, or pings the remaining candidates.
    ElectionWindow,
    /// Set by a free Lease, for `settling` from the first candidate: replicas that start together take part.
    Settling,
    /// Set by a request to hand over, for `window`, then doubled intervals: the preferred holder must stay live.
    RepeatedPing,
    /// Set by the same, for `ignored_after`: then one event reports the holder.
    IgnoredRequest,
    /// Set by a Lease that the watch does not show, for `requeue` from its last read: then it is read again.
    UnlabelledLease,
    /// Set by a candidate without an owner, for `validity`: then it is pinged, and later deleted.
    Validity,
    /// Set by a damped candidate, for the rest of its damping: then its rank changes.
    DampingEnd,
    /// Set by a pause, a pin or an exclusion with an end, until that time by the wall clock: then it no longer counts.
    ActEnd,
    /// Set by a new verdict, for `status_rest`: a status that lasts is written.
    StatusRest,
    /// Set by a request that failed, or a write without effect, for its backoff: then it may be repeated.
    Retry,
    /// Set by every decision, for `requeue`: no Lease is forgotten, even if an observation is lost.
    Requeue,
}

impl Timer {
    /// The timer as a log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expiry => "expiry",
            Self::EarlyPings => "early-pings",
            Self::PingWindow => "ping-window",
            Self::ElectionWindow => "election-window",
            Self::Settling => "settling",
            Self::RepeatedPing => "repeated-ping",
            Self::IgnoredRequest => "ignored-request",
            Self::UnlabelledLease => "unlabelled-lease",
            Self::Validity => "validity",
            Self::DampingEnd => "damping-end",
            Self::ActEnd => "act-end",
            Self::StatusRest => "status-rest",
            Self::Retry => "retry",
            Self::Requeue => "requeue",
        }
    }
}
