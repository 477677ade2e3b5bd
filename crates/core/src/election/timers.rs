//! The timers of an election: what each one waits for.
//!
//! A decision sets the timers that apply, and names the one that expires first.
//!
//! | timer | set by | runs for |
//! |---|---|---|
//! | `Requeue` | every decision | `requeue`: no Lease is forgotten, even if an observation is lost |
//! | `Expiry` | a Lease that is held, or that counts as held | the rest of its duration; then it is granted |
//! | `EarlyPings` | the same | until the successor has just enough time to answer before the expiry |
//! | `Evidence` | a Lease in a term, with evidence switched on | a quarter more than the usual interval between two renewals, then `evidence.interval`: the Pod of a silent holder is read |
//! | `PingWindow` | a ping | `window`: later answers do not count in this election |
//! | `ElectionWindow` | a running election | `window`, twice: then it closes, or pings the remaining candidates |
//! | `Settling` | a free Lease | `settling` from the first candidate, so that replicas that start together take part |
//! | `RepeatedPing` | a request to hand over | `window`, then doubled intervals: the preferred holder must stay live |
//! | `IgnoredRequest` | the same | `ignored_after`: then one event reports the holder |
//! | `UnlabelledLease` | a Lease that the watch does not show | `requeue` from its last read |
//! | `Validity` | a candidate without an owner | `validity`: then it is pinged, and later deleted |
//! | `DampingEnd` | a damped candidate | the rest of its damping: its rank changes |
//! | `ActEnd` | a pause, a pin or an exclusion with an end | until that time by the wall clock; then it no longer counts |
//! | `StatusRest` | a new verdict | `status_rest`: a status that lasts is written |
//! | `Retry` | a request that failed, or a write without effect | its backoff |

/// What an election waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The Lease, or what counts as its duration, expires.
    Expiry,
    /// The controller pings possible successors before the Lease expires.
    EarlyPings,
    /// The holder becomes silent, or its Pod is read again.
    Evidence,
    /// The window of a ping ends.
    PingWindow,
    /// The first or second window of the election ends.
    ElectionWindow,
    /// Candidates that start together have had time to appear.
    Settling,
    /// The preferred holder is pinged again.
    RepeatedPing,
    /// The holder has ignored a request to hand over for a long time.
    IgnoredRequest,
    /// The Lease has no label and is read again.
    UnlabelledLease,
    /// A candidate without an owner must prove itself live, or the controller deletes it.
    Validity,
    /// The damping of a candidate ends.
    DampingEnd,
    /// An administrator's act ends.
    ActEnd,
    /// A verdict has lasted long enough for its status.
    StatusRest,
    /// A request may be repeated.
    Retry,
    /// The longest time between two decisions has passed.
    Requeue,
}

impl Timer {
    /// The timer as a log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expiry => "expiry",
            Self::EarlyPings => "early-pings",
            Self::Evidence => "evidence",
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
