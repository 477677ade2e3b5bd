//! The metric of a sidecar that stands while its program is connected.

use std::time::Duration;

use hustings_core::model::Cause;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{Labelled, ValueLabel};

/// How long releases took, by their cause. Clones share it.
#[derive(Clone, Debug)]
pub struct ReleaseMetrics(Labelled<Histogram>);

impl ReleaseMetrics {
    /// Registers the metric, with a series for each cause.
    pub fn register(registry: &mut Registry) -> Self {
        let releases = Family::new_with_constructor(histogram as fn() -> Histogram);
        for cause in [Cause::ConnectionClosed, Cause::Stopped] {
            drop(releases.get_or_create(&label(cause)));
        }
        registry.register_with_unit(
            "hustings_sidecar_release",
            "How long the sidecar kept the Lease after the program had closed its connection, by cause",
            Unit::Seconds,
            releases.clone(),
        );
        Self(releases)
    }

    /// Records that the sidecar gave up the Lease `took` after the connection had closed.
    pub fn observe(&self, cause: Cause, took: Duration) {
        self.0.get_or_create(&label(cause)).observe(took.as_secs_f64());
    }
}

/// A program that closes its connection because its term is being stopped has "stopping".
const fn label(cause: Cause) -> ValueLabel {
    ValueLabel::cause(match cause {
        Cause::Stopped => "stopping",
        other => other.as_str(),
    })
}

/// Buckets from one request to a nearby API server to the longest lease of most programs.
fn histogram() -> Histogram {
    Histogram::new([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_of_a_release_has_its_own_series() {
        let mut registry = Registry::default();
        let releases = ReleaseMetrics::register(&mut registry);
        releases.observe(Cause::ConnectionClosed, Duration::from_millis(20));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let count = |cause: &str| {
            let series = format!("hustings_sidecar_release_seconds_count{{cause=\"{cause}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&*series)).map(str::to_owned)
        };
        assert_eq!((count("connection-closed").as_deref(), count("stopping").as_deref()), (Some("1"), Some("0")));
        assert!(text.contains("hustings_sidecar_release_seconds_sum{cause=\"connection-closed\"} 0.02"), "{text}");
    }
}
