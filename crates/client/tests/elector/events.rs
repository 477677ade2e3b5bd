//! Events report the beginning and the end of a term. No term depends on them.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, Config};

use super::stage::{LEASE, Stage, eventually, leads, patiently};

#[tokio::test]
async fn the_beginning_and_the_end_of_a_term_are_published_in_the_words_of_client_go() -> Result<()> {
    let stage = Stage::with_open_lease("events").await?;
    // Longer than the `reportingInstance` of an event may be.
    let identity = "a".repeat(200);
    let campaign = stage.direct(&identity)?.events(stage.client.clone()).build()?.start();
    leads(&campaign.leadership()).await?;
    patiently("it stops", campaign.stop()).await??;
    let events = Api::<Event>::namespaced(stage.client.clone(), &stage.namespace);
    let told = eventually("both are published", || async {
        let mut told = events.list(&ListParams::default()).await.ok()?.items;
        told.sort_by_key(|event| event.event_time.clone());
        (told.len() == 2).then_some(told)
    })
    .await?;
    let notes: Vec<&str> = told.iter().filter_map(|event| event.note.as_deref()).collect();
    assert_eq!(notes, [format!("{identity} became leader"), format!("{identity} stopped leading")]);
    let uid = Api::<Lease>::namespaced(stage.client.clone(), &stage.namespace).get(LEASE).await?.metadata.uid;
    for event in told {
        assert_eq!(event.reason.as_deref(), Some("LeaderElection"));
        assert_eq!(event.regarding.and_then(|lease| lease.uid), uid, "kubectl describe looks for the uid");
    }
    Ok(())
}

#[tokio::test]
async fn an_elector_leads_and_stops_although_no_event_can_be_published() -> Result<()> {
    let stage = Stage::with_open_lease("events-none").await?;
    // No program listens on this port.
    let nobody = Client::try_from(Config::new("http://127.0.0.1:9".parse()?))?;
    let campaign = stage.direct("a")?.events(nobody).build()?.start();
    leads(&campaign.leadership()).await?;
    patiently("it stops", campaign.stop()).await??;
    assert!(stage.lease().await?.record.is_given_up());
    Ok(())
}
