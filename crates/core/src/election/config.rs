//! The constants of an election, each with its reason and its origin.

use std::time::Duration;

use crate::model::GRANT_DURATION_SECONDS;

/// The durations and limits of an election. The defaults are the protocol; tests and simulations change single values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// How long an election waits for the answer to a ping. Upstream's `electionDuration`.
    pub window: Duration,
    /// How long a grant or a hand-over lasts, in seconds. Upstream's `defaultLeaseDurationSeconds`: long enough for a
    /// slow take-up, and short enough that the death of the electee costs little.
    pub grant_duration_seconds: u32,
    /// How long a grant may stay unused before the controller looks for a successor: ten times the length of a take-up.
    pub take_up: Duration,
    /// The margin for the round trip of the pings and for live reads. The controller begins to look for a successor one
    /// window plus this margin before an unchanged record expires.
    pub early_margin: Duration,
    /// How long a candidate without an owner may go without a proof of life before the controller pings it. If it does
    /// not answer, the controller deletes it after the same time again. Upstream's `leaseCandidateValidDuration`.
    pub validity: Duration,
    /// How long a Lease without a holder waits for more candidates after the first one has appeared. So replicas that
    /// start together take part in one election. Zero disables the wait.
    pub settling: Duration,
    /// The longest time between two decisions about a Lease, and between two reads of one that the watch does not show.
    /// Upstream's `defaultRequeueInterval`.
    pub requeue: Duration,
    /// The damping after the first loss.
    pub damping_min: Duration,
    /// The longest damping. Each further loss doubles the damping up to this.
    pub damping_max: Duration,
    /// How long a native holder is not asked again after it, or the server, has dropped a request to hand over.
    pub declined_rest: Duration,
    /// How many candidates are pinged in the first window. The best candidates are nearly always live. A thousand dead
    /// ones must not cost a thousand pings while one of the first sixteen answers.
    pub pings_in_first_window: usize,
    /// How long a holder may leave a preferred holder waiting before an event reports it: more than twice the default
    /// time within which an elector stops its work.
    pub ignored_after: Duration,
    /// For how many windows an answer stays valid while the grant cannot be written. After that, the controller pings
    /// all candidates again.
    pub answer_windows: u32,
    /// How long a verdict must last before a status shows it, if no decision depends on that status. This is longer
    /// than a change of holders takes, so that status writes do not delay the change.
    pub status_rest: Duration,
    /// The first pause after a failed request. Each further failure doubles it up to `requeue`; that of a status,
    /// for which no election waits, up to a minute.
    pub backoff: Duration,
    /// Which evidence of a holder's death counts.
    pub evidence: EvidenceConfig,
    /// The longest pause before a write without effect is repeated, if an election waits for it.
    pub ineffective_pause: Duration,
    /// A write that is needed again within this time has been reverted. A person may undo a write every few minutes; a
    /// program that undoes it does so at once or with each of its rounds.
    pub settled_after: Duration,
}

/// Which evidence of a holder's death counts. All of it is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EvidenceConfig {
    /// Whether the end of the holder's container counts, which needs a watch of Pods.
    pub pods: bool,
    /// Whether the taint `node.kubernetes.io/out-of-service` of the holder's node counts, too, which needs a watch
    /// of Nodes.
    pub nodes: bool,
}

impl Config {
    /// For how long after a decision a controller counts as the leader.
    pub(super) fn decides_for(&self) -> Duration {
        self.requeue.saturating_mul(2)
    }

    /// How long the answer of an election stays valid.
    pub(super) fn answer_lasts(&self) -> Duration {
        self.window.saturating_mul(self.answer_windows)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(5),
            grant_duration_seconds: GRANT_DURATION_SECONDS,
            take_up: Duration::from_secs(1),
            early_margin: Duration::from_secs(1),
            validity: Duration::from_mins(30),
            settling: Duration::from_secs(1),
            requeue: Duration::from_secs(5),
            damping_min: Duration::from_secs(30),
            damping_max: Duration::from_mins(10),
            declined_rest: Duration::from_mins(10),
            pings_in_first_window: 16,
            ignored_after: Duration::from_mins(1),
            answer_windows: 3,
            status_rest: Duration::from_secs(1),
            backoff: Duration::from_millis(500),
            evidence: EvidenceConfig::default(),
            ineffective_pause: Duration::from_secs(30),
            settled_after: Duration::from_mins(1),
        }
    }
}
