//! Terms while real processes are killed and frozen. The times are short, and all other tests run at the same time.
//! `examples/losses` plays every scene with the default timing.

mod adding;
mod clocks;
mod freezes;
pub(crate) mod lockset;
mod many;
pub(crate) mod native;
pub(crate) mod outages;
#[allow(dead_code, reason = "the example plays the rest of the scenes")]
pub(crate) mod replication;
pub(crate) mod stage;
mod wire;
mod worker;

use std::time::Duration;

use futures::future::{join, join_all};
use hustings_controlplane::shared;

use self::freezes::Thaw;
use self::lockset::{Gap, Lockset, Protection};
use self::stage::{Group, Mode, Stage, Times};
use crate::replica::{assert_one_awake_at_a_time, until};

/// A term with these times ends while its holder is frozen, or while the API server is unavailable.
pub(crate) const HASTY: Times = Times::millis(5_000, 4_000, 500);
/// A lease with these times outlasts a short stall of the machine, and is short enough to wait for its expiry.
const BRIEF: Times = Times::millis(10_000, 8_000, 500);

#[tokio::test(flavor = "multi_thread")]
async fn no_two_lead_at_once_when_holders_are_frozen_past_their_lease_and_killed() {
    let stage = Stage::new().await;
    let freezes = [Mode::Elected, Mode::Direct].map(async |mode| {
        let group = stage.group(&format!("frozen-{mode:?}").to_lowercase(), mode, HASTY).await;
        // The second freeze hits the successor.
        let thaws = [freezes::freeze(&stage, &group).await, freezes::freeze(&stage, &group).await];
        let terms = freezes::check(&group, &[], &thaws).len();
        // Reads the log while the last frozen holder still reports it.
        let reported = async || (lapses(&group) >= thaws.len()).then_some(());
        until("the frozen holder reports that it was not renewed", || group.log(), reported).await;
        assert!((3..=1 + lapses(&group)).contains(&terms), "{}", group.log());
        for Thaw { without_holder, said_after, .. } in thaws {
            println!(
                "{mode:?}: led {without_holder:.1?} after the freezing, said no {said_after:.1?} after the thawing"
            );
        }
    });
    let kills = [Mode::Elected, Mode::Direct].map(async |mode| {
        let group = stage.group(&format!("killed-{mode:?}").to_lowercase(), mode, HASTY).await;
        let (name, at, without_holder) = freezes::kill(&stage, &group).await;
        let terms = freezes::check(&group, &[(&name, at)], &[]).len();
        assert!((2..=2 + lapses(&group)).contains(&terms), "{}", group.log());
        println!("{mode:?}: led {without_holder:.1?} after the kill");
    });
    join(join_all(freezes), join_all(kills)).await;
}

/// How many times a holder could not renew in time, because it was frozen or because the machine was too busy.
fn lapses(group: &Group) -> usize {
    group.log().matches("no renewal succeeded in time").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_under_the_policy_and_each_lesser_protection_has_its_gap() {
    let lockset = Lockset::new().await;
    let cells = Protection::ALL.into_iter().flat_map(|protection| Gap::ALL.map(|gap| (protection, gap)));
    let forced = join_all(cells.map(async |(protection, gap)| {
        let mut outcome = lockset.force(protection, gap).await;
        // On a slow machine, the gate may have closed before the request is sent. Then the scene did not happen.
        for _ in 0..2 {
            if protection == Protection::Gate && gap == Gap::InTheNetwork && outcome.lost == 0 {
                outcome = lockset.force(protection, gap).await;
            }
        }
        println!("{protection:?} {gap:?}: {outcome:?}");
        if let Some(loses) = protection.loses(gap) {
            assert_eq!(outcome.lost > 0, loses, "{protection:?} {gap:?}: {outcome:?}");
        }
    }));
    // Frozen, killed and cut off, at a random point.
    let troubled = async {
        let outcome = lockset.trouble(Protection::GateAndPolicy, 3).await;
        assert!(outcome.acknowledged > 0 && outcome.lost == 0, "{outcome:?}");
        println!("in trouble: {} acknowledged, {} refused, none lost", outcome.acknowledged, outcome.refused);
    };
    join(forced, troubled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_elections_of_a_process_that_is_killed_are_held_again_by_another() {
    const ELECTIONS: usize = 50;
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("many").await.unwrap();
    let taken = many::kill(&plane, &namespace, &plane.kubeconfig(), ELECTIONS, Mode::Direct, BRIEF).await;
    let longest = taken.after.iter().max().unwrap();
    println!("all were held after {longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_are_days_apart_never_make_two_leaders() {
    if let Some(obstacle) = clocks::obstacle() {
        println!("left out: no time namespaces here: {obstacle}");
        return;
    }
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("clocks").await.unwrap();
    // The holder's clock is ahead of its successor's, or behind.
    join_all([true, false].map(async |is_first_shifted| {
        let lease = if is_first_shifted { "ahead" } else { "behind" };
        let start =
            |suffix, is_shifted| clocks::start(&plane, &plane.kubeconfig(), &namespace, lease, suffix, is_shifted);
        let first = start("a", is_first_shifted);
        first.says("leading", 0).await;
        let second = start("b", !is_first_shifted);
        second.says("observed", 0).await;
        let thaw = freezes::freeze_holder(&first, &second).await;
        // Each holds it for exactly the lease duration.
        let waited = thaw.without_holder;
        assert!(waited > Duration::from_secs(2) && waited < Duration::from_mins(1), "{lease}: {waited:?}");
        assert!(second.process.stop().await.unwrap().success(), "{}", second.log());
        first.says("leading", 1).await;
        let terms = assert_one_awake_at_a_time(&[&first, &second], &[], &[thaw.frozen]);
        assert_eq!(terms.len(), 3, "{terms:?}");
    }))
    .await;
}
