//! The one door for reports: whatever an election finds goes from here to the metrics, the events, the log and the page.
//!
//! Nothing here influences an election. Every controller reports to its log and its page; only the leading one publishes
//! events and counts, so that both happen once.

mod page;
mod second_controller;

use std::collections::BTreeMap;

use hustings_core::election::{Decision, Election, Event, Report};
use hustings_core::model::{Moment, Now, Observed};

pub(super) use self::page::{PagePublisher, Shown};
use self::second_controller::SecondControllerReports;
use super::events::EventPublisher;
use super::key::LeaseKey;
use super::measurements::Measurements;
use crate::serve::health::{Check, Health};
use crate::serve::metrics::{ControllerMetrics, count};
use crate::serve::page::Page;

/// The election of each Lease. Each is boxed, since the nodes of a B-tree reserve space for more values than they hold.
pub(super) type ElectionsByKey = BTreeMap<LeaseKey, Box<Election>>;

/// The most writes or Leases that a warning names. It counts the rest.
const MOST_NAMED: usize = 8;

/// Everybody who consumes the reports of elections.
pub(super) struct Reporting {
    pub(super) publisher: EventPublisher,
    pub(super) measurements: Measurements,
    /// The page, if there is one.
    pub(super) page: Option<PagePublisher>,
    second: SecondControllerReports,
    /// Warns of writes that succeed without effect. It always passes, so that one Lease cannot make the process unready.
    writes: Check,
}

impl Reporting {
    /// Reports to these consumers. `page` is the name of this controller and its page.
    pub(super) fn new(
        publisher: EventPublisher,
        metrics: ControllerMetrics,
        health: &Health,
        page: Option<(String, Page)>,
    ) -> Self {
        Self {
            publisher,
            measurements: Measurements::new(metrics),
            page: page.map(|(identity, page)| PagePublisher::new(identity, page)),
            second: SecondControllerReports::new(health),
            writes: health.check("writes"),
        }
    }

    /// Reports what an observation showed. `leads` says whether this controller leads.
    pub(super) fn observed(&mut self, key: &LeaseKey, now: Now, election: &Election, report: &Report, leads: bool) {
        if let Some(doubt) = report.doubt {
            tracing::debug!(lease = %key, %doubt, "the Pod of the holder does not prove it dead");
        }
        let uid = election.lease().map(Observed::record).map(|record| record.uid.as_str()).unwrap_or_default();
        for event in &report.events {
            if let Event::BecameLeader { holder } = event {
                tracing::info!(lease = %key, %holder, "a term began");
            }
            if leads {
                self.publisher.publish(key, uid, event);
            }
        }
        if leads {
            self.measurements.observed(report);
        }
        if let Some(page) = &mut self.page {
            page.observed(key, now, election, report);
        }
    }

    /// Reports a decision, and removes the events that were reported already.
    pub(super) fn decided(&mut self, key: &LeaseKey, now: Now, election: &Election, decision: &mut Decision) {
        tracing::debug!(
            lease = %key,
            state = decision.lease.as_str(),
            actions = decision.actions.len(),
            timer = decision.timer.as_str(),
            wait = ?decision.deadline.since(now.moment),
            "decided about a Lease"
        );
        self.measurements.decided(key, now.moment, election, decision);
        self.second.report(key, &mut decision.actions);
        if let Some(page) = &mut self.page {
            page.decided(key, now, decision);
        }
    }

    /// Reports what keeps the label of a Lease from the Pod of its holder, or that nothing does any more.
    pub(super) fn label(&mut self, key: &LeaseKey, uid: &str, problem: Option<&str>) {
        if let Some(problem) = problem {
            tracing::warn!(lease = %key, problem, "the label of the Lease is not kept");
            self.publisher.label_problem(key, uid, problem);
        } else {
            tracing::info!(lease = %key, "nothing keeps the label of the Lease from its place any more");
        }
        if let Some(page) = &mut self.page {
            page.label(key, problem);
        }
    }

    /// Updates the metrics and the warnings that cover all Leases.
    pub(super) fn measure(&mut self, now: Moment, elections: &ElectionsByKey, leads: bool) {
        self.measurements.measure(now, elections, leads);
        let led = || elections.iter().filter(|_| leads);
        let ineffective = led().flat_map(|(key, election)| {
            election.ineffective_writes().map(move |(candidate, write, why)| match candidate {
                None => format!("{} of Lease {key} ({why})", write.as_str()),
                Some(candidate) => {
                    format!("{} of LeaseCandidate {}/{candidate} ({why})", write.as_str(), key.namespace())
                }
            })
        });
        self.writes.pass_with(warning("writes succeed without effect, see the events of each", ineffective));
        let contested = led().filter(|(_, election)| election.has_second_controller(now));
        let contested: Vec<_> = contested.map(|(key, _)| format!("Lease {key}")).collect();
        self.measurements.metrics.contested_leases.set(count(contested.len()));
        self.second.warn(warning("a second controller elects for the same Leases", contested.into_iter()));
    }

    /// This controller no longer elects. Another one counts from now on.
    pub(super) fn stand_by(&mut self) {
        self.measurements.clear();
        self.page.iter_mut().for_each(PagePublisher::stand_by);
    }

    /// This controller no longer elects for this Lease.
    pub(super) fn stand_by_for(&mut self, key: &LeaseKey) {
        self.measurements.forget(key);
    }

    /// The Lease no longer exists and has no candidates.
    pub(super) fn forget(&mut self, key: &LeaseKey) {
        self.measurements.forget(key);
        if let Some(page) = &mut self.page {
            page.forget(key);
        }
    }
}

/// A message of `/readyz?verbose`: what is wrong, and with what.
fn warning(what: &str, mut objects: impl Iterator<Item = String>) -> Option<String> {
    let mut named: Vec<_> = objects.by_ref().take(MOST_NAMED).collect();
    let rest = objects.count();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    (!named.is_empty()).then(|| format!("{what}: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_a_few_writes_and_counts_the_rest() {
        let writes = |count| warning("lost", (0..count).map(|number| format!("w{number}")));
        assert_eq!(writes(0), None);
        assert_eq!(writes(2).unwrap(), "lost: w0, w1");
        assert!(writes(MOST_NAMED + 1).unwrap().ends_with("w7, 1 more"));
        assert!(writes(MOST_NAMED + 5).unwrap().ends_with("w7, 5 more"));
    }
}
