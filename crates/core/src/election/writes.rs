//! The controller's writes of a Lease. Each is conditional on the version that the decision was based on.

use std::sync::Arc;

use super::{Choice, Config, Event};
use crate::model::{
    CandidateKey, CandidateKind, Cause, Ending, Evidence, GIVEN_UP_SECONDS, History, Hold, LeaseRecord, LeaseWrite,
    Now, Purpose, RunningTerm, SessionMark, Set, Strategy, WireTime,
};
use crate::ranking::Criterion;

/// The reason on a Lease whose preferred holder is removed, if the request never reached the holder.
const WITHDRAWN: &str = "The request to hand over was withdrawn: it does not reach the holder.";

/// Grants a free Lease to the electee. A grant is only a right to take up, so the Lease stays open. A grant to a native
/// candidate carries no mark; its equal times show that it was not taken up yet. `after` is how the last term ended.
pub(super) fn grant(
    (record, history): (&LeaseRecord, &History),
    electee: &CandidateKey,
    (why, after): (Choice, Ending),
    strategy: &Strategy,
    now: Now,
    config: &Config,
) -> (LeaseWrite, Event) {
    let event = Event::Elected { candidate: electee.clone(), why, after: after.clone() };
    let is_native = electee.kind == CandidateKind::Native;
    let transitions = record.next_transitions();
    let granted = RunningTerm::new(transitions, &electee.name, now.wall, None);
    let renew_time = record.grant_time(now.wall);
    let write = LeaseWrite {
        holder: Set::To(electee.name.to_string()),
        duration_seconds: Set::To(config.grant_duration_seconds),
        acquire_time: Set::To(if is_native { renew_time } else { now.wall }),
        renew_time: Set::To(renew_time),
        transitions: Set::To(transitions),
        // client-go keeps annotations, so the mark would outlive the take-up.
        session: if is_native { Set::Remove } else { Set::To(SessionMark::Open) },
        preferred_holder: Set::Remove,
        leaving: Set::remove_if(record.leaving),
        strategy: Set::To(strategy.as_str().to_owned()),
        hold: Set::Remove,
        hold_until: Set::remove_if(record.acts.hold_until.is_some()),
        transfer: Set::remove_if(record.acts.transfer.is_some()),
        reason: Set::To(event.to_string()),
        history: Set::To(record.history_after(history, after, None).with_running(&granted)),
        ..LeaseWrite::new(Purpose::Grant, record)
    };
    (write, event)
}

/// Releases a Lease for its dead holder, a component that knows nothing of Hustings, in the form in which client-go
/// releases. A replica that stands by acquires it with its next attempt. A session that an earlier holder has left would
/// make this a late release.
pub(super) fn release(
    (record, history): (&LeaseRecord, &History),
    holder: &str,
    evidence: Evidence,
    wall: WireTime,
) -> (LeaseWrite, Event) {
    let event = Event::Released { holder: holder.into(), evidence };
    let now = wall.later_than(record.renew_time);
    let write = LeaseWrite {
        holder: Set::Remove,
        duration_seconds: Set::To(GIVEN_UP_SECONDS),
        acquire_time: Set::To(now),
        renew_time: Set::To(now),
        session: Set::remove_if(record.session != SessionMark::Absent),
        reason: Set::To(event.to_string()),
        history: Set::To(record.history_after(history, Ending::ProvenDead(evidence), None)),
        ..LeaseWrite::new(Purpose::Release, record)
    };
    (write, event)
}

/// Asks the live holder to hand over to a better candidate. Without a criterion, the reason is that the holder is about
/// to stop.
pub(super) fn prefer(
    (record, history): (&LeaseRecord, &History),
    holder: &Arc<str>,
    electee: &CandidateKey,
    criterion: Option<Criterion>,
    strategy: &Strategy,
) -> (LeaseWrite, Event) {
    let asked_by = record.acts.asked_by.clone();
    let event = Event::Preferred { holder: Arc::clone(holder), candidate: electee.clone(), criterion, asked_by };
    let write = LeaseWrite {
        transfer: Set::remove_if(record.acts.transfer.is_some()),
        strategy: Set::To(strategy.as_str().to_owned()),
        reason: Set::To(event.to_string()),
        history: Set::To(record.history_with_request(history, Some(cause_of(criterion)))),
        ..request(record, electee)
    };
    (write, event)
}

/// A write that only asks the holder to hand over.
pub(super) fn request(record: &LeaseRecord, electee: &CandidateKey) -> LeaseWrite {
    LeaseWrite { preferred_holder: Set::To(electee.name.to_string()), ..LeaseWrite::new(Purpose::Prefer, record) }
}

/// Why a holder hands over.
const fn cause_of(criterion: Option<Criterion>) -> Cause {
    match criterion {
        None => Cause::Stopped,
        Some(Criterion::Transfer) => Cause::Transfer,
        Some(Criterion::Pin) => Cause::Pin,
        Some(Criterion::Exclusion) => Cause::Exclusion,
        Some(_) => Cause::BetterCandidate,
    }
}

