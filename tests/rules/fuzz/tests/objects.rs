//! Objects of any content: reading them is total and bounded, and an election that observes them continues.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use bolero::{TypeGenerator, check};
use hustings_client::api::{ReadCandidate, ReadLease, lease_patch};
use hustings_core::election::{Action, Config, Election, Observation, Source};
use hustings_core::model::{
    CandidateKey, LeaseStage, LeaseWrite, Moment, Now, Purpose, Request, Set, Strategy, WireTime,
};
use hustings_core::ranking::Rank;
use hustings_fuzz::{CANDIDATE_FIELDS, LEASE_FIELDS, Odd, object};
use serde_json::Value;

/// How much of any text is kept.
const LONGEST_TEXT: usize = 1024;

#[test]
fn any_json_has_a_reading() {
    check!().for_each(|bytes: &[u8]| {
        let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return };
        let _ = ReadLease::from_json(json.clone());
        let _ = ReadCandidate::from_json(json).record.standing();
    });
}

#[test]
fn a_lease_of_any_content_is_read_kept_short_and_written() {
    check!().with_type::<(Vec<Odd>, u16)>().for_each(|(odd, times)| {
        let mut odd = odd.clone();
        for odd in &mut odd {
            odd.text = odd.text.repeat(usize::from(times % 64));
        }
        let record = ReadLease::from_json(object("l", &LEASE_FIELDS, &odd)).record;
        let texts = [&record.holder, &record.preferred_holder, &record.strategy, &record.hold];
        assert!(texts.into_iter().flatten().all(|text| text.len() <= LONGEST_TEXT && !text.is_empty()));
        assert!(record.session.stamp().is_none_or(|stamp| stamp.session.len() <= LONGEST_TEXT));
        assert_eq!(record.stage(None) == LeaseStage::GivenUp, record.is_given_up());
        assert!(record.range_end().is_none_or(|end| Some(end) >= record.renew_time));
        let mut write = LeaseWrite::new(Purpose::Grant, &record);
        write.holder = Set::Remove;
        write.transitions = Set::To(record.transitions.saturating_add(1));
        write.renew_time = Set::To(WireTime::from_micros(0).later_than(record.renew_time));
        let patch = lease_patch(&write);
        assert_eq!(patch["metadata"]["resourceVersion"], record.resource_version.to_string());
        assert!(patch["spec"]["leaseTransitions"].as_i64().unwrap() <= i64::from(i32::MAX));
        assert_eq!(patch["spec"]["holderIdentity"], "", "never null");
    });
}

#[test]
fn candidates_of_any_content_have_one_order() {
    check!().with_type::<[Vec<Odd>; 3]>().for_each(|odd| {
        let read = |index: usize| {
            let json = object(["a", "b", "c"][index], &CANDIDATE_FIELDS, &odd[index]);
            let record = ReadCandidate::from_json(json).record;
            assert!(record.status.message.len() <= LONGEST_TEXT && record.binary_version.len() <= LONGEST_TEXT);
            record.standing().ok().map(|standing| Rank::new(&standing, &record))
        };
        let [Some(a), Some(b), Some(c)] = [0, 1, 2].map(read) else { return };
        for strategy in Strategy::OURS {
            assert_eq!(a.order(&b, &strategy), b.order(&a, &strategy).reverse());
            assert!(a.order(&b, &strategy).is_ne(), "their names differ");
            assert!(a.order(&b, &strategy).is_ge() || b.order(&c, &strategy).is_ge() || a.order(&c, &strategy).is_lt());
            assert!(!(a.is_better_than_holder(&b, &strategy) && b.is_better_than_holder(&a, &strategy)));
        }
    });
}

/// The next observation of an election.
#[derive(Clone, Debug, TypeGenerator)]
enum Event {
    Lease(Vec<Odd>),
    LeaseGone,
    Candidate(u8, Vec<Odd>),
    CandidateGone(u8),
}

#[test]
fn no_observation_at_any_time_stops_an_election() {
    check!().with_type::<Vec<(Event, u32, i64)>>().for_each(|events| {
        let config = Config::default();
        let requeue = config.requeue;
        let mut election = Election::new(config, "n", "l");
        let mut moment = Moment::from_micros(1_000_000);
        for (number, (event, rest, wall)) in events.iter().enumerate() {
            moment = moment.after(Duration::from_millis(u64::from(rest % 40_000)));
            let now = Now { moment, wall: WireTime::from_micros(*wall) };
            let name = |index: u8| ["a", "b", "c", "d"][usize::from(index % 4)];
            let newer = |mut json: Value| {
                json["metadata"]["resourceVersion"] = (100 + number).to_string().into();
                json
            };
            let source = if rest % 3 == 0 { Source::Read { sent: moment } } else { Source::Watch };
            let observation = match event {
                Event::Lease(odd) => {
                    let record = ReadLease::from_json(newer(object("l", &LEASE_FIELDS, odd))).record;
                    Observation::Lease { record, source }
                }
                Event::LeaseGone => Observation::LeaseMissing { source },
                Event::Candidate(index, odd) => {
                    let json = newer(object(name(*index), &CANDIDATE_FIELDS, odd));
                    Observation::Candidate { record: ReadCandidate::from_json(json).record, source }
                }
                Event::CandidateGone(index) => {
                    Observation::CandidateMissing { candidate: CandidateKey::hustings(name(*index)), source }
                }
            };
            election.observe(now, observation);
            let decision = election.decide(now);
            assert!(decision.deadline <= moment.after(requeue));
            assert!(decision.actions.len() <= 16, "of four candidates: {:?}", decision.actions);
            let is_write =
                |request: &Request| matches!(request, Request::WriteLease { .. } | Request::CreateLease { .. });
            let writes = |action: &&Action| matches!(action, Action::Send { request, .. } if is_write(request));
            assert!(decision.actions.iter().filter(writes).count() <= 1, "{:?}", decision.actions);
            let _ = election.is_over(now);
        }
    });
}
