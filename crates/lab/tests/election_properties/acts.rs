//! Acts of administrators with any content at any time.

use std::time::Duration;

use hustings_core::model::{Annotation, CandidateActs, Exclusion, LeaseActs, Malformed, Pin, Transfer, WireTime};
use proptest::prelude::*;
use proptest::sample::select;

use super::election_world::World;
use super::incidents::name;
use super::records::wire;

/// One act. An end is a number of seconds from now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Incident {
    Pause(u64),
    Transfer(Option<usize>),
    Pin(usize, u64),
    Exclude(usize, u64),
}

fn annotation<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<Annotation<T>>> {
    (value, select(vec![0, 0, 1, 2])).prop_map(|(value, kind)| match kind {
        0 => None,
        1 => Some(Annotation::Valid(value)),
        _ => {
            let long = "\u{10ffff}".repeat(2_000);
            Some(Annotation::Malformed(Malformed::new("hustings.io/pin", long.clone(), long)))
        }
    })
}

fn end() -> impl Strategy<Value = WireTime> {
    wire().prop_map(Option::unwrap_or_default)
}

fn candidate() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "stranger"]).prop_map(str::to_owned)
}

pub(crate) fn of_lease() -> impl Strategy<Value = LeaseActs> {
    let transfer =
        prop_oneof![Just(None), Just(Some(Transfer::Any)), candidate().prop_map(|name| Some(Transfer::To(name)))];
    let pin = (candidate(), end()).prop_map(|(candidate, until)| Pin { candidate, until });
    (annotation(end()), transfer, annotation(pin), proptest::option::of(candidate())).prop_map(
        |(hold_until, transfer, pin, asked_by)| LeaseActs {
            hold_until,
            transfer,
            pin,
            asked_by,
            ..LeaseActs::default()
        },
    )
}

pub(crate) fn of_candidate() -> impl Strategy<Value = CandidateActs> {
    let exclusion = end().prop_map(|until| Exclusion { until, reason: "x".repeat(2_000) });
    (annotation(exclusion), proptest::option::of(candidate()))
        .prop_map(|(exclude, asked_by)| CandidateActs { exclude, asked_by })
}

pub(crate) fn incident() -> impl Strategy<Value = Incident> {
    let seconds = || select(vec![0, 3, 20, 600]);
    prop_oneof![
        seconds().prop_map(Incident::Pause),
        proptest::option::of(0..4_usize).prop_map(Incident::Transfer),
        (0..4_usize, seconds()).prop_map(|(name, seconds)| Incident::Pin(name, seconds)),
        (0..4_usize, seconds()).prop_map(|(name, seconds)| Incident::Exclude(name, seconds)),
    ]
}

pub(crate) fn happen(world: &mut World, incident: Incident) {
    let end = |seconds| world.now().wall.after(Duration::from_secs(seconds));
    if let Incident::Exclude(index, seconds) = incident {
        let exclusion = Exclusion { until: end(seconds), reason: "drain".to_owned() };
        world.edit_candidate(&name(index), |record| record.acts.exclude = Some(Annotation::Valid(exclusion)));
        return;
    }
    let Some(mut lease) = world.lease().cloned() else { return };
    match incident {
        Incident::Pause(seconds) => {
            lease.hold = Some("works".to_owned());
            lease.acts.hold_until = Some(Annotation::Valid(end(seconds)));
        }
        Incident::Transfer(index) => {
            lease.acts.transfer = Some(index.map_or(Transfer::Any, |index| Transfer::To(name(index))));
        }
        Incident::Pin(index, seconds) => {
            lease.acts.pin = Some(Annotation::Valid(Pin { candidate: name(index), until: end(seconds) }));
        }
        Incident::Exclude(..) => {}
    }
    world.put_lease(lease);
}
