//! How soon a successor leads, and the cost at rest: direct mode with two replicas and with three and, on the same server,
//! kube-lease-manager with three. All replicas are in this process, so one clock measures the gaps. Each has a client and
//! thus connections of its own, as in a pod.

mod contest;

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::{join_all, try_join_all};
use hustings_controlplane::ControlPlane;
use tokio::time::{Instant, sleep};

use self::contest::{Contest, Kind};
use crate::Row;

/// How many times the holders of all Leases are stopped at once.
const ROUNDS: usize = 5;
/// Longer than a new replica takes to reach its steady state: it has its second connection when its first watch ends,
/// after a minute. It is not a multiple of the 2 s at which new terms renew together.
const SETTLED: Duration = Duration::from_secs(65);
/// The other library reads continuously.
const SETTLED_THERE: Duration = Duration::from_secs(3);
/// How long the benchmark counts requests.
const REST: Duration = Duration::from_mins(1);

pub(crate) async fn measure(leases: usize) -> Result<Vec<Row>> {
    ensure!(leases > 0, "there is nothing to measure without a Lease");
    eprintln!("succession: starting etcd and kube-apiserver (the first time they are built, which takes minutes)");
    let plane = ControlPlane::builder().audit(false).start().await?;
    let (ours, theirs) = (Kind::direct(), Kind::lease_manager());
    // Measure this first, while the server is idle, since these times are milliseconds.
    eprintln!("succession: release to the only standby, {ROUNDS} times after a minute");
    let mut pairs = ours.contests(&plane, leases, 2).await?;
    let released_to_one = release(&mut pairs, SETTLED).await?;
    join_all(pairs.into_iter().map(Contest::close)).await;
    eprintln!("succession: release, {ROUNDS} times after a minute");
    let mut here = ours.contests(&plane, leases, 3).await?;
    let released = release(&mut here, SETTLED).await?;

    let mut there = theirs.contests(&plane, leases, 3).await?;
    sleep(SETTLED_THERE).await;
    eprintln!("succession: a minute of rest");
    let before = [ours.requests(), theirs.requests()];
    let from = Instant::now();
    sleep(REST).await;
    let per_lease = 60.0 / from.elapsed().as_secs_f64() / f64::from(u32::try_from(leases)?);
    let after = [ours.requests(), theirs.requests()];
    let requests = |kind: usize| f64::from(after[kind].saturating_sub(before[kind])) * per_lease;

    eprintln!("succession: release, kube-lease-manager");
    let released_there = release(&mut there, SETTLED_THERE).await?;
    eprintln!("succession: crash");
    let (crashed, crashed_there) = tokio::try_join!(crash(&mut here), crash(&mut there))?;
    join_all(here.into_iter().chain(there).map(Contest::close)).await;

    let ms = 1000.0;
    Ok(vec![
        Row::new("release -> successor leads, direct, p50", quantile(&released, 50) * ms, "ms", None),
        Row::new("release -> successor leads, direct, p95", quantile(&released, 95) * ms, "ms", Some(50.0)),
        Row::new("release -> only standby leads, direct, p50", quantile(&released_to_one, 50) * ms, "ms", None),
        Row::new("release -> only standby leads, direct, p95", quantile(&released_to_one, 95) * ms, "ms", Some(50.0)),
        Row::new("release -> successor leads, kube-lease-manager, p50", quantile(&released_there, 50) * ms, "ms", None),
        Row::new("release -> successor leads, kube-lease-manager, p95", quantile(&released_there, 95) * ms, "ms", None),
        Row::new("crash -> successor leads, direct, p50", quantile(&crashed, 50), "s", None),
        Row::new("crash -> successor leads, direct, p95", quantile(&crashed, 95), "s", None),
        Row::new("crash -> successor leads, kube-lease-manager, p50", quantile(&crashed_there, 50), "s", None),
        Row::new("crash -> successor leads, kube-lease-manager, p95", quantile(&crashed_there, 95), "s", None),
        Row::new("requests at rest per Lease and minute, direct", requests(0), "", None),
        Row::new("requests at rest per Lease and minute, kube-lease-manager", requests(1), "", None),
    ])
}

/// Stops all holders at one instant, several times, each time after `rest`. Returns the seconds from the end of the
/// former term to the beginning of the next.
async fn release(contests: &mut [Contest<'_>], rest: Duration) -> Result<Vec<f64>> {
    let mut gaps = Vec::new();
    for _ in 0..ROUNDS {
        sleep(rest).await;
        let round = contests.iter_mut().map(async |contest| {
            let holder = contest.leader(None).await?.name;
            let released_at = contest.stop(&holder).await?;
            let successor = contest.leader(Some(&holder)).await?;
            anyhow::Ok(seconds(released_at, successor.at))
        });
        gaps.extend(try_join_all(round).await?);
        try_join_all(contests.iter_mut().map(Contest::join)).await?;
    }
    Ok(gaps)
}

/// Kills all holders at one instant. Returns the seconds until the successors' terms begin.
async fn crash(contests: &mut [Contest<'_>]) -> Result<Vec<f64>> {
    let crashes = contests.iter_mut().map(async |contest| {
        let holder = contest.leader(None).await?.name;
        let crashed_at = contest.kill(&holder)?;
        let successor = contest.leader(Some(&holder)).await?;
        anyhow::Ok(seconds(crashed_at, successor.at))
    });
    try_join_all(crashes).await
}

/// The seconds between two terms. They are negative if the next term began first, so that two replicas led at once.
fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(to).as_secs_f64()
}

/// The smallest sample that `percent` of all samples do not exceed.
fn quantile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
