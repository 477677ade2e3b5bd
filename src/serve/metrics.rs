//! The controller's metrics, and those that every command has.
//!
//! Every label has a bounded set of values. Every series except those per Lease exists from the start. So `rate()`
//! shows the first failure, and the generated documentation is complete.

mod labels;
mod leases;
#[cfg(target_os = "linux")]
mod process;
mod releases;

use std::sync::atomic::AtomicU64;

use hustings_client::metrics::Metrics as ElectionMetrics;
use hustings_core::model::{Evidence, Unheld};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use self::labels::{
    ElectionResult, FailureReason, Kind, Labelled, LeaseStateLabel, NativeElectorKind, PreferenceReason, RequestKind,
    Resource, ValueLabel,
};
pub(crate) use self::leases::count;
pub use self::leases::{DEFAULT_LEASE_LIMIT, LeaseMetrics, LeaseSample};
pub use self::releases::ReleaseMetrics;
use crate::serve::logging::dropped_lines;

/// The controller's metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    /// Completed elections, by result.
    pub elections: Labelled<Counter>,
    /// Requests to live holders to hand over, by the reason for preferring another candidate.
    pub preemptions: Labelled<Counter>,
    /// Requests that succeeded, by kind.
    pub requests: Labelled<Counter>,
    /// Requests that failed, by kind and error.
    pub failures: Family<FailureLabels, Counter>,
    /// Observed hand-overs from a holder to its preferred holder.
    pub hand_overs: Counter,
    /// Pings, by the kind of the candidate.
    pub pings: Labelled<Counter>,
    /// Answers to pings, by the kind of the candidate.
    pub acks: Labelled<Counter>,
    /// Pings that were not answered within the election window, by the kind of the candidate.
    pub missed_pings: Labelled<Counter>,
    /// List and watch requests that failed.
    pub watch_failures: Labelled<Counter>,
    /// Watches whose list has been missing for longer than is normal.
    pub unlisted: Labelled<Gauge>,
    /// Objects in the stores of the watches.
    pub watched_objects: Labelled<Gauge>,
    /// Leases waiting for a decision that is due.
    pub queue_depth: Gauge,
    /// The duration of one decision, in seconds.
    pub decision: Histogram,
    /// Whether this process elects: 1 or 0.
    pub leading: Gauge,
    /// Which controller elects native candidates: 1 for its kind, 0 for the others.
    pub native_elector: Labelled<Gauge>,
    /// When that controller last changed, in seconds since the Unix epoch.
    pub native_elector_since: Gauge,
    /// Leases by state.
    pub leases: Labelled<Gauge>,
    /// Candidates of all Leases.
    pub candidates: Gauge,
    /// Leases for which a second controller elects.
    pub contested_leases: Gauge,
    /// The metrics per Lease.
    pub each_lease: LeaseMetrics,
    /// How long Leases were without a holder, in seconds, by how they lost the last one.
    pub unheld: Family<ValueLabel, Histogram, fn() -> Histogram>,
    /// How long holders had not renewed when evidence proved them dead, in seconds, by the evidence.
    pub silence: Family<ValueLabel, Histogram, fn() -> Histogram>,
    /// The longest time that any Lease has currently been without a holder, in seconds.
    pub oldest_unheld: Gauge<f64, AtomicU64>,
    /// The elections in which this process is itself a candidate.
    pub own: ElectionMetrics,
}

/// The kind of a failed request, and the error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FailureLabels {
    request: &'static str,
    error: &'static str,
}

impl ControllerMetrics {
    /// Creates all metrics at zero, and the registry that prints them.
    pub fn new() -> (Self, Registry) {
        Self::with_lease_limit(DEFAULT_LEASE_LIMIT)
    }

    /// Like [`Self::new`], but at most `lease_limit` Leases have their own series.
    pub fn with_lease_limit(lease_limit: usize) -> (Self, Registry) {
        let mut registry = registry();
        let metrics = Self {
            own: ElectionMetrics::register(&mut registry),
            elections: series(ElectionResult::ALL.map(ElectionResult::label)),
            preemptions: series(PreferenceReason::ALL.map(PreferenceReason::label)),
            requests: series(RequestKind::ALL.map(RequestKind::label)),
            failures: Family::default(),
            hand_overs: Counter::default(),
            pings: series(Kind::ALL.map(Kind::label)),
            acks: series(Kind::ALL.map(Kind::label)),
            missed_pings: series(Kind::ALL.map(Kind::label)),
            watch_failures: series(Resource::ALL.map(Resource::label)),
            unlisted: series(Resource::ALL.map(Resource::label)),
            watched_objects: series(Resource::ALL.map(Resource::label)),
            queue_depth: Gauge::default(),
            decision: Histogram::new([0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1]),
            leading: Gauge::default(),
            native_elector: series(NativeElectorKind::ALL.map(NativeElectorKind::label)),
            native_elector_since: Gauge::default(),
            leases: series(LeaseStateLabel::ALL.map(LeaseStateLabel::label)),
            candidates: Gauge::default(),
            contested_leases: Gauge::default(),
            each_lease: LeaseMetrics::new(lease_limit),
            unheld: Family::new_with_constructor(unheld as fn() -> Histogram),
            silence: Family::new_with_constructor(unheld as fn() -> Histogram),
            oldest_unheld: Gauge::default(),
        };
        for evidence in Evidence::ALL {
            drop(metrics.silence.get_or_create(&ValueLabel::cause(evidence.as_str())));
        }
        for cause in Unheld::words() {
            drop(metrics.unheld.get_or_create(&ValueLabel::cause(cause)));
        }
        for request in RequestKind::ALL {
            for error in FailureReason::ALL {
                drop(metrics.failures.get_or_create(&FailureLabels::new(request, error)));
            }
        }
        metrics.register(registry.sub_registry_with_prefix("hustings"));
        (metrics, registry)
    }

