//! A handle reports what its publisher publishes.

use std::sync::Mutex;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use hustings_core::elector::{Leading, Timing};
use hustings_core::model::WireTime;
use tokio::time::Instant;

use super::*;
use crate::leadership::{Publisher, leadership};
use crate::testing::{HandClock, TokioClock};

fn leading(token: u64, valid_until_seconds: i64) -> Leading {
    Leading { number: 1, token, valid_until: Moment::from_micros(valid_until_seconds * 1_000_000) }
}

fn handles() -> (Arc<HandClock>, Publisher, Leadership) {
    let clock = HandClock::at_seconds(100);
    let (publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
    (clock, publisher, leadership)
}

#[test]
fn a_reader_leads_until_the_validity_ends_by_its_own_clock() {
    let (clock, mut publisher, leadership) = handles();
    assert!(!leadership.is_leader());
    publisher.publish(Some(leading(7, 110)), None);
    assert!(leadership.is_leader());
    assert_eq!(leadership.remaining(), Duration::from_secs(10));
    assert_eq!(leadership.term().map(|term| term.token), Some(7));
    clock.set_seconds(110);
    assert!(!leadership.is_leader(), "the term is over although nothing was published");
    assert_eq!(leadership.term(), None);
}

#[test]
fn no_work_begins_in_a_term_that_is_over_by_the_clock_and_a_late_renewal_does_not_revive_it() {
    let (clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    let term = leadership.term().unwrap();
    let mut resigned = std::pin::pin!(publisher.resignation());
    clock.set_seconds(110);
    let mut waiting = std::pin::pin!(leadership.wait_until_leader());
    assert_eq!(waiting.as_mut().now_or_never(), None, "the elector, which is stuck, has published this term");
    assert!(resigned.as_mut().now_or_never().is_none());

    assert!(term.begin_work().is_none());
    assert_eq!(term.cancelled().now_or_never(), Some(()), "work that runs already stops");
    assert_eq!(resigned.now_or_never(), Some(()));
    term.lapse();
    assert_eq!(publisher.resignation().now_or_never(), None, "it is resigned once");
    publisher.publish(Some(leading(7, 130)), None);
    assert_eq!(waiting.now_or_never(), Some(Some(term)), "a renewal that was under way");
}

/// A clock that runs `then` right after its next reading, as if the reader had been preempted there.
struct Interrupting {
    clock: Arc<HandClock>,
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Interrupting {
    fn now(&self) -> Moment {
        let now = self.clock.now();
        if let Some(then) = self.then.lock().unwrap().take() {
            then();
        }
        now
    }

    fn wall(&self) -> WireTime {
        self.clock.wall()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(moment)
    }
}

#[test]
fn a_reader_loads_the_validity_before_it_reads_the_clock() {
    let clock = Arc::new(Interrupting { clock: HandClock::at_seconds(100), then: Mutex::default() });
    let (mut publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
    *clock.then.lock().unwrap() = Some(Box::new(move || {
        publisher.publish(Some(leading(7, 110)), None);
        std::mem::forget(publisher);
    }));
    assert_eq!(leadership.remaining(), Duration::ZERO, "the term began after the clock was read");
    assert_eq!(leadership.remaining(), Duration::from_secs(10));
}

#[test]
fn a_change_of_the_holder_the_term_or_the_obstacle_is_reported_and_a_renewal_is_not() {
    let (_clock, mut publisher, leadership) = handles();
    let mut changes = std::pin::pin!(leadership.changes());
    let mut next = || changes.next().now_or_never().flatten();
    let holder =
        |seconds: i64| Some(Holder { identity: "a".to_owned(), expires_at: Moment::from_micros(seconds * 1_000_000) });
    assert_eq!(next(), Some(View::default()));
    publisher.publish(None, holder(115));
    assert!(next().is_some_and(|view| view.holder.is_some()));
    publisher.publish(Some(leading(7, 110)), holder(115));
    assert!(next().is_some_and(|view| view.term.is_some()));
    publisher.publish(Some(leading(7, 112)), holder(117));
    assert_eq!(next(), None, "a renewal");
    let [identity, lease, other] = ["a", "n/l", "other"].map(str::to_owned);
    publisher.set_obstacle(Some(Obstacle::CandidateOfAnotherLease { identity, lease, other }));
    publisher.publish(Some(leading(7, 112)), holder(117));
    assert!(next().is_some_and(|view| view.obstacle.is_some()));
}

#[test]
fn the_process_does_not_lead_when_the_publisher_is_gone() {
    let (_clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    let term = leadership.term().unwrap();
    drop(publisher);
    assert!(!leadership.is_leader());
    assert_eq!(term.cancelled().now_or_never(), Some(()));
    assert_eq!(leadership.wait_until_leader().now_or_never(), Some(None));
    assert_eq!(leadership.ended().now_or_never(), Some(()));
}

#[tokio::test(start_paused = true)]
async fn if_the_elector_is_stuck_the_clock_stops_the_work_and_then_drops_it() {
    let (clock, timing) = (TokioClock::shared(), Timing::default());
    let (mut publisher, leadership) = leadership(clock, "n/l".to_owned(), "a".to_owned(), timing);
    publisher.publish(Some(leading(7, 10)), None);
    let (began, term) = (Instant::now(), leadership.term().unwrap());
    let watching = {
        let (leadership, term) = (leadership.clone(), term.clone());
        tokio::spawn(async move { leadership.overdue(&term).await })
    };
    let soon = Duration::from_millis(200);
    term.cancelled().await;
    let stopped = began.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(10) + soon).contains(&stopped), "{stopped:?}");
    let resigned = publisher.resignation().now_or_never();
    assert!(resigned.is_some(), "a renewal that succeeds at the last moment must not keep a Lease without work");
    let stopped_at = Instant::now();
    term.aborted().await;
    let dropped = stopped_at.elapsed();
    assert!((timing.stop_grace()..timing.stop_grace() + soon).contains(&dropped), "{dropped:?}");
    watching.await.unwrap();
}

#[tokio::test]
async fn the_validity_is_reported_at_each_renewal_and_at_the_end() {
    let (_clock, mut publisher, leadership) = handles();
    let mut validity = Box::pin(leadership.validity());
    assert_eq!(validity.next().await, Some(None));
    for until in [110, 112] {
        publisher.publish(Some(leading(7, until)), None);
        assert_eq!(validity.next().await, Some(Some(Moment::from_micros(until * 1_000_000))));
        publisher.publish(Some(leading(7, until)), None);
        assert_eq!(validity.next().now_or_never(), None, "nothing has changed");
    }
    drop(publisher);
    assert_eq!(validity.next().await, Some(None));
}

#[test]
fn another_token_is_another_term_and_the_former_one_is_cancelled() {
    let (_clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    let first = leadership.term().unwrap();
    publisher.publish(Some(leading(7, 112)), None);
    assert_eq!(leadership.term(), Some(first.clone()));
    assert_eq!(first.cancelled().now_or_never(), None);
    publisher.publish(Some(leading(9, 114)), None);
    assert_eq!(first.cancelled().now_or_never(), Some(()));
    let second = leadership.next_term(Some(&first)).now_or_never().flatten().unwrap();
    assert_eq!((second.token, second.cancelled().now_or_never()), (9, None));
    assert_eq!(leadership.next_term(Some(&second)).now_or_never(), None, "it waits for a third");
}

#[cfg(target_os = "linux")]
#[test]
fn the_lock_is_held_until_the_work_of_a_term_has_ended() {
    let instance = || crate::instance::Instance::new(Some(&format!("work-{}", std::process::id())), None, "n/l", "ff");
    let (_clock, publisher, leadership) = handles();
    let mut publisher = publisher.with_instance_lock(instance().lock);
    publisher.publish(Some(leading(7, 110)), None);
    let work = leadership.term().and_then(|term| term.begin_work()).unwrap();
    drop((publisher, leadership));
    assert!(instance().lock.is_none(), "the elector is gone, and its work continues");
    drop(work);
    assert!(crate::instance::tests::is_free_soon(instance));
}

#[test]
fn a_stop_waits_for_the_work_and_admits_no_new_work() {
    let (_clock, mut publisher, leadership) = handles();
    assert_eq!(publisher.stop_work().now_or_never(), Some(()), "there is no work");
    publisher.publish(Some(leading(7, 110)), None);
    let term = leadership.term().unwrap();
    let work = term.begin_work().unwrap();
    let mut stopped = Box::pin(publisher.stop_work());
    assert_eq!((&mut stopped).now_or_never(), None);
    assert!(leadership.is_leader(), "work is stopped while renewals continue");
    assert!(term.begin_work().is_none());
    publisher.abort_work();
    assert_eq!(term.aborted().now_or_never(), Some(()));
    drop(work);
    assert_eq!(stopped.now_or_never(), Some(()));
}

#[test]
fn each_promotion_is_reported_once_and_the_running_term_first() {
    let (_clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    let mut promotions = Box::pin(leadership.promotions());
    let mut next = move || promotions.next().now_or_never().map(|term| term.map(|term| term.token));
    assert_eq!(next(), Some(Some(7)));
    publisher.publish(Some(leading(7, 112)), None);
    assert_eq!(next(), None, "a renewal is no promotion");
    publisher.publish(None, None);
    assert_eq!(next(), None);
    publisher.publish(Some(leading(9, 114)), None);
    assert_eq!(next(), Some(Some(9)));
    drop(publisher);
    assert_eq!(next(), Some(None));
}

#[tokio::test]
async fn the_holder_is_known_until_its_record_expires_and_changes_are_reported() {
    let (clock, mut publisher, leadership) = handles();
    let mut changes = Box::pin(leadership.changes());
    assert_eq!(changes.next().await, Some(View::default()));
    let holder = Holder { identity: "b".to_owned(), expires_at: Moment::from_micros(115_000_000) };
    publisher.publish(None, Some(holder.clone()));
    assert_eq!(changes.next().await.and_then(|view| view.holder), Some(holder.clone()));
    publisher.publish(None, Some(Holder { expires_at: Moment::from_micros(117_000_000), ..holder }));
    assert_eq!(changes.next().now_or_never(), None, "a renewal is no change");
    assert_eq!(leadership.holder().as_deref(), Some("b"));
    clock.set_seconds(117);
    assert_eq!(leadership.holder(), None);
    drop(publisher);
    assert!(changes.next().await.is_some_and(|view| view.ended));
    assert_eq!(changes.next().await, None);
}

#[test]
fn a_token_is_cancelled_with_its_term_but_does_not_cancel_it() {
    let (_clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    let term = leadership.term().unwrap();
    let (token, other) = (term.cancellation(), term.cancellation());
    other.cancel();
    assert!(!token.is_cancelled() && term.cancelled().now_or_never().is_none());
    publisher.publish(None, None);
    assert!(token.is_cancelled());
}

#[test]
fn a_term_that_is_resigned_while_the_elector_is_busy_is_resigned_all_the_same() {
    let (_clock, mut publisher, leadership) = handles();
    publisher.publish(Some(leading(7, 110)), None);
    assert_eq!(publisher.resignation().now_or_never(), None);
    leadership.term().unwrap().resign();
    assert_eq!(publisher.resignation().now_or_never(), Some(()));
    assert_eq!(publisher.resignation().now_or_never(), None, "it is resigned once");
}
