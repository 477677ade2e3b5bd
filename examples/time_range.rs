//! Replicas that all collect the same data points. Exactly one replica exports each point.
//!
//! Every replica collects a point every half second. A while later, the replica whose time range contains the point's
//! timestamp exports it, whichever replica leads by then:
//!
//! ```sh
//! cargo run --example time_range -- first
//! cargo run --example time_range -- second
//! ```
//!
//! With `fail-open` as a second argument, the last leader continues for up to a minute if the API server is
//! unreachable. It would rather export a point twice than lose it.

use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use hustings_client::{Elector, FailOpen, Leadership, lease_client};
use jiff::Timestamp;
use kube::Config;
use tokio::signal::unix::{SignalKind, signal};

/// Every replica collects points at the same times, whole multiples of this.
const INTERVAL_MILLIS: i64 = 500;

/// How long a point waits for its export.
const DELAY: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("give a name")?;
    let fail_open = match arguments.next().as_deref() {
        Some("fail-open") => FailOpen::Bounded(Duration::from_mins(1)),
        _ => FailOpen::Off,
    };
    let config = Config::infer().await?;
    let elector = Elector::direct(lease_client(config.clone())?, &config.default_namespace, "example-time-range")
        .identity(name)
        .fail_open(fail_open)
        .build()?;
    let campaign = elector.start();
    let collecting = tokio::spawn(collect(campaign.leadership()));
    tokio::spawn(reset_on_change(campaign.leadership()));

    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    // This replica still exports the points collected until now, even if it no longer leads.
    campaign.stop().await?;
    tokio::time::sleep(2 * DELAY).await;
    collecting.abort();
    Ok(())
}

async fn collect(leadership: Leadership) {
    let millis = Timestamp::now().as_millisecond();
    let mut next = millis - millis.rem_euclid(INTERVAL_MILLIS);
    loop {
        next += INTERVAL_MILLIS;
        let wait = u64::try_from(next - Timestamp::now().as_millisecond()).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(wait)).await;
        tokio::spawn(export(leadership.clone(), next));
    }
}

/// Exports the point of this time, if this replica owns it.
async fn export(leadership: Leadership, millis: i64) {
    tokio::time::sleep(DELAY).await;
    let Ok(time) = Timestamp::from_millisecond(millis) else { return };
    if leadership.contains(time) {
        let doubtful = if leadership.failing_open() { ", maybe not alone" } else { "" };
        println!("exported {millis}{doubtful}");
    }
}

/// State that is kept from point to point is void once another replica has exported in between.
async fn reset_on_change(leadership: Leadership) {
    let mut changes = std::pin::pin!(leadership.holder_changes());
    while let Some(change) = changes.next().await {
        println!("{} holds the Lease, after {}", change.holder, change.former.as_deref().unwrap_or("nobody known"));
    }
}
