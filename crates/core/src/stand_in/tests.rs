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
