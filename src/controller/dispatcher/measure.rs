//! Metrics and warnings that cover all Leases.

use hustings_core::model::Moment;
use tokio::time::Instant;

use super::Dispatcher;
use crate::controller::elected_lease::ElectedLease;
use crate::serve::metrics::{LeaseState, count};

/// The most writes or Leases that a warning names. It counts the rest.
const MOST_NAMED: usize = 8;

impl Dispatcher {
    /// Records a heartbeat, and updates the gauges and the warnings.
    pub(super) fn measure(&mut self) {
        self.parts.health.beat();
        let metrics = &self.parts.metrics;
        metrics.queue_depth.set(count(self.queue.overdue(Instant::now())));
        metrics.candidates.set(count(self.stands_for.len()));
        for state in LeaseState::ALL {
            let leases = self.leases.values().filter(|lease| self.leads && lease.state() == state).count();
            metrics.leases.get_or_create(&state.label()).set(count(leases));
        }
        // Only the leading controller reports Leases. A standby's series would count them twice, so a Lease about which
        // it has not decided gives no sample.
        let now = self.parts.clock.now();
        metrics.each_lease.replace(self.leases.values_mut().filter_map(|lease| lease.sample(now)));
        let oldest = self.leases.values().filter_map(|lease| lease.unheld_since()).min();
        metrics.oldest_unheld.set(oldest.map_or(0.0, |since: Moment| now.since(since).as_secs_f64()));
        let ineffective = self.leases.values().filter(|_| self.leads).flat_map(|lease| ineffective_writes(lease));
        self.writes.pass_with(warning("writes succeed without effect, see the events of each", ineffective));
        let contested = self.leases.values().filter(|lease| self.leads && lease.election().has_second_controller(now));
        let contested: Vec<_> = contested.map(|lease| format!("Lease {}", lease.key())).collect();
        metrics.contested_leases.set(count(contested.len()));
        self.second.warn(warning("a second controller elects for the same Leases", contested.into_iter()));
    }
}

/// Describes the writes for a Lease that succeed without effect.
fn ineffective_writes(lease: &ElectedLease) -> impl Iterator<Item = String> {
    let key = lease.key();
    lease.election().ineffective_writes().map(move |(candidate, write, why)| match candidate {
        None => format!("{} of Lease {key} ({why})", write.as_str()),
        Some(candidate) => format!("{} of LeaseCandidate {}/{candidate} ({why})", write.as_str(), key.namespace()),
    })
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
