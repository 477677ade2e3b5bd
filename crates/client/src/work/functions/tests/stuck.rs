//! An elector that is stuck while its functions run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use hustings_core::model::{Moment, WireTime};
use tokio::time::{sleep, timeout};

use super::{Notes, Stage, run};
use crate::clock::{Clock, SystemClock};
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
    let elector = Elector::in_memory(&stage.store, "n", "l").identity("a").direct().timing(timing);
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
