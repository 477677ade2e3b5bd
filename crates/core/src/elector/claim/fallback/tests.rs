use super::*;
use crate::election::{self, Election};
use crate::model::{
    Annotation, CandidateActs, Exclusion, LeaseActs, Pin, RecordedStatus, SessionMark, Strategy, Transfer, Unparsed,
};

const NOW: Now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(100_000_000_000) };

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
    wait([&own, other].map(|record| (record, record.standing())).to_vec(), None, NOW, &Config::of("own"))
}

#[test]
fn a_better_candidate_gets_a_place_if_its_last_sign_of_life_is_at_most_30_s_older() {
    for (age, place) in [(RECENT, 2), (RECENT + Duration::from_micros(1), 1)] {
        assert_eq!(wait_beside(&candidate("better", "1.0", age)), Ok(STEP * place), "{age:?}");
    }
}

#[test]
fn a_dissenter_counts_while_it_is_valid_and_neither_excluded_nor_marked_unresponsive() {
    let strategy = Some("example.com/Other".to_owned());
    let dissenter = |age| CandidateRecord { strategy: strategy.clone(), ..candidate("other", "1.2", age) };
    let withheld = Err(Withheld::Hold(Hold::ThirdPartyStrategy("example.com/Other".to_owned())));
    assert_eq!(wait_beside(&dissenter(VALID)), withheld);
    assert_eq!(wait_beside(&dissenter(VALID + Duration::from_micros(1))), Ok(STEP));
    let status = RecordedStatus { state: Some(CandidateState::Unresponsive), ..RecordedStatus::default() };
    assert_eq!(wait_beside(&CandidateRecord { status, ..dissenter(Duration::ZERO) }), Ok(STEP));
    let exclusion = Exclusion { until: NOW.wall.after(STEP), reason: String::new() };
    let acts = CandidateActs { exclude: Some(Annotation::Valid(exclusion)), ..CandidateActs::default() };
    assert_eq!(wait_beside(&CandidateRecord { acts: acts.clone(), ..dissenter(Duration::ZERO) }), Ok(STEP), "excluded");
    let (own, other) =
        (CandidateRecord { acts: acts.clone(), ..own() }, CandidateRecord { acts, ..dissenter(Duration::ZERO) });
    let all = [&own, &other].map(|record| (record, record.standing())).to_vec();
    assert_eq!(wait(all, None, NOW, &Config::of("own")), withheld, "all are excluded");
    // The time is that of the creation, long ago.
    let unreadable = Unparsed::NONE.with("renewTime", "9999-12-31T23:59:59Z");
    let renew_time = Some(WireTime::MAX);
    let unreadable = CandidateRecord { unparsed: unreadable, renew_time, ..dissenter(Duration::ZERO) };
    assert_eq!(wait_beside(&unreadable), Ok(STEP), "a renew time that is none");
}

#[test]
fn the_fallback_has_the_order_of_the_election() {
    let until = NOW.wall.after(Duration::from_mins(5));
    let lost =
        |damping_count, until| RecordedStatus { damping_count, damped_until: Some(until), ..RecordedStatus::default() };
    let named = |name: &str| candidate(name, "1.1", Duration::ZERO);
    let exclude = Some(Annotation::Valid(Exclusion { until, reason: String::new() }));
    let candidates = [
        named("equal"),
        CandidateRecord { creation_time: WireTime::from_micros(1), ..named("a-later-one") },
        CandidateRecord { priority: 1, ..named("priority") },
        CandidateRecord { binary_version: "1.2".to_owned(), ..named("newer-binary") },
        CandidateRecord { acts: CandidateActs { exclude, ..CandidateActs::default() }, ..named("excluded") },
        CandidateRecord { status: lost(6, until), ..candidate("damped-later", "1.0", Duration::ZERO) },
        CandidateRecord { status: lost(1, NOW.wall.after(STEP)), ..candidate("damped", "1.0", Duration::ZERO) },
        CandidateRecord { status: lost(1, NOW.wall), ..named("no-longer-damped") },
        candidate("pinned", "1.2", Duration::ZERO),
        named("transferred"),
    ];
    let pin = Some(Annotation::Valid(Pin { candidate: "pinned".to_owned(), until }));
    let acts = LeaseActs { pin, transfer: Some(Transfer::read("transferred")), ..LeaseActs::default() };
    let lease = LeaseRecord { acts, session: SessionMark::Open, ..LeaseRecord::default() };
    for strategy in Strategy::OURS {
        let asks = |record| CandidateRecord { strategy: Some(strategy.as_str().to_owned()), ..record };
        let records = candidates.clone().map(asks);
        let mut election = Election::new(election::Config::default(), "n", "l");
        election.observe(NOW, election::Observation::Lease { record: lease.clone(), source: election::Source::Watch });
        for record in records.clone() {
            election.observe(NOW, election::Observation::Candidate { record, source: election::Source::Watch });
        }
        let order: Vec<_> = election.ranking(NOW).into_iter().map(|(key, _)| key.name.to_string()).collect();
        let listed: Vec<_> = records.iter().map(|record| (record, record.standing())).collect();
        let place = |name: &String| wait(listed.clone(), Some(&lease), NOW, &Config::of(name)).unwrap();
        let mut fallback = order.clone();
        fallback.sort_by_key(place);
        assert_eq!(fallback, order, "{strategy:?}");
        assert!(order.windows(2).all(|pair| place(&pair[0]) < place(&pair[1])), "{order:?}");
    }
}
