//! Observes which controller elects native candidates. If this controller stands in, it takes the place of Kubernetes'
//! own controller. [`StandIn`] contains the rules.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hustings_client::api::{MicroTime, ReadLease, names};
use hustings_client::clock::Clock;
use hustings_core::model::{Moment, WireTime};
use hustings_core::stand_in::{self, LEASE_DURATION_SECONDS, NativeElector, PERIOD, Reading, StandIn, StandInDecision};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::leading::Electing;
use super::outage::{Outage, OutageStage, is_refusal};
use crate::serve::health::Check;
use crate::serve::metrics::{ControllerMetrics, NativeElectorKind};

/// The namespace of the Lease that Kubernetes' controller holds while it elects.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The name of that Lease.
pub(crate) const LEASE: &str = "leader-election-controller";

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Observes the Lease of Kubernetes' controller, and writes it if this controller stands in.
pub(super) struct NativeWatch {
    stand_in: StandIn,
    controller: stand_in::Controller,
    leading: Electing,
    reads: Api<ReadLease>,
    writes: Api<ReadLease>,
    clock: Arc<dyn Clock>,
    elects: watch::Sender<bool>,
    reporter: ElectorReporter,
}

/// What a [`NativeWatch`] is made of.
pub(super) struct NativeParts {
    pub(super) controller: stand_in::Controller,
    /// Whether it takes the place of Kubernetes' controller.
    pub(super) stands_in: bool,
    pub(super) leading: Electing,
    pub(super) reads: Client,
    /// Passes the write gate of the controllers' own Lease.
    pub(super) writes: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) check: Check,
    pub(super) metrics: ControllerMetrics,
}

/// Reports in the log, the metrics and the check `native` which controller elects.
struct ElectorReporter {
    check: Check,
    metrics: ControllerMetrics,
    reported: Option<(NativeElector, bool)>,
    since: WireTime,
    /// Since when the server does not answer requests about the Lease.
    outage: Option<Outage>,
}

/// Why the Lease could not be read or written.
struct LeaseFailure {
    message: String,
    /// Whether the server refuses the request, so that a retry does not help.
    is_refused: bool,
}

impl NativeWatch {
    pub(super) fn new(parts: NativeParts) -> Self {
        let NativeParts { controller, stands_in, leading, reads, writes, clock, check, metrics } = parts;
        Self {
            stand_in: StandIn::new(controller.clone(), stands_in),
            controller,
            leading,
            reads: Api::namespaced(reads, NAMESPACE),
            writes: Api::namespaced(writes, NAMESPACE),
            reporter: ElectorReporter { check, metrics, reported: None, since: clock.wall(), outage: None },
            clock,
            elects: watch::channel(false).0,
        }
    }

    /// Whether this process may elect native candidates.
    pub(super) fn elects(&self) -> watch::Receiver<bool> {
        self.elects.subscribe()
    }

