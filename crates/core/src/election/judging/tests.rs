use super::*;
use crate::model::{CandidateKey, CandidateRecord, Moment, Now, WireTime};
use crate::ranking::Rule;

const NOW: Now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };

fn member(name: &str, version: &str) -> Member {
    let record = CandidateRecord {
        name: name.to_owned(),
        binary_version: version.to_owned(),
        emulation_version: Some(version.to_owned()),
        ..CandidateRecord::default()
    };
    Member::first(record, NOW, &Config::default())
}

#[test]
fn a_candidate_better_than_the_holder_is_pinged_unless_an_even_better_one_is_preferred() {
    let (best, preferred, behind, holder) =
        (member("a", "1.0"), member("b", "1.1"), member("c", "1.2"), member("d", "1.3"));
    let lease = LeaseVerdict::Held {
        holder: CandidateKey::hustings("d"),
        preferred: Some(CandidateKey::hustings("b")),
        taken_up: true,
    };
    let conditions = Conditions {
        rule: Rule::Ours(crate::model::Strategy::OldestEmulationVersion),
        ..Election::new(Config::default(), "n", "l").conditions(NOW)
    };
    let rank = holder.declared.clone().unwrap().rank;
    let config = Config::default();
    let context = LeaseContext {
        lease: &lease,
        conditions: &conditions,
        incumbent: Incumbent::Live { holder: holder.key.clone(), rank, is_damped: false, is_excluded: false },
        preferred_place: Some(2),
        electing: false,
        grant_is_young: false,
        config: &config,
    };
    let verdict = |member, place| context.verdict(member, place);
    assert_eq!(verdict(&best, 1).reason, Reason::Asked);
    assert_eq!(verdict(&preferred, 2).reason, Reason::Preferred);
    assert_eq!(verdict(&behind, 3).reason, Reason::BehindPreferred);
    assert_eq!(verdict(&holder, 4).reason, Reason::Leads);
    let mut failed = preferred.clone();
    failed.response = Response::Missed { since: None };
    assert!(context.is_passing(&verdict(&failed, 2)), "another candidate will soon be preferred");
}