/// Withdraws the request to hand over. `event` gives the reason; `None` if the request did not reach the holder.
pub(super) fn unprefer(record: &LeaseRecord, history: &History, event: Option<&Event>) -> LeaseWrite {
    LeaseWrite {
        preferred_holder: Set::Remove,
        transfer: Set::remove_if(record.acts.transfer.is_some()),
        reason: Set::To(event.map_or_else(|| WITHDRAWN.to_owned(), Event::to_string)),
        history: Set::To(record.history_with_request(history, None)),
        ..LeaseWrite::new(Purpose::Prefer, record)
    }
}

/// Records why the free Lease has no holder, and its strategy; `None` if the Lease already records both. A former
/// holder stays on the record, because the third party decides what follows. A Lease that this controller created is
/// given up.
pub(super) fn hold(record: &LeaseRecord, hold: &Hold, own_creation: bool) -> Option<(LeaseWrite, Event)> {
    let strategy = match hold {
        Hold::ThirdPartyStrategy(strategy) => Some(strategy),
        Hold::Disagreement | Hold::Pause(_) => None,
    };
    let renames = strategy.is_some() && record.strategy.as_ref() != strategy;
    let is_new = Hold::read(record.hold.as_deref()).as_ref() != Some(hold);
    let event = Event::OnHold(hold.clone());
    let mut write = LeaseWrite {
        hold: Set::To(hold.to_string()),
        hold_until: Set::remove_if(record.acts.hold_until.is_some()),
        reason: Set::To(event.to_string()),
        ..LeaseWrite::new(Purpose::Hold, record)
    };
    if let Some(strategy) = strategy {
        write.strategy = Set::To(strategy.clone());
    }
    if own_creation {
        write.holder = Set::Remove;
        write.duration_seconds = Set::To(1);
        write.session = Set::To(SessionMark::Open);
    }
    (own_creation || renames || is_new).then_some((write, event))
}

/// Removes from the Lease a pause and a pin whose end has passed, and the transfer if it is over. `event` reports a
/// transfer that is not carried out.
pub(super) fn end_acts(
    record: &LeaseRecord,
    wall: WireTime,
    transfer_is_over: bool,
    event: Option<&Event>,
) -> LeaseWrite {
    let pause_has_ended = record.pause_has_ended(wall);
    LeaseWrite {
        hold: Set::remove_if(pause_has_ended),
        hold_until: Set::remove_if(pause_has_ended),
        pin: Set::remove_if(record.pin_has_ended(wall)),
        transfer: Set::remove_if(transfer_is_over),
        reason: event.map_or(Set::Keep, |event| Set::To(event.to_string())),
        ..LeaseWrite::new(Purpose::Act, record)
    }
}

/// Adds the label, so that the watch shows the Lease.
pub(super) fn enrol(record: &LeaseRecord) -> LeaseWrite {
    LeaseWrite::new(Purpose::Enrol, record)
}

/// Removes the mark `open`, which a native holder keeps after a hand-over.
pub(super) fn unmark(record: &LeaseRecord) -> LeaseWrite {
    LeaseWrite { session: Set::Remove, ..LeaseWrite::new(Purpose::Enrol, record) }
}

