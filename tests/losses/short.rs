//! The scenes with short times, as every run of the tests plays them.

use std::time::Duration;

use futures::future::{join, join_all};

use super::freezes::{self, Thaw};
use super::outages::{Outage, suffer};
use super::stage::{Group, Mode, Stage, Times};

/// Outlasts the outages here.
const PATIENT: Times = Times::millis(60_000, 55_000, 1_000);
/// Does not.
const HASTY: Times = Times::millis(5_000, 4_000, 500);
const AWAY: Duration = Duration::from_secs(5);

#[tokio::test]
async fn outages_of_the_api_server_and_of_etcd_cost_no_term_that_outlasts_them_and_are_recovered_from() {
    let stage = Stage::new().await;
    let groups = join_all((0..10).map(async |number| {
        let mode = if number % 2 == 0 { Mode::Elected } else { Mode::Direct };
        let times = if number < 5 { PATIENT } else { HASTY };
        stage.group(&format!("web-{number}"), mode, times).await
    }));
    let groups: Vec<Group> = groups.await;
    for (round, outage) in [Outage::ApiServerKilled(AWAY), Outage::EtcdPaused(AWAY)].into_iter().enumerate() {
        for (mode, times, seen) in suffer(&stage, &groups, outage).await {
            println!("{outage:?} {mode:?} {times:?}: {seen:?}");
            if times == PATIENT {
                assert!(seen.lasted < times.harmless(), "too slow a machine: {seen:?}");
                assert_eq!(seen.kept, seen.terms, "{outage:?} {mode:?}: a term was lost: {seen:?}");
            } else {
                assert_eq!(seen.kept, 0, "{outage:?} {mode:?}: a term outlasted its validity: {seen:?}");
                let longest = seen.lost_after.iter().max().unwrap();
                assert!(*longest < times.deadline + Duration::from_secs(2), "{outage:?} {mode:?}: {seen:?}");
            }
        }
        stage.elects(&format!("afterwards-{round}")).await;
    }
}

#[tokio::test]
async fn no_two_are_awake_and_lead_where_holders_are_frozen_past_their_lease_and_killed() {
    let stage = Stage::new().await;
    let freezes = [Mode::Elected, Mode::Direct].map(async |mode| {
        let group = stage.group(&format!("frozen-{mode:?}").to_lowercase(), mode, HASTY).await;
        // The second time it is the successor's turn.
        let thaws = [freezes::freeze(&stage, &group).await, freezes::freeze(&stage, &group).await];
        assert_eq!(freezes::check(&group, &[], &thaws).len(), 3, "{}", group.log());
        for Thaw { without_holder, said_after, .. } in thaws {
            println!(
                "{mode:?}: led {without_holder:.1?} after the freezing, said no {said_after:.1?} after the thawing"
            );
        }
    });
    let kills = [Mode::Elected, Mode::Direct].map(async |mode| {
        let group = stage.group(&format!("killed-{mode:?}").to_lowercase(), mode, HASTY).await;
        let (name, at, without_holder) = freezes::kill(&stage, &group).await;
        assert_eq!(freezes::check(&group, &[(&name, at)], &[]).len(), 2, "{}", group.log());
        println!("{mode:?}: led {without_holder:.1?} after the kill");
    });
    join(join_all(freezes), join_all(kills)).await;
}
