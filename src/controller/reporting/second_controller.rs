//! Warns of a second controller: in `/readyz?verbose`, and once by an event and in the log.
//!
//! A second controller usually elects for every Lease. One event about one of them is enough.

use hustings_core::election::{Action, Event};

use crate::controller::key::LeaseKey;
use crate::serve::health::{Check, Health};

/// The check, and whether a second controller was reported.
pub(super) struct SecondControllerReports {
    /// It always passes, since a second controller is no reason to stop this one.
    check: Check,
    is_reported: bool,
}

impl SecondControllerReports {
    pub(super) fn new(health: &Health) -> Self {
        Self { check: health.check("second-controller"), is_reported: false }
    }

    /// Logs that a decision about this Lease found a second controller, and keeps its event, once. Removes further events.
    pub(super) fn report(&mut self, lease: &LeaseKey, actions: &mut Vec<Action>) {
        let is_report = |action: &Action| matches!(action, Action::Event(Event::SecondController));
        if !actions.iter().any(is_report) {
            return;
        }
        if std::mem::replace(&mut self.is_reported, true) {
            actions.retain(|action| !is_report(action));
        } else {
            tracing::warn!(%lease, "{}", Event::SecondController);
        }
    }

    /// Sets the warning. Without one, the next second controller is reported again.
    pub(super) fn warn(&mut self, warning: Option<String>) {
        self.is_reported &= warning.is_some();
        self.check.pass_with(warning);
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::Request;

    use super::*;

    #[test]
    fn a_second_controller_is_reported_once_until_it_is_gone() {
        let health = Health::new();
        let mut second = SecondControllerReports::new(&health);
        let reports = |second: &mut SecondControllerReports| {
            let mut actions = vec![Request::read_lease("l").into(), Action::Event(Event::SecondController)];
            second.report(&LeaseKey::new("n", "l"), &mut actions);
            actions.len() - 1
        };
        assert_eq!([reports(&mut second), reports(&mut second)], [1, 0]);
        second.warn(Some("it elects for Lease n/l".to_owned()));
        assert_eq!(reports(&mut second), 0);
        let readiness = health.readiness();
        assert!(readiness.ready, "it does not make this controller unready");
        assert_eq!(readiness.checks[0].message.as_deref(), Some("it elects for Lease n/l"));
        second.warn(None);
        assert_eq!(reports(&mut second), 1);
    }
}
