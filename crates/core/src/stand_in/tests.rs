use super::*;

fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn reading(holder: &str, resource_version: u64) -> Reading {
    let time = i64::try_from(resource_version).unwrap();
    let record = LeaseRecord {
        holder: Some(holder.to_owned()),
        resource_version,
        duration_seconds: LEASE_DURATION_SECONDS,
        renew_time: Some(WireTime::from_micros(time)),
        ..LeaseRecord::default()
    };
    Reading { record, mark: Some("g a".to_owned()) }
}

#[test]
fn a_controller_that_lost_the_lease_elects_again_only_after_a_write_of_its_own() {
    let elects = |stand_in: &mut StandIn, seconds| {
        let now = Now { moment: at(seconds), wall: WireTime::from_micros(seconds * 1_000_000) };
        stand_in.decide(now).elects
    };
    let mut stand_in = StandIn::new(Controller { group: "g".into(), identity: "a".into() }, true);
    stand_in.set_leading(true);
    stand_in.written(at(0), at(0), reading("a", 5));
    stand_in.observe(at(1), Some(reading("kube-apiserver", 6)));
    stand_in.observe(at(2), Some(reading("a", 7)));
    stand_in.observe(at(16), Some(reading("a", 7)));
    assert!(!elects(&mut stand_in, 18), "no write of this controller is known to have succeeded since");
    stand_in.written(at(18), at(18), reading("a", 8));
    assert!(elects(&mut stand_in, 19));
}

fn now(seconds: i64) -> Now {
    Now { moment: at(seconds), wall: WireTime::from_micros(seconds * 1_000_000) }
}

/// The controller `a` of the group `g`, which leads.
fn leading() -> StandIn {
    let mut stand_in = StandIn::new(Controller { group: "g".into(), identity: "a".into() }, true);
    stand_in.set_leading(true);
    stand_in
}

#[test]
fn a_lease_without_a_holder_is_free_after_a_wait_that_a_gap_of_the_reads_restarts() {
    let mut stand_in = leading();
    let empty = || Some(Reading { record: LeaseRecord { holder: None, ..reading("", 1).record }, mark: None });
    stand_in.observe(at(0), empty());
    stand_in.observe(at(10), empty());
    assert_eq!(stand_in.decide(now(15)).elector, NativeElector::Leader);
    stand_in.observe(at(40), empty());
    stand_in.observe(at(50), empty());
    assert_eq!(stand_in.decide(now(54)).elector, NativeElector::Unknown);
    assert_eq!((stand_in.decide(now(55)).elector, stand_in.decide(now(55)).elects), (NativeElector::Leader, true));
    assert_eq!(stand_in.decide(now(65)).elector, NativeElector::Unknown, "the last read is too old");
    stand_in.set_leading(false);
    assert!(!stand_in.decide(now(55)).elects);
}

#[test]
fn another_holder_is_replaced_only_after_it_has_renewed() {
    let mut stand_in = leading();
    stand_in.written(at(-2), at(-2), reading("x", 0));
    for (seconds, holder, version, takes) in
        [(0, "x", 0, None), (2, "x", 2, Some(1)), (4, "x", 2, Some(1)), (6, "y", 3, None), (8, "y", 4, Some(1))]
    {
        stand_in.observe(at(seconds), Some(reading(holder, version)));
        assert_eq!(stand_in.decide(now(seconds)).write.and_then(|write| write.takes), takes, "at {seconds} s");
    }
}

#[test]
fn a_controller_elects_while_it_holds_the_lease_and_for_a_deadline_after_its_last_write() {
    let mut stand_in = leading();
    stand_in.written(at(0), at(0), reading("a", 5));
    for seconds in [10, 20, 30, 40] {
        stand_in.observe(at(seconds), Some(reading("a", 5)));
    }
    assert_eq!([14, 15, 44, 45].map(|seconds| stand_in.decide(now(seconds)).elects), [false, true, true, false]);
    let successor = Reading { mark: Some("g b".to_owned()), ..reading("b", 6) };
    stand_in.observe(at(41), Some(successor));
    let decision = stand_in.decide(now(41));
    assert_eq!((decision.elects, decision.elector), (false, NativeElector::StandIn("b".into())));
    assert_eq!(decision.write.and_then(|write| write.takes), Some(1), "that one no longer leads the controllers");
}

#[test]
fn each_take_over_starts_the_pause_before_the_next_one() {
    let another = Reading { mark: Some("h a".to_owned()), ..reading("a", 20) };
    for former in [None, Some(reading("kube-apiserver", 20)), Some(another)] {
        let mut stand_in = leading();
        stand_in.written(at(-900), at(-900), reading("a", 5));
        stand_in.observe(at(-1), former.clone());
        stand_in.written(at(0), at(0), reading("a", 21));
        let mut takes = |seconds, version| {
            stand_in.observe(at(seconds), Some(reading("kube-apiserver", version)));
            stand_in.observe(at(seconds + 2), Some(reading("kube-apiserver", version + 1)));
            stand_in.decide(now(seconds + 2)).write.is_some()
        };
        assert_eq!([takes(1, 22), takes(297, 24), takes(299, 26)], [false, false, true], "{former:?}");
    }
}

#[test]
fn the_waits_end_at_their_instant() {
    let expired = at(75).after(Duration::from_millis(60));
    let mut stand_in = leading();
    for seconds in [0, 10, 20, 30, 40, 50, 60, 70] {
        stand_in.observe(at(seconds), Some(reading("kube-apiserver", 5)));
    }
    let elector = |moment| stand_in.decide(Now { moment, ..now(75) }).elector;
    let before = expired.before(Duration::from_micros(1));
    assert_eq!([before, expired].map(elector), [NativeElector::Unknown, NativeElector::Leader]);
    for (held_for_micros, elects) in [(14_999_999, false), (15_000_000, true)] {
        let mut reading = reading("a", 5);
        reading.record.acquire_time = Some(WireTime::from_micros(0));
        reading.record.renew_time = Some(WireTime::from_micros(held_for_micros));
        let mut stand_in = leading();
        stand_in.written(at(0), at(0), reading);
        assert_eq!(stand_in.decide(now(0)).elects, elects, "{held_for_micros} us");
    }
}
