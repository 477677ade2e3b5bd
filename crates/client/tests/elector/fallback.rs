//! Candidates without a controller: they elect among themselves, and stop it when one comes.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use hustings_client::api::ReadLease;
use hustings_client::{Campaign, Elector, lease_client};
use hustings_controlplane::ControlPlane;
use kube::Api;
use kube::api::DeleteParams;
use tokio::time::Instant;

use super::coordinated::{grant, nominated, prefer};
use super::stage::{LEASE, LONG, SHORT, Stage, eventually, leads, patiently};

/// Less than a controller is waited for, and twice what an expired Lease of [`SHORT`] and the wait of the worst take.
const AT_ONCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_candidates_elect_the_best_among_themselves_until_a_controller_comes() -> Result<()> {
    let stage = Stage::with_candidates("fallback").await?;
    let start = |identity, version| -> Result<Campaign> {
        Ok(stage.elector(identity)?.binary_version(version).timing(SHORT).build()?.start())
    };
    // Each lets the next better one go first by half a second, which a busy machine may take to begin with. So there are
    // many between the two that campaign, and the worse one is the first to find no Lease.
    let worse = start("worse", "1.3.0")?;
    stage.candidate_where("worse", "the candidate stands", |_| true).await?;
    join_all((0..9).map(|n| stage.nominate(format!("between-{n}"), "1.2.0")))
        .await
        .into_iter()
        .collect::<Result<()>>()?;
    let best = start("best", "1.1.0")?;

    // There never was a Lease, and there is no controller.
    let first_term = leads(&best.leadership()).await?;
    assert_eq!(first_term.number, 1);
    let lease = stage.lease().await?.record;
    assert_eq!((lease.holder.as_deref(), lease.token), (Some("best"), Some(first_term.token)));
    assert!(lease.enrolled, "a controller will find it");

    // A crash costs one lease: nobody waits for a controller any more.
    best.abort();
    let crashed = Instant::now();
    let second_term = leads(&worse.leadership()).await?;
    assert!(crashed.elapsed() < AT_ONCE, "took {:?}", crashed.elapsed());
    assert_eq!(second_term.number, 2);
    assert!(first_term.token < second_term.token);

    let newest = start("newest", "1.4.0")?;
    stage.candidate_where("newest", "the candidate stands", |_| true).await?;
    // A controller comes, and what it asks for is done.
    prefer(&stage, "newest").await?;
    let third_term = leads(&newest.leadership()).await?;
    assert_eq!(third_term.number, 3);
    assert!(!worse.leadership().is_leader());
    Ok(())
}

#[tokio::test]
async fn a_candidate_that_waits_for_a_controller_never_claims() -> Result<()> {
    let stage = Stage::with_candidates("fallback-off").await?;
    // By rank it would go first.
    let waiting = stage.elector("waiting")?.binary_version("1.1.0").fallback(false).build()?.start();
    stage.candidate_where("waiting", "the candidate stands", |_| true).await?;
    let other = nominated(&stage, "other", "1.2.0").await?;
    leads(&other.leadership()).await?;
    assert!(!waiting.leadership().is_leader());
    // It still hands over to the candidate that a controller names.
    prefer(&stage, "waiting").await?;
    leads(&waiting.leadership()).await?;
    assert!(!other.leadership().is_leader());
    Ok(())
}

#[tokio::test]
async fn without_the_crd_a_replica_still_leads() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let campaigns = ["a", "b"].map(|identity| -> Result<Campaign> {
        let builder = Elector::builder(lease_client(plane.config())?, "default", LEASE).identity(identity);
        Ok(builder.binary_version("1.2.0").timing(LONG).build()?.start())
    });
    let [a, b] = campaigns;
    let (a, b) = (a?, b?);
    let holder = eventually("a replica leads", || async {
        [&a, &b].into_iter().find_map(|campaign| campaign.leadership().term().map(|_| campaign.leadership()))
    })
    .await?;
    let lease = Api::<ReadLease>::namespaced(plane.admin(), "default").get(LEASE).await?.record;
    assert_eq!(lease.holder.as_deref(), Some(holder.identity()));
    assert!([&a, &b].iter().any(|campaign| !campaign.leadership().is_leader()));
    Ok(())
}

#[tokio::test]
async fn of_two_processes_of_one_identity_one_leads_and_the_other_waits() -> Result<()> {
    let stage = Stage::with_candidates("namesakes").await?;
    let first = nominated(&stage, "a", "1.2.0").await?;
    grant(&stage, "a").await?;
    let term = leads(&first.leadership()).await?;
    // Both keep the candidate, and the second sees itself named as holder.
    let second = stage.elector("a")?.binary_version("1.2.0").build()?.start();
    eventually("the second sees its name", || async {
        (second.leadership().holder().as_deref() == Some("a")).then_some(())
    })
    .await?;
    let before = stage.lease().await?.record.renew_time;
    stage.lease_where("the first renews", |lease| lease.record.renew_time > before).await?;
    assert_eq!(first.leadership().term(), Some(term));
    assert!(!second.leadership().is_leader());

    // When the first stops, its candidate is the second's: that stands again, and is elected.
    patiently("the first stops", first.stop()).await??;
    stage.candidate_where("a", "the candidate stands", |_| true).await?;
    stage.leases().delete(LEASE, &DeleteParams::default()).await.context("cannot delete the Lease")?;
    grant(&stage, "a").await?;
    leads(&second.leadership()).await?;
    Ok(())
}
