//! What the dispatcher measures.

use super::*;
use crate::controller::measurements::Measurements;

#[tokio::test(start_paused = true)]
async fn only_the_leading_controller_reports_leases_and_their_terms() {
    let mut dispatcher = dispatcher(false);
    let (metrics, registry) = ControllerMetrics::new();
    dispatcher.parts.reporting.measurements = Measurements::new(metrics.clone());
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    dispatcher.handle(WatchEvent::Candidate(key("b"), candidate("l")));
    let lease = LeaseKey::new("n", "l");
    dispatcher.handle(WatchEvent::Lease(lease.clone(), held_lease()));
    list_all(&mut dispatcher);
    let leases = |state: LeaseStateLabel| metrics.leases.get_or_create(&state.label()).get();
    for (leads, held) in [(true, 1), (false, 0), (true, 1)] {
        dispatcher.set_leading(leads);
        assert_eq!(metrics.leading.get(), i64::from(leads));
        assert_eq!(
            dispatcher.parts.reporting.measurements.state(&lease),
            LeaseStateLabel::Unread,
            "this leader has not decided yet"
        );
        decide_next(&mut dispatcher).await;
        dispatcher.measure();
        assert_eq!((leases(LeaseStateLabel::Held), leases(LeaseStateLabel::Unheld)), (held, 0), "leads: {leads}");
        assert_eq!(LeaseStateLabel::ALL.into_iter().map(leases).sum::<i64>(), held, "a standby would count it twice");
        assert_eq!(metrics.candidates.get(), 2);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(text.contains(r#"hustings_election_held{namespace="n",lease="l"} 1"#), leads, "{text}");
        tokio::time::sleep(2 * STUCK_AFTER).await;
        assert!(!dispatcher.parts.health.is_alive());
        dispatcher.measure();
        assert!(dispatcher.parts.health.is_alive(), "a measurement is a heartbeat");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_counts_from_the_first_decision_that_finds_it() {
    let mut dispatcher = dispatcher(true);
    dispatcher.parts.clock = hustings_client::testing::TokioClock::shared();
    list_all(&mut dispatcher);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    let granted = LeaseRecord { session: SessionMark::Open, ..LeaseRecord::clone(&held_lease()) };
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(granted)));
    for seconds in 0..3 {
        dispatcher.decide(LeaseKey::new("n", "l"));
        dispatcher.measure();
        let oldest = Duration::from_secs_f64(dispatcher.parts.reporting.measurements.metrics.oldest_unheld_lease.get());
        assert_eq!(oldest.as_secs(), seconds);
        tokio::time::sleep(TICK).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_gap_is_that_of_the_lease_that_has_been_free_the_longest() {
    let mut dispatcher = dispatcher(true);
    dispatcher.parts.clock = hustings_client::testing::TokioClock::shared();
    list_all(&mut dispatcher);
    for name in ["old", "new"] {
        dispatcher.handle(WatchEvent::Candidate(key(name), candidate(name)));
        let lease = LeaseKey::new("n", name);
        let free = LeaseRecord { session: SessionMark::Open, resource_version: 7, ..LeaseRecord::as_created() };
        dispatcher.handle(WatchEvent::Lease(lease.clone(), Arc::new(free)));
        dispatcher.decide(lease);
        tokio::time::sleep(10 * TICK).await;
    }
    dispatcher.measure();
    let oldest = Duration::from_secs_f64(dispatcher.parts.reporting.measurements.metrics.oldest_unheld_lease.get());
    assert_eq!(oldest.as_secs(), 20);
}

#[tokio::test]
async fn an_answer_to_a_ping_is_compared_with_the_version_before_it_and_counted_by_the_leader() {
    for (leads, expected) in [(true, 1), (false, 0)] {
        let mut dispatcher = dispatcher(leads);
        let time = |seconds: i64| Some(WireTime::from_micros(seconds * 1_000_000));
        for (version, ping_time, renew_time) in [(6, time(3), time(2)), (7, time(3), time(4))] {
            let mut watched = candidate("l");
            let record = CandidateRecord::clone(&watched.record);
            watched.record = CandidateRecord { resource_version: version, ping_time, renew_time, ..record }.into();
            dispatcher.handle(WatchEvent::Candidate(key("a"), watched));
        }
        let acks = dispatcher.parts.reporting.measurements.metrics.acks.get_or_create(&Kind::Hustings.label()).get();
        assert_eq!(acks, expected, "leads: {leads}");
    }
}
