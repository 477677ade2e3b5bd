//! Reports the state of a watch in its health check, the metrics and the log.

use std::sync::Arc;

use hustings_client::clock::Clock;
use kube::runtime::watcher;
use prometheus_client::metrics::counter::Counter;

use super::WatchContext;
use crate::controller::namespaces::{NamespaceListing, Namespaces};
use crate::controller::outage::{Outage, OutageStage, is_refusal};
use crate::controller::watched::{Scope, WatchEvent, WatchedKind};
use crate::serve::health::Check;
use crate::serve::metrics::ControllerMetrics;

/// What the health check shows while no answer has come.
const NO_ANSWER: &str = "the API server has not answered the list, or not completely";

/// Reports the state of one watch.
pub(super) struct WatchReporter {
    pub(super) scope: Scope,
    pub(super) metrics: ControllerMetrics,
    listed: Check,
    crd: Option<Check>,
    namespaces: Namespaces,
    clock: Arc<dyn Clock>,
    was_listed: bool,
    /// Since when the watch cannot list or watch.
    outage: Option<Outage>,
    /// Whether the server did not begin a watch. Then only a watch ends the outage: a server may list and begin no watch.
    lacks_watch: bool,
    /// Why the last request of the outage failed.
    failure: Option<WatchFailure>,
    /// The number of objects in the store that the metrics include.
    counted: usize,
}

/// Why a request of a watch failed.
struct WatchFailure {
    message: String,
    /// Whether the server refuses the request, so that a retry does not help.
    is_refused: bool,
    /// Whether it does so because of a missing permission.
    is_forbidden: bool,
}

