//! The controller's metrics, and those that every command has.
//!
//! Every label has a bounded set of values. Every series except those per Lease exists from the start. So `rate()`
//! shows the first failure, and the generated documentation is complete.

mod labels;
mod leases;
#[cfg(target_os = "linux")]
mod process;
mod releases;

use std::hash::Hash;
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

/// Declares the controller's metrics. Each is served as `hustings_` with the name of its field, and its comment is the help.
macro_rules! controller_metrics {
    (
        $($(#[doc = $help:literal])+ $name:ident: $type:ty = $new:expr;)+
        in seconds: $($(#[doc = $seconds_help:literal])+ $seconds_name:ident: $seconds_type:ty = $seconds_new:expr;)+
    ) => {
        /// The controller's metrics. Clones share them.
        #[derive(Clone, Debug)]
        pub struct ControllerMetrics {
            $($(#[doc = $help])+ pub $name: $type,)+
            $($(#[doc = $seconds_help])+ pub $seconds_name: $seconds_type,)+
            /// The metrics per Lease.
            pub each_lease: LeaseMetrics,
            /// The elections in which this process is itself a candidate.
            pub own: ElectionMetrics,
        }

        impl ControllerMetrics {
            /// Like [`Self::new`], but at most `lease_limit` Leases have their own series.
            pub fn with_lease_limit(lease_limit: usize) -> (Self, Registry) {
                let mut registry = registry();
                let metrics = Self {
                    $($name: $new,)+
                    $($seconds_name: $seconds_new,)+
                    each_lease: LeaseMetrics::new(lease_limit),
                    own: ElectionMetrics::register(&mut registry),
                };
                // The registry adds the full stop.
                let help = |comment: &'static str| comment.trim().trim_end_matches('.');
                let hustings = registry.sub_registry_with_prefix("hustings");
                $(hustings.register(stringify!($name), help(concat!($($help),+)), metrics.$name.clone());)+
                $({
                    let help = help(concat!($($seconds_help),+));
                    hustings.register_with_unit(stringify!($seconds_name), help, Unit::Seconds, metrics.$seconds_name.clone());
                })+
                hustings.register_collector(Box::new(metrics.each_lease.clone()));
                (metrics, registry)
            }
        }
    };
}

controller_metrics! {
    /// Completed elections, by result.
    elections: Labelled<Counter> = series(Counter::default, ElectionResult::ALL.map(ElectionResult::label));
    /// Requests to live holders to hand over, by the reason for preferring another candidate.
    preemptions: Labelled<Counter> = series(Counter::default, PreferenceReason::ALL.map(PreferenceReason::label));
    /// Requests to the API server, by kind; those that failed count, too.
    requests: Labelled<Counter> = series(Counter::default, RequestKind::ALL.map(RequestKind::label));
    /// Requests that failed, by kind and error; grant, prefer, withdraw and hold write the result of an election.
    request_failures: Family<FailureLabels, Counter> = series(Counter::default, FailureLabels::all());
    /// Hand-overs from a holder to its preferred holder, counted by the leading controller.
    hand_overs: Counter = Counter::default();
    /// Pings of candidates and withdrawals of pings, by the API of the candidate.
    pings: Labelled<Counter> = series(Counter::default, Kind::ALL.map(Kind::label));
    /// Answers to pings, counted by the leading controller, by the API of the candidate.
    acks: Labelled<Counter> = series(Counter::default, Kind::ALL.map(Kind::label));
    /// Pings that a candidate did not answer within the election window, by the API of the candidate.
    missed_pings: Labelled<Counter> = series(Counter::default, Kind::ALL.map(Kind::label));
    /// List and watch requests that failed, and watches that broke off.
    watch_failures: Labelled<Counter> = series(Counter::default, Resource::ALL.map(Resource::label));
    /// Watches that could not list or watch for 10 s; /readyz?verbose says since when and why.
    unlisted: Labelled<Gauge> = series(Gauge::default, Resource::ALL.map(Resource::label));
    /// Objects in the watch caches of this process.
    watched_objects: Labelled<Gauge> = series(Gauge::default, Resource::ALL.map(Resource::label));
    /// Leases waiting for a decision that is due.
    queue_depth: Gauge = Gauge::default();
    /// Whether this controller elects (1) or stands by (0).
    leading: Gauge = Gauge::default();
    /// Which program elects native candidates (1); leader: the leading Hustings controller; stand-in: the Hustings
    /// controller that holds leader-election-controller; 0 everywhere without --native.
    native_elector: Labelled<Gauge> = series(Gauge::default, NativeElectorKind::ALL.map(NativeElectorKind::label));
    /// Leases by state; reserved: without a holder, but a process may still rely on it; unread: not read yet;
    /// unidentified: assisted, but nothing would prove the holder dead.
    leases: Labelled<Gauge> = series(Gauge::default, LeaseStateLabel::ALL.map(LeaseStateLabel::label));
    /// Candidates of all Leases.
    candidates: Gauge = Gauge::default();
    /// Leases for which a second controller elects, too.
    contested_leases: Gauge = Gauge::default();

    in seconds:
    /// Duration of one decision.
    decision: Histogram = Histogram::new([0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1]);
    /// When that program last changed, by the clock of this process, as a Unix time.
    native_elector_since_timestamp: Gauge = Gauge::default();
    /// How long a Lease was without a holder, by how it lost the last one; after a crash, counted from expiry or evidence.
    unheld: Labelled<Histogram> = series(unheld, Unheld::words().map(ValueLabel::cause));
    /// How long a holder had not renewed when evidence proved it dead.
    evidence_silence: Labelled<Histogram> = series(unheld, Evidence::ALL.map(Evidence::as_str).map(ValueLabel::cause));
    /// The longest time for which any Lease is now without a holder; 0 if all are held.
    oldest_unheld_lease: Gauge<f64, AtomicU64> = Gauge::default();
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

    /// Counts a request, and the error if it failed.
    pub fn requested(&self, request: RequestKind, error: Option<FailureReason>) {
        self.requests.get_or_create(&request.label()).inc();
        if let Some(error) = error {
            self.request_failures.get_or_create(&FailureLabels::new(request, error)).inc();
        }
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

    fn all() -> impl Iterator<Item = Self> {
        let of_request = |request| FailureReason::ALL.map(|error| Self::new(request, error));
        RequestKind::ALL.into_iter().flat_map(of_request)
    }
}

/// A family whose metrics `new` creates, with these series.
fn series<L: Clone + Eq + Hash, M: Clone>(new: fn() -> M, labels: impl IntoIterator<Item = L>) -> Family<L, M> {
    let family = Family::new_with_constructor(new);
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
