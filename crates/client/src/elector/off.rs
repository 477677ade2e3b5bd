//! An election that is switched off: this process leads from its start to its shutdown, without any request.
//!
//! Functions, terms, handles and gates behave as usual. The number and the token of a term count the terms of this
//! process from 1. They are not comparable with the numbers and tokens of a Lease.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{Either, select};
use hustings_core::elector::{Cooldown, Leading};
use hustings_core::model::Moment;
use hustings_wire::driver::ObservedTerm;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::elector::telemetry::Observers;
use crate::leadership::{Holder, Publisher};

/// The task that runs instead of a campaign.
pub(crate) struct Off {
    pub(crate) identity: String,
    pub(crate) stop_grace: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) publisher: Publisher,
    pub(crate) observers: Observers,
    pub(crate) shutdown: CancellationToken,
}

impl Off {
    /// Leads until the shutdown token is cancelled and the work has ended.
    pub(crate) async fn drive(mut self) {
        let holder = Holder { identity: self.identity.clone(), expires_at: Moment::NEVER };
        self.publisher.publish_holder(ObservedTerm::unelected(&self.identity));
        self.publisher.ranges().own_everything();
        let mut cooldown = Cooldown::new(self.clock.now());
        for number in 1.. {
            let leading = Leading { number, token: u64::from(number), valid_until: Moment::NEVER };
            self.publisher.publish(Some(leading), Some(holder.clone()));
            for observer in &self.observers {
                observer.began("");
            }
            cooldown.term_began(self.clock.now());
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {}
                () = self.publisher.resignation() => drop(cooldown.resign(self.clock.now())),
            }
            self.stop_work().await;
            self.publisher.publish(None, None);
            for observer in &self.observers {
                observer.ended("");
            }
            cooldown.term_over(self.clock.now());
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                () = self.clock.sleep_until(cooldown.until()) => {}
            }
        }
    }

    /// Waits for the work to stop, and aborts it after its grace. At a shutdown, does not wait any longer than that.
    async fn stop_work(&self) {
        let stopped = self.publisher.stop_work().boxed();
        let until = self.clock.now().after(self.stop_grace);
        let Either::Right(((), stopped)) = select(stopped, self.clock.sleep_until(until)).await else { return };
        tracing::error!(identity = self.identity, "the work did not stop within its grace");
        self.publisher.abort_work();
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = stopped => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::StreamExt as _;

    use super::*;
    use crate::elector::campaign::ElectorTask;
    use crate::elector::telemetry::Observer;
    use crate::testing::MemoryStore;
    use crate::{Durations, Elector};

    #[tokio::test(start_paused = true)]
    async fn the_process_leads_without_any_request_to_the_store() {
        let store = MemoryStore::new();
        let elector = Elector::direct(&store, "n", "l").enabled(false).build().unwrap();
        let leadership = elector.leadership();
        assert!(!leadership.is_leader() && !leadership.has_ended(), "it has not started");
        let campaign = elector.start();
        let term = leadership.wait_until_leader().await.unwrap();
        assert_eq!((term.number, term.token, leadership.terms()), (1, 1, 1));
        assert_eq!(leadership.holder().as_deref(), Some(leadership.identity()));
        tokio::time::sleep(Duration::from_hours(100)).await;
        assert!(leadership.is_leader());
        let change = leadership.holder_changes().boxed().next().await.unwrap();
        assert_eq!((change.former, change.holder.as_str()), (None, leadership.identity()));
        term.resign();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!((leadership.holder(), leadership.is_leader()), (None, false));
        assert_eq!(leadership.wait_until_leader().await.unwrap().number, 2);
        campaign.stop().await.unwrap();
        assert!(!leadership.is_leader() && leadership.has_ended());
        assert_eq!(store.lease("n", "l"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn functions_run_from_the_start_to_the_shutdown_without_any_request() {
        let asked = Arc::<AtomicU32>::default();
        let counter = Arc::clone(&asked);
        let client = kube::Client::new(
            tower::service_fn(move |_: http::Request<kube::client::Body>| {
                counter.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
            }),
            "n",
        );
        let shutdown = CancellationToken::new();
        let builder = Elector::direct(client.clone(), "n", "l").events(client).shutdown(&shutdown);
        let elector = builder.enabled(false).build().unwrap();
        let leadership = elector.leadership();
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let functions = elector.function("work", move |term| {
            let begun = begun.clone();
            async move {
                begun.send(term.token).unwrap();
                term.cancelled().await;
            }
        });
        let running = tokio::spawn(functions.run());
        assert_eq!(begins.recv().await, Some(1));
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(leadership.is_leader() && begins.is_empty());
        shutdown.cancel();
        running.await.unwrap().unwrap();
        assert!(!leadership.is_leader());
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_resigned_term_a_new_term_begins() {
        let store = MemoryStore::new();
        let campaign = Elector::direct(&store, "n", "l").enabled(false).build().unwrap().start();
        let leadership = campaign.leadership();
        let first = leadership.wait_until_leader().await.unwrap();
        first.resign();
        first.cancelled().await;
        let resigned = tokio::time::Instant::now();
        let second = leadership.next_term(Some(&first)).await.unwrap();
        assert_eq!((second.number, second.token), (2, 2));
        assert!(resigned.elapsed() >= Duration::from_secs(5), "work that fails again and again is not run in haste");
    }

    /// Counts the terms that have begun and those that are over.
    #[derive(Default)]
    struct Counts([AtomicU32; 2]);

    impl Observer for Counts {
        fn began(&self, _: &str) {
            self.0[0].fetch_add(1, Ordering::SeqCst);
        }

        fn ended(&self, _: &str) {
            self.0[1].fetch_add(1, Ordering::SeqCst);
        }

        fn renewed(&self, _: Duration, _: bool) {}
    }

    #[tokio::test(start_paused = true)]
    async fn each_term_is_reported_and_a_long_one_shortens_the_pause_after_the_next_resignation() {
        let store = MemoryStore::new();
        let mut elector = Elector::direct(&store, "n", "l").enabled(false).build().unwrap();
        let counts = Arc::<Counts>::default();
        let ElectorTask::Off(off) = &mut elector.task else { panic!("the election is switched off") };
        off.observers.push(counts.clone());
        let counted = || counts.0.each_ref().map(|count| count.load(Ordering::SeqCst));
        let campaign = elector.start();
        let leadership = campaign.leadership();
        let mut term = leadership.wait_until_leader().await.unwrap();
        for (number, (led, pause)) in (1..).zip([(0, 5), (0, 10), (9, 20), (41, 5)]) {
            assert_eq!(counted(), [number, number - 1]);
            tokio::time::sleep(Duration::from_secs(led)).await;
            term.resign();
            term.cancelled().await;
            let resigned = tokio::time::Instant::now();
            term = leadership.next_term(Some(&term)).await.unwrap();
            assert_eq!(resigned.elapsed().as_secs(), pause, "after a term of {led} s");
        }
        campaign.stop().await.unwrap();
        assert_eq!(counted(), [5, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_shutdown_waits_for_the_work() {
        let store = MemoryStore::new();
        let campaign = Elector::direct(&store, "n", "l").enabled(false).build().unwrap().start();
        let leadership = campaign.leadership();
        let work = leadership.wait_until_leader().await.unwrap().begin_work().unwrap();
        let stopped = tokio::spawn(campaign.stop());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(leadership.is_leader() && !stopped.is_finished());
        drop(work);
        stopped.await.unwrap().unwrap();
        assert!(!leadership.is_leader());
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_never_stops_delays_the_shutdown_by_its_grace_and_no_longer() {
        let store = MemoryStore::new();
        let durations = Durations { stop_grace: Duration::from_secs(7), ..Durations::default() };
        let builder = Elector::direct(&store, "n", "l").timing(durations).enabled(false);
        let campaign = builder.build().unwrap().start();
        let term = campaign.leadership().wait_until_leader().await.unwrap();
        let _work = term.begin_work().unwrap();
        let asked = tokio::time::Instant::now();
        let stopped = tokio::time::timeout(durations.stop_grace * 2, campaign.stop()).await;
        stopped.expect("it ends after the grace").unwrap();
        assert_eq!(asked.elapsed().as_secs(), durations.stop_grace.as_secs());
        term.aborted().now_or_never().expect("the work is aborted");
    }
}
