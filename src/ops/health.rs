//! Whether this process lives and whether it is ready.
//!
//! Alive means that the event loop turns; nothing outside the process can make it untrue, since a restart would not
//! help. Ready means that every check passes; each says in words what it waits for. Nothing is ready before it has one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long the event loop may be silent before the process counts as stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The health of one process, shared by all of its parts.
#[derive(Clone, Debug)]
pub struct Health(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    last_beat_millis: AtomicU64,
    checks: Mutex<Checks>,
}

/// The checks by name: each passes, perhaps with a warning, or fails for a reason.
type Checks = BTreeMap<String, Result<Option<String>, String>>;

/// One named check, from the side of the part that it is about.
#[derive(Clone, Debug)]
pub struct Check {
    health: Health,
    name: String,
}

/// All checks at one instant, as `/readyz?verbose` prints them.
#[derive(Debug, Serialize)]
pub struct Readiness {
    /// Whether there are any, and all of them pass.
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
    /// What it waits for, or what it warns of although it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Health {
    /// A live process without any check.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            started: Instant::now(),
            last_beat_millis: AtomicU64::new(0),
            checks: Mutex::default(),
        }))
    }

    /// Adds a check, which fails until it passes for the first time.
    pub fn check(&self, name: impl Into<String>) -> Check {
        let check = Check { health: self.clone(), name: name.into() };
        check.fail("not yet");
        check
    }

    /// Says that the event loop turns.
    pub fn beat(&self) {
        let millis = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_beat_millis.store(millis, Ordering::Relaxed);
    }

    /// Whether the event loop has turned of late.
    pub fn is_alive(&self) -> bool {
        self.is_alive_after(self.0.started.elapsed())
    }

    /// All checks.
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
        // It may be asked before anything has begun.
        Readiness { ready: !checks.is_empty() && checks.iter().all(|check| check.ok), checks }
    }

    fn is_alive_after(&self, elapsed: Duration) -> bool {
        let last_beat = Duration::from_millis(self.0.last_beat_millis.load(Ordering::Relaxed));
        elapsed.saturating_sub(last_beat) < STUCK_AFTER
    }

    fn checks(&self) -> MutexGuard<'_, Checks> {
        // A map of results is whole whatever its last writer did.
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// The check passes. Returns whether it failed before.
    pub fn pass(&self) -> bool {
        self.pass_with(None)
    }

    /// The check passes, with a warning if there is one. Returns whether it failed before.
    pub fn pass_with(&self, warning: Option<String>) -> bool {
        matches!(self.health.checks().insert(self.name.clone(), Ok(warning)), Some(Err(_)))
    }

    /// The check fails. Returns whether it passed before, or failed for another reason.
    pub fn fail(&self, message: impl Into<String>) -> bool {
        let result = Err(message.into());
        let former = self.health.checks().insert(self.name.clone(), result.clone());
        former != Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_when_every_check_passes_and_says_what_it_waits_for() {
        let health = Health::new();
        assert!(!health.readiness().ready, "nothing was checked");
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
    fn a_process_is_ready_in_spite_of_a_warning() {
        let health = Health::new();
        health.check("writes").pass_with(Some("one has no effect".to_owned()));
        let readiness = health.readiness();
        assert!(readiness.ready);
        assert_eq!(readiness.checks[0].message.as_deref(), Some("one has no effect"));
    }

    #[test]
    fn a_check_tells_what_is_news() {
        let health = Health::new();
        let check = health.check("leases");
        assert!(check.fail("forbidden"));
        assert!(!check.fail("forbidden"), "the same again is no news");
        assert!(check.pass());
        assert!(!check.pass());
    }

    #[test]
    fn a_process_whose_event_loop_stands_still_is_not_alive() {
        let health = Health::new();
        health.beat();
        assert!(health.is_alive_after(Duration::from_secs(29)));
        assert!(!health.is_alive_after(Duration::from_secs(31)));
    }
}