    /// Counts a request that failed.
    pub fn failed(&self, request: RequestKind, error: FailureReason) {
        self.failures.get_or_create(&FailureLabels::new(request, error)).inc();
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("elections", "Completed elections, by result", self.elections.clone());
        registry.register(
            "preemptions",
            "Requests to live holders to hand over, by the reason for preferring another candidate",
            self.preemptions.clone(),
        );
        registry.register("requests", "Requests to the API server that succeeded, by kind", self.requests.clone());
        registry.register(
            "request_failures",
            "Requests that failed, by kind and error; grant, prefer, withdraw and hold write the result of an election",
            self.failures.clone(),
        );
        registry.register(
            "hand_overs",
            "Hand-overs from a holder to its preferred holder, counted by the leading controller",
            self.hand_overs.clone(),
        );
        registry.register(
            "pings",
            "Pings of candidates and withdrawals of pings, by the API of the candidate",
            self.pings.clone(),
        );
        registry.register(
            "acks",
            "Answers to pings, counted by the leading controller, by the API of the candidate",
            self.acks.clone(),
        );
        registry.register(
            "missed_pings",
            "Pings that a candidate did not answer within the election window, by the API of the candidate",
            self.missed_pings.clone(),
        );
        registry.register("watch_failures", "List and watch requests that failed", self.watch_failures.clone());
        registry.register(
            "unlisted",
            "Watches that have had no complete list for 10 s; /readyz?verbose says since when and why",
            self.unlisted.clone(),
        );
        registry.register(
            "watched_objects",
            "Objects in the watch caches of this process",
            self.watched_objects.clone(),
        );
        registry.register("queue_depth", "Leases waiting for a decision that is due", self.queue_depth.clone());
        registry.register_with_unit("decision", "Duration of one decision", Unit::Seconds, self.decision.clone());
        registry.register("leading", "Whether this controller elects (1) or stands by (0)", self.leading.clone());
        registry.register(
            "native_elector",
            "Which program elects native candidates (1); leader: the leading Hustings controller; stand-in: the Hustings \
             controller that holds leader-election-controller; 0 everywhere without --native",
            self.native_elector.clone(),
        );
        registry.register_with_unit(
            "native_elector_since",
            "When that program last changed, by the clock of this process, as a Unix time",
            Unit::Seconds,
            self.native_elector_since.clone(),
        );
        registry.register(
            "leases",
            "Leases by state; reserved: without a holder, but a process may still rely on it; unread: not read yet; unidentified: assisted, but nothing would prove the holder dead",
            self.leases.clone(),
        );
        registry.register("candidates", "Candidates of all Leases", self.candidates.clone());
        registry.register(
            "contested_leases",
            "Leases for which a second controller elects, too",
            self.contested_leases.clone(),
        );
        registry.register_collector(Box::new(self.each_lease.clone()));
        registry.register_with_unit(
            "unheld",
            "How long a Lease was without a holder, by how it lost the last one; after a crash, counted from expiry or \
             evidence",
            Unit::Seconds,
            self.unheld.clone(),
        );
        registry.register_with_unit(
            "evidence_silence",
            "How long a holder had not renewed when evidence proved it dead",
            Unit::Seconds,
            self.silence.clone(),
        );
        registry.register_with_unit(
            "oldest_unheld_lease",
            "The longest time for which any Lease is now without a holder; 0 if all are held",
            Unit::Seconds,
            self.oldest_unheld.clone(),
        );
    }
}

/// A registry with the metrics of every command: the version, the log, and the resource usage of the process.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("hustings_build", "The version of Hustings", version);
    registry.register(
        "hustings_log_lost_lines",
        "Log lines that were dropped because nobody read standard error, or that could not be written to it",
        dropped_lines(),
    );
    #[cfg(target_os = "linux")]
    process::register(&mut registry);
    registry
}

impl FailureLabels {
    pub(crate) const fn new(request: RequestKind, error: FailureReason) -> Self {
        Self { request: request.as_str(), error: error.as_str() }
    }
}

fn series<M: Default + Clone, const N: usize>(labels: [ValueLabel; N]) -> Labelled<M> {
    let family = Labelled::<M>::default();
    for label in labels {
        drop(family.get_or_create(&label));
    }
    family
}

/// Buckets from the milliseconds of a hand-over to the minutes of an election without live candidates.
fn unheld() -> Histogram {
    Histogram::new([0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0])
}

#[cfg(test)]
mod tests;
