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
    gaps: Vec<Duration>,
    freezes: usize,
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
        let mut gaps: Vec<Duration> = suffered.iter().flat_map(|suffered| suffered.gaps.clone()).collect();
        gaps.sort_unstable();
        let percentile = |percent: usize| gaps[(gaps.len() * percent).div_ceil(100).saturating_sub(1)];
        let sum = |count: fn(&Suffered) -> usize| suffered.iter().map(count).sum::<usize>();
        let false_releases = sum(|suffered| suffered.false_releases);
        println!(
            "evidence {evidence}: {} kills, nobody leads for p50 {:?}, p95 {:?}, at most {:?}; {} freezes; {false_releases} false releases",
            gaps.len(),
            percentile(50),
            percentile(95),
            percentile(100),
            sum(|suffered| suffered.freezes),
        );
        assert_eq!(false_releases, 0);
    }
    stage::set_evidence(true).await;
}

/// Kills the leader so many times, and freezes it for a while between.
async fn suffer(group: &Group, kills: usize) -> Suffered {
    let mut suffered = Suffered::default();
    run_once(group, 3, template(group, Way::Library, "1.0.0")).await;
    for _ in 0..kills {
        let leader = group.settled_leader().await;
        freeze(group, &leader).await;
        suffered.freezes += 1;
        suffered.false_releases += usize::from(!group.leader().await.is_same(&leader));

        let leader = group.settled_leader().await;
        let pod = group.pod(&leader.replica).await;
        Stage::shared().node.signal(&pod, PROGRAM, Signal::KILL).unwrap();
        let killed = Stage::shared().node.witness().intervals(&group.name);
        let killed = killed.into_iter().find(|interval| interval.is_same(&leader)).unwrap();
        let next = group.leader_after(&killed, PATIENCE).await;
        suffered.gaps.push(killed.gap_to(&next));
        replace(group, &leader.replica).await;
    }
    suffered
}

async fn freeze(group: &Group, leader: &Interval) {
    let pod = group.pod(&leader.replica).await;
    Stage::shared().node.signal(&pod, PROGRAM, Signal::STOP).unwrap();
    tokio::time::sleep(FREEZE).await;
    Stage::shared().node.signal(&pod, PROGRAM, Signal::CONT).unwrap();
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
