//! An elector that is stuck while its functions run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use hustings_core::model::{Moment, WireTime};
use tokio::time::{sleep, timeout};

use super::{Notes, Stage, run};
use crate::clock::{Clock, SystemClock};
use crate::testing::Log;
use crate::{Durations, Elector};

/// A clock that blocks every reader of the wall clock, that is, the elector.
#[derive(Default)]
struct Sticky(AtomicBool);

impl Clock for Sticky {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> WireTime {
        while self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        SystemClock.wall()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(moment)
    }
}

/// Blocks its thread when it is dropped, until the other end of the channel is dropped or a tenth of a second is over.
struct Slow(Notes, Option<Receiver<()>>);

impl Drop for Slow {
    fn drop(&mut self) {
        match &self.1 {
            Some(free) => drop(free.recv()),
            None => std::thread::sleep(Duration::from_millis(100)),
        }
        self.0.note("dropped");
    }
}

/// Runs a quick function and one that is `slow` to be dropped. Neither stops on its own. Returns what was logged.
async fn run_until_dropped(stage: &Stage, slow: Option<Receiver<()>>) -> String {
    let (log, _guard) = Log::begin();
    let timing = Durations { stop_grace: Duration::from_millis(100), ..Durations::default() };
    let elector = Elector::direct(&stage.store, "n", "l").identity("a").timing(timing);
    let elector = elector.clock(SystemClock::shared()).shutdown(&stage.shutdown).build().unwrap();
    let (slow, begun) = (Mutex::new(Some(Slow(stage.log.clone(), slow))), stage.shutdown.clone());
    let functions = elector.function("quick", |_| std::future::pending::<()>()).function("slow", move |_| {
        let (slow, begun) = (slow.lock().unwrap().take(), begun.clone());
        async move {
            let _slow = slow;
            begun.cancel();
            std::future::pending::<()>().await;
        }
    });
    functions.run().await.unwrap();
    log.take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_run_of_functions_ends_when_all_are_dropped_or_one_is_reported_to_block_its_thread() {
    let blocks = |log: &str| log.contains("ERROR a function blocks its thread and cannot be dropped");
    let stage = Stage::new();
    let log = run_until_dropped(&stage, None).await;
    // On a machine that is too busy, a tenth of a second may last longer.
    assert!(blocks(&log) || stage.log.take() == ["dropped"], "{log}");

    let stage = Stage::new();
    let (free, blocked) = channel();
    let log = run_until_dropped(&stage, Some(blocked)).await;
    assert!(blocks(&log) && stage.log.take().is_empty(), "{log}");
    drop(free);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_the_elector_is_stuck_the_clock_stops_the_functions_and_drops_them() {
    struct NotesDrop(Notes);
    impl Drop for NotesDrop {
        fn drop(&mut self) {
            self.0.note("dropped");
        }
    }
    let seconds = Duration::from_secs;
    let timing = Durations {
        lease_duration_seconds: 3,
        renew_deadline: seconds(2),
        retry_period: Duration::from_millis(400),
        request_timeout: seconds(1),
        stop_grace: seconds(1),
        ..Durations::default()
    };
    let (stage, clock) = (Stage::new(), Arc::new(Sticky::default()));
    let elector = Elector::direct(&stage.store, "n", "l").identity("a").timing(timing);
    let elector = elector.clock(clock.clone()).shutdown(&stage.shutdown).build().unwrap();
    let log = stage.log.clone();
    let stubborn = move |_| {
        let notes = NotesDrop(log.clone());
        async move {
            let _notes = notes;
            std::future::pending::<()>().await;
        }
    };
    let (leadership, running) = run(elector.function("one", stage.diligent("one", 0)).function("two", stubborn));
    // A task that the elector has woken may wait for a thread.
    let begun = async {
        while stage.log.take().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(seconds(60), begun).await.expect("nothing begins");
    clock.0.store(true, Ordering::SeqCst);
    let mut entries = Vec::new();
    let since = std::time::Instant::now();
    while entries.len() < 2 && since.elapsed() < seconds(60) {
        // While one of its two threads is blocked, the runtime checks its timers only when another task runs.
        tokio::spawn(async {});
        std::thread::sleep(Duration::from_millis(1));
        entries.extend(stage.log.take());
    }
    let leads = leadership.is_leader();
    // Until then, the runtime cannot shut down.
    clock.0.store(false, Ordering::SeqCst);
    assert_eq!(entries, ["one has stopped", "dropped"]);
    assert!(!leads);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}
