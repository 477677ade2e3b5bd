//! Terms while the API server and etcd, or one of their replicas, are unavailable. The times are short, and all other
//! tests run at the same time. `examples/losses` plays every scene with the default timing.
//!
//! The longest test of the binary is here. Tests begin in the order of their names, so this room is named to begin early.

use std::time::Duration;

use futures::future::join_all;

use crate::losses::HASTY;
use crate::losses::native::NativeGroup;
use crate::losses::outages::{Outage, suffer};
use crate::losses::replication::{self, Fault, Part, Scene};
use crate::losses::stage::{Group, Mode, Stage, Times};

/// Outlasts the outages here.
const PATIENT: Times = Times::millis(60_000, 55_000, 500);
const AWAY: Duration = Duration::from_millis(4_500);
/// Ends no term of `PATIENT`, also on a machine that stalls for a moment.
const BRIEFLY: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn outages_of_the_api_server_and_etcd_end_no_term_that_outlasts_them() {
    let stage = Stage::new().await;
    let groups = join_all((0..10).map(async |number| {
        let mode = if number % 2 == 0 { Mode::Elected } else { Mode::Direct };
        let times = if number < 5 { PATIENT } else { HASTY };
        stage.group(&format!("web-{number}"), mode, times).await
    }));
    let groups: Vec<Group> = groups.await;
    for (round, outage) in [Outage::ApiServerKilled(AWAY), Outage::EtcdPaused(AWAY)].into_iter().enumerate() {
        for (mode, times, seen) in suffer(&stage, &groups, outage.play(&stage.plane)).await {
            println!("{outage:?} {mode:?} {times:?}: {seen:?}");
            if times == PATIENT {
                assert!(seen.lasted < times.harmless(), "too slow a machine: {seen:?}");
                assert_eq!(seen.kept, seen.terms, "{outage:?} {mode:?}: a term was lost: {seen:?}");
            } else {
                assert_eq!(seen.kept, 0, "{outage:?} {mode:?}: a term outlasted its validity: {seen:?}");
                let longest = seen.lost_after.iter().max().unwrap();
                assert!(*longest < times.deadline + Duration::from_secs(15), "{outage:?} {mode:?}: {seen:?}");
            }
        }
        stage.elects(&format!("afterwards-{round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fault_of_one_server_or_member_of_etcd_ends_a_term_of_a_healthy_holder() {
    let stage = Stage::replicated().await;
    let groups: Vec<Group> = join_all((0..4).map(async |number| {
        let mode = if number % 2 == 0 { Mode::Elected } else { Mode::Direct };
        stage.group(&format!("web-{number}"), mode, PATIENT).await
    }))
    .await;
    let natives = [NativeGroup::start(&stage, "native", PATIENT).await];
    for (fault, leader) in
        [(Fault::Killed(Part::Server(0)), 0), (Fault::CutOff(Part::Member(0)), 0), (Fault::Frozen(Part::Member(1)), 1)]
    {
        let scene = Scene { fault, leader };
        let outcome = Box::pin(replication::survive(&stage, &groups, &natives, scene, BRIEFLY)).await;
        assert!(!outcome.is_stalled, "too slow a machine: {:?} without a server", outcome.without);
    }
    stage.elects("afterwards").await;
}
