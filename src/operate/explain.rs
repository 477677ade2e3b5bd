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
mod assisted;
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

pub use self::explanation::{CandidateNote, ExplainedWait, Explanation, Prospect};
use self::scene::LONGEST_WATCH;
pub(crate) use self::scene::read_election;
pub use self::scene::{ControllerInstallation, Controllers, HolderPod, LeaseElectionFlags, Scene};
use self::situation::Situation;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::output::Output;
use crate::base::program::Program;
use crate::base::terminal::{Styles, width};
use crate::operate::check::ReadConfig;
use crate::operate::status::LeaseRow;

/// How long all reads together may take, not counting the wait for a renewal.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Explains the Lease. The exit code is 1 if it has no holder. The command waits at most `watch` for the holder to
/// renew; `None` means a little longer than a holder usually needs. `read_config` reads the flags of the controllers.
///
/// # Errors
/// Fails if the Lease or its candidates cannot be read, or if neither exists.
pub async fn run(
    access: &Access,
    lease: &str,
    watch: Option<Duration>,
    output: Output,
    read_config: ReadConfig,
) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "explain").await?.for_reading()?;
    let scene = cluster.within(limit(watch), Box::pin(scene::read(&cluster, lease, watch, read_config))).await?;
    let explanation = explain(&scene);
    output.print(&explanation, || {
        Program::current().rename(&render::render(&explanation, width(), Styles::of_stdout())).into_owned()
    })?;
    Ok(if explanation.state.is_held() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Explains a Lease. The result depends on nothing but the scene.
pub fn explain(scene: &Scene) -> Explanation {
    let situation = Situation::of(scene);
    let prospect = prospect::prospect(&situation);
    let LeaseRow { state, holder, .. } = &situation.row;
    Explanation {
        namespace: scene.namespace.clone(),
        lease: scene.name.clone(),
        state: *state,
        holder: holder.clone(),
        leader: leader::sentences(&situation),
        candidates: candidates::notes(&situation),
        prospect,
        waits: waits::waits(&situation),
        acts: acts::sentences(&situation),
        controllers: controllers::sentences(&situation),
    }
}

/// How long the command may take: the reads, and the wait for a renewal of the Lease or of a controllers' Lease.
fn limit(watch: Option<Duration>) -> Duration {
    READ_TIMEOUT.saturating_add(watch.unwrap_or(LONGEST_WATCH).max(LONGEST_WATCH))
}