impl WatchReporter {
    /// Reports to these checks, and to the metrics and the log.
    pub(super) fn new(scope: Scope, listed: Check, crd: Option<Check>, context: &WatchContext) -> Self {
        Self {
            scope,
            metrics: context.metrics.clone(),
            listed,
            crd,
            namespaces: context.namespaces.clone(),
            clock: Arc::clone(&context.clock),
            was_listed: false,
            outage: Some(Outage::begin(&*context.clock)),
            lacks_watch: false,
            failure: None,
            counted: 0,
        }
    }

    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.outage.get_or_insert_with(|| Outage::begin(&*self.clock));
    }

    /// Waits until the list has been missing for longer than is normal, and reports that. Returns whether elections
    /// must no longer wait for it. This function is cancel safe.
    pub(super) async fn overdue<K: WatchedKind>(&mut self) -> bool {
        let mut changes = self.namespaces.changes();
        let Some(outage) = &mut self.outage else { return std::future::pending().await };
        let before = outage.stage();
        tokio::select! {
            _ = outage.next_stage() => {}
            // Whether this namespace may be missing depends on the other watches.
            _ = changes.changed() => {}
        }
        // A process that was suspended skips a stage.
        let is_overdue = before == OutageStage::Short && outage.stage() > before;
        if is_overdue {
            self.metrics.unlisted.get_or_create(&K::RESOURCE.label()).inc();
        }
        self.show::<K>();
        is_overdue && K::OPTIONAL
    }

    /// A list is complete.
    pub(super) fn pass<K: WatchedKind>(&mut self, is_served: bool) {
        self.was_listed = true;
        // What is not served has no watch.
        if is_served && self.lacks_watch {
            return;
        }
        self.end_outage::<K>();
        self.namespaces.note(&self.scope, K::RESOURCE, NamespaceListing::Listed);
        if let Some(crd) = &self.crd {
            crd.pass();
        }
        let warning = (!is_served).then(|| format!("the API server does not serve {}", K::NAME));
        if self.listed.pass_with(warning) {
            let does = if is_served { "listed and watched" } else { "not served by the API server" };
            tracing::info!(resource = K::NAME, scope = %self.scope, "{does}");
        }
    }

    /// A watch has begun.
    pub(super) fn resume<K: WatchedKind>(&mut self) {
        if std::mem::take(&mut self.lacks_watch) {
            self.pass::<K>(true);
        }
    }

    /// Counts the requests that failed, and the watches that broke off.
    pub(super) fn failures<K: WatchedKind>(&self) -> Counter {
        self.metrics.watch_failures.get_or_create(&K::RESOURCE.label()).clone()
    }

    /// A request failed. Returns what that means for elections, if anything.
    pub(super) fn fail<K: WatchedKind>(&mut self, error: &watcher::Error) -> Option<WatchEvent> {
        self.failures::<K>().inc();
        self.begin();
        let failure = self.failure_of::<K>(error)?;
        let WatchFailure { is_refused, is_forbidden, .. } = failure;
        let listing = if is_forbidden { NamespaceListing::Forbidden } else { NamespaceListing::Unknown };
        self.namespaces.note(&self.scope, K::RESOURCE, listing);
        self.failure = Some(failure);
        self.lacks_watch |= matches!(error, watcher::Error::WatchStartFailed(_));
        self.show::<K>();
        if K::OPTIONAL {
            // Elections do not wait for optional objects that the server refuses to list. But somebody has asked for them.
            is_refused.then(|| WatchEvent::Listed(self.scope.clone(), K::RESOURCE))
        } else {
            is_forbidden.then(|| WatchEvent::Refused(self.scope.clone(), K::RESOURCE))
        }
    }

    /// Why a request failed; `None` if the next list solves that.
    fn failure_of<K: WatchedKind>(&self, error: &watcher::Error) -> Option<WatchFailure> {
        let status = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Some(status),
            _ => None,
        };
        let code = status.map_or(0, |status| status.code);
        let message = match (code, &self.crd) {
            (403, _) => format!("not allowed: grant the verbs list and watch on {} in {}", K::NAME, self.scope),
            (404, Some(crd)) => {
                let message = format!("{} is not installed: run `hustings crds | kubectl apply -f -`", K::NAME);
                crd.fail(message.clone());
                message
            }
            (404, None) => format!("the resource {} is not known to the server", K::NAME),
            // The version is too old.
            (410, _) => return None,
            // kube prints the whole status, so format the error here.
            _ => status.map_or_else(|| error.to_string(), |status| format!("{} ({code})", status.message)),
        };
        Some(WatchFailure { message, is_refused: is_refusal(code), is_forbidden: code == 403 })
    }

    /// Shows the outage in the check, and logs each change of it.
    fn show<K: WatchedKind>(&self) {
        let Some(outage) = &self.outage else { return };
        let is_refused = self.failure.as_ref().is_some_and(|failure| failure.is_refused);
        let reason = self.failure.as_ref().map_or(NO_ANSWER, |failure| &failure.message);
        let stage = outage.stage();
        let is_long = stage > OutageStage::Short && !is_refused;
        let message = if is_long { outage.describe(reason) } else { reason.to_owned() };
        let passes = match stage {
            // The list is complete, and a busy server may begin the watch soon.
            OutageStage::Short if self.lacks_watch && self.was_listed && !is_refused => true,
            _ if !K::OPTIONAL => self.is_tolerated(stage, is_refused),
            // The objects of an earlier list are still known.
            OutageStage::Short => is_refused || self.was_listed,
            OutageStage::Overdue => is_refused,
            OutageStage::Tolerated => true,
        };
        let is_new =
            if passes { self.listed.pass_with(Some(message.clone())) } else { self.listed.fail(message.clone()) };
        if !is_new {
            return;
        }
        let consequence = match (K::OPTIONAL && is_long, passes) {
            (false, _) => "cannot list and watch",
            (true, false) => "cannot list and watch; elections continue without these objects",
            (true, true) => "cannot list and watch; this process is ready without these objects",
        };
        tracing::warn!(resource = K::NAME, scope = %self.scope, reason = message, "{consequence}");
    }

    /// Whether this process is ready although it cannot watch a kind that elections need. One of several namespaces must
    /// not keep a rollout from completing if it is missing, or if requests about it alone get no answer.
    fn is_tolerated(&self, stage: OutageStage, is_refused: bool) -> bool {
        let is_excused =
            if is_refused { self.namespaces.absence(&self.scope).is_some() } else { stage == OutageStage::Tolerated };
        is_excused && self.namespaces.any_watched()
    }

    fn end_outage<K: WatchedKind>(&mut self) {
        if self.outage.take().is_some_and(|outage| outage.stage() > OutageStage::Short) {
            self.metrics.unlisted.get_or_create(&K::RESOURCE.label()).dec();
        }
        self.lacks_watch = false;
        self.failure = None;
    }

    /// Updates the number of objects in the stores of all scopes. In this scope there are `now`.
    pub(super) fn count<K: WatchedKind>(&mut self, now: usize) {
        let before = std::mem::replace(&mut self.counted, now);
        let gauge = self.metrics.watched_objects.get_or_create(&K::RESOURCE.label());
        gauge.inc_by(i64::try_from(now.saturating_sub(before)).unwrap_or(i64::MAX));
        gauge.dec_by(i64::try_from(before.saturating_sub(now)).unwrap_or(i64::MAX));
    }
}
