//! Many kills and freezes of leaders, with evidence and without: how long nobody leads, and whether a Lease is ever
//! taken from a holder that lives. It is no test of every run:
//! `KILLS=100 cargo test -p hustings-node --test node -- --ignored --nocapture`.

use std::{env, time::Duration};

use futures::future::join_all;
use hustings_controlplane::{PATIENCE, eventually};
use hustings_node::Interval;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use rustix::process::Signal;

use super::{
    stage::{self, Group, Stage},
    workload::{PROGRAM, Way, run_once, start_once, template},
};

/// Groups that suffer at the same time.
const GROUPS: usize = 5;

/// Shorter than the renew deadline, and longer than the silence at which the controller reads the Pod.
const FREEZE: Duration = Duration::from_secs(6);

/// What happened to one group.
#[derive(Default)]
struct Suffered {
    /// For how long nobody led after a kill.
    calm: Vec<Duration>,
    /// The same for leaders that were frozen before. The controller then expects longer pauses between renewals.
    after_freeze: Vec<Duration>,
    false_releases: usize,
}

pub(crate) async fn kills_and_freezes() {
    let kills: usize = env::var("KILLS").map_or(20, |kills| kills.parse().unwrap());
    for evidence in [true, false] {
        stage::set_evidence(evidence).await;
        let suffered = (0..GROUPS).map(async |number| {
            let group = Group::new(&format!("campaign-{evidence}-{number}")).await;
            let suffered = suffer(&group, kills.div_ceil(GROUPS)).await;
            group.end().await;
            suffered
        });
        let suffered = join_all(suffered).await;
        let gaps = |of: fn(&Suffered) -> &Vec<Duration>| {
            let mut gaps: Vec<_> = suffered.iter().flat_map(of).copied().collect();
            gaps.sort_unstable();
            let percentile = |percent: usize| gaps.get((gaps.len() * percent).div_ceil(100).saturating_sub(1));
            format!("{} kills, p50 {:?}, p95 {:?}", gaps.len(), percentile(50), percentile(95))
        };
        let false_releases: usize = suffered.iter().map(|suffered| suffered.false_releases).sum();
        println!("evidence {evidence}: nobody leads after {}", gaps(|suffered| &suffered.calm));
        println!("evidence {evidence}: after a freeze, {}", gaps(|suffered| &suffered.after_freeze));
        println!("evidence {evidence}: {false_releases} false releases");
        assert_eq!(false_releases, 0);
    }
    stage::set_evidence(true).await;
}

/// Kills the leader so many times, every second time after it was frozen for a while.
async fn suffer(group: &Group, kills: usize) -> Suffered {
    let mut suffered = Suffered::default();
    run_once(group, 3, template(group, Way::Library, "1.0.0")).await;
    for number in 0..kills {
        let is_frozen = number % 2 == 1;
        let mut leader = group.settled_leader().await;
        if is_frozen {
            freeze(group, &leader).await;
            let next = group.settled_leader().await;
            suffered.false_releases += usize::from(!next.is_same(&leader));
            leader = next;
        }
        group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
        let next = group.leader_after(&leader, PATIENCE).await;
        let intervals = Stage::shared().node.reports().intervals(&group.name);
        let killed = intervals.iter().find(|interval| interval.is_same(&leader)).unwrap();
        let gaps = if is_frozen { &mut suffered.after_freeze } else { &mut suffered.calm };
        gaps.push(killed.gap_to(&next));
        replace(group, &leader.replica).await;
    }
    suffered
}

async fn freeze(group: &Group, leader: &Interval) {
    group.signal(&leader.replica, PROGRAM, Signal::STOP).await;
    tokio::time::sleep(FREEZE).await;
    group.signal(&leader.replica, PROGRAM, Signal::CONT).await;
}

/// Puts a new pod of the same name into the place of one that has ended.
async fn replace(group: &Group, name: &str) {
    group.delete(name, &DeleteParams::default().grace_period(0)).await;
    let pods = group.api::<Pod>();
    eventually(async || match pods.get_opt(name).await {
        Ok(None) => Ok(()),
        other => Err(other),
    })
    .await
    .expect("the pod is deleted");
    start_once(group, name, template(group, Way::Library, "1.0.0")).await;
    group.wait_for_candidates(3).await;
}
