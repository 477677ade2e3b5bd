//! What only a look at every Lease can show: gauges, and the warning about writes that succeed without effect.

use hustings_core::model::Moment;
use tokio::time::Instant;

use super::Dispatcher;
use crate::controller::contest::Contest;
use crate::ops::metrics::LeaseState;

/// How many writes that succeed without effect are named; the rest are counted.
const MOST_NAMED: usize = 8;

impl Dispatcher {
    pub(super) fn measure(&mut self) {
        self.parts.health.beat();
        let metrics = &self.parts.metrics;
        metrics.queue_depth.set(count(self.queue.overdue(Instant::now())));
        metrics.candidates.set(count(self.stands_for.len()));
        for (resource, objects) in self.parts.stores.sizes() {
            metrics.watched_objects.get_or_create(&resource.label()).set(count(objects));
        }
        for state in LeaseState::ALL {
            let leases = self.contests.values().filter(|contest| self.leads && contest.state() == state).count();
            metrics.leases.get_or_create(&state.label()).set(count(leases));
        }
        // What a standby knows of the Leases is the other controller's to show.
        let contests = self.contests.values_mut().filter(|_| self.leads);
        let now = self.parts.clock.now();
        metrics.each_lease.replace(contests.filter_map(|contest| contest.sample(now)));
        let oldest = self.contests.values().filter_map(Contest::unheld_since).min().filter(|_| self.leads);
        metrics.oldest_unheld.set(oldest.map_or(0.0, |since: Moment| now.since(since).as_secs_f64()));
        let ineffective = self.contests.values().filter(|_| self.leads).flat_map(Contest::ineffective_writes);
        self.writes.pass_with(warning(ineffective));
    }
}

/// What `/readyz?verbose` says of the writes that succeed without effect.
fn warning(mut writes: impl Iterator<Item = String>) -> Option<String> {
    let mut named: Vec<_> = writes.by_ref().take(MOST_NAMED).collect();
    let rest = writes.count();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    (!named.is_empty()).then(|| format!("writes succeed without effect, see the events of each: {}", named.join(", ")))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_a_few_writes_and_counts_the_rest() {
        let writes = |count| warning((0..count).map(|number| format!("w{number}")));
        assert_eq!(writes(0), None);
        assert_eq!(writes(2).unwrap(), "writes succeed without effect, see the events of each: w0, w1");
        assert!(writes(MOST_NAMED + 5).unwrap().ends_with("w7, 5 more"));
    }
}
