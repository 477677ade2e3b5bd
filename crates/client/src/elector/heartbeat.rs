//! The heartbeat of the code that a term is for.
//!
//! `hustings_wire::driver` says what the elector does while there is none.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// How often [`Heartbeat::keep_beating`] beats.
const PERIOD: Duration = Duration::from_secs(1);

/// A sign of life of the task that does or supervises the work of a term. Clones share it.
///
/// Pass it to [`ElectorBuilder::heartbeat`](crate::ElectorBuilder::heartbeat), and call [`beat`](Self::beat) in that task
/// at least once a second. A task that waits in one `select!` can poll [`keep_beating`](Self::keep_beating) there.
///
/// When the last beat is older than half of the renew deadline (and than two seconds), the elector sends nothing that
/// would prove this replica alive, until the next beat. A term ends at the latest a renew deadline after that. The time
/// is that of tokio's clock, which does not count the suspension of the machine.
#[derive(Clone, Debug)]
pub struct Heartbeat(Arc<watch::Sender<Instant>>);

impl Heartbeat {
    /// Creates a heartbeat. Its creation is the first beat.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Instant::now())))
    }

    /// Records a beat.
    pub fn beat(&self) {
        self.0.send_replace(Instant::now());
    }

    /// Beats once a second. The beats stop when the task that polls this future is stuck.
    pub async fn keep_beating(&self) -> Infallible {
        loop {
            self.beat();
            sleep(PERIOD).await;
        }
    }

    /// How long ago the last beat was.
    pub fn age(&self) -> Duration {
        self.0.borrow().elapsed()
    }

    /// Completes at the next beat.
    pub(crate) fn next_beat(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut beats = self.0.subscribe();
        async move {
            // An error means that this heartbeat, and with it its elector, is gone.
            let _ = beats.changed().await;
        }
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryStore;
    use crate::{Durations, Elector};

    /// Longer than the term of a replica that has stopped to renew.
    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn a_holder_whose_work_is_stuck_loses_its_lease_and_is_elected_again_when_it_goes_on() {
        for (lease_duration_seconds, renew_deadline, retry_millis, bound) in
            [(15, Duration::from_secs(10), 2000, 15 + 5 + 3), (3, Duration::from_secs(2), 500, 3 + 2 + 3)]
        {
            let (store, heartbeat) = (MemoryStore::new(), Heartbeat::new());
            let retry_period = Duration::from_millis(retry_millis);
            let durations = Durations { lease_duration_seconds, renew_deadline, retry_period, ..Durations::default() };
            let builder = Elector::direct(&store, "n", "l").identity("a").timing(durations);
            let stuck = builder.heartbeat(&heartbeat).build().unwrap().start();
            let leadership = stuck.leadership();
            let beating = tokio::spawn({
                let heartbeat = heartbeat.clone();
                async move { heartbeat.keep_beating().await }
            });
            leadership.wait_until_leader().await.unwrap();
            sleep(Duration::from_hours(1)).await;
            assert_eq!(leadership.terms(), 1, "it beats");

            beating.abort();
            let (stopped, other) = (Instant::now(), Elector::direct(&store, "n", "l").identity("b"));
            let other = other.timing(durations).build().unwrap().start();
            let succeeds = other.leadership().wait_until_leader().await.unwrap();
            assert!(!leadership.is_leader());
            assert!(stopped.elapsed() < Duration::from_secs(bound), "{:?}", stopped.elapsed());

            other.stop().await.unwrap();
            sleep(LONG).await;
            assert!(!leadership.is_leader(), "it does not claim the Lease while its work is stuck");
            heartbeat.beat();
            let next = leadership.wait_until_leader().await.unwrap();
            assert!(next.token > succeeds.token);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_candidate_answers_no_ping_and_a_late_beat_costs_no_term() {
        let (store, heartbeat) = (MemoryStore::new(), Heartbeat::new());
        let builder = Elector::coordinated(&store, "n", "l", "1.0.0").identity("a").fallback(false);
        let campaign = builder.heartbeat(&heartbeat).build().unwrap().start();
        let leadership = campaign.leadership();
        sleep(Duration::from_secs(1)).await;
        heartbeat.beat();
        let pinged = |store: &MemoryStore| {
            let renewed = store.candidate("n", "a").unwrap().renew_time;
            store.edit_candidate("n", "a", |candidate| {
                candidate.ping_time = renewed.map(|time| time.after(Duration::from_secs(1)));
            });
        };
        let answered = || {
            let candidate = store.candidate("n", "a").unwrap();
            candidate.renew_time >= candidate.ping_time
        };
        pinged(&store);
        sleep(Duration::from_secs(1)).await;
        assert!(answered());
        sleep(Duration::from_secs(10)).await;
        pinged(&store);
        sleep(LONG).await;
        assert!(!answered());
        // After requests that were not sent, the elector pauses for at most four retry periods.
        for _ in 0..12 {
            heartbeat.beat();
            sleep(Duration::from_secs(1)).await;
        }
        assert!(answered());

        store.grant("n", "l", "a");
        heartbeat.beat();
        let term = leadership.wait_until_leader().await.unwrap();
        // Each pause is longer than the silence that counts, and shorter than the term without a renewal.
        for _ in 0..20 {
            heartbeat.beat();
            sleep(Duration::from_secs(7)).await;
        }
        assert_eq!(leadership.term(), Some(term));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stuck_holder_gives_up_the_lease_when_it_stops() {
        let (store, heartbeat) = (MemoryStore::new(), Heartbeat::new());
        let builder = Elector::direct(&store, "n", "l").identity("a");
        let campaign = builder.heartbeat(&heartbeat).build().unwrap().start();
        campaign.leadership().wait_until_leader().await.unwrap();
        sleep(Duration::from_secs(8)).await;
        campaign.stop().await.unwrap();
        assert!(store.lease("n", "l").unwrap().is_given_up());
    }
}
