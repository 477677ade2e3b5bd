//! Whether this process is alive and whether it is ready.
//!
//! Alive means that the main task makes progress. Nothing outside the process affects that, since a restart would not
//! help against outside causes. The electors of this process consult the same heartbeat before each renewal. Ready means that there is at least one check and that every check passes. A failing
//! check reports what it waits for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hustings_client::Heartbeat;
use serde::Serialize;

/// If the last heartbeat is older than this, the process counts as stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The health of one process. Clones share it.
#[derive(Clone, Debug)]
pub struct Health(Arc<SharedHealth>);

#[derive(Debug)]
struct SharedHealth {
    heartbeat: Heartbeat,
    checks: Mutex<HealthChecks>,
}

/// The checks by name. A check passes, with or without a warning, or fails with a reason.
type HealthChecks = BTreeMap<String, Result<Option<String>, String>>;

/// A handle with which one part of the process reports its own check.
#[derive(Clone, Debug)]
pub struct Check {
    health: Health,
    name: String,
}

/// All checks at one instant, as `/readyz?verbose` prints them.
#[derive(Debug, Serialize)]
pub struct Readiness {
    /// Whether there is at least one check and all checks pass.
    pub ready: bool,
    /// Each check, by name.
    pub checks: Vec<CheckResult>,
}

/// One check at one instant.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Whether it passes.
    pub ok: bool,
    /// What a failing check waits for, or what a passing one warns of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Health {
    /// Creates the health of a live process without checks.
    pub fn new() -> Self {
        Self(Arc::new(SharedHealth { heartbeat: Heartbeat::new(), checks: Mutex::default() }))
    }

    /// Adds a check. It fails until it passes for the first time.
    pub fn check(&self, name: impl Into<String>) -> Check {
        let check = Check { health: self.clone(), name: name.into() };
        check.fail("no result yet");
        check
    }

    /// The heartbeat of the main task, for the electors of this process.
    pub fn heartbeat(&self) -> &Heartbeat {
        &self.0.heartbeat
    }

    /// Records a heartbeat of the main task.
    pub fn beat(&self) {
        self.0.heartbeat.beat();
    }

    /// Records heartbeats of the task that polls this future. They stop if that task is stuck in a system call.
    pub async fn keep_beating(&self) -> Infallible {
        self.0.heartbeat.keep_beating().await
    }

    /// Whether the last heartbeat is less than [`STUCK_AFTER`] ago.
    pub fn is_alive(&self) -> bool {
        self.0.heartbeat.age() < STUCK_AFTER
    }

    /// Returns the results of all checks.
    pub fn readiness(&self) -> Readiness {
        let checks: Vec<_> = self
            .checks()
            .iter()
            .map(|(name, result)| CheckResult {
                name: name.clone(),
                ok: result.is_ok(),
                message: result.clone().unwrap_or_else(Some),
            })
            .collect();
        // A probe may arrive before any part has added its check.
        Readiness { ready: !checks.is_empty() && checks.iter().all(|check| check.ok), checks }
    }

    fn checks(&self) -> MutexGuard<'_, HealthChecks> {
        // A panic cannot leave the map half written, so a poisoned lock is safe to use.
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// Marks the check as passing. Returns whether the result is new.
    pub fn pass(&self) -> bool {
        self.pass_with(None)
    }

    /// Marks the check as passing, with an optional warning. Returns whether the result is new.
    pub fn pass_with(&self, warning: Option<String>) -> bool {
        self.replace(Ok(warning))
    }

    /// Marks the check as failing. Returns whether the result is new.
    pub fn fail(&self, message: impl Into<String>) -> bool {
        self.replace(Err(message.into()))
    }

    fn replace(&self, result: Result<Option<String>, String>) -> bool {
        let previous = self.health.checks().insert(self.name.clone(), result.clone());
        previous != Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_every_check_passes_and_reports_what_it_waits_for() {
        let health = Health::new();
        assert!(!health.readiness().ready, "there is no check yet");
        let leases = health.check("leases");
        let candidates = health.check("candidates");
        assert!(!health.readiness().ready);
        leases.pass();
        candidates.fail("the CRD is missing");
        let readiness = health.readiness();
        assert!(!readiness.ready);
        assert_eq!(readiness.checks[0].message.as_deref(), Some("the CRD is missing"));
        candidates.pass();
        assert!(health.readiness().ready);
    }

    #[test]
    fn a_warning_does_not_make_a_process_unready() {
        let health = Health::new();
        health.check("writes").pass_with(Some("one has no effect".to_owned()));
        let readiness = health.readiness();
        assert!(readiness.ready);
        assert_eq!(readiness.checks[0].message.as_deref(), Some("one has no effect"));
    }

    #[test]
    fn a_check_returns_whether_its_result_is_new() {
        let health = Health::new();
        let check = health.check("leases");
        assert!(check.fail("forbidden"));
        assert!(!check.fail("forbidden"), "the result is the same");
        assert!(check.pass());
        assert!(!check.pass());
        let warning = || Some("one object cannot be read".to_owned());
        assert!(check.pass_with(warning()));
        assert!(!check.pass_with(warning()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_with_a_stuck_event_loop_is_not_alive() {
        let health = Health::new();
        tokio::time::advance(Duration::from_secs(31)).await;
        health.beat();
        tokio::time::advance(Duration::from_secs(29)).await;
        assert!(health.is_alive());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!health.is_alive());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_keeps_beating_is_alive_until_nothing_polls_it() {
        let health = Health::new();
        assert!(tokio::time::timeout(STUCK_AFTER * 3, health.keep_beating()).await.is_err());
        assert!(health.is_alive());
        tokio::time::sleep(STUCK_AFTER * 2).await;
        assert!(!health.is_alive());
    }
}
