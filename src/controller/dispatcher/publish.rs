//! Publishes views to the page: the Leases that may have changed, shortly after, and the controller once a second.
//!
//! This rule must hold: publishing takes the loop only a few milliseconds at a time, however many Leases there are.

use std::time::Duration;

use hustings_core::model::Now;
use tokio::time::Instant;

use super::Dispatcher;
use crate::base::terminal::visible;
use crate::controller::key::LeaseKey;
use crate::serve::page::{ControllerView, Problem, Severity};

/// The pause before the next Leases if more than [`MOST_AT_ONCE`] have changed.
const PAUSE: Duration = Duration::from_millis(10);

/// The most Leases to publish at a time.
const MOST_AT_ONCE: usize = 32;

impl Dispatcher {
    /// Records that the view of this Lease may have changed.
    pub(super) fn note_change(&mut self, key: &LeaseKey) {
        if let Some(publication) = &mut self.publication {
            publication.note(key);
        }
    }

    /// Records that every view may have changed.
    pub(super) fn note_all(&mut self) {
        if let Some(publication) = &mut self.publication {
            self.leases.keys().for_each(|key| publication.note(key));
        }
    }

    /// Publishes Leases that have changed. Those beyond the limit follow after a pause.
    pub(super) fn publish(&mut self) {
        let now = self.parts.clock.both();
        for _ in 0..MOST_AT_ONCE {
            let Some(key) = self.publication.as_mut().and_then(|publication| publication.changed.pop_first()) else {
                break;
            };
            // Before the lists are complete, the view would lack candidates. The end of the lists calls `note_all`.
            if self.scopes.is_listed(key.namespace()) {
                self.publish_lease(&key, now);
            }
        }
        if let Some(publication) = &mut self.publication {
            publication.due = (!publication.changed.is_empty()).then(|| Instant::now() + PAUSE);
        }
    }

    /// Publishes the controller, and records the Leases whose views change with time.
    pub(super) fn publish_controller(&mut self) {
        let Some(publication) = &mut self.publication else { return };
        let now = self.parts.clock.now();
        let changing = self.leases.iter().filter(|(_, lease)| lease.view_changes_with_time(now));
        changing.for_each(|(key, _)| publication.note(key));
        let checks = self.parts.health.readiness().checks.into_iter();
        let problems = checks.filter_map(|check| {
            let severity = if check.ok { Severity::Info } else { Severity::Warning };
            Some(Problem::new(severity, visible(&format!("{}: {}", check.name, check.message?))))
        });
        publication.page.publish_controller(&ControllerView {
            identity: publication.identity.clone(),
            leads: self.leads,
            leader: self.parts.leading.holder().or_else(|| self.leads.then(|| publication.identity.clone())),
            version: env!("CARGO_PKG_VERSION"),
            problems: problems.collect(),
        });
    }

    /// Removes a Lease from the page.
    pub(super) fn unpublish(&mut self, key: &LeaseKey) {
        if let Some(publication) = &mut self.publication {
            publication.page.remove(key.namespace(), key.name());
        }
    }

    fn publish_lease(&mut self, key: &LeaseKey, now: Now) {
        let Some(lease) = self.leases.get_mut(key) else { return };
        let decides = self.leads && self.parts.elects(lease);
        if let (Some(view), Some(publication)) = (lease.view(now, &self.parts.stores, decides), &self.publication) {
            publication.page.publish(&view);
        }
    }
}
