//! Functions in virtual time, over a store in memory.

mod broken;
mod once;
mod stuck;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use hustings_core::model::LeaseRecord;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::testing::{Log, MemoryStore};
use crate::{CampaignError, Durations, Elector, Functions, Leadership, OnFailure, Term};

/// How long a function may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Ends when a function is dropped.
type Dropped = oneshot::Receiver<()>;

/// A function that fails at once may do so before the test has observed the term.
const A_MOMENT: Duration = Duration::from_millis(10);

/// The events of a test, in their order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Stage {
    store: MemoryStore,
    shutdown: CancellationToken,
    log: Notes,
}

impl Stage {
    fn new() -> Self {
        Self { store: MemoryStore::new(), shutdown: CancellationToken::new(), log: Notes::default() }
    }

    fn elector(&self) -> Elector {
        let timing = Durations { stop_grace: GRACE, ..Durations::default() };
        let builder = Elector::direct(&self.store, "n", "l").identity("a");
        builder.timing(timing).shutdown(&self.shutdown).build().unwrap()
    }

    fn lease(&self) -> LeaseRecord {
        self.store.lease("n", "l").unwrap()
    }

    /// A function that records when it begins and when it has stopped. Stopping takes it `stop_seconds`.
    fn diligent(
        &self,
        name: &'static str,
        stop_seconds: u64,
    ) -> impl Fn(Term) -> BoxFuture<'static, ()> + Send + Sync + use<> {
        let log = self.log.clone();
        move |term| {
            let log = log.clone();
            Box::pin(async move {
                log.note(format!("{name} begins term {}", term.number));
                term.cancelled().await;
                sleep(Duration::from_secs(stop_seconds)).await;
                log.note(format!("{name} has stopped"));
            })
        }
    }
}

fn run(functions: Functions) -> (Leadership, JoinHandle<Result<(), CampaignError>>) {
    (functions.leadership(), tokio::spawn(functions.run()))
}

