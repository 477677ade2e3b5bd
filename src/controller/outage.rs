//! How long a part of the API that does not answer counts against the controller.
//!
//! The API server may answer every request except those for one kind of object. Two rules limit the harm if only some
//! elections need that kind:
//!
//! - Elections wait for its first list for at most [`PATIENCE`]. Then they continue without its objects.
//! - Without it, the controller is not ready, so that a rollout and monitoring show the failure. That lasts for at most
//!   [`UNREADY`]. Then it is ready with a warning, so that no rollout hangs because of objects that others do not need.

use std::time::Duration;

use hustings_client::api::MicroTime;
use hustings_client::clock::Clock;
use hustings_core::model::WireTime;
use tokio::time::Instant;

/// How long elections wait for an optional kind. Electors wait for a controller for 25 s before they elect themselves.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long an optional part of the API that does not answer keeps the controller unready. Helm waits for 5 minutes, in
/// which two replicas become ready one after the other.
pub(super) const UNREADY: Duration = Duration::from_mins(2);

/// A period in which a part of the API has not answered.
#[derive(Debug)]
pub(super) struct Outage {
    began: Instant,
    since: WireTime,
    stage: OutageStage,
}

/// How long an outage has lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OutageStage {
    /// It is normal so far.
    Short,
    /// It has lasted for [`PATIENCE`].
    Overdue,
    /// It has lasted for [`UNREADY`].
    Tolerated,
}

impl Outage {
    /// An outage that begins now.
    pub(super) fn begin(clock: &dyn Clock) -> Self {
        Self { began: Instant::now(), since: clock.wall(), stage: OutageStage::Short }
    }

    /// Waits until the outage reaches its next stage, and returns that stage. Never ends after the last stage. This
    /// function is cancel safe.
    pub(super) async fn next_stage(&mut self) -> OutageStage {
        let after = match self.stage {
            OutageStage::Short => PATIENCE,
            OutageStage::Overdue => UNREADY,
            OutageStage::Tolerated => std::future::pending().await,
        };
        tokio::time::sleep_until(self.began + after).await;
        self.update()
    }

    /// Moves to the stage that the outage has reached, and returns it.
    pub(super) fn update(&mut self) -> OutageStage {
        self.stage = match self.began.elapsed() {
            elapsed if elapsed >= UNREADY => OutageStage::Tolerated,
            elapsed if elapsed >= PATIENCE => OutageStage::Overdue,
            _ => OutageStage::Short,
        };
        self.stage
    }

    /// The stage that was last reached.
    pub(super) const fn stage(&self) -> OutageStage {
        self.stage
    }

    /// Adds to `reason` since when the outage lasts.
    pub(super) fn describe(&self, reason: &str) -> String {
        format!("{reason}, since {}", MicroTime(self.since))
    }
}

/// Whether an answer with this status code refuses the request, so that a retry does not help. A server that is
/// overloaded, starting or faulty may answer the next request.
pub(super) const fn is_refusal(code: u16) -> bool {
    400 <= code && code < 500 && code != 408 && code != 429
}
