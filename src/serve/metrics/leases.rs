//! Metrics per Lease, for a limited number of Leases.
//!
//! Users of a cluster determine the number of Leases, and every series costs Prometheus memory. Therefore only a
//! limited number of Leases have their own series. A Lease keeps them until it is gone. All other Leases share one
//! series per metric.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The default for the number of Leases with their own series.
pub const DEFAULT_LEASE_LIMIT: usize = 1000;

/// The label `lease` of the shared series. It is not a valid name of an object, so no Lease can have it.
const OTHER: &str = "_other";

/// One Lease at one instant.
#[derive(Clone, Debug)]
pub struct LeaseSample {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// Whether it has a live holder.
    pub held: bool,
    /// How many candidates stand for it.
    pub candidates: usize,
    /// `spec.leaseTransitions`.
    pub transitions: u32,
    /// The growth of `transitions` since the previous sample.
    pub new_transitions: u32,
    /// How long it has had no holder although it should have one; zero while it is held.
    pub unheld: Duration,
    /// How long its holder has been asked to hand over; zero while it is not asked.
    pub preferred: Duration,
}

/// The last sample of every Lease. Clones share it.
#[derive(Clone)]
pub struct LeaseMetrics {
    limit: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    named: BTreeMap<(Arc<str>, Arc<str>), Figures>,
    others: Figures,
    /// The number of Leases that `others` covers.
    other_leases: usize,
}

/// The values of one series per metric, for one Lease or for all Leases that share it.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    held: i64,
    candidates: i64,
    transitions: u64,
    unheld: Duration,
    preferred: Duration,
}

impl LeaseMetrics {
    /// Creates metrics without Leases. At most `limit` Leases get their own series.
    pub fn new(limit: usize) -> Self {
        Self { limit, table: Arc::default() }
    }

