//! Metrics and warnings that cover all Leases.

use hustings_core::model::Moment;
use tokio::time::Instant;

use super::Dispatcher;
use crate::ops::metrics::{LeaseState, count};

/// The most writes that the warning names. It counts the rest.
const MOST_NAMED: usize = 8;

impl Dispatcher {
    /// Records a heartbeat, and updates the gauges and the warning about writes that succeed without effect.
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
        let ineffective = self.leases.values().filter(|_| self.leads).flat_map(|lease| lease.ineffective_writes());
        self.writes.pass_with(warning(ineffective));
    }
}

/// The message of `/readyz?verbose` about writes that succeed without effect.
fn warning(mut writes: impl Iterator<Item = String>) -> Option<String> {
    let mut named: Vec<_> = writes.by_ref().take(MOST_NAMED).collect();
    let rest = writes.count();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    (!named.is_empty()).then(|| format!("writes succeed without effect, see the events of each: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_a_few_writes_and_counts_the_rest() {
        let writes = |count| warning((0..count).map(|number| format!("w{number}")));
        assert_eq!(writes(0), None);
        assert_eq!(writes(2).unwrap(), "writes succeed without effect, see the events of each: w0, w1");
        assert!(writes(MOST_NAMED + 1).unwrap().ends_with("w7, 1 more"));
        assert!(writes(MOST_NAMED + 5).unwrap().ends_with("w7, 5 more"));
    }
}
