//! The scenes of `tests/cluster/losses` in full: `cargo run --example losses`, or with `-- --only SCENE` some of them.
//!
//! Progress is on standard error, and the tables on standard output. A scene that finds two leaders, a token that did not
//! grow, or a Lease without a holder in the end panics. The exit code is 0 only if no scene did.

#![allow(clippy::unwrap_used, reason = "a scene fails like a test")]

mod scenes;
mod table;

#[path = "../../tests/cluster/losses/adding.rs"]
mod adding;
#[allow(dead_code, reason = "the tests of fencing need the rest")]
#[path = "../../tests/cluster/fencing/stage.rs"]
mod fenced;
#[path = "../../tests/cluster/losses/freezes.rs"]
mod freezes;
#[allow(dead_code, reason = "the tests of acts need the rest")]
#[path = "../../tests/cluster/losses/lockset.rs"]
mod lockset;
#[path = "../../tests/cluster/losses/many.rs"]
mod many;
#[path = "../../tests/cluster/losses/native.rs"]
mod native;
#[path = "../../tests/cluster/losses/outages.rs"]
mod outages;
#[path = "../../tests/kit/replica.rs"]
mod replica;
#[path = "../../tests/cluster/losses/replication.rs"]
mod replication;
#[path = "../../tests/cluster/losses/stage.rs"]
mod stage;
#[path = "../../tests/cluster/losses/wire.rs"]
mod wire;
#[path = "../../tests/cluster/losses/worker.rs"]
mod worker;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// Real processes, killed and frozen, on a control plane that is killed and frozen
#[derive(Parser)]
struct Flags {
    /// Runs only these scenes
    #[arg(long, value_enum)]
    only: Vec<Scene>,
    /// Skips so many scenes of replication
    #[arg(long, default_value_t = 0)]
    skip: usize,
}

/// The scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// Holders that are frozen past their lease, and killed
    Freezes,
    /// An API server that is killed, and an etcd that is frozen
    Outages,
    /// One of three members of etcd or of two API servers that dies, freezes or is cut off
    Replication,
    /// A process with 1,000 elections that is killed
    Many,
    /// A set to which the leader adds
    Lockset,
}

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(code) = replica::run_as_hustings() {
        return code;
    }
    if worker::carry_out_orders() {
        return ExitCode::SUCCESS;
    }
    let flags = Flags::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // Dropping the scenes ends every process that they started.
        tokio::select! {
            () = play(&flags) => ExitCode::SUCCESS,
            _ = tokio::signal::ctrl_c() => ExitCode::from(130),
        }
    })
}

async fn play(flags: &Flags) {
    for scene in Scene::value_variants() {
        if !flags.only.is_empty() && !flags.only.contains(scene) {
            continue;
        }
        eprintln!("{scene:?}");
        match scene {
            Scene::Freezes => scenes::freezes().await,
            Scene::Outages => scenes::outages().await,
            Scene::Replication => scenes::replication(flags.skip).await,
            Scene::Many => scenes::many().await,
            Scene::Lockset => scenes::lockset().await,
        }
    }
}
