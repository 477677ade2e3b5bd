use super::*;
use crate::model::RecordedStatus;

/// A candidate whose last sign of life is this old when the elector's own candidate renews.
fn candidate(name: &str, version: &str, age: Duration) -> CandidateRecord {
    let renewed = Moment::from_micros(100_000_000_000).before(age);
    CandidateRecord {
        name: name.to_owned(),
        lease_name: "l".to_owned(),
        binary_version: version.to_owned(),
        emulation_version: Some(version.to_owned()),
        renew_time: Some(WireTime::from_micros(renewed.as_micros())),
        ..CandidateRecord::default()
    }
}

fn own() -> CandidateRecord {
    candidate("own", "1.1", Duration::ZERO)
}

fn wait_beside(other: &CandidateRecord) -> Result<Duration, Withheld> {
    let own = own();
    wait([&own, other].map(|record| (record, record.standing())).to_vec(), &Config::of("own"))
}

#[test]
fn a_better_candidate_gets_a_place_if_its_last_sign_of_life_is_at_most_30_s_older() {
    for (age, place) in [(RECENT, 2), (RECENT + Duration::from_micros(1), 1)] {
        assert_eq!(wait_beside(&candidate("better", "1.0", age)), Ok(STEP * place), "{age:?}");
    }
}

#[test]
fn a_dissenter_counts_while_it_is_valid_and_not_marked_unresponsive() {
    let strategy = Some("example.com/Other".to_owned());
    let dissenter = |age| CandidateRecord { strategy: strategy.clone(), ..candidate("other", "1.2", age) };
    let withheld = Err(Withheld::ThirdPartyStrategy("example.com/Other".to_owned()));
    assert_eq!(wait_beside(&dissenter(VALID)), withheld);
    assert_eq!(wait_beside(&dissenter(VALID + Duration::from_micros(1))), Ok(STEP));
    let status = RecordedStatus { state: Some(CandidateState::Unresponsive), ..RecordedStatus::default() };
    assert_eq!(wait_beside(&CandidateRecord { status, ..dissenter(Duration::ZERO) }), Ok(STEP));
}
