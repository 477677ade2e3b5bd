//! Metrics of all elections of a process, on the caller's registry (feature `metrics`).
//!
//! Each scrape computes the values that depend on the time from the same [`Leadership`] that the process reads. So a
//! stuck or dead elector shows as 0, and no gauge keeps reporting that this process leads.
//!
//! | metric | type | labels | meaning |
//! |---|---|---|---|
//! | `leader_election_master_status` | gauge | `name` | client-go's own metric: whether this process leads (1), by the name of the Lease |
//! | `hustings_lease_held` | gauge | `lease` | the same, by `namespace/name` of the Lease |
//! | `hustings_lease_failing_open` | gauge | `lease` | whether the time range of this process continues after its end because no other holder is known (1) |
//! | `hustings_lease_validity_seconds` | gauge | `lease` | how long this process can lead without another renewal |
//! | `hustings_lease_terms_total` | counter | `lease` | terms that have begun |
//! | `hustings_lease_renewal_seconds` | histogram | `lease` | how long a renewal took, whether or not it succeeded |
//! | `hustings_lease_renewal_failures_total` | counter | `lease` | renewals that did not succeed |
//!
//! Each Lease adds one series to each metric.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::elector::telemetry::Observer;
use crate::leadership::Leadership;

/// The buckets range from the latency of a nearby API server to the longest time that a request may take.
const RENEWAL_BUCKETS_SECONDS: [f64; 11] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0];

/// The metrics of all elections of a process. Clones share them.
///
/// ```
/// use hustings_client::metrics::Metrics;
/// use prometheus_client::registry::Registry;
///
/// let mut registry = Registry::default();
/// let metrics = Metrics::register(&mut registry);
/// // Then, for each elector: Elector::direct(..).metrics(&metrics)
/// # let _ = metrics;
/// ```
#[derive(Clone, Default)]
pub struct Metrics {
    /// By `namespace/name` of the Lease.
    elections: Arc<Mutex<BTreeMap<String, LeaseSeries>>>,
}

/// The metrics of one Lease, over all electors that this process has had for it.
#[derive(Clone)]
struct LeaseSeries {
    /// The electors that have not ended.
    electors: Vec<Leadership>,
    instruments: Arc<Instruments>,
}

struct Instruments {
    terms: Counter,
    renewals: Histogram,
    failed_renewals: Counter,
}

impl Metrics {
    /// Registers the metrics of this process's elections. Call it once for each registry. The registry should have no
    /// prefix, so that the metrics have the names above.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    /// Adds an elector. A second elector of the same Lease continues the series of the first.
    pub(crate) fn observer(&self, leadership: &Leadership) -> Arc<dyn Observer> {
        let mut elections = self.elections.lock().unwrap_or_else(PoisonError::into_inner);
        let election = elections.entry(leadership.lease().to_owned()).or_insert_with(LeaseSeries::new);
        election.electors.retain(|elector| !elector.has_ended());
        election.electors.push(leadership.clone());
        Arc::clone(&election.instruments) as _
    }
}

impl LeaseSeries {
    fn new() -> Self {
        let instruments = Instruments {
            terms: Counter::default(),
            renewals: Histogram::new(RENEWAL_BUCKETS_SECONDS),
            failed_renewals: Counter::default(),
        };
        Self { electors: Vec::new(), instruments: Arc::new(instruments) }
    }

    fn validity(&self) -> Duration {
        self.electors.iter().map(Leadership::remaining).max().unwrap_or_default()
    }

    fn is_held(&self) -> bool {
        !self.validity().is_zero()
    }
}

impl Observer for Instruments {
    fn began(&self, _: &str) {
        self.terms.inc();
    }

    fn ended(&self, _: &str) {}

