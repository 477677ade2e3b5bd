//! The writes of a Lease by the controller. Each is conditional on the version that the decision was made on.

use std::sync::Arc;

use super::{Choice, Config, Event};
use crate::model::{Hold, LeaseRecord, LeaseWrite, Now, Purpose, SessionMark, Set, Strategy};
use crate::ranking::Criterion;

/// Names the electee of a free Lease and leaves it open: a right to take up, and nothing more.
pub(super) fn grant(
    record: &LeaseRecord,
    electee: &Arc<str>,
    why: Choice,
    now: Now,
    config: &Config,
) -> (LeaseWrite, Event) {
    let event = Event::Elected { candidate: Arc::clone(electee), why };
    let write = LeaseWrite {
        holder: Set::To(electee.as_ref().to_owned()),
        duration_seconds: Set::To(config.grant_duration_seconds),
        acquire_time: Set::To(now.wall),
        renew_time: Set::To(now.wall.max(record.range_end().unwrap_or(now.wall)).later_than(record.renew_time)),
        transitions: Set::To(record.transitions.saturating_add(1).min(i32::MAX.cast_unsigned())),
        session: Set::To(SessionMark::Open),
        preferred_holder: Set::Remove,
        leaving: Set::remove_if(record.leaving),
        strategy: Set::To(Strategy::OldestEmulationVersion.as_str().to_owned()),
        hold: Set::Remove,
        reason: Set::To(event.to_string()),
        ..LeaseWrite::new(Purpose::Grant, record)
    };
    (write, event)
}

/// Asks the live holder to hand over to one that is better, or, without a criterion, since it leaves.
pub(super) fn prefer(
    record: &LeaseRecord,
    holder: &Arc<str>,
    electee: &Arc<str>,
    criterion: Option<Criterion>,
) -> (LeaseWrite, Event) {
    let event = Event::Preferred { holder: Arc::clone(holder), candidate: Arc::clone(electee), criterion };
    let write = LeaseWrite {
        preferred_holder: Set::To(electee.as_ref().to_owned()),
        strategy: Set::To(Strategy::OldestEmulationVersion.as_str().to_owned()),
        reason: Set::To(event.to_string()),
        ..LeaseWrite::new(Purpose::Prefer, record)
    };
    (write, event)
}

/// Takes the request to hand over back: nobody is left who is better and live.
pub(super) fn unprefer(record: &LeaseRecord) -> LeaseWrite {
    LeaseWrite { preferred_holder: Set::Remove, ..LeaseWrite::new(Purpose::Prefer, record) }
}

/// Says why the free Lease stays without a holder; `None` if it says so already. A third party finds its Lease with
/// its strategy and an empty holder, and what this controller created it gives up in the same write.
pub(super) fn hold(record: &LeaseRecord, hold: &Hold, own_creation: bool) -> Option<(LeaseWrite, Event)> {
    let strategy = match hold {
        Hold::ThirdPartyStrategy(strategy) => Some(strategy),
        Hold::Disagreement | Hold::Pause(_) => None,
    };
    let empties = own_creation || (strategy.is_some() && !record.is_given_up());
    let renames = strategy.is_some() && record.strategy.as_ref() != strategy;
    let tells = Hold::read(record.hold.as_deref()).as_ref() != Some(hold);
    let event = Event::OnHold(hold.clone());
    let mut write = LeaseWrite {
        hold: Set::To(hold.to_string()),
        reason: Set::To(event.to_string()),
        ..LeaseWrite::new(Purpose::Hold, record)
    };
    if let Some(strategy) = strategy {
        write.strategy = Set::To(strategy.clone());
    }
    if empties {
        write.holder = Set::Remove;
        write.duration_seconds = Set::To(1);
        write.session = Set::To(SessionMark::Open);
        write.preferred_holder = Set::Remove;
        write.leaving = Set::remove_if(record.leaving);
        write.renew_time = record.range_end().map_or(Set::Keep, Set::To);
    }
    (empties || renames || tells).then_some((write, event))
}

/// Labels the Lease, so that the watch shows it.
pub(super) fn enrol(record: &LeaseRecord) -> LeaseWrite {
    LeaseWrite::new(Purpose::Enrol, record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Moment, WireTime};

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
    fn a_grant_begins_everything_anew_and_says_why() {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(77) };
        let (write, event) = grant(&record(), &"c".into(), Choice::Only, now, &Config::default());
        assert_eq!(write.acquire_time, Set::To(now.wall));
        assert_eq!((write.preferred_holder, write.leaving), (Set::Remove, Set::Remove));
        assert_eq!(write.strategy, Set::To("OldestEmulationVersion".to_owned()));
        assert_eq!(write.reason, Set::To(event.to_string()));
    }

    #[test]
    fn a_request_to_hand_over_says_by_which_strategy_and_why() {
        let (write, event) = prefer(&record(), &"a".into(), &"c".into(), None);
        assert_eq!(write.strategy, Set::To("OldestEmulationVersion".to_owned()));
        assert_eq!(write.reason, Set::To(event.to_string()));
    }

    #[test]
    fn a_third_partys_lease_is_emptied_even_if_it_says_everything_else_already() {
        let theirs = Hold::ThirdPartyStrategy("x.io/Y".to_owned());
        let told = LeaseRecord { hold: Some(theirs.to_string()), ..record() };
        let (write, event) = hold(&told, &theirs, false).unwrap();
        assert_eq!((write.holder, write.reason), (Set::Remove, Set::To(event.to_string())));
        let emptied = LeaseRecord { holder: None, session: SessionMark::Open, ..told };
        assert_eq!(hold(&emptied, &theirs, false), None);
        assert!(hold(&LeaseRecord { strategy: None, ..emptied.clone() }, &theirs, false).is_some());
        assert!(hold(&LeaseRecord { hold: None, ..emptied }, &theirs, false).is_some());
    }
}