    /// Observes for ever.
    pub(super) async fn run(mut self) {
        let mut tick = tokio::time::interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leads = false;
        loop {
            tokio::select! {
                biased;
                changed = self.leading.changed(leads) => {
                    leads = changed;
                    self.stand_in.set_leading(leads);
                }
                _ = tick.tick() => {}
            }
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let failure = self.exchange().await.err();
        let StandInDecision { elects, elector, .. } = self.stand_in.decide(self.clock.both());
        self.elects.send_if_modified(|shown| std::mem::replace(shown, elects) != elects);
        self.reporter.report(elector, elects, failure, &*self.clock);
    }

    /// Reads the Lease, and writes it if a write is due.
    async fn exchange(&mut self) -> Result<(), LeaseFailure> {
        let lease = within("read", self.reads.get_opt(LEASE)).await?;
        self.stand_in.observe(self.clock.now(), lease.map(reading));
        let Some(write) = self.stand_in.decide(self.clock.both()).write else { return Ok(()) };
        let patch = Patch::Merge(patch(&write, &self.controller));
        let sent: Moment = self.clock.now();
        let lease = within("write", self.writes.patch(LEASE, &PatchParams::default(), &patch)).await?;
        if write.takes.is_some() {
            tracing::info!("took Lease {NAMESPACE}/{LEASE}, so that Hustings elects native candidates");
        }
        self.stand_in.written(sent, self.clock.now(), reading(lease));
        Ok(())
    }
}

async fn within<T>(verb: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseFailure> {
    let (reason, is_refused) = match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => {
            let is_refused = matches!(&error, kube::Error::Api(status) if is_refusal(status.code));
            (error.to_string(), is_refused)
        }
        Err(_) => (format!("no answer within {} s", TIMEOUT.as_secs()), false),
    };
    Err(LeaseFailure { message: format!("cannot {verb} it: {reason}"), is_refused })
}

fn reading(lease: ReadLease) -> Reading {
    let mark = lease.metadata.annotations.and_then(|mut annotations| annotations.remove(names::STAND_IN));
    Reading { record: lease.record, mark }
}

fn patch(write: &stand_in::StandInWrite, controller: &stand_in::Controller) -> Value {
    let renew_time = MicroTime(write.renew_time);
    let mut patch = json!({
        "metadata": { "resourceVersion": write.resource_version.to_string() },
        "spec": { "renewTime": renew_time },
    });
    if let Some(transitions) = write.takes {
        patch["metadata"]["annotations"] = json!({ names::STAND_IN: controller.mark() });
        patch["spec"] = json!({
            "holderIdentity": &*controller.identity,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "acquireTime": renew_time,
            "renewTime": renew_time,
            "leaseTransitions": transitions,
        });
    }
    patch
}

impl ElectorReporter {
    fn report(&mut self, elector: NativeElector, elects: bool, failure: Option<LeaseFailure>, clock: &dyn Clock) {
        let current = (elector, elects);
        if self.reported.as_ref() != Some(&current) {
            self.since = clock.wall();
            let failure = failure.as_ref().map(|failure| &*failure.message);
            tracing::info!(elects, failure, "{}", sentence(&current.0, elects));
            for kind in NativeElectorKind::ALL {
                let is_current = kind == NativeElectorKind::of(&current.0);
                self.metrics.native_elector.get_or_create(&kind.label()).set(i64::from(is_current));
            }
            self.metrics.native_elector_since_timestamp.set(self.since.as_micros() / 1_000_000);
        }
        let mut message = format!("{}, since {}", sentence(&current.0, elects), MicroTime(self.since));
        let is_unknown = current.0 == NativeElector::Unknown;
        self.reported = Some(current);
        let Some(LeaseFailure { message: reason, is_refused }) = failure else {
            self.outage = None;
            self.check.pass_with(Some(message));
            return;
        };
        let _ = write!(message, "; Lease {NAMESPACE}/{LEASE}: {reason}");
        let outage = self.outage.get_or_insert_with(|| Outage::begin(clock));
        let passes = match outage.update() {
            OutageStage::Short => !is_unknown,
            OutageStage::Overdue => false,
            OutageStage::Tolerated => true,
        };
        if passes || is_refused {
            self.check.pass_with(Some(message));
        } else {
            self.check.fail(message);
        }
    }
}

/// Names the controller that elects native candidates, in a sentence without a period.
fn sentence(elector: &NativeElector, elects: bool) -> String {
    match (elector, elects) {
        (_, true) => "this controller elects native candidates".to_owned(),
        (NativeElector::Unknown, _) => {
            format!("it is unknown who elects native candidates by Lease {NAMESPACE}/{LEASE}")
        }
        (NativeElector::Leader, _) => "the leading controller elects native candidates".to_owned(),
        (NativeElector::StandIn(holder), _) => format!("{holder} stands in and elects native candidates after a wait"),
        (NativeElector::Other(holder), _) => {
            format!("{holder} elects native candidates, and Hustings leaves them alone")
        }
    }
}

#[cfg(test)]
mod tests;