    fn renewed(&self, took: Duration, succeeded: bool) {
        self.renewals.observe(took.as_secs_f64());
        if !succeeded {
            self.failed_renewals.inc();
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // Clone the map, so that no elector waits for a scrape.
        let elections = self.elections.lock().unwrap_or_else(PoisonError::into_inner).clone();

        // client-go's label is only the name. Leases of one name in several namespaces share a series, which must not
        // appear twice.
        let leading: BTreeSet<&str> =
            elections.iter().filter(|(_, election)| election.is_held()).map(|(lease, _)| name(lease)).collect();
        let names: BTreeSet<&str> = elections.keys().map(|lease| name(lease)).collect();
        let help = "Whether this process leads (1), by the name of the Lease";
        let mut family = encoder.encode_descriptor("leader_election_master_status", help, None, MetricType::Gauge)?;
        for name in names {
            gauge(leading.contains(name)).encode(family.encode_family(&[("name", name)])?)?;
        }

        let to = &mut encoder;
        let help = "Whether this process holds the Lease (1)";
        each(&elections, to, "hustings_lease_held", None, help, |election| gauge(election.is_held()))?;
        let help =
            "Whether the time range of this process continues after its end because no other holder is known (1)";
        each(&elections, to, "hustings_lease_failing_open", None, help, |election| {
            gauge(election.electors.iter().any(Leadership::failing_open))
        })?;
        let help = "How long this process can lead without another renewal";
        each(&elections, to, "hustings_lease_validity", Some(&Unit::Seconds), help, |election| {
            ConstGauge::new(election.validity().as_secs_f64())
        })?;
        let help = "Terms that have begun";
        each(&elections, to, "hustings_lease_terms", None, help, |election| election.instruments.terms.clone())?;
        let help = "How long a renewal took, whether or not it succeeded";
        each(&elections, to, "hustings_lease_renewal", Some(&Unit::Seconds), help, |election| {
            election.instruments.renewals.clone()
        })?;
        let help = "Renewals that did not succeed";
        each(&elections, to, "hustings_lease_renewal_failures", None, help, |election| {
            election.instruments.failed_renewals.clone()
        })
    }
}

/// Encodes one metric of each Lease.
fn each<M: EncodeMetric>(
    elections: &BTreeMap<String, LeaseSeries>,
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    unit: Option<&Unit>,
    help: &str,
    metric: impl Fn(&LeaseSeries) -> M,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, metric(&LeaseSeries::new()).metric_type())?;
    for (lease, election) in elections {
        metric(election).encode(family.encode_family(&[("lease", lease.as_str())])?)?;
    }
    Ok(())
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn gauge(holds: bool) -> ConstGauge<i64> {
    ConstGauge::new(i64::from(holds))
}

/// The name in `namespace/name`.
fn name(lease: &str) -> &str {
    lease.split_once('/').map_or(lease, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hustings_core::elector::Leading;
    use hustings_core::model::Moment;

    use super::*;
    use crate::Elector;
    use crate::leadership::{Publisher, leadership};
    use crate::testing::{HandClock, MemoryStore};

    fn elector(clock: &Arc<HandClock>, lease: &str) -> (Publisher, Leadership) {
        leadership(clock.clone(), lease.to_owned(), "a".to_owned(), hustings_core::elector::Timing::default())
    }

    fn led_until(seconds: i64) -> Leading {
        Leading { number: 1, token: 7, valid_until: Moment::from_micros(seconds * 1_000_000) }
    }

    fn scraped(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket")).map(str::to_owned).collect()
    }

    #[test]
    fn several_elections_share_one_registry_and_compare_the_validity_with_the_clock_at_the_scrape() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let clock = HandClock::at_seconds(100);
        let (mut first, leadership) = elector(&clock, "n/l");
        let observer = metrics.observer(&leadership);
        let (_second, other) = elector(&clock, "m/l");
        drop(metrics.observer(&other));

        first.publish(Some(led_until(110)), None);
        observer.began("");
        observer.renewed(Duration::from_millis(250), true);
        observer.renewed(Duration::from_secs(5), false);
        let led = [
            r#"leader_election_master_status{name="l"} 1"#,
            r#"hustings_lease_held{lease="m/l"} 0"#,
            r#"hustings_lease_held{lease="n/l"} 1"#,
            r#"hustings_lease_failing_open{lease="m/l"} 0"#,
            r#"hustings_lease_failing_open{lease="n/l"} 0"#,
            r#"hustings_lease_validity_seconds{lease="m/l"} 0.0"#,
            r#"hustings_lease_validity_seconds{lease="n/l"} 10.0"#,
            r#"hustings_lease_terms_total{lease="m/l"} 0"#,
            r#"hustings_lease_terms_total{lease="n/l"} 1"#,
            r#"hustings_lease_renewal_seconds_sum{lease="m/l"} 0.0"#,
            r#"hustings_lease_renewal_seconds_count{lease="m/l"} 0"#,
            r#"hustings_lease_renewal_seconds_sum{lease="n/l"} 5.25"#,
            r#"hustings_lease_renewal_seconds_count{lease="n/l"} 2"#,
            r#"hustings_lease_renewal_failures_total{lease="m/l"} 0"#,
            r#"hustings_lease_renewal_failures_total{lease="n/l"} 1"#,
        ];
        assert_eq!(scraped(&registry), led);

        clock.set_seconds(110);
        let over = scraped(&registry);
        for line in [led[0], led[2]] {
            assert!(
                over.contains(&line.replace(" 1", " 0")),
                "the term is over although nothing was published: {over:?}"
            );
        }
    }

    #[test]
    fn of_several_electors_of_one_lease_the_one_that_leads_is_shown() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let clock = HandClock::at_seconds(100);
        let (mut first, leadership) = elector(&clock, "n/l");
        drop(metrics.observer(&leadership));
        let (mut second, other) = elector(&clock, "n/l");
        drop(metrics.observer(&other));
        for leader in [&mut first, &mut second] {
            leader.publish(Some(led_until(110)), None);
            let shown = scraped(&registry);
            for line in
                [r#"hustings_lease_held{lease="n/l"} 1"#, r#"hustings_lease_validity_seconds{lease="n/l"} 10.0"#]
            {
                assert!(shown.contains(&line.to_owned()), "{shown:?}");
            }
            leader.publish(None, None);
        }
    }

    #[tokio::test]
    async fn a_process_without_an_election_is_shown_as_the_holder() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let builder = Elector::direct(&MemoryStore::new(), "n", "l").metrics(&metrics);
        let campaign = builder.enabled(false).build().unwrap().start();
        campaign.leadership().wait_until_leader().await.unwrap();
        let shown = scraped(&registry);
        for line in [r#"leader_election_master_status{name="l"} 1"#, r#"hustings_lease_terms_total{lease="n/l"} 1"#] {
            assert!(shown.contains(&line.to_owned()), "{shown:?}");
        }
    }

    #[test]
    fn a_second_elector_of_a_lease_continues_the_series_of_the_first() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let clock = HandClock::at_seconds(100);
        let (first, leadership) = elector(&clock, "n/l");
        metrics.observer(&leadership).began("");
        drop(first);
        let (mut second, leadership) = elector(&clock, "n/l");
        metrics.observer(&leadership).began("");
        second.publish(Some(led_until(110)), None);
        let shown = scraped(&registry);
        assert!(shown.contains(&r#"hustings_lease_terms_total{lease="n/l"} 2"#.to_owned()), "{shown:?}");
        assert!(shown.contains(&r#"hustings_lease_held{lease="n/l"} 1"#.to_owned()), "{shown:?}");
        let electors = |metrics: &Metrics| metrics.elections.lock().unwrap()["n/l"].electors.len();
        assert_eq!(electors(&metrics), 1, "an elector that has ended is forgotten");
        drop(second);
        let shown = scraped(&registry);
        assert!(shown.contains(&r#"hustings_lease_held{lease="n/l"} 0"#.to_owned()), "a dead task: {shown:?}");
    }
}
