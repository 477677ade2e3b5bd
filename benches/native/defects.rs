//! What Kubernetes' controller does badly, with client-go's own candidates. Each scene has Leases of its own.

use std::time::Duration;

use anyhow::Result;
use hustings_controlplane::NativeElection;
use jiff::Timestamp;

use crate::replicas::Stands;
use crate::side::{Elector, Side};
use crate::{Samples, add};

/// How long writes fail after a crash: longer than the lease of the crashed leader.
const FAILURE: Duration = Duration::from_secs(30);

/// Plays all scenes with one controller.
pub(crate) async fn play(elector: Elector, leases: usize) -> Result<Samples> {
    let mut samples = Samples::new();
    let samples = &mut samples;
    let side = Side::start(elector, NativeElection::On).await?;

    let mut stands = Stands::client_go("tie", leases);
    let first = stands.stand(&side, &["a", "b", "c"], "1.36.0").await?;
    add(samples, "1a. candidates of one second: s until one leads", stands.led(&first).await);
    let rest = stands.rest(&side).await?;
    add(samples, "1b. candidates of one second: changes of leader per minute", rest.changes);
    add(samples, "1c. candidates of one second: writes per minute and Lease", rest.writes);

    let mut stands = Stands::client_go("preferred", leases);
    let first = stands.stand(&side, &["newer"], "1.36.0").await?;
    stands.led(&first).await;
    let joined = stands.stand(&side, &["older"], "1.35.0").await?;
    stands.asked(&side, &joined).await;
    stands.kill("older")?;
    // Its holder hands over at its renew deadline, to nobody.
    let ended = stands.ended().await;
    add(samples, "2a. the preferred holder dies: s without a leader", stands.led(&ended).await);

    let mut stands = Stands::client_go("dead", leases);
    let first = stands.stand(&side, &["newer"], "1.36.0").await?;
    stands.led(&first).await;
    stands.create_dead_candidates(&side, "1.30.0").await?;
    let rest = stands.rest(&side).await?;
    add(samples, "3a. a dead better candidate: writes per minute and Lease", rest.writes);
    add(samples, "3b. a dead better candidate: changes of leader per minute", rest.changes);

    let mut stands = Stands::client_go("clock", leases).with("--clock-offset=-1m");
    let first = stands.stand(&side, &["behind"], "1.36.0").await?;
    add(samples, "4a. a candidate whose clock is a minute behind: s until it leads", stands.led(&first).await);

    let mut stands = Stands::client_go("failing", leases);
    let first = stands.stand(&side, &["a"], "1.36.0").await?;
    stands.led(&first).await;
    let second = stands.stand(&side, &["b"], "1.36.0").await?;
    stands.stood(&side, "b", &second).await;
    side.reject_writes(true).await?;
    stands.kill("a")?;
    tokio::time::sleep(FAILURE).await;
    side.reject_writes(false).await?;
    let now = vec![Timestamp::now(); leases];
    add(
        samples,
        "5a. writes fail as a crashed leader's lease runs out: s from their end until one leads",
        stands.led(&now).await,
    );
    Ok(std::mem::take(samples))
}