/// A term, within an hour of the paused clock.
async fn leads(leadership: &Leadership) -> Term {
    timeout(Duration::from_hours(1), leadership.wait_until_leader()).await.expect("nobody leads").unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_functions_run_in_each_term_and_stop_before_is_leader_is_false_and_the_lease_is_given_up() {
    let stage = Stage::new();
    let functions = stage.elector().function("one", stage.diligent("one", 1)).function("two", stage.diligent("two", 3));
    let (leadership, running) = run(functions);
    leads(&leadership).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.log.take(), ["one begins term 1", "two begins term 1"]);

    stage.shutdown.cancel();
    sleep(Duration::from_millis(2_900)).await;
    assert_eq!(stage.log.take(), ["one has stopped"]);
    assert!(leadership.is_leader(), "a function still runs");
    assert_eq!(stage.lease().holder.as_deref(), Some("a"));

    let last = Instant::now() + Duration::from_millis(100);
    running.await.unwrap().unwrap();
    assert_eq!(stage.log.take(), ["two has stopped"]);
    assert!(last.elapsed() < Duration::from_secs(1), "{:?} after the last function", last.elapsed());
    assert!(!leadership.is_leader());
    assert!(stage.lease().is_given_up());
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_stops_all_functions_and_the_next_term_starts_them_again() {
    let stage = Stage::new();
    let functions = stage.elector().function("one", stage.diligent("one", 1)).function("two", stage.diligent("two", 2));
    let (leadership, running) = run(functions);
    let first = leads(&leadership).await;
    sleep(Duration::from_secs(1)).await;
    stage.log.take();
    stage.store.grant("n", "l", "stranger");
    first.cancelled().await;
    assert!(!leadership.is_leader());
    let second = leadership.next_term(Some(&first)).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let begins = |name: &str| format!("{name} begins term {}", second.number);
    assert_eq!(
        stage.log.take(),
        ["one has stopped".to_owned(), "two has stopped".to_owned(), begins("one"), begins("two")]
    );
    assert_eq!(leadership.terms(), 2);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_ends_the_term_and_the_elector_campaigns_again_after_doubled_pauses() {
    let stage = Stage::new();
    let began = Arc::new(Mutex::new(Vec::new()));
    let failing = {
        let began = Arc::clone(&began);
        move |_| {
            let began = Arc::clone(&began);
            async move {
                began.lock().unwrap().push(Instant::now());
                sleep(A_MOMENT).await;
                Err("it cannot work")
            }
        }
    };
    let functions = stage.elector().function("failing", failing).function("other", stage.diligent("other", 0));
    let (leadership, running) = run(functions);
    let first = leads(&leadership).await;
    first.cancelled().await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.log.take(), ["other begins term 1", "other has stopped"]);
    assert!(stage.lease().is_given_up(), "others may lead meanwhile");

    sleep(Duration::from_mins(1)).await;
    let began = began.lock().unwrap().clone();
    let rests: Vec<u64> = began.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(rests, [5, 10, 20], "then 40 s");
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_and_a_function_may_fail_without_ending_the_term() {
    let (log, _guard) = Log::begin();
    let stage = Stage::new();
    let functions = stage
        .elector()
        .function_with("optional", OnFailure::KeepTerm, |_| async { Err("it cannot work") })
        .function_with("broken", OnFailure::KeepTerm, |_| -> std::future::Ready<()> { panic!("on purpose") })
        .function("other", stage.diligent("other", 0));
    let (leadership, running) = run(functions);
    let term = leads(&leadership).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(leadership.term(), Some(term));
    assert_eq!(log.take().matches("a function failed; the term continues").count(), 2);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();

    let stage = Stage::new();
    let (leadership, _running) =
        run(stage.elector().function("other", stage.diligent("other", 0)).function("broken", |_| async {
            sleep(A_MOMENT).await;
            assert_eq!(1, 2, "on purpose");
        }));
    leads(&leadership).await.cancelled().await;
    sleep(Duration::from_millis(10)).await;
    assert!(stage.lease().is_given_up());
    assert!(log.take().contains("a function failed; the term is given up"));
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_while_it_stops_resigns_no_term() {
    let (log, _guard) = Log::begin();
    let stage = Stage::new();
    let (leadership, running) = run(stage.elector().function("late", |term: Term| async move {
        term.cancelled().await;
        Err("it was interrupted")
    }));
    leads(&leadership).await;
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
    let log = log.take();
    assert!(log.contains("a function failed after its term was cancelled"), "{log}");
    assert!(!log.contains("the term is given up"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_function_that_does_not_stop_is_dropped_after_its_grace_and_the_lease_expires() {
    let stage = Stage::new();
    let (began, mut has_begun) = tokio::sync::mpsc::channel::<Dropped>(1);
    let stuck = move |_| {
        let began = began.clone();
        async move {
            let (_alive, is_dropped) = oneshot::channel::<()>();
            began.send(is_dropped).await.unwrap();
            std::future::pending::<()>().await;
        }
    };
    let (leadership, running) = run(stage.elector().function("stuck", stuck));
    let term = leads(&leadership).await;
    let first = has_begun.recv().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    term.resign();
    term.cancelled().await;
    let asked = Instant::now();
    term.aborted().await;
    assert!(first.await.is_err());
    assert!((GRACE..GRACE + A_MOMENT).contains(&asked.elapsed()), "dropped after {:?}", asked.elapsed());
    assert!(!leadership.is_leader());
    assert_eq!(stage.lease().holder.as_deref(), Some("a"), "the work did not stop, so the Lease is not given up");
    let second = leadership.next_term(Some(&term)).await.unwrap();
    assert!(second.token > term.token);
    let last = has_begun.recv().await.unwrap();
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
    assert!(last.await.is_err(), "no function is left when `run` returns");
}

#[tokio::test(start_paused = true)]
async fn work_of_an_elector_that_does_not_stop_is_dropped_after_its_grace() {
    let stage = Stage::new();
    let (elector, shutdown) = (stage.elector(), stage.shutdown.clone());
    let leadership = elector.leadership();
    let (alive, is_dropped) = oneshot::channel::<()>();
    let mut alive = Some(alive);
    let running = tokio::spawn(elector.run(move |_| {
        let alive = alive.take();
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    }));
    leads(&leadership).await;
    sleep(Duration::from_secs(1)).await;
    let asked = Instant::now();
    shutdown.cancel();
    assert!(is_dropped.await.is_err());
    assert!((GRACE..GRACE + A_MOMENT).contains(&asked.elapsed()), "dropped after {:?}", asked.elapsed());
    running.await.unwrap().unwrap();
}

/// Like a program whose `main` runs the elector, and which the panic ends.
#[test]
fn a_panic_of_the_work_continues_when_the_lease_is_given_up() {
    let panics_at_once = |_| -> BoxFuture<'static, ()> { panic!("on purpose") };
    let panics_later = |_| -> BoxFuture<'static, ()> {
        Box::pin(async {
            sleep(A_MOMENT).await;
            panic!("on purpose");
        })
    };
    let works: [fn(Term) -> BoxFuture<'static, ()>; 2] = [panics_at_once, panics_later];
    for work in works {
        let stage = Stage::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let main = || runtime.block_on(async { stage.elector().run(work).await });
        let panic = catch_unwind(AssertUnwindSafe(main)).unwrap_err();
        drop(runtime);
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        let lease = stage.lease();
        assert!(lease.is_given_up());
        assert!(lease.history.as_str().contains("panicked"), "{:?}", lease.history);
    }
}

#[tokio::test(start_paused = true)]
async fn work_whose_task_is_aborted_is_dropped_before_the_lease_is_given_up() {
    /// Records the holder when it is dropped.
    struct Look(MemoryStore, Notes);

    impl Drop for Look {
        fn drop(&mut self) {
            self.1.note(format!("dropped under {:?}", self.0.lease("n", "l").unwrap().holder));
        }
    }

    let stage = Stage::new();
    let elector = stage.elector();
    let leadership = elector.leadership();
    let mut look = Some(Look(stage.store.clone(), stage.log.clone()));
    let running = tokio::spawn(elector.run(move |_| {
        let look = look.take();
        async move {
            let _look = look;
            std::future::pending::<()>().await;
        }
    }));
    leads(&leadership).await;
    sleep(A_MOMENT).await;
    running.abort();
    timeout(GRACE, leadership.ended()).await.unwrap();
    assert_eq!(stage.log.take(), [r#"dropped under Some("a")"#]);
    assert!(stage.lease().is_given_up());

    // The same with functions.
    let stage = Stage::new();
    let (leadership, running) = run(stage.elector().function("one", stage.diligent("one", 0)));
    leads(&leadership).await;
    sleep(A_MOMENT).await;
    running.abort();
    timeout(GRACE, leadership.ended()).await.unwrap();
    assert!(stage.lease().is_given_up());
    assert_eq!(stage.log.take(), ["one begins term 1"], "it is dropped");
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_token_of_a_term_does_not_cancel_the_term() {
    let stage = Stage::new();
    let careless = |term: Term| async move {
        drop(term.cancellation().drop_guard());
        term.cancelled().await;
    };
    let (leadership, running) = run(stage.elector().function("careless", careless));
    let term = leads(&leadership).await;
    sleep(Duration::from_secs(1)).await;
    assert!(leadership.is_leader() && term.begin_work().is_some());
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// This test runs in real time, because a function that blocks its thread stops a paused clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn while_a_function_blocks_its_thread_the_elector_gives_nothing_up_and_takes_nothing_up() {
    let stage = Stage::new();
    let timing = Durations {
        lease_duration_seconds: 2,
        renew_deadline: Duration::from_millis(1_800),
        retry_period: Duration::from_millis(200),
        request_timeout: Duration::from_secs(1),
        stop_grace: Duration::from_millis(100),
        ..Durations::default()
    };
    let elector = Elector::direct(&stage.store, "n", "l").identity("a").timing(timing);
    let elector = elector.shutdown(&stage.shutdown).build().unwrap();
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let began = Arc::new(AtomicU32::new(0));
    let blocking = {
        let began = Arc::clone(&began);
        move |term: Term| {
            let (blocked, began) = (Arc::clone(&blocked), Arc::clone(&began));
            async move {
                if began.fetch_add(1, Ordering::SeqCst) == 0 {
                    let _ = blocked.lock().unwrap().recv();
                }
                term.cancelled().await;
            }
        }
    };
    let (leadership, running) = run(elector.function("blocking", blocking));
    let first = leads(&leadership).await;
    while began.load(Ordering::SeqCst) == 0 {
        sleep(A_MOMENT).await;
    }
    first.resign();
    first.aborted().await;
    assert!(!leadership.is_leader());
    // Twice the lease duration: the Lease has expired, and no elector claims it.
    sleep(Duration::from_secs(4)).await;
    let lease = stage.lease();
    assert_eq!((lease.holder.as_deref(), leadership.terms()), (Some("a"), 1));
    assert_eq!(began.load(Ordering::SeqCst), 1);

    free.send(()).unwrap();
    let second = leadership.next_term(Some(&first)).await.unwrap();
    assert!(second.token > first.token);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}
