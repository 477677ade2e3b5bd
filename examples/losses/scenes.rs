//! The scenes with production timing, and their counts.

use std::time::Duration;

use futures::future::join_all;
use hustings_controlplane::RequestCount;

use crate::freezes::{check, freeze, kill};
use crate::lockset::{Gap, Lockset, Protection};
use crate::many;
use crate::native::NativeGroup;
use crate::outages::{Outage, suffer};
use crate::replica::candidate_account;
use crate::replication;
use crate::stage::{Group, Mode, Stage, Times};
use crate::table::{self, seconds, times};

const DEFAULT: Times = Times::millis(15_000, 10_000, 2_000);
/// The number of pairs. A controller elects half of them, and half are in direct mode.
const GROUPS: usize = 10;
/// How long a server is unavailable before the load balancer switches to the other. Together with the time until
/// clients notice, this is less than the renew deadline less two retry periods.
const FAIL_OVER: Duration = Duration::from_secs(4);
/// The number of native pairs, in addition to `GROUPS`.
const NATIVE_GROUPS: usize = 4;
/// The most times that a scene is played, until the machine does not stall during it.
const ATTEMPTS: usize = 3;
const FREEZES: usize = 4;
const ELECTIONS: usize = 1000;
const FORCED_RUNS: usize = 5;
const TROUBLES: usize = 15;

pub(crate) async fn outages() {
    let stage = Stage::new().await;
    let groups = groups(&stage).await;
    let mut rows = Vec::new();
    let api_server = [0, 12, 30].map(|away| Outage::ApiServerKilled(Duration::from_secs(away)));
    let etcd = [5, 12, 20, 40].map(|pause| Outage::EtcdPaused(Duration::from_secs(pause)));
    for (round, outage) in api_server.into_iter().chain(etcd).enumerate() {
        eprintln!("{outage:?}");
        for (mode, _, seen) in suffer(&stage, &groups, outage.play(&stage.plane)).await {
            let what = match outage {
                Outage::EtcdPaused(_) => "etcd paused",
                Outage::ApiServerKilled(_) => "API server killed",
            };
            let anew = seen.led_after.len();
            rows.push(vec![
                what.to_owned(),
                seconds(seen.lasted),
                format!("{mode:?}").to_lowercase(),
                format!("{} of {}", seen.kept, seen.terms),
                times(seen.lost_after),
                times(seen.led_after),
                if anew == 0 { "-".to_owned() } else { format!("{} of {anew}", seen.same) },
            ]);
        }
        stage.elects(&format!("afterwards-{round}")).await;
    }
    let header = [
        "what",
        "away, s",
        "mode",
        "terms kept",
        "not leader after, s",
        "led again after its end, s",
        "by the same replica",
    ];
    table::print(&header, &rows);
}

/// Every term must last, whichever part fails. A scene during which the machine stalls proves nothing, and is repeated.
pub(crate) async fn replication(skip: usize) {
    let stage = Stage::replicated().await;
    let groups = groups(&stage).await;
    let natives =
        (0..NATIVE_GROUPS).map(async |number| NativeGroup::start(&stage, &format!("native-{number}"), DEFAULT).await);
    let natives: Vec<NativeGroup> = join_all(natives).await;
    let mut rows = Vec::new();
    for scene in replication::all().into_iter().skip(skip) {
        for _ in 0..ATTEMPTS {
            eprintln!("{scene:?}");
            let outcome = replication::survive(&stage, &groups, &natives, scene, FAIL_OVER).await;
            let of = |[kept, terms]: [usize; 2]| format!("{kept} of {terms}");
            rows.push(vec![
                format!("{:?}", scene.fault),
                scene.leader.to_string(),
                seconds(outcome.without),
                of(outcome.kept),
                of(outcome.native),
                if outcome.is_stalled { "stalled".to_owned() } else { "-".to_owned() },
            ]);
            if !outcome.is_stalled || outcome.kept[0] == outcome.kept[1] {
                break;
            }
        }
    }
    stage.elects("afterwards").await;
    let header =
        ["fault", "leading member of etcd", "without a server, s", "terms kept", "native terms kept", "machine"];
    table::print(&header, &rows);
}

