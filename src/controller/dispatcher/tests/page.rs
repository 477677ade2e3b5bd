//! When the dispatcher publishes to the page, and what.

use std::pin::pin;

use futures::FutureExt as _;
use hustings_client::testing::TokioClock;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_page_shows_a_lease_shortly_after_it_was_listed_and_until_it_is_forgotten() {
    let mut dispatcher = dispatcher(true);
    let page = with_page(&mut dispatcher);
    // Whether the dispatcher publishes something within a second, and not at once.
    let publish = async |dispatcher: &mut Dispatcher| {
        let (at_once, later) = {
            let mut due = pin!(dispatcher.parts.reporting.page.as_ref().map(PagePublisher::due).unwrap());
            (due.as_mut().now_or_never().is_some(), tokio::time::timeout(TICK, due).await.is_ok())
        };
        dispatcher.publish();
        later && !at_once
    };
    assert!(!publish(&mut dispatcher).await);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    assert!(publish(&mut dispatcher).await);
    assert_eq!(page.shown().0.len(), 0, "the Leases are not listed");
    list_all(&mut dispatcher);
    assert!(publish(&mut dispatcher).await && !publish(&mut dispatcher).await);
    let (leases, controller) = page.shown();
    assert!(leases.len() == 1 && leases[0].contains("\"l\""), "{leases:?}");
    assert_eq!(controller, None);
    for leads in [true, false] {
        dispatcher.leads = leads;
        dispatcher.publish_controller();
        let shown: serde_json::Value = serde_json::from_str(&page.shown().1.unwrap()).unwrap();
        assert_eq!((&shown["identity"], &shown["leads"]), (&json!("hustings-1"), &json!(leads)));
        assert_eq!(shown["leader"], if leads { json!("hustings-1") } else { json!(null) }, "it is the only controller");
    }
    let checks = ["a", "b"].map(|name| dispatcher.parts.health.check(name));
    checks[0].fail("broken");
    checks[1].pass_with(Some("old".to_owned()));
    dispatcher.publish_controller();
    let shown = page.shown().1.unwrap();
    assert!(shown.contains(r#"{"severity":"warning","text":"a: broken""#), "{shown}");
    assert!(shown.contains(r#"{"severity":"info","text":"b: old""#), "{shown}");
    let lease = LeaseKey::new("n", "l");
    dispatcher.forget(&lease);
    assert_eq!(page.shown().0.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn changes_of_ever_more_leases_do_not_put_off_the_page() {
    let mut dispatcher = dispatcher(true);
    with_page(&mut dispatcher);
    let mut is_due = false;
    for number in 0..20 {
        dispatcher.handle(WatchEvent::Candidate(key(&format!("a{number}")), candidate(&format!("l{number}"))));
        tokio::time::sleep(TICK / 20).await;
        is_due |= dispatcher.parts.reporting.page.as_ref().is_some_and(|page| page.due().now_or_never().is_some());
    }
    assert!(is_due);
}

#[tokio::test(start_paused = true)]
async fn the_page_of_a_standby_shows_that_a_holder_has_become_silent() {
    let mut dispatcher = dispatcher(false);
    let page = with_page(&mut dispatcher);
    dispatcher.parts.clock = TokioClock::shared();
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    list_all(&mut dispatcher);
    dispatcher.publish();
    dispatcher.publish_controller();
    assert!(dispatcher.parts.reporting.page.as_ref().unwrap().changed.is_empty(), "time alone changes nothing yet");
    let is_silent = || page.shown().0[0].contains("has stopped renewing");
    assert!(!is_silent());
    tokio::time::sleep(10 * TICK).await;
    dispatcher.publish_controller();
    dispatcher.publish();
    assert!(is_silent());
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_published_in_groups_with_a_pause() {
    let mut dispatcher = dispatcher(false);
    let page = with_page(&mut dispatcher);
    for number in 0..40 {
        dispatcher.handle(WatchEvent::Candidate(key(&format!("a{number}")), candidate(&format!("l{number}"))));
    }
    list_all(&mut dispatcher);
    for (published, is_more) in [(32, true), (40, false)] {
        dispatcher.publish();
        assert_eq!(page.shown().0.len(), published);
        let mut due = pin!(dispatcher.parts.reporting.page.as_ref().unwrap().due());
        assert!(due.as_mut().now_or_never().is_none(), "the loop goes on first");
        assert_eq!(tokio::time::timeout(TICK, due).await.is_ok(), is_more);
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_what_a_decision_concludes() {
    let mut dispatcher = dispatcher(true);
    let page = with_page(&mut dispatcher);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
    list_all(&mut dispatcher);
    let is_held = |dispatcher: &mut Dispatcher| {
        dispatcher.publish();
        page.shown().0[0].contains(r#""state":"held""#)
    };
    assert!(!is_held(&mut dispatcher));
    dispatcher.decide(LeaseKey::new("n", "l"));
    assert!(is_held(&mut dispatcher));
    for leads in [false, true] {
        dispatcher.set_leading(leads);
        let changed = std::mem::take(&mut dispatcher.parts.reporting.page.as_mut().unwrap().changed);
        assert_eq!(changed.len(), 1, "a standby shows what another controller has recorded");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_shows_a_lease_whose_native_candidates_another_controller_elects() {
    let (mut dispatcher, _elects_native) = with_native_candidate(false);
    let page = dispatcher.parts.reporting.page.as_ref().unwrap().page.clone();
    let lease = LeaseKey::new("n", "l");
    dispatcher.handle(WatchEvent::Lease(lease.clone(), held_lease()));
    list_all(&mut dispatcher);
    dispatcher.decide(lease);
    dispatcher.publish();
    assert!(page.shown().0[0].contains(r#""state":"foreign""#), "{:?}", page.shown().0);
}

#[tokio::test(start_paused = true)]
async fn only_the_leading_controller_warns_of_writes_without_effect() {
    let mut dispatcher = dispatcher(true);
    dispatcher.parts.clock = TokioClock::shared();
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    list_all(&mut dispatcher);
    let lease = LeaseKey::new("n", "l");
    for version in 6..10 {
        let record = LeaseRecord { resource_version: version, ..LeaseRecord::clone(&held_lease()) };
        dispatcher.handle(WatchEvent::Lease(lease.clone(), Arc::new(record)));
        dispatcher.decide(lease.clone());
        tokio::time::sleep(5 * TICK).await;
    }
    let mut record = CandidateRecord::clone(&candidate("l").record);
    record.resource_version = 60;
    let source = Source::StatusWritten { sent: dispatcher.parts.clock.now() };
    dispatcher.finish_status(&lease, Observation::Candidate { record, source });
    for leads in [true, false] {
        dispatcher.leads = leads;
        dispatcher.measure();
        let checks = dispatcher.parts.health.readiness().checks;
        let warning = checks.into_iter().find(|check| check.name == "writes").unwrap();
        assert_eq!((warning.ok, warning.message.is_some()), (true, leads), "{warning:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_of_a_standby_shows_each_change_that_a_watch_reports() {
    let mut dispatcher = dispatcher(false);
    let page = with_page(&mut dispatcher);
    list_all(&mut dispatcher);
    for (event, expected) in [
        (WatchEvent::Candidate(key("a"), candidate("l")), r#""holder":null"#),
        (WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()), r#""holder":"a""#),
        (WatchEvent::CandidateRemoved(key("a")), r#""candidates":[]"#),
    ] {
        dispatcher.publish();
        dispatcher.handle(event);
        dispatcher.publish();
        assert!(page.shown().0[0].contains(expected), "{expected}: {:?}", page.shown().0);
    }
}

#[tokio::test(start_paused = true)]
async fn each_lease_has_its_turn_however_often_others_change() {
    let mut dispatcher = dispatcher(false);
    let page = with_page(&mut dispatcher);
    let change_all = |dispatcher: &mut Dispatcher| {
        for number in 0..40 {
            dispatcher.handle(WatchEvent::Candidate(key(&format!("a{number}")), candidate(&format!("l{number}"))));
        }
    };
    change_all(&mut dispatcher);
    list_all(&mut dispatcher);
    for published in [32, 40] {
        dispatcher.publish();
        assert_eq!(page.shown().0.len(), published);
        change_all(&mut dispatcher);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_alone_publishes_nothing() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        with_page(&mut dispatcher);
        let lease = LeaseKey::new("n", "l");
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        list_all(&mut dispatcher);
        for version in 6..12 {
            let renew_time = Some(WireTime::from_micros(version * 1_000_000));
            let resource_version = version.unsigned_abs();
            let renewed = LeaseRecord { resource_version, renew_time, ..LeaseRecord::clone(&held_lease()) };
            dispatcher.handle(WatchEvent::Lease(lease.clone(), Arc::new(renewed)));
            dispatcher.decide(lease.clone());
            let changed = &dispatcher.parts.reporting.page.as_ref().unwrap().changed;
            // The first renewal is evidence that the holder lives.
            assert_eq!(changed.is_empty(), version > 6 + i64::from(leads), "{version}, leads: {leads}");
            dispatcher.publish();
        }
    }
}

/// As after an administrator has withdrawn the permissions of the controller.
#[tokio::test(start_paused = true)]
async fn a_lease_that_may_no_longer_be_listed_is_unknown_until_it_is_listed_again() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        let page = with_page(&mut dispatcher);
        let lease = LeaseKey::new("n", "l");
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        dispatcher.handle(WatchEvent::Lease(lease.clone(), held_lease()));
        for is_refused in [false, true, false] {
            if is_refused {
                for kind in [Resource::Leases, Resource::Candidates] {
                    dispatcher.handle(WatchEvent::Refused(Scope::Cluster, kind));
                }
            } else {
                list_all(&mut dispatcher);
            }
            dispatcher.decide(lease.clone());
            dispatcher.publish();
            let shown = &page.shown().0[0];
            let state = if is_refused { r#""state":"unread""# } else { r#""state":"held""# };
            assert!(shown.contains(state), "{shown}");
            assert_eq!(shown.contains("may no longer list"), is_refused, "{shown}");
            assert_eq!(shown.contains(r#""holder":null"#), is_refused, "{shown}");
            let measured = dispatcher.parts.reporting.measurements.state(&lease);
            assert_eq!(measured == LeaseStateLabel::Held, leads && !is_refused, "{measured:?}");
        }
    }
}
