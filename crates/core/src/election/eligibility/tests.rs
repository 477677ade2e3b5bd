use std::time::Duration;

use super::*;
use crate::election::{Config, Election};
use crate::model::{Annotation, CandidateRecord, Now, Version};

const NOW: Now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };

fn member(name: &str, emulation: Option<&str>, losses: usize) -> Member {
    let record = CandidateRecord {
        name: name.to_owned(),
        binary_version: "1.9".to_owned(),
        emulation_version: emulation.map(str::to_owned),
        ..CandidateRecord::default()
    };
    let mut member = Member::first(record, NOW, &Config::default());
    (0..losses).for_each(|_| member.losses.damping.add(NOW, &Config::default()));
    member
}

fn conditions(hold: Option<Hold>) -> Conditions {
    Conditions {
        rule: Rule::Ours(crate::model::Strategy::OldestEmulationVersion),
        hold,
        ..Election::new(Config::default(), "n", "l").conditions(NOW)
    }
}

fn taken(holder: &Member) -> Incumbent {
    let is_damped = holder.losses.damping.until(NOW.moment).is_some();
    Incumbent::Live {
        holder: holder.key.clone(),
        rank: holder.declared.clone().unwrap().rank,
        is_damped,
        is_excluded: false,
    }
}

#[test]
fn each_reason_against_a_candidate_is_named() {
    let vacant = Incumbent::Gone { holder: None };
    let check = |member: &Member, incumbent: &Incumbent| conditions(None).eligibility(member, incumbent);
    let ineligible = Eligibility::Ineligible;
    let inadmissible =
        Ineligible::Inadmissible(Inadmissible::EmulationVersionMissing(crate::model::Strategy::OldestEmulationVersion));
    assert_eq!(check(&member("a", None, 0), &vacant), ineligible(inadmissible));
    let a = member("a", Some("1.5"), 0);
    assert_eq!(check(&a, &vacant), Eligibility::Eligible);
    assert_eq!(check(&a, &Incumbent::Gone { holder: Some("a".into()) }), ineligible(Ineligible::Holder));
    assert_eq!(check(&a, &taken(&a)), ineligible(Ineligible::Holder));
    assert_eq!(check(&a, &taken(&member("b", Some("1.5"), 0))), ineligible(Ineligible::Tie));
    let older = Ineligible::Outranked(Criterion::EmulationVersion);
    assert_eq!(check(&a, &taken(&member("b", Some("1.4"), 0))), ineligible(older));
    assert_eq!(check(&a, &taken(&member("b", Some("1.6"), 0))), Eligibility::Eligible);
    let mut failed = a.clone();
    failed.failed_at = Some(NOW.moment);
    assert_eq!(check(&failed, &vacant), ineligible(Ineligible::Unresponsive));
    let on_hold = conditions(Some(Hold::Disagreement)).eligibility(&a, &vacant);
    assert_eq!(on_hold, ineligible(Ineligible::OnHold(Hold::Disagreement)));
}

#[test]
fn a_damped_candidate_replaces_only_a_damped_holder_and_none_if_it_left_a_grant_unused() {
    let check = |member: &Member, incumbent: &Incumbent| conditions(None).eligibility(member, incumbent);
    let mut damped = member("a", Some("1.4"), 1);
    let (holder, damped_holder) = (member("b", Some("1.5"), 0), member("b", Some("1.5"), 1));
    assert_eq!(check(&damped, &Incumbent::Gone { holder: None }), Eligibility::RanksLast);
    assert_eq!(check(&damped, &taken(&holder)), Eligibility::Ineligible(Ineligible::Damped));
    assert_eq!(check(&damped, &taken(&damped_holder)), Eligibility::RanksLast);
    damped.losses.forfeited = true;
    let forfeited = damped;
    assert_eq!(check(&forfeited, &taken(&damped_holder)), Eligibility::Ineligible(Ineligible::Forfeited));
    let later = NOW.moment.after(Duration::from_secs(30));
    let later = Conditions { now: later, ..conditions(None) }.eligibility(&forfeited, &taken(&holder));
    assert_eq!(later, Eligibility::Eligible, "its damping has ended");
}

#[test]
fn a_pause_precedes_the_strategy_of_the_candidates() {
    let lease = |hold: &str| LeaseRecord { hold: Some(hold.to_owned()), ..LeaseRecord::default() };
    let mut dissenter = member("a", Some("1.5"), 0);
    let hold = |lease: &LeaseRecord, member: &Member| rule_and_hold(Some(lease), std::iter::once(member), NOW.wall).1;
    assert_eq!(hold(&lease("disagreement"), &dissenter), None, "the candidate asks for our strategy");
    assert_eq!(hold(&lease("maintenance"), &dissenter), Some(Hold::Pause("maintenance".to_owned())));
    if let Ok(declared) = &mut dissenter.declared {
        declared.standing.strategy = crate::model::Strategy::ThirdParty("x.io/Y".to_owned());
        declared.standing.binary_version = Version::new(1, 9, 0);
    }
    assert_eq!(hold(&lease("disagreement"), &dissenter), Some(Hold::ThirdPartyStrategy("x.io/Y".to_owned())));
    assert_eq!(hold(&lease("maintenance"), &dissenter), Some(Hold::Pause("maintenance".to_owned())));
}

#[test]
fn a_damped_candidate_may_replace_an_excluded_holder() {
    let exclusion = Exclusion { until: WireTime::from_micros(1), reason: String::new() };
    let (mut holder, damped) = (member("b", Some("1.5"), 0), member("a", Some("1.5"), 1));
    Arc::make_mut(&mut holder.record).acts.exclude = Some(Annotation::Valid(exclusion));
    let holder_key = holder.key.clone();
    let members = Members::from([holder, damped.clone()].map(|member| (member.key.clone(), Box::new(member))));
    let conditions = conditions(None);
    let incumbent = conditions.incumbent(&members, &holder_key).unwrap();
    assert_eq!(conditions.eligibility(&damped, &incumbent), Eligibility::RanksLast);
}
