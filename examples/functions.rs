//! A component with several functions that only the leader runs, and one that every replica runs.
//!
//! Run it twice, then stop the one that leads:
//!
//! ```sh
//! cargo run --example functions -- first
//! cargo run --example functions -- second
//! ```
//!
//! With a number of seconds as a second argument, the main function fails after that time. Its replica then gives the term
//! up and stands aside for a while, and the other replica leads.

use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use hustings_client::{Elector, Leadership, OnFailure, Term, lease_client};
use kube::Config;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().context("give a name")?;
    let fails_after = arguments.next().map(|seconds| seconds.parse().map(Duration::from_secs)).transpose()?;
    let config = Config::infer().await?;

    let shutdown = CancellationToken::new();
    let elector = Elector::direct(lease_client(config.clone())?, &config.default_namespace, "example-functions")
        .identity(name)
        .shutdown(&shutdown)
        .build()?;
    tokio::spawn(print_leader(elector.leadership()));

    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        shutdown.cancel();
    });

    // All functions have stopped before the elector gives the Lease up.
    elector
        .function("reconcile", move |term| reconcile(term, fails_after))
        .function_with("report", OnFailure::KeepTerm, report)
        .run()
        .await?;
    println!("released");
    Ok(())
}

/// The main function of the component. An error ends the term.
async fn reconcile(term: Term, fails_after: Option<Duration>) -> Result<(), Error> {
    println!("reconciling, token {}", term.token);
    let failure = async {
        match fails_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = term.cancelled() => {}
        () = failure => return Err(Error::other("on purpose")),
    }
    println!("reconciling no more");
    Ok(())
}

/// A minor function. An error is logged, and the term continues.
async fn report(term: Term) -> Result<(), Error> {
    println!("reporting, token {}", term.token);
    Err(ErrorKind::ConnectionRefused.into())
}

/// The work of every replica: here it prints the leader.
async fn print_leader(leadership: Leadership) {
    let mut changes = pin!(leadership.holder_changes());
    while let Some(change) = changes.next().await {
        println!("{} leads", change.holder);
    }
}
