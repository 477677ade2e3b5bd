//! Two processes never own the same instant, however a term ends and however their wall clocks differ.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use hustings_core::elector::{FailOpen, Timing};
use tokio::time::{Instant, sleep, sleep_until};

use self::world::Process;
use super::*;
use crate::clock::Clock;
use crate::leadership::leadership;
use crate::testing::{HandClock, Log, MemoryStore};

mod world;

const HOUR: i64 = 3_600;

/// The distance between the instants that the test checks.
const GRID_MICROS: i64 = 500_000;

#[derive(Clone, Copy, Debug)]
enum End {
    Crash,
    HandOver,
    Release,
    RunOut,
    Deletion,
    CutOff,
}

#[tokio::test(start_paused = true)]
async fn no_two_processes_ever_own_the_same_instant_however_their_clocks_differ() {
    for end in [End::Crash, End::HandOver, End::Release, End::RunOut, End::Deletion, End::CutOff] {
        for offsets in [[0, 0], [HOUR, 0], [0, HOUR], [-HOUR, 0], [7, 0], [0, 7]] {
            let store = MemoryStore::new();
            let mut first = Process::start(&store, "first", offsets[0], |builder| match end {
                End::RunOut => builder.keep_on_stop(),
                _ => builder,
            });
            sleep(Duration::from_millis(1)).await;
            let mut second = Process::start(&store, "second", offsets[1], |builder| builder);
            probe(Duration::from_secs(5), [&mut first, &mut second]).await;
            let leads = |process: &Process| process.leadership.is_leader();
            assert!(leads(&first), "{end:?} {offsets:?}");
            match end {
                End::Crash => first.crash(),
                End::HandOver => drop(store.prefer("n", "l", "second")),
                End::Release | End::RunOut => first.stop(),
                End::Deletion => assert!(store.delete_lease("n", "l")),
                End::CutOff => first.is_cut_off.store(true, Ordering::SeqCst),
            }
            probe(Duration::from_secs(40), [&mut first, &mut second]).await;
            assert!(leads(&second) || matches!(end, End::Deletion), "{end:?} {offsets:?}");
            let both: Vec<&i64> = first.owned.intersection(&second.owned).collect();
            assert!(both.is_empty(), "{end:?} {offsets:?}: {both:?}");
            assert!(!first.owned.is_empty());
            if matches!(end, End::HandOver | End::Release) {
                let [former, latter] = [&first, &second].map(|process| process.leadership.range().unwrap());
                assert_eq!(former.end, Some(latter.start), "{end:?} {offsets:?}");
            }
            // If the clocks agree, a graceful end costs no instant.
            if offsets == [0, 0] && matches!(end, End::HandOver | End::Release) {
                let all: Vec<&i64> = first.owned.union(&second.owned).collect();
                assert!(all.windows(2).all(|pair| pair[1] - pair[0] == GRID_MICROS), "{end:?}: {all:?}");
                assert!(!second.owned.is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_answer_becomes_false_when_a_clock_is_set_back() {
    let store = MemoryStore::new();
    let first = Process::start(&store, "first", 0, |builder| builder);
    sleep(Duration::from_secs(5)).await;
    let reported = first.wall_time();
    assert!(first.leadership.contains(reported));
    let earlier = reported - jiff::SignedDuration::from_secs(4);
    assert!(first.leadership.contains(earlier), "an earlier instant does not change the latest reported one");
    first.clock.offset_seconds.store(-4, Ordering::SeqCst);
    let second = Process::start(&store, "second", -4, |builder| builder);
    store.prefer("n", "l", "second").unwrap();
    second.leadership.wait_until_leader().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let range = second.leadership.range().unwrap();
    assert!(range.start > reported, "{range:?} {reported}");
    assert!(!second.leadership.contains(reported));
}

#[tokio::test(start_paused = true)]
async fn no_answer_becomes_false_when_a_clock_is_set_back_and_the_lease_is_deleted() {
    let store = MemoryStore::new();
    let first = Process::start(&store, "first", 0, |builder| builder);
    let second = Process::start(&store, "second", -4, |builder| builder);
    sleep(Duration::from_secs(5)).await;
    let reported = first.wall_time();
    assert!(first.leadership.contains(reported));
    first.clock.offset_seconds.store(-4, Ordering::SeqCst);
    assert!(store.delete_lease("n", "l"));
    sleep(Duration::from_secs(6)).await;
    assert!(!first.leadership.is_leader());
    let range = first.leadership.range();
    assert!(first.leadership.contains(reported), "{reported} is in {range:?} no more");
    assert!(!first.leadership.contains(first.wall_time()), "the Lease was gone before");
    assert!(!second.leadership.contains(reported));
}

#[tokio::test(start_paused = true)]
async fn only_the_last_leader_fails_open_within_the_bound_without_leading() {
    // The range ends 15 s after the last renewal. Then the bound begins.
    for (fail_open, open_until) in
        [(FailOpen::Off, 0), (FailOpen::Bounded(Duration::from_mins(1)), 70), (FailOpen::Unbounded, 4_000)]
    {
        let store = MemoryStore::new();
        let first = Process::start(&store, "first", 0, |builder| builder.fail_open(fail_open));
        first.leadership.wait_until_leader().await.unwrap();
        let second = Process::start(&store, "second", 0, |builder| builder.fail_open(fail_open));
        sleep(Duration::from_secs(5)).await;
        first.is_cut_off.store(true, Ordering::SeqCst);
        second.is_cut_off.store(true, Ordering::SeqCst);
        let cut_off = Instant::now();
        for since in [25, 60, 100, 3_600] {
            sleep_until(cut_off + Duration::from_secs(since)).await;
            let is_open = since < open_until;
            assert_eq!(first.leadership.contains(first.wall_time()), is_open, "{fail_open:?} after {since} s");
            assert_eq!(first.leadership.failing_open(), is_open);
            // The process keeps the instants that it owned in the meantime. Another process may own them, too.
            let has_failed_open = fail_open != FailOpen::Off;
            let range = first.leadership.range().unwrap();
            assert_eq!(range.is_failing_open, has_failed_open);
            assert_eq!(range.end.is_none(), fail_open == FailOpen::Unbounded, "{range:?}");
            assert!(!first.leadership.is_leader() && first.leadership.term().is_none());
            assert!(second.leadership.range().is_none() && !second.leadership.failing_open());
        }
        // Another takes over. As soon as this process observes that, it stops failing open.
        second.is_cut_off.store(false, Ordering::SeqCst);
        second.leadership.wait_until_leader().await.unwrap();
        assert_eq!(first.leadership.failing_open(), matches!(fail_open, FailOpen::Unbounded));
        first.is_cut_off.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(10)).await;
        assert!(!first.leadership.failing_open());
        assert!(!first.leadership.contains(first.wall_time()) && second.leadership.contains(second.wall_time()));
    }
}

/// The claim does not count as a renewal. A renewal without an answer counts as failed.
#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn the_metrics_of_an_elector_show_its_renewals_and_that_it_fails_open() {
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = crate::metrics::Metrics::register(&mut registry);
    let shown = |metric: &str| -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let series = format!(r#"hustings_lease_{metric}{{lease="n/l"}} "#);
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    };
    let store = MemoryStore::new();
    let fail_open = FailOpen::Bounded(Duration::from_mins(1));
    let first = Process::start(&store, "first", 0, |builder| builder.fail_open(fail_open).metrics(&metrics));
    first.leadership.wait_until_leader().await.unwrap();
    assert!(shown("renewal_seconds_count") < 0.5);
    sleep(Duration::from_secs(5)).await;
    assert!(shown("renewal_seconds_count") > 0.5 && shown("renewal_failures_total") < 0.5);
    assert!(shown("held") > 0.5 && shown("failing_open") < 0.5);

    first.is_cut_off.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(25)).await;
    assert!(shown("renewal_failures_total") > 0.5 && shown("renewal_seconds_sum") > 1.0);
    assert!(shown("held") < 0.5 && shown("failing_open") > 0.5);
    first.is_cut_off.store(false, Ordering::SeqCst);
    first.leadership.wait_until_leader().await.unwrap();
    assert!(shown("held") > 0.5 && shown("failing_open") < 0.5);
}

#[tokio::test(start_paused = true)]
async fn an_elector_that_has_ended_no_longer_fails_open() {
    let store = MemoryStore::new();
    let mut first = Process::start(&store, "first", 0, |builder| builder.fail_open(FailOpen::Unbounded));
    first.leadership.wait_until_leader().await.unwrap();
    first.is_cut_off.store(true, Ordering::SeqCst);
    sleep(Duration::from_mins(1)).await;
    assert!(first.leadership.failing_open());
    first.crash();
    sleep(Duration::from_millis(1)).await;
    assert!(!first.leadership.failing_open() && !first.leadership.contains(first.wall_time()));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_holder_is_reported_once_and_a_regained_lease_is_no_change() {
    let store = MemoryStore::new();
    let first = Process::start(&store, "first", 0, |builder| builder);
    first.leadership.wait_until_leader().await.unwrap();
    let mut changes = Box::pin(first.leadership.holder_changes());
    let change = changes.next().await;
    assert_eq!(change, Some(HolderChange { former: None, holder: "first".to_owned() }));
    let former_term = first.leadership.term();
    first.is_cut_off.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(13)).await;
    assert!(!first.leadership.is_leader());
    first.is_cut_off.store(false, Ordering::SeqCst);
    first.leadership.wait_until_leader().await.unwrap();
    assert_ne!(first.leadership.term(), former_term);
    assert_eq!(changes.next().now_or_never(), None, "no other replica held the Lease");

    let second = Process::start(&store, "second", 0, |builder| builder);
    store.prefer("n", "l", "second").unwrap();
    second.leadership.wait_until_leader().await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let change = changes.next().now_or_never().flatten();
    assert_eq!(change, Some(HolderChange { former: Some("first".to_owned()), holder: "second".to_owned() }));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(changes.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_regains_the_lease_reports_a_change_even_if_it_did_not_observe_the_other_holder() {
    let store = MemoryStore::new();
    let first = Process::start(&store, "first", 0, |builder| builder);
    first.leadership.wait_until_leader().await.unwrap();
    let mut changes = Box::pin(first.leadership.holder_changes());
    let mut slow = Box::pin(first.leadership.holder_changes());
    assert_eq!(changes.next().await.map(|change| change.former), Some(None));
    assert_eq!(slow.next().await.map(|change| change.former), Some(None));

    first.is_cut_off.store(true, Ordering::SeqCst);
    let mut second = Process::start(&store, "second", 0, |builder| builder);
    second.leadership.wait_until_leader().await.unwrap();
    second.stop();
    second.leadership.ended().await;
    first.is_cut_off.store(false, Ordering::SeqCst);
    first.leadership.wait_until_leader().await.unwrap();
    let back = Some(HolderChange { former: Some("first".to_owned()), holder: "first".to_owned() });
    assert_eq!(changes.next().now_or_never().flatten(), back, "another has led in between");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(changes.next().now_or_never(), None, "once");

    // The elector observes the other holder this time, while the test does not poll the stream.
    let third = Process::start(&store, "third", 0, |builder| builder);
    store.prefer("n", "l", "third").unwrap();
    third.leadership.wait_until_leader().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(first.leadership.holder().as_deref(), Some("third"));
    store.prefer("n", "l", "first").unwrap();
    first.leadership.wait_until_leader().await.unwrap();
    for mut changes in [changes, slow] {
        assert_eq!(changes.next().now_or_never().flatten(), back, "the last change is not missed");
        assert_eq!(changes.next().now_or_never(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_called_once_per_change_even_after_a_panic_until_the_elector_has_ended() {
    let (log, _guard) = Log::begin();
    let store = MemoryStore::new();
    let first = Process::start(&store, "first", 0, |builder| builder);
    let (calls, mut called) = tokio::sync::mpsc::unbounded_channel();
    first.leadership.on_new_leader(move |change| {
        calls.send(change.holder.clone()).unwrap();
        assert_ne!(change.holder, "first", "it panics on purpose");
    });
    assert_eq!(called.recv().await.as_deref(), Some("first"));
    sleep(Duration::from_millis(1)).await;
    let panicked = "ERROR the callback of on_new_leader panicked; it is called again at the next change";
    assert_eq!(log.take().matches(panicked).count(), 1);
    let second = Process::start(&store, "second", 0, |builder| builder);
    store.prefer("n", "l", "second").unwrap();
    assert_eq!(called.recv().await.as_deref(), Some("second"));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(log.take().matches(panicked).count(), 0);
    second.leadership.wait_until_leader().await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert!(called.is_empty());
    first.campaign.unwrap().stop().await.unwrap();
    assert_eq!(called.recv().await, None, "the elector has ended");
}

#[tokio::test(start_paused = true)]
async fn without_an_election_the_process_owns_every_instant() {
    let store = MemoryStore::new();
    let off = Process::start(&store, "off", 0, |builder| builder.enabled(false));
    off.leadership.wait_until_leader().await.unwrap();
    assert_eq!(off.leadership.range(), Some(TimeRange::ALWAYS));
    assert!(off.leadership.contains(Timestamp::MIN) && off.leadership.contains(Timestamp::MAX));
    assert!(!off.leadership.failing_open());
}

#[test]
fn a_range_fails_open_from_its_end_to_the_bound_and_only_owned_instants_move_the_clock_of_decisions() {
    let clock = HandClock::at_seconds(114);
    let (publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
    let at = |seconds: i64| WireTime::from_micros(seconds * 1_000_000);
    publisher.ranges().set(Some(Range { start: at(100), end: at(115), fails_open_until: Some(at(175)) }));
    for (now, end, is_open) in [(114, 115, false), (115, 175, true), (174, 175, true)] {
        clock.set_seconds(now);
        let expected = TimeRange { start: timestamp(at(100)), end: Some(timestamp(at(end))), is_failing_open: is_open };
        assert_eq!((leadership.range(), leadership.failing_open()), (Some(expected), is_open), "at {now} s");
    }

    for instant in [99, 175, 1_000] {
        assert!(!leadership.contains(timestamp(at(instant))), "{instant}");
    }
    clock.set_seconds(173);
    assert!(!leadership.contains(timestamp(at(174))), "the wall clock has not shown it yet");
    clock.set_seconds(174);
    assert_eq!(publisher.ranges().now(&*clock).wall, at(174));
    assert!(leadership.contains(timestamp(at(174))));
    clock.set_seconds(120);
    assert_eq!(publisher.ranges().now(&*clock).wall, WireTime::from_micros(174_000_001));
}

#[test]
fn every_time_is_a_timestamp() {
    let last: Timestamp = "9999-12-30T22:00:00Z".parse().unwrap();
    let times = [WireTime::MIN, WireTime::MAX, WireTime::from_micros(0)];
    assert_eq!(times.map(timestamp), [Timestamp::MIN, last, Timestamp::UNIX_EPOCH]);
}

/// Lets time pass. Meanwhile, records which instants around its own clock each process owns.
async fn probe(duration: Duration, processes: [&mut Process; 2]) {
    let [first, second] = processes;
    for _ in 0..duration.as_millis() / 250 {
        sleep(Duration::from_millis(250)).await;
        for process in [&mut *first, &mut *second] {
            let now = process.clock.wall().as_micros() / GRID_MICROS;
            let around = (now - 60..now + 60).map(|grid| grid * GRID_MICROS);
            let owned = around.filter(|micros| process.leadership.contains(timestamp(WireTime::from_micros(*micros))));
            process.owned.extend(owned.collect::<Vec<_>>());
        }
    }
}
