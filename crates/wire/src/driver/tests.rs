//! The bounds of a request: its deadline, the pause after it, and the wait for a heartbeat.

use hustings_core::elector::{ElectorMode, FailOpen, Source, Timing};
use hustings_core::model::{LeaseRecord, Outcome, ReferenceStore, WireTime};
use kube_core::Status;
use serde_json::json;

use super::*;

const SECOND: i64 = 1_000_000;

fn at(seconds: i64) -> Now {
    now(seconds * SECOND)
}

const fn now(micros: i64) -> Now {
    Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
}

/// The driver of a direct elector, with a request timeout of 5 s.
fn driver(supervised: bool) -> Driver {
    let config = Config {
        identity: "a".to_owned(),
        lease_name: "l".to_owned(),
        session: "s".to_owned(),
        mode: ElectorMode::Direct,
        timing: Timing::default(),
        fail_open: FailOpen::Off,
        keeps_on_stop: false,
    };
    Driver::new(config, "n".to_owned(), supervised, at(0))
}

/// The only request of a step.
fn only(step: &Step) -> &Sending {
    let [request] = &step.requests[..] else { panic!("{:?}", step.requests) };
    request
}

/// Decides, and takes the request for the creation of the missing Lease.
fn creation(driver: &mut Driver, seconds: i64) -> Sending {
    driver.observe(at(seconds), Observation::LeaseMissing { source: Source::Watch });
    let read = only(&driver.decide(at(seconds), Draw(0))).clone();
    assert!(matches!(read.request, Request::ReadLease { .. }));
    driver.answered(at(seconds), read.attempt, Err(Failure::Missing));
    let sent = only(&driver.decide(at(seconds), Draw(0))).clone();
    assert!(matches!(sent.request, Request::CreateLease { .. }));
    sent
}

#[test]
fn a_request_without_an_answer_fails_at_its_deadline_and_a_late_answer_has_no_effect() {
    let mut driver = driver(false);
    let sent = creation(&mut driver, 1);
    assert_eq!(sent.until, Moment::from_micros(SECOND + 4_950_000));
    let step = driver.decide(now(SECOND + 4_949_999), Draw(0));
    assert!(step.lines.is_empty() && driver.request(sent.attempt).is_some());
    let step = driver.decide(now(SECOND + 4_950_000), Draw(0));
    let text = step.lines.iter().find_map(|line| line.text_of("failure")).unwrap();
    assert!(text.starts_with("no answer within 4950 ms"), "{text}");
    assert!(driver.request(sent.attempt).is_none());
    let former = driver.elector().clone();
    driver.answered(at(6), sent.attempt, Ok(Some(Object::Lease(LeaseRecord::default()))));
    assert_eq!(*driver.elector(), former);
}

#[test]
fn a_pause_is_as_long_as_the_server_asks_and_at_most_the_request_timeout_or_for_a_renewal_the_retry_period() {
    let renewal = |driver: &mut Driver| {
        let (mut store, mut next) = (ReferenceStore::new(), creation(driver, 0));
        while !matches!(&next.request, Request::WriteLease { write, .. } if write.purpose == Purpose::Renew) {
            let Outcome::Landed(object) = store.execute(&next.request, at(0).wall) else { panic!("{next:?}") };
            driver.answered(at(0), next.attempt, Ok(Some(object)));
            next = [0, 2].into_iter().find_map(|seconds| driver.decide(at(seconds), Draw(0)).requests.pop()).unwrap();
        }
        next
    };
    // The answer takes a second.
    let cases = [
        (false, 2, 0, 0),
        (false, 2, 3, 3_000_000),
        (false, 2, 3_600, 3_950_000),
        (true, 3, 0, 0),
        (true, 3, 3_600, 1_000_000),
    ];
    for (is_renewal, answered, asked, expected) in cases {
        let mut driver = driver(false);
        let sent = if is_renewal { renewal(&mut driver) } else { creation(&mut driver, 1) };
        let status = json!({ "status": "Failure", "code": 429, "details": { "retryAfterSeconds": asked } });
        let status: Status = serde_json::from_value(status).unwrap();
        let former = driver.elector().clone();
        driver.answered(at(answered), sent.attempt, Err(status.into()));
        if expected == 0 {
            assert_ne!(*driver.elector(), former, "{sent:?}");
            continue;
        }
        assert_eq!(*driver.elector(), former, "{sent:?}");
        let step = driver.decide(at(answered), Draw(0));
        let (until, former) = (answered * SECOND + expected, driver.elector().clone());
        assert_eq!(
            driver.own_deadline().min(),
            Some((Moment::from_micros(until), "retry-after")),
            "{sent:?}: {step:?}"
        );
        driver.decide(now(until), Draw(0));
        assert_ne!(*driver.elector(), former, "{sent:?}");
    }
}

#[test]
fn a_request_that_proves_life_waits_for_a_heartbeat_and_keeps_its_deadline() {
    let mut driver = driver(true);
    driver.beat(at(1).moment);
    driver.observe(at(7), Observation::LeaseMissing { source: Source::Watch });
    let read = only(&driver.decide(at(7), Draw(0))).clone();
    driver.answered(at(7), read.attempt, Err(Failure::Missing));
    let step = driver.decide(at(7), Draw(0));
    assert!(step.requests.is_empty() && step.awaits_beat, "a creation proves life");
    driver.beat(at(9).moment);
    let step = driver.decide(at(9), Draw(0));
    let sent = only(&step);
    assert!(matches!(sent.request, Request::CreateLease { .. }) && !step.awaits_beat);
    assert_eq!(sent.until, Moment::from_micros(7 * SECOND + 4_950_000));
}

#[test]
fn a_request_fails_if_no_heartbeat_comes_in_most_of_its_time() {
    let mut driver = driver(true);
    driver.observe(at(7), Observation::LeaseMissing { source: Source::Watch });
    let read = only(&driver.decide(at(7), Draw(0))).clone();
    driver.answered(at(7), read.attempt, Err(Failure::Missing));
    assert!(driver.decide(at(7), Draw(0)).awaits_beat);
    let end = 7 * SECOND + 4_455_000;
    assert!(driver.decide(now(end - 1), Draw(0)).awaits_beat);
    let step = driver.decide(now(end), Draw(0));
    let text = step.lines.iter().find_map(|line| line.text_of("failure")).unwrap();
    assert!(text.contains("has not run for 11455 ms"), "{text}");
}

#[test]
fn after_a_success_the_next_failure_is_logged_again() {
    let mut driver = driver(false);
    let refused = || Failure::Refused(Status::failure("no", "").with_code(403).into());
    for is_warned in [true, false] {
        let sent = creation(&mut driver, 1);
        driver.answered(at(1), sent.attempt, Err(refused()));
        let severity = driver.lines.last().unwrap().severity;
        assert_eq!(severity == NoteSeverity::Warning, is_warned);
        driver = Driver { failures: std::mem::take(&mut driver.failures), ..self::driver(false) };
    }
    let sent = creation(&mut driver, 1);
    driver.answered(at(1), sent.attempt, Ok(Some(Object::Lease(LeaseRecord::default()))));
    driver = Driver { failures: std::mem::take(&mut driver.failures), ..self::driver(false) };
    let sent = creation(&mut driver, 1);
    driver.answered(at(1), sent.attempt, Err(refused()));
    assert_eq!(driver.lines.last().unwrap().severity, NoteSeverity::Warning);
}
