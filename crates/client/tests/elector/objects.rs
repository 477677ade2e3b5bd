//! Objects as a real server stores them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hustings_client::api::ReadLease;
use hustings_client::clock::SystemClock;
use hustings_client::store::{Failure, Kubernetes, Request, Store as _, lease_of};
use hustings_client::{WireTime, lease_client};
use hustings_controlplane::{ControlPlane, NativeElection};
use hustings_core::model::{LeaseRecord, LeaseWrite, Purpose, Set};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::stage::{LEASE, LONG, Stage, leads};

#[tokio::test]
async fn a_lease_is_created_empty_and_only_once() -> Result<()> {
    let stage = Stage::new("objects-create").await?;
    let created = stage.create_lease(LEASE).await?;
    let expected = LeaseRecord {
        uid: created.uid.clone(),
        resource_version: created.resource_version,
        ..LeaseRecord::as_created()
    };
    assert_eq!(created, expected);
    assert!(!created.is_given_up(), "to others it counts as held");
    let again = stage.create_lease(LEASE).await;
    assert!(matches!(again, Err(Failure::Conflict)), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_write_is_conditional_never_creates_and_keeps_unknown_fields() -> Result<()> {
    let stage = Stage::new("objects-write").await?;
    let missing = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite::new(Purpose::Enrol, &missing);
    let answer = stage.write_lease(LEASE, &write).await;
    assert!(matches!(answer, Err(Failure::Missing)), "{answer:?}");

    let created = stage.create_lease(LEASE).await?;
    stage.edit_lease(&json!({ "metadata": { "annotations": { "example.com/theirs": "kept" } } })).await?;
    let mut write = LeaseWrite::new(Purpose::Renew, &created);
    write.renew_time = Set::To(WireTime::from_micros(1_000_001));
    let answer = stage.write_lease(LEASE, &write).await;
    assert!(matches!(answer, Err(Failure::Conflict)), "{answer:?}");

    let current = stage.lease().await?.record;
    write.resource_version = current.resource_version;
    let written = stage.write_lease(LEASE, &write).await?;
    assert_eq!(written, write.applied_to(&current, written.resource_version));
    let annotations = stage.lease().await?.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get("example.com/theirs").map(String::as_str), Some("kept"));
    Ok(())
}

#[tokio::test]
async fn every_field_that_is_written_is_read_back_and_the_native_copies_are_not_kept() -> Result<()> {
    let stage = Stage::new("objects-fields").await?;
    let current = stage.create_lease(LEASE).await?;
    let mut write = LeaseWrite::new(Purpose::Prefer, &current);
    write.holder = Set::To("a".to_owned());
    write.duration_seconds = Set::To(7);
    write.acquire_time = Set::To(WireTime::from_micros(1_000_001));
    write.renew_time = Set::To(WireTime::MAX);
    write.transitions = Set::To(3);
    write.token = Set::To(12);
    write.preferred_holder = Set::To("b".to_owned());
    write.strategy = Set::To("OldestEmulationVersion".to_owned());
    write.hold = Set::To("disagreement".to_owned());
    write.key = Set::To(-4);
    write.reason = Set::To("a test".to_owned());
    let store = stage.store();
    let answer = store.send(&stage.namespace, &Request::write_lease(LEASE, write.clone())).await;
    let written = lease_of(answer)?;
    assert_eq!(written, write.applied_to(&current, written.resource_version));
    assert_eq!(stage.lease().await?.reason(), Some("a test"));
    assert_eq!(store.keeps_native_fields(), Some(false), "the feature gate is off here");

    let mut emptied = LeaseWrite::new(Purpose::Release, &written);
    emptied.holder = Set::Remove;
    emptied.preferred_holder = Set::Remove;
    emptied.strategy = Set::Remove;
    emptied.hold = Set::Remove;
    emptied.key = Set::Remove;
    let answer = stage.write_lease(LEASE, &emptied).await?;
    assert_eq!(answer, emptied.applied_to(&written, answer.resource_version));
    Ok(())
}

#[tokio::test]
async fn a_server_with_the_gate_on_keeps_the_native_copies_but_never_with_a_null_holder() -> Result<()> {
    let plane = ControlPlane::builder().native_election(NativeElection::On).start().await?;
    let store = Kubernetes::new(lease_client(plane.config())?, Arc::new(SystemClock), Duration::from_secs(10));
    let created = lease_of(store.send("default", &Request::create_lease(LEASE)).await)?;
    let write_lease =
        async |write: LeaseWrite| lease_of(store.send("default", &Request::write_lease(LEASE, write)).await);
    // Another client has set the holder to null.
    let leases = Api::<ReadLease>::namespaced(plane.admin(), "default");
    let null = Patch::Merge(json!({ "spec": { "holderIdentity": null } }));
    let current = leases.patch(LEASE, &PatchParams::default(), &null).await?.record;
    assert_eq!(current.uid, created.uid);

    let mut write = LeaseWrite::new(Purpose::Hold, &current);
    write.strategy = Set::To("example.com/Mine".to_owned());
    let held = write_lease(write).await?;
    assert_eq!(store.keeps_native_fields(), Some(true));
    let native = Api::<Lease>::namespaced(plane.admin(), "default").get(LEASE).await?.spec.unwrap_or_default();
    assert_eq!(native.holder_identity.as_deref(), Some(""), "beside a null the server would end itself");

    let mut write = LeaseWrite::new(Purpose::Grant, &held);
    write.holder = Set::To("a".to_owned());
    let granted = write_lease(write).await?;
    let mut write = LeaseWrite::new(Purpose::Prefer, &granted);
    write.preferred_holder = Set::To("b".to_owned());
    let preferred = write_lease(write).await?;
    assert_eq!(leases.get(LEASE).await?.record.native.preferred_holder.as_deref(), Some("b"));

    let mut write = LeaseWrite::new(Purpose::Release, &preferred);
    write.holder = Set::Remove;
    write.preferred_holder = Set::Remove;
    write_lease(write).await?;
    let released = leases.get(LEASE).await?;
    assert_eq!((released.record.holder, released.record.native.preferred_holder), (None, None));
    Ok(())
}

#[tokio::test]
async fn a_lease_with_an_absurd_time_is_read_and_claimed() -> Result<()> {
    let stage = Stage::new("objects-absurd").await?;
    stage.create_lease(LEASE).await?;
    let patch = json!({
        "metadata": { "annotations": { "hustings.io/session": "open" } },
        "spec": {
            "holderIdentity": "", "leaseTransitions": 2_147_483_647,
            "acquireTime": "9999-12-31T23:59:59.999999Z", "renewTime": "9999-12-31T23:59:59.999999Z",
        },
    });
    let edited = stage.edit_lease(&patch).await?;
    assert_eq!(edited.record.renew_time, Some(WireTime::MAX));
    let campaign = stage.direct("a")?.timing(LONG).build()?.start();
    let term = leads(&campaign.leadership()).await?;
    assert!(term.number >= 2_147_483_647);
    assert_ne!(stage.lease().await?.record.renew_time, Some(WireTime::MAX));
    Ok(())
}