    /// Replaces all samples. The series of a Lease that is not among `samples` end.
    pub fn replace(&self, samples: impl IntoIterator<Item = LeaseSample>) {
        let mut table = self.table();
        let mut previous = std::mem::take(&mut table.named);
        let mut named = BTreeMap::new();
        let mut rest = Vec::new();
        for sample in samples {
            let key = (Arc::clone(&sample.namespace), Arc::clone(&sample.name));
            // A Lease that has its own series keeps them, whatever other Leases appear.
            if previous.remove(&key).is_some() {
                named.insert(key, Figures::of(&sample));
            } else {
                rest.push((key, sample));
            }
        }
        let free = self.limit.saturating_sub(named.len()).min(rest.len());
        named.extend(rest.drain(..free).map(|(key, sample)| (key, Figures::of(&sample))));
        // A counter must not fall when a Lease is deleted, so this sum only ever grows.
        let mut others = Figures { transitions: table.others.transitions, ..Figures::default() };
        for (_, sample) in &rest {
            others.add(sample);
        }
        *table = Table { named, others, other_leases: rest.len() };
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Samples are replaced as a whole, so a poisoned lock is safe to use.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figures {
    fn of(sample: &LeaseSample) -> Self {
        Self {
            held: i64::from(sample.held),
            candidates: count(sample.candidates),
            transitions: u64::from(sample.transitions),
            unheld: sample.unheld,
            preferred: sample.preferred,
        }
    }

    /// Adds a Lease. It keeps the longest of each time, since a sum of times would not describe any Lease.
    fn add(&mut self, sample: &LeaseSample) {
        self.held += i64::from(sample.held);
        self.candidates = self.candidates.saturating_add(count(sample.candidates));
        self.transitions = self.transitions.saturating_add(u64::from(sample.new_transitions));
        self.unheld = self.unheld.max(sample.unheld);
        self.preferred = self.preferred.max(sample.preferred);
    }
}

impl Table {
    /// The labels and values of each series.
    fn series(&self) -> impl Iterator<Item = ([(&str, &str); 2], &Figures)> {
        let named = self.named.iter().map(|((namespace, name), figures)| (&**namespace, &**name, figures));
        let others = (self.other_leases > 0).then_some(("", OTHER, &self.others));
        named.chain(others).map(|(namespace, name, figures)| ([("namespace", namespace), ("lease", name)], figures))
    }

    fn encode<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        metric: impl Fn(&Figures) -> M,
    ) -> fmt::Result {
        let type_ = metric(&Figures::default()).metric_type();
        let mut family = encoder.encode_descriptor(name, help, unit, type_)?;
        for (labels, figures) in self.series() {
            metric(figures).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for LeaseMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let table = self.table();
        let encoder = &mut encoder;
        let help = "Whether the Lease has a live holder (1) or not (0)";
        table.encode(encoder, "election_held", None, help, |figures| ConstGauge::new(figures.held))?;
        let help = "Candidates of the Lease";
        table.encode(encoder, "election_candidates", None, help, |figures| ConstGauge::new(figures.candidates))?;
        let help = "Grants, hand-overs and claims of the Lease: its spec.leaseTransitions";
        table.encode(encoder, "election_transitions", None, help, |figures| ConstCounter::new(figures.transitions))?;
        let help = "How long the Lease has had no holder although it should have one; 0 while it is held";
        table.encode(encoder, "election_unheld", Some(&Unit::Seconds), help, |figures| {
            ConstGauge::new(figures.unheld.as_secs_f64())
        })?;
        let help = "How long ago the holder of the Lease was asked to hand over; 0 while it is not asked";
        table.encode(encoder, "election_preferred", Some(&Unit::Seconds), help, |figures| {
            ConstGauge::new(figures.preferred.as_secs_f64())
        })?;
        let help = "Leases beyond --metrics-lease-limit, which share the series with lease=\"_other\"";
        let family = encoder.encode_descriptor("election_other_leases", help, None, MetricType::Gauge)?;
        // A standby has no samples, and must serve no series about Leases.
        if table.named.is_empty() && table.other_leases == 0 {
            return Ok(());
        }
        ConstGauge::new(count(table.other_leases)).encode(family)
    }
}

impl fmt::Debug for LeaseMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseMetrics").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The value of a gauge that counts objects.
pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    fn sample(name: &str) -> LeaseSample {
        LeaseSample {
            namespace: "n".into(),
            name: name.into(),
            held: true,
            candidates: 2,
            transitions: 7,
            new_transitions: 1,
            unheld: Duration::ZERO,
            preferred: Duration::ZERO,
        }
    }

    fn scraped(metrics: &LeaseMetrics) -> Vec<String> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(metrics.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// The names of the Leases that have a series of one metric.
    fn named(metrics: &LeaseMetrics) -> Vec<String> {
        let held = scraped(metrics).into_iter().filter(|line| line.starts_with("election_held"));
        held.map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
    }

    #[test]
    fn each_lease_has_its_own_series_until_it_is_gone() {
        let metrics = LeaseMetrics::new(2);
        let waiting = Duration::from_millis(2500);
        metrics.replace([LeaseSample { held: false, unheld: waiting, preferred: waiting * 2, ..sample("a") }]);
        let expected = [
            r#"election_held{namespace="n",lease="a"} 0"#,
            r#"election_candidates{namespace="n",lease="a"} 2"#,
            r#"election_transitions_total{namespace="n",lease="a"} 7"#,
            r#"election_unheld_seconds{namespace="n",lease="a"} 2.5"#,
            r#"election_preferred_seconds{namespace="n",lease="a"} 5.0"#,
            "election_other_leases 0",
        ];
        assert_eq!(scraped(&metrics), expected);
        metrics.replace([]);
        assert_eq!(scraped(&metrics), [] as [&str; 0], "a standby, which has no samples, serves no series");
    }

    #[test]
    fn leases_beyond_the_limit_are_summed_and_the_longest_of_their_times_is_shown() {
        let metrics = LeaseMetrics::new(1);
        let unheld = |name, seconds| {
            let unheld = Duration::from_secs(seconds);
            LeaseSample { held: false, unheld, preferred: unheld * 2, ..sample(name) }
        };
        metrics.replace([sample("a"), sample("b"), unheld("c", 9), unheld("d", 4)]);
        let others: Vec<_> = scraped(&metrics).into_iter().filter(|line| line.contains("other")).collect();
        let expected = [
            r#"election_held{namespace="",lease="_other"} 1"#,
            r#"election_candidates{namespace="",lease="_other"} 6"#,
            r#"election_transitions_total{namespace="",lease="_other"} 3"#,
            r#"election_unheld_seconds{namespace="",lease="_other"} 9.0"#,
            r#"election_preferred_seconds{namespace="",lease="_other"} 18.0"#,
            "election_other_leases 3",
        ];
        assert_eq!(others, expected);
    }

    #[test]
    fn a_lease_keeps_its_series_when_another_appears_and_a_free_place_is_reused() {
        let metrics = LeaseMetrics::new(2);
        metrics.replace(["b", "c"].map(sample));
        metrics.replace(["a", "b", "c"].map(sample));
        assert_eq!(named(&metrics), ["b", "c", "_other"]);
        metrics.replace(["a", "c"].map(sample));
        assert_eq!(named(&metrics), ["a", "c"]);
    }

    #[test]
    fn the_sum_of_transitions_never_falls() {
        let metrics = LeaseMetrics::new(0);
        let transitions = || {
            let lines = scraped(&metrics).into_iter().filter(|line| line.starts_with("election_transitions"));
            lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        metrics.replace(["a", "b"].map(sample));
        assert_eq!(transitions(), [2]);
        metrics.replace([LeaseSample { new_transitions: 0, ..sample("b") }]);
        assert_eq!(transitions(), [2]);
        metrics.replace([sample("b")]);
        assert_eq!(transitions(), [3]);
    }
}
