//! How long nobody leads at each change of leader among processes of client-go, with assistance and without. It is no test of
//! every run:
//! `KILLS=24 KILLS_WITHOUT_EVIDENCE=8 cargo test -p hustings-node --test node -- figures:: --ignored --nocapture`.
//!
//! In each round one leader is lost, except that an update may replace several.

use std::time::Duration;

use futures::future::join_all;
use hustings_node::Interval;
use rustix::process::Signal;

use super::{
    campaign::{delay, number_of_kills, percentile},
    contenders::Contender,
    stage::Stage,
    steps::{Step, Steps},
    workload::{PROGRAM, all_run, assist, create_deployment, renewed_twice, update},
};

/// Groups that change at the same time.
const GROUPS: usize = 2;

/// How long nobody may lead.
const LIMIT: Duration = Duration::from_mins(3);

/// How a leader is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// `kill -9` of one of three replicas.
    Crash,
    /// A rolling update of three replicas. Their program does not release the Lease.
    Update,
    /// `kill -9` of the only replica, whose container starts again.
    Restart,
}

impl Change {
    const ALL: [Self; 3] = [Self::Crash, Self::Update, Self::Restart];

    const fn replicas(self) -> usize {
        if matches!(self, Self::Restart) { 1 } else { 3 }
    }
}

/// Times in seconds, by what they measure.
#[derive(Default)]
struct Times {
    unheld: Vec<f64>,
    /// From the start of the next leader's process.
    since_start: Vec<f64>,
    /// From the release to the next leader.
    retry: Vec<f64>,
}

pub(crate) async fn client_go_with_assistance_and_alone() {
    println!("| leader | change | nobody led for | | since its start | | of that, client-go's own retry | |");
    println!("|---|---|---|---|---|---|---|---|");
    for contender in [Contender::Assisted, Contender::ClientGo] {
        let rounds = number_of_kills(contender, 12).div_ceil(GROUPS);
        contender.set_up().await;
        for change in Change::ALL {
            let groups = (0..GROUPS).map(|number| measure(contender, change, number, rounds));
            let mut all = Times::default();
            for Times { unheld, since_start, retry } in join_all(groups).await {
                all.unheld.extend(unheld);
                all.since_start.extend(since_start);
                all.retry.extend(retry);
            }
            let (unheld, since_start, retry) = (row(all.unheld), row(all.since_start), row(all.retry));
            println!("| {} | {change:?} | {unheld} | {since_start} | {retry} |", contender.name());
        }
    }
}

/// The 50th and the 95th percentile, and how many times there are.
fn row(mut times: Vec<f64>) -> String {
    times.sort_unstable_by(f64::total_cmp);
    if times.is_empty() {
        return "- | 0".to_owned();
    }
    format!("{:.1} / {:.1} | {}", percentile(&times, 50), percentile(&times, 95), times.len())
}

async fn measure(contender: Contender, change: Change, number: usize, rounds: usize) -> Times {
    let mut times = Times::default();
    if rounds == 0 {
        return times;
    }
    let group = contender.group(&format!("figures-{contender:?}-{change:?}-{number}").to_lowercase()).await;
    let steps = Steps::watch(&group);
    create_deployment(&group, change.replicas(), contender.template(&group).await).await;
    group.leader().await;
    if contender == Contender::Assisted {
        assist(&group, "").await;
    }
    for round in 0..rounds {
        all_run(&group, change.replicas()).await;
        renewed_twice(&group).await;
        tokio::time::sleep(delay(round)).await;
        let leader = group.leader().await;
        match change {
            Change::Crash | Change::Restart => group.signal(&leader.replica, PROGRAM, Signal::KILL).await,
            Change::Update => update(&group, &format!("1.{}.0", round + 1)).await,
        }
        group.leader_after(&leader, LIMIT).await;
        group.leader().await;
        let intervals = Stage::shared().node.reports().intervals(&group.name);
        let first = intervals.iter().position(|interval| interval.is_same(&leader)).unwrap();
        for pair in intervals[first..].windows(2) {
            times.add(&steps, &pair[0], &pair[1]);
        }
    }
    group.end().await;
    times
}

impl Times {
    fn add(&mut self, steps: &Steps, former: &Interval, next: &Interval) {
        let since_start = Duration::from_nanos(next.led_before.saturating_sub(next.process_began()));
        let since_loss = former.gap_to(next);
        self.unheld.push(since_loss.as_secs_f64());
        if since_start < since_loss {
            self.since_start.push(since_start.as_secs_f64());
        }
        self.retry.extend(steps.between(former, next).get(&Step::Retry));
    }
}
