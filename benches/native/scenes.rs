//! The life of some Leases, from the first election to the loss of all controllers.

use anyhow::Result;
use hustings_controlplane::NativeElection;

use crate::replicas::Stands;
use crate::side::{Elector, Side};
use crate::{Samples, add};

/// The replicas of each Lease at the beginning.
const REPLICAS: [&str; 3] = ["a", "b", "c"];

/// Plays all scenes with one controller, in the order in which a Lease lives through them.
pub(crate) async fn play(elector: Elector, mut stands: Stands) -> Result<Samples> {
    let mut samples = Samples::new();
    let samples = &mut samples;

    // A Deployment starts its replicas in one second. Under Kubernetes' controller such replicas never rest.
    let side = Side::start(elector, NativeElection::On).await?;
    let mut of_one_second = stands.anew();
    let first = of_one_second.stand(&side, &REPLICAS, "1.36.0").await?;
    add(samples, "1a. first election, replicas of one second: s until one leads", of_one_second.led(&first).await);
    let rest = of_one_second.rest(&side).await?;
    add(samples, "2a. at rest, replicas of one second: writes per minute and Lease", rest.writes);
    add(samples, "2b. at rest, replicas of one second: changes of leader per minute and Lease", rest.changes);
    let killed = of_one_second.kill_leaders().await?;
    add(
        samples,
        "4b. kill -9 of the leader, replicas of one second: s without a leader",
        of_one_second.led(&killed).await,
    );
    drop((of_one_second, side));

    // The others rest under either controller, so that each scene begins with a leader which nobody has asked to hand over.
    let side = Side::start(elector, NativeElection::On).await?;
    let first = stands.stand_apart(&side, &REPLICAS, "1.36.0").await?;
    add(samples, "1b. first election, replicas of different seconds: s until one leads", stands.led(&first).await);
    let rest = stands.rest(&side).await?;
    add(samples, "2c. at rest: writes per minute and Lease", rest.writes);
    add(samples, "2d. at rest: changes of leader per minute and Lease", rest.changes);

    // A Lease without a leader is no sample: there is no holder to ask.
    let has_leader = stands.has_leader();
    let joined = stands.stand(&side, &["older"], "1.35.0").await?;
    let (asked, led) = tokio::join!(stands.asked(&side, &joined), stands.led_by("older", &joined));
    let of_leaders = |all: Vec<f64>| {
        let all = all.into_iter().zip(&has_leader).filter(|(_, has_leader)| **has_leader);
        all.map(|(seconds, _)| seconds).collect()
    };
    add(samples, "3a. an older version joins: s until the holder is asked to hand over", of_leaders(asked));
    add(samples, "3b. an older version joins: s until it leads", of_leaders(led));
    add(samples, "3c. an older version joins: s without a leader", of_leaders(stands.last_gaps()));

    let killed = stands.kill_leaders().await?;
    add(samples, "4a. kill -9 of the leader: s without a leader", stands.led(&killed).await);
    let stopped = stands.stop_leaders().await?;
    add(samples, "5a. SIGTERM of the leader: s without a leader", stands.led(&stopped).await);

    let joined = stands.stand(&side, &["still-older"], "1.34.0").await?;
    side.restart_controllers().await?;
    add(
        samples,
        "6a. an older version joins while the controllers restart: s until it leads",
        stands.led_by("still-older", &joined).await,
    );

    stands.create_dead_candidates(&side, "1.30.0").await?;
    let rest = stands.rest(&side).await?;
    add(samples, "7a. a dead better candidate: writes per minute and Lease", rest.writes);
    add(samples, "7b. a dead better candidate: changes of leader per minute and Lease", rest.changes);
    stands.delete_dead_candidates(&side).await?;

    if elector == Elector::Hustings {
        side.kill_controllers()?;
        let joined = stands.stand(&side, &["oldest"], "1.33.0").await?;
        let led = stands.led_by("oldest", &joined).await;
        add(samples, "8a. an older version joins after the loss of all controllers: s until it leads", led);
    }
    drop(side);

    // With the gate off, Kubernetes' controller does not run.
    if elector == Elector::Hustings {
        let side = Side::start(elector, NativeElection::Served).await?;
        let mut stands = stands.anew();
        let first = stands.stand(&side, &["a", "b"], "1.36.0").await?;
        add(samples, "9a. gate off, first election: s until one leads", stands.led(&first).await);
        let killed = stands.kill_leaders().await?;
        add(samples, "9b. gate off, kill -9 of the leader: s without a leader", stands.led(&killed).await);
    }
    Ok(std::mem::take(samples))
}