/// Writes the strategy of a Lease that names none, or not the one that the candidates ask for now.
pub(super) fn name_strategy(record: &LeaseRecord, strategy: &str) -> LeaseWrite {
    LeaseWrite { strategy: Set::To(strategy.to_owned()), ..LeaseWrite::new(Purpose::Enrol, record) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::TransferRefusal;
    use crate::model::{Annotation, Evidence, Malformed, Moment, Transfer};

    const OLDEST: Strategy = Strategy::OldestEmulationVersion;

    fn record() -> LeaseRecord {
        LeaseRecord {
            holder: Some("a".to_owned()),
            preferred_holder: Some("b".to_owned()),
            leaving: true,
            strategy: Some("x.io/Y".to_owned()),
            ..LeaseRecord::as_created()
        }
    }

    #[test]
    fn a_grant_resets_the_lease_and_records_the_reason() {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(77) };
        let known = History::default();
        let mut record = record();
        let malformed = Malformed::new("hustings.io/hold-until", "noon".to_owned(), String::new());
        record.acts.hold_until = Some(Annotation::Malformed(malformed));
        record.renew_time = Some(WireTime::from_micros(100));
        record.transitions = i32::MAX.cast_unsigned();
        let (write, event) = grant(
            (&record, &known),
            &CandidateKey::hustings("c"),
            (Choice::Only, Ending::Expired),
            &OLDEST,
            now,
            &Config::default(),
        );
        assert_eq!((write.acquire_time, write.transitions), (Set::To(now.wall), Set::To(record.transitions)));
        assert_eq!((write.preferred_holder, write.leaving), (Set::Remove, Set::Remove));
        assert_eq!((write.hold_until, write.transfer), (Set::Remove, Set::Keep));
        assert_eq!(write.strategy, Set::To("OldestEmulationVersion".to_owned()));
        assert_eq!(write.reason, Set::To(event.to_string()));
    }

    #[test]
    fn a_request_to_hand_over_records_the_strategy_and_the_reason() {
        let known = History::default();
        let (write, event) = prefer((&record(), &known), &"a".into(), &CandidateKey::hustings("c"), None, &OLDEST);
        assert_eq!(write.strategy, Set::To("OldestEmulationVersion".to_owned()));
        assert_eq!(write.reason, Set::To(event.to_string()));
    }

    #[test]
    fn a_grant_records_how_the_term_before_ended() {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(77) };
        let (acquired, renewed) = (Some(WireTime::from_micros(5_000)), Some(WireTime::from_micros(9_000)));
        let held = LeaseRecord { transitions: 4, acquire_time: acquired, renew_time: renewed, ..record() };
        let ending = |record: &LeaseRecord, after| {
            let known = History::new();
            let electee = CandidateKey::hustings("c");
            let (write, _) = grant((record, &known), &electee, (Choice::Only, after), &OLDEST, now, &Config::default());
            let Set::To(history) = write.history else { panic!("a grant sets the history") };
            history.as_str().to_owned()
        };
        let next = "5 c from 1970-01-01T00:00:00.000Z";
        let times = "from 1970-01-01T00:00:00.005Z to 1970-01-01T00:00:00.009Z";
        let proof = Ending::ProvenDead(Evidence::ContainerTerminated);
        assert_eq!(ending(&held, proof), format!("{next}\n4 a {times}: proven dead (container terminated)"));
        let released = LeaseRecord { holder: None, ..held };
        assert_eq!(ending(&released, Ending::Expired), next, "the former holder has recorded its term");
    }

    #[test]
    fn a_request_to_hand_over_records_why_until_it_is_withdrawn() {
        for (criterion, cause) in [
            (None, Cause::Stopped),
            (Some(Criterion::Transfer), Cause::Transfer),
            (Some(Criterion::Pin), Cause::Pin),
            (Some(Criterion::Exclusion), Cause::Exclusion),
            (Some(Criterion::Priority), Cause::BetterCandidate),
        ] {
            let record = LeaseRecord { acquire_time: Some(WireTime::from_micros(0)), ..record() };
            let (write, _) =
                prefer((&record, &History::new()), &"a".into(), &CandidateKey::hustings("c"), criterion, &OLDEST);
            let asked = write.applied_to(&record, 9);
            assert_eq!(asked.running_term().unwrap().request, Some(cause));
            let withdrawn = unprefer(&asked, &asked.history, Some(&withdrawn())).applied_to(&asked, 10);
            assert_eq!(withdrawn.running_term().unwrap().request, None);
        }
    }

    fn withdrawn() -> Event {
        let (holder, preferred) = ("a".into(), CandidateKey::hustings("c"));
        Event::Withdrawn { holder, preferred, why: TransferRefusal::NoSuchCandidate }
    }

    #[test]
    fn a_withdrawn_request_replaces_the_reason() {
        let mut record = record();
        record.acts.transfer = Some(Transfer::Any);
        let write = unprefer(&record, &History::default(), Some(&withdrawn()));
        assert_eq!(write.transfer, Set::Remove);
        let reason = "a is no longer asked to hand over to c: the Lease has no candidate of this name.";
        assert_eq!((write.preferred_holder, write.reason), (Set::Remove, Set::To(reason.to_owned())));
    }

    #[test]
    fn a_hold_by_the_controller_has_no_end() {
        let until = Some(Annotation::Valid(WireTime::from_micros(5_000)));
        let mut paused = record();
        for (hold_until, expected) in [(None, Set::Keep), (until, Set::Remove)] {
            paused.acts.hold_until = hold_until;
            let (write, _) = hold(&paused, &Hold::Disagreement, false).unwrap();
            assert_eq!(write.hold_until, expected);
        }
    }

    #[test]
    fn a_hold_changes_a_holder_only_on_a_lease_of_our_own_creation() {
        let theirs = Hold::ThirdPartyStrategy("x.io/Y".to_owned());
        let (write, event) = hold(&record(), &theirs, false).unwrap();
        assert_eq!((&write.holder, &write.session, write.reason), (&Set::Keep, &Set::Keep, Set::To(event.to_string())));
        let recorded = LeaseRecord { hold: Some(theirs.to_string()), ..record() };
        assert_eq!(hold(&recorded, &theirs, false), None);
        assert!(hold(&LeaseRecord { strategy: None, ..recorded.clone() }, &theirs, false).is_some());
        let (write, _) = hold(&recorded, &theirs, true).unwrap();
        assert_eq!((write.holder, write.session), (Set::Remove, Set::To(SessionMark::Open)));
    }
}
