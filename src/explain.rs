//! `hustings explain` explains who leads and why, why the others do not, and what would happen if the holder died now.
//!
//! [`explain`] is a pure function from a [`Scene`], which contains the command's observations. Each prediction is the
//! controller's own decision in virtual time. These rules hold:
//!
//! - The command changes nothing.
//! - It never compares another machine's timestamp with the local clock to judge whether a holder lives. It watches the
//!   Lease for about one renewal instead.
//! - It fails only if it cannot read the Lease or its candidates. It reports the state of other unreadable objects as
//!   unknown.

mod acts;
mod candidates;
mod controllers;
mod explanation;
mod leader;
mod prospect;
mod render;
mod scene;
mod situation;
#[cfg(test)]
mod tests;
mod waits;
mod words;

use std::process::ExitCode;
use std::time::Duration;

pub use self::explanation::{
    CandidateNote, Controller, ControllerFlags, Controllers, Explanation, HolderPod, Prospect, Scene, Wait, explain,
};
pub(crate) use self::scene::read_election;
use crate::access::Access;
use crate::cluster::Cluster;
use crate::program::Program;
use crate::terminal::{Styles, print, width};

/// How long all reads together may take. The wait for a renewal comes on top.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// What to explain, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Lease.
    pub lease: String,
    /// How long to wait for a renewal of the holder; `None` for about one renewal.
    pub watch: Option<Duration>,
    /// The output format.
    pub output: Output,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Sentences for people.
    Text,
    /// One JSON object for scripts.
    Json,
}

impl Config {
    /// How long the command may take: the reads, and the wait for a renewal.
    fn limit(&self) -> Duration {
        READ_TIMEOUT.saturating_add(self.watch.unwrap_or(READ_TIMEOUT))
    }
}

/// Explains the Lease. The exit code is 1 if it has no holder.
///
/// # Errors
/// Fails if the Lease or its candidates cannot be read, or if neither exists.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "explain").await?.for_reading()?;
    let scene = cluster.within(config.limit(), Box::pin(scene::read(&cluster, &config.lease, config.watch))).await?;
    let explanation = explain(&scene);
    print(&match config.output {
        Output::Text => {
            Program::current().rename(&render::render(&explanation, width(), Styles::of_stdout())).into_owned()
        }
        Output::Json => serde_json::to_string_pretty(&explanation)? + "\n",
    })?;
    Ok(if explanation.state.is_held() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
