//! The constants of an election: one table, each with its reason and where it comes from.

use std::time::Duration;

/// What an election is timed by. The defaults are the protocol; tests and simulations change single values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// How long an unanswered ping keeps an election waiting. Upstream's `electionDuration`.
    pub window: Duration,
    /// How long a grant or a hand-over lasts, in seconds. Upstream's `defaultLeaseDurationSeconds`: long enough for a
    /// slow take-up, short enough that an electee that died meanwhile costs little.
    pub grant_duration_seconds: u32,
    /// How long a grant stands before its successor is looked for: ten times what a take-up takes.
    pub take_up: Duration,
    /// How long before a silent record expires its successor is found: one window, and this for the pings' way and the
    /// live reads.
    pub early_margin: Duration,
    /// How long a candidate without a living owner goes without proof before it is pinged, and how long it then stays
    /// Unresponsive before it is deleted. Upstream's `leaseCandidateValidDuration`.
    pub validity: Duration,
    /// How long a Lease without a holder waits for further candidates once the first has appeared: replicas that start
    /// together shall meet in one election. Zero turns it off.
    pub settling: Duration,
    /// The longest time between two looks at a Lease, and between two reads of one that the watch does not show.
    /// Upstream's `defaultRequeueInterval`.
    pub requeue: Duration,
    /// For how long a grant not taken up, a lapse or a reclaim ranks a candidate last, the first time.
    pub damping_min: Duration,
    /// The longest damping; each further count doubles it up to this.
    pub damping_max: Duration,
    /// How many candidates are pinged in the first window. The best of them are nearly always live, and a thousand
    /// dead ones shall not cost a thousand pings while one of the first sixteen answers.
    pub pings_in_first_window: usize,
    /// For how long a holder may leave a preferred holder waiting before an event tells of it: twice the bound within
    /// which an elector stops its work.
    pub ignored_after: Duration,
    /// How many windows an answer stays good for a grant that could not be written yet; then everybody is asked anew.
    pub answer_windows: u32,
    /// How long a verdict must have stood before a status that nobody acts upon soon says so: longer than a change of
    /// holders takes, so that its writes do not hold up the change.
    pub status_rest: Duration,
    /// The first pause after a failed request; each further failure doubles it up to `requeue`.
    pub backoff: Duration,
    /// The longest pause before a write that succeeded without effect is repeated, where an election waits for it.
    pub ineffective_pause: Duration,
}

impl Config {
    /// How long the answer of an election stays good.
    pub(super) fn answer_lasts(&self) -> Duration {
        self.window.saturating_mul(self.answer_windows)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(5),
            grant_duration_seconds: 5,
            take_up: Duration::from_secs(1),
            early_margin: Duration::from_secs(1),
            validity: Duration::from_mins(30),
            settling: Duration::from_secs(1),
            requeue: Duration::from_secs(5),
            damping_min: Duration::from_secs(30),
            damping_max: Duration::from_mins(10),
            pings_in_first_window: 16,
            ignored_after: Duration::from_mins(1),
            answer_windows: 3,
            status_rest: Duration::from_secs(1),
            backoff: Duration::from_millis(500),
            ineffective_pause: Duration::from_secs(30),
        }
    }
}