pub(crate) async fn freezes() {
    let stage = Stage::new().await;
    let groups = groups(&stage).await;
    let played = join_all(groups.iter().map(async |group| {
        let mut thaws = Vec::new();
        for _ in 0..FREEZES {
            thaws.push(freeze(&stage, group).await);
            eprintln!("{}: resumed", group.lease);
        }
        let (name, killed, without_holder) = kill(&stage, group).await;
        let terms = check(group, &[(&name, killed)], &thaws).len();
        assert_eq!(terms, FREEZES + 2, "{}", group.log());
        (group.mode, thaws, without_holder)
    }));
    let played = played.await;
    let rows = [Mode::Elected, Mode::Direct].map(|mode| {
        let of_mode = || played.iter().filter(|(of, ..)| *of == mode);
        let thaws = || of_mode().flat_map(|(_, thaws, _)| thaws);
        vec![
            format!("{mode:?}").to_lowercase(),
            thaws().count().to_string(),
            times(thaws().map(|thaw| thaw.without_holder).collect()),
            times(thaws().map(|thaw| thaw.said_after).collect()),
            of_mode().count().to_string(),
            times(of_mode().map(|(_, _, without_holder)| *without_holder).collect()),
        ]
    });
    let header = [
        "mode",
        "freezes",
        "successor after, s",
        "resumed holder reports the end after, s",
        "kills",
        "successor after, s",
    ];
    table::print(&header, &rows);
}

pub(crate) async fn many() {
    let stage = Stage::new().await;
    let mut rows = Vec::new();
    for mode in [Mode::Elected, Mode::Direct] {
        let namespace = stage.plane.create_namespace("many").await.unwrap();
        let kubeconfig = candidate_account(&stage.plane, &namespace, "web").await;
        let taken = many::kill(&stage.plane, &namespace, &kubeconfig, ELECTIONS, mode, DEFAULT).await;
        let mut after = taken.after;
        after.sort_unstable();
        let writes = |resource: &str, conflicts: bool| -> u64 {
            let of = |count: &&RequestCount| {
                let is_write = ["PATCH", "PUT", "POST"].contains(&count.verb.as_str());
                count.resource == resource && is_write && (count.code == 409) == conflicts
            };
            taken.requests.iter().filter(of).map(|count| count.count).sum()
        };
        rows.push(vec![
            format!("{mode:?}").to_lowercase(),
            seconds(after[0]),
            seconds(after[after.len() / 2]),
            seconds(after[after.len() - 1]),
            writes("leases", false).to_string(),
            writes("leases", true).to_string(),
            (writes("leasecandidates", false) + writes("leasecandidates", true)).to_string(),
        ]);
        for count in taken.requests.iter().filter(|count| count.resource.starts_with("lease")) {
            eprintln!("{mode:?}: {count:?}");
        }
    }
    let header = [
        "mode",
        "first held again, s",
        "half of them, s",
        "all, s",
        "writes of Leases",
        "conflicts",
        "writes of candidates",
    ];
    table::print(&header, &rows);
}

pub(crate) async fn lockset() {
    let lockset = Lockset::new().await;
    let forced = Protection::ALL.map(async |protection| {
        let mut row = vec![format!("{protection:?}")];
        for gap in Gap::ALL {
            let (mut acknowledged, mut lost, mut runs) = (0, 0, 0);
            for _ in 0..FORCED_RUNS {
                let outcome = lockset.force(protection, gap).await;
                eprintln!("{protection:?} {gap:?}: {outcome:?}");
                if let Some(loses) = protection.loses(gap) {
                    assert_eq!(outcome.lost > 0, loses, "{protection:?} {gap:?}: {outcome:?}");
                }
                acknowledged += outcome.acknowledged;
                lost += outcome.lost;
                runs += usize::from(outcome.lost > 0);
            }
            row.push(format!("{lost} of {acknowledged}, in {runs} of {FORCED_RUNS} runs"));
        }
        row
    });
    let header: Vec<String> = Gap::ALL.map(|gap| format!("{gap:?}: lost")).to_vec();
    let header: Vec<&str> = ["protection"].into_iter().chain(header.iter().map(String::as_str)).collect();
    table::print(&header, &join_all(forced).await);

    let troubled = Protection::ALL.map(async |protection| {
        let outcome = lockset.trouble(protection, TROUBLES).await;
        eprintln!("{protection:?}: {outcome:?}");
        if protection.is_marked() {
            assert_eq!(outcome.lost, 0, "{protection:?}: {outcome:?}");
        }
        vec![
            format!("{protection:?}"),
            TROUBLES.to_string(),
            outcome.acknowledged.to_string(),
            outcome.refused.to_string(),
            outcome.lost.to_string(),
        ]
    });
    table::print(&["protection", "troubles", "acknowledged", "rejected", "lost"], &join_all(troubled).await);
}

async fn groups(stage: &Stage) -> Vec<Group> {
    let groups = (0..GROUPS).map(async |number| {
        let mode = if number % 2 == 0 { Mode::Elected } else { Mode::Direct };
        stage.group(&format!("web-{number}"), mode, DEFAULT).await
    });
    join_all(groups).await
}
