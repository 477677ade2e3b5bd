//! Operations too short for a clock, timed in batches; and electors without a server.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hustings_client::{Campaign, Elector, Leadership};
use kube::client::Body;

use super::Row;

/// How many batches there are of each operation, and how many operations in each.
const BATCHES: usize = 201;
pub(super) const BATCH: u32 = 1000;

/// Times batches and returns the median of an operation, in nanoseconds: `prepare` is not counted, `batch` is one of
/// `BATCH` operations.
pub(super) async fn nanoseconds<T>(prepare: impl Fn() -> T, batch: impl AsyncFn(T)) -> f64 {
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let prepared = prepare();
        let start = Instant::now();
        batch(prepared).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[BATCHES / 2].as_secs_f64() * 1e9 / f64::from(BATCH)
}

pub(super) fn row(what: &'static str, nanoseconds: f64, target: Option<f64>) -> Row {
    Row::new(what, nanoseconds, "ns", target)
}

/// A leadership of an elector whose elections are switched off, so that every check behaves as in a term. It lasts as
/// long as the other value.
pub(super) async fn leads() -> Result<(Leadership, Campaign)> {
    let campaign = elector()?.start();
    let leadership = campaign.leadership();
    let term = tokio::time::timeout(Duration::from_secs(10), leadership.wait_until_leader()).await;
    term.ok().flatten().context("it does not lead")?;
    Ok((leadership, campaign))
}

/// A leadership of an elector that has not started.
pub(super) fn follows() -> Result<Leadership> {
    Ok(elector()?.leadership())
}

fn elector() -> Result<Elector> {
    let nobody = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::convert::Infallible>>()
    });
    let client = kube::Client::new(nobody, "default");
    Ok(Elector::direct(client, "default", "l").identity("a").enabled(false).build()?)
}
