//! Explores every order in which three contenders can read, write and observe. Whatever their keys, each hand-over goes
//! to a higher key than the one on the Lease. So the Lease never goes in a circle, and the highest key holds it in the
//! end. A holder without a key, or one that does not hand over, keeps the Lease. A contender without a key, with an
//! unknown key or with an equal one gets the Lease only when it is free.
//!
//! Some are electors of an older version. They know no keys, and keep the annotations that a predecessor left on the
//! Lease. client-go does the same, and takes every Lease that is free or has expired by its own observation.
//!
//! One step is one of these: one contender observes the newest version; one request is executed and answered; the work
//! of one elector ends; a key becomes known. Time passes only when no other step is possible.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_types, reason = "the order in which states are found does not matter, and they have none")]

#[path = "preference_model/world.rs"]
mod world;

use std::collections::HashSet;

use hustings_core::model::{LeaseRecord, SessionMark, SessionStamp};

use crate::world::{KINDS, Kind, Step, World, explore};

/// The session of a former holder.
fn predecessor() -> SessionMark {
    SessionMark::Term(SessionStamp { session: "s-z".to_owned(), term: 1, seconds: 15 })
}

/// Leases that a predecessor has left, with and without a key: given up, or released by client-go. A release by client-go
/// under the session of a predecessor frees no Lease.
fn free_leases() -> impl Iterator<Item = LeaseRecord> {
    [SessionMark::Open, SessionMark::Absent].into_iter().flat_map(|session| {
        [None, Some(2)].map(|key| LeaseRecord {
            resource_version: 1,
            duration_seconds: 1,
            session: session.clone(),
            key,
            ..LeaseRecord::default()
        })
    })
}

/// The free Leases to try, if one of `first` claims first. Most contenders overwrite the traces of a predecessor, so
/// one Lease suffices for them.
fn traces<const N: usize>(first: [Kind; N]) -> impl Iterator<Item = LeaseRecord> {
    let are_left = first.into_iter().any(|kind| matches!(kind, Kind::Older | Kind::ClientGo));
    free_leases().take(if are_left { usize::MAX } else { 1 })
}

/// A world in which `a` leads, and the others start.
fn led_by_the_first(kinds: [Kind; 3], lease: LeaseRecord) -> World {
    let mut world = World::new(kinds, lease);
    world.decide(0);
    while let Some(step) = world.steps().into_iter().find(|step| matches!(step, Step::Show(0) | Step::Answer(0, _))) {
        world.take(step);
    }
    assert_eq!(world.lease().holder.as_deref(), Some("a"));
    world.decide(1);
    world.decide(2);
    world
}

/// The pairs of kinds, each in one order: two contenders differ only in their names.
fn pairs() -> impl Iterator<Item = [Kind; 2]> {
    KINDS.into_iter().flat_map(|b| KINDS.into_iter().filter(move |c| b <= *c).map(move |c| [b, c]))
}

#[test]
fn no_three_contenders_pass_the_lease_in_a_circle_and_the_highest_key_has_it_in_the_end() {
    let mut states = 0;
    for (a, [b, c]) in KINDS.into_iter().flat_map(|a| pairs().map(move |pair| (a, pair))) {
        for lease in traces([a]) {
            let (ends, seen) = explore(led_by_the_first([a, b, c], lease.clone()));
            states += seen;
            // A contender does not take the Lease from an equal. So a holder with the highest key keeps it, and so does
            // a holder that shows no key.
            let highest = [a, b, c].into_iter().filter_map(Kind::key).max();
            let is_kept = a == Kind::Keyless || a == Kind::ClientGo || a.key() == Some(3);
            assert!(
                !is_kept || ends == HashSet::from(["a".to_owned()]),
                "{ends:?} with {a:?}, {b:?}, {c:?}, {highest:?}"
            );
        }
    }
    println!("{states} states");
}

#[test]
fn the_highest_key_holds_the_lease_in_the_end_whichever_contender_claims_it_first_unless_the_holder_keeps_it() {
    let mut states = 0;
    // The previous test covers a key that becomes known late, and three different keys.
    let is_chosen = |kinds: &[Kind]| !kinds.iter().any(|kind| matches!(kind, Kind::Unsynced(_) | Kind::Key(3)));
    let triples = pairs().flat_map(|[b, c]| KINDS.into_iter().filter(move |a| *a <= b).map(move |a| [a, b, c]));
    for [a, b, c] in triples.filter(|kinds| is_chosen(kinds)) {
        for lease in traces([a, b, c]) {
            let mut world = World::new([a, b, c], lease.clone());
            (0..3).for_each(|who| world.decide(who));
            let (ends, seen) = explore(world);
            states += seen;
            assert!(!ends.is_empty(), "{a:?}, {b:?}, {c:?}");
        }
    }
    println!("{states} states");
}

/// client-go keeps the annotations of the former holder. In the worst case it appears to be a holder with a low key.
/// Each contender then asks it once, and it keeps the Lease.
#[test]
fn a_holder_that_ignores_keys_keeps_the_lease_and_is_asked_at_most_once() {
    for (session, most_requests) in [(SessionMark::Absent, 0), (predecessor(), 3)] {
        let lease = LeaseRecord {
            resource_version: 1,
            holder: Some("client-go".to_owned()),
            duration_seconds: 15,
            session,
            key: Some(0),
            ..LeaseRecord::default()
        };
        let mut world = World::new([Kind::Key(1), Kind::Key(2), Kind::Key(2)], lease);
        (0..3).for_each(|who| world.decide(who));
        let (ends, _) = explore(world.clone());
        assert_eq!(ends, HashSet::from(["client-go".to_owned()]));
        while let Some(step) = world.steps().first().copied() {
            world.take(step);
        }
        assert!(world.hand_over_requests <= most_requests, "{} hand-over requests", world.hand_over_requests);
        assert_eq!(world.lease().resource_version, 1 + u64::from(most_requests > 0), "one write stands");
    }
}
