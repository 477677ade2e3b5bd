//! What the dispatcher shows of its elections: the metrics and the page.

use hustings_core::election::Election;
use tokio::time::Instant;

use super::Dispatcher;
use crate::controller::reporting::Shown;
use crate::serve::metrics::{Resource, count};

impl Dispatcher {
    /// Records a heartbeat, and updates the metrics and the warnings.
    pub(super) fn measure(&mut self) {
        self.parts.health.beat();
        let metrics = &self.parts.reporting.measurements.metrics;
        metrics.queue_depth.set(count(self.queue.overdue(Instant::now())));
        metrics.candidates.set(count(self.stands_for.len()));
        if let Some(pods) = &mut self.pods {
            pods.expire();
            metrics.watched_objects.get_or_create(&Resource::Pods.label()).set(count(pods.len()));
        }
        self.parts.reporting.measure(self.parts.clock.now(), &self.elections, self.leads);
    }

    /// Records that every view of the page may have changed.
    pub(super) fn note_all(&mut self) {
        if let Some(page) = &mut self.parts.reporting.page {
            self.elections.keys().for_each(|key| page.note(key));
        }
    }

    /// Publishes to the page the Leases that have changed.
    pub(super) fn publish(&mut self) {
        let Some(mut page) = self.parts.reporting.page.take() else { return };
        page.publish(self.parts.clock.both(), &self.elections, &self.parts.stores, |key, election| {
            if self.scopes.is_refused(key.namespace()) {
                Shown::AsRefused
            } else if !self.scopes.is_listed(key.namespace()) {
                Shown::NotYet
            } else if self.leads && self.parts.elects(election) {
                Shown::AsDecided
            } else {
                Shown::AsStandby
            }
        });
        self.parts.reporting.page = Some(page);
    }

    /// Publishes this controller to the page.
    pub(super) fn publish_controller(&mut self) {
        let Some(mut page) = self.parts.reporting.page.take() else { return };
        let (leader, checks) = (self.parts.leading.holder(), self.parts.health.readiness().checks);
        let decides = |election: &Election| self.leads && self.parts.elects(election);
        page.publish_controller(self.parts.clock.both(), &self.elections, leader, self.leads, decides, checks);
        self.parts.reporting.page = Some(page);
    }
}
