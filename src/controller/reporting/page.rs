//! Publishes views to the page: the Leases that may have changed, shortly after, and the controller once a second.
//!
//! This rule must hold: publishing takes the loop only a few milliseconds at a time, however many Leases there are.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use hustings_core::election::{Decision, Election, Report};
use hustings_core::model::Now;
use tokio::time::Instant;

use super::ElectionsByKey;
use crate::base::terminal::visible;
use crate::controller::display::Display;
use crate::controller::key::LeaseKey;
use crate::controller::stores::Stores;
use crate::serve::health::CheckResult;
use crate::serve::page::{ControllerView, Page, Problem, Severity};

/// How long to collect changes. A hand-over consists of several changes within milliseconds.
const COLLECT: Duration = Duration::from_millis(100);

/// The pause before the next Leases if more than [`MOST_AT_ONCE`] have changed.
const PAUSE: Duration = Duration::from_millis(10);

/// The most Leases to publish at a time.
const MOST_AT_ONCE: usize = 32;

/// Which Leases a publication shows, and how.
pub(in crate::controller) enum Shown {
    /// Not yet: before the lists are complete, the view would lack candidates.
    NotYet,
    /// As unknown: the server refuses what would show it.
    AsRefused,
    /// With a decision on a copy, which nobody carries out: this controller does not decide about it.
    AsStandby,
    /// With the last decision.
    AsDecided,
}

/// The page, what it shows of each Lease, and the Leases whose views may have changed.
pub(in crate::controller) struct PagePublisher {
    pub(in crate::controller) page: Page,
    /// The name of this controller.
    identity: String,
    displays: HashMap<LeaseKey, Display>,
    pub(in crate::controller) changed: BTreeSet<LeaseKey>,
    /// The Lease that was published last. The next ones follow in their order, so that each has its turn.
    last: Option<LeaseKey>,
    due: Option<Instant>,
}

impl PagePublisher {
    pub(in crate::controller) fn new(identity: String, page: Page) -> Self {
        Self { page, identity, displays: HashMap::new(), changed: BTreeSet::new(), last: None, due: None }
    }

    pub(super) fn observed(&mut self, key: &LeaseKey, now: Now, election: &Election, report: &Report) {
        let display = self.displays.entry(key.clone()).or_insert_with(Display::new);
        display.observed(now, report, election);
        if display.is_stale() {
            self.note(key);
        }
    }

    pub(super) fn decided(&mut self, key: &LeaseKey, now: Now, decision: &Decision) {
        let Some(display) = self.displays.get_mut(key) else { return };
        display.decided(now, decision);
        if display.is_stale() {
            self.note(key);
        }
    }

    /// Shows what keeps the label of a Lease from the Pod of its holder, if anything does.
    pub(super) fn label(&mut self, key: &LeaseKey, problem: Option<&str>) {
        if let Some(display) = self.displays.get_mut(key) {
            display.label(problem);
        }
        self.note(key);
    }

    /// This controller no longer keeps labels.
    pub(super) fn stand_by(&mut self) {
        self.displays.values_mut().for_each(|display| display.label(None));
    }

    /// Records that the view of this Lease may have changed.
    pub(in crate::controller) fn note(&mut self, key: &LeaseKey) {
        if self.changed.insert(key.clone()) {
            self.due.get_or_insert_with(|| Instant::now() + COLLECT);
        }
    }

    /// Waits until it is time to publish changes. This function is cancel safe.
    pub(in crate::controller) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Publishes Leases that have changed. Those beyond the limit follow after a pause.
    pub(in crate::controller) fn publish(
        &mut self,
        now: Now,
        elections: &ElectionsByKey,
        stores: &Stores,
        shown: impl Fn(&LeaseKey, &Election) -> Shown,
    ) {
        for _ in 0..MOST_AT_ONCE {
            let Some(key) = self.next() else { break };
            let (Some(election), Some(display)) = (elections.get(&key), self.displays.get_mut(&key)) else { continue };
            match shown(&key, election) {
                Shown::NotYet => continue,
                Shown::AsRefused => display.refused(),
                Shown::AsStandby => display.judge_copy(now, election),
                Shown::AsDecided => {}
            }
            if let Some(view) = display.view(&key, now, election, stores) {
                self.page.publish(&view);
            }
        }
        self.due = (!self.changed.is_empty()).then(|| Instant::now() + PAUSE);
    }

    /// Takes the next Lease that may have changed.
    fn next(&mut self) -> Option<LeaseKey> {
        let after = self.last.as_ref().and_then(|last| self.changed.range((Excluded(last), Unbounded)).next());
        self.last = after.or_else(|| self.changed.first()).cloned();
        self.changed.take(self.last.as_ref()?)
    }

    /// Publishes the controller, and records the Leases whose views change with time. `leader` is the leading controller
    /// as far as this one knows, and `decides` says about which elections this controller decides.
    pub(in crate::controller) fn publish_controller(
        &mut self,
        now: Now,
        elections: &ElectionsByKey,
        leader: Option<String>,
        leads: bool,
        decides: impl Fn(&Election) -> bool,
        checks: Vec<CheckResult>,
    ) {
        let changes = |key: &LeaseKey, election: &Election| {
            self.displays.get(key).is_some_and(|display| {
                display.may_differ(now, election) || (!decides(election) && display.is_copy_outdated(now.moment))
            })
        };
        let changing: Vec<_> =
            elections.iter().filter(|(key, election)| changes(key, election)).map(|(key, _)| key.clone()).collect();
        for key in &changing {
            self.note(key);
        }
        let problems = checks.into_iter().filter_map(|check| {
            let severity = if check.ok { Severity::Info } else { Severity::Warning };
            Some(Problem::new(severity, visible(&format!("{}: {}", check.name, check.message?))))
        });
        self.page.publish_controller(&ControllerView {
            leader: leader.or_else(|| leads.then(|| self.identity.clone())),
            identity: self.identity.clone(),
            leads,
            version: env!("CARGO_PKG_VERSION"),
            problems: problems.collect(),
        });
    }

    /// Removes a Lease from the page.
    pub(super) fn forget(&mut self, key: &LeaseKey) {
        self.displays.remove(key);
        self.page.remove(key.namespace(), key.name());
    }
}
