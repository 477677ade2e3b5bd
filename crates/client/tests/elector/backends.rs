//! What electors rest on, asked of the store in memory and of a real API server alike.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use hustings_client::backend::{Backend, Failure, Sightings};
use hustings_client::model::{CandidateRecord, LeaseRecord, LeaseWrite, Purpose, SessionMark, Set, WireTime};
use hustings_client::testing::MemoryBackend;
use hustings_client::{Elector, Nomination, Pod};

use super::stage::{LEASE, PATIENCE, Stage, patiently};

const SECOND: i64 = 1_000_000;

#[tokio::test]
async fn leases_behave_alike_in_memory_and_on_a_real_api_server() -> Result<()> {
    leases(&MemoryBackend::new(), "default").await.context("in memory")?;
    let stage = Stage::new("backend-leases").await?;
    leases(&stage.requests(), &stage.namespace).await.context("on the API server")
}

#[tokio::test]
async fn candidates_behave_alike_in_memory_and_on_a_real_api_server() -> Result<()> {
    candidates(&MemoryBackend::new(), "default").await.context("in memory")?;
    let stage = Stage::with_candidates("backend-candidates").await?;
    candidates(&stage.requests(), &stage.namespace).await.context("on the API server")
}

#[tokio::test(start_paused = true)]
async fn a_candidate_in_memory_answers_pings_takes_up_grants_and_hands_over() -> Result<()> {
    let store = MemoryBackend::new();
    let elector = |name: &str| Elector::in_memory(&store, "default", LEASE).identity(name).binary_version("1.2");
    let first = elector("first").build()?.start();
    let second = elector("second").build()?.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let pinged = store.ping("default", "second").context("it stands")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let acked = store.candidate("default", "second").context("it stands")?;
    ensure!(acked.renew_time >= pinged.ping_time, "{acked:?}");

    let granted = store.grant("default", LEASE, "first").context("it stands")?;
    let term = patiently("the grant is taken up", first.leadership().wait_until_leader()).await?.context("a term")?;
    ensure!(term.token == granted.resource_version);
    store.prefer("default", LEASE, "second").context("it stands")?;
    patiently("the second leads", second.leadership().wait_until_leader()).await?.context("a term")?;
    ensure!(!first.leadership().is_leader());
    second.stop().await?;
    ensure!(store.candidate("default", "second").is_none());
    ensure!(store.lease("default", LEASE).is_some_and(|lease| lease.is_given_up()));
    Ok(())
}

async fn leases(store: &dyn Backend, namespace: &str) -> Result<()> {
    let mut sightings = store.watch_lease(namespace, LEASE);
    ensure!(sighted(&mut sightings).await?.is_none(), "a watch begins with how it stands");
    ensure!(matches!(store.read_lease(namespace, LEASE).await, Err(Failure::Missing)));
    let nothing = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let answer = store.write_lease(namespace, LEASE, &LeaseWrite::new(Purpose::Renew, &nothing), &nothing).await;
    ensure!(matches!(answer, Err(Failure::Missing)), "a write never creates: {answer:?}");

    let created = store.create_lease(namespace, LEASE).await?;
    let LeaseRecord { uid, resource_version, .. } = created.clone();
    ensure!(created == LeaseRecord { uid: uid.clone(), resource_version, ..LeaseRecord::as_created() });
    ensure!(!uid.is_empty() && resource_version > 0);
    ensure!(matches!(store.create_lease(namespace, LEASE).await, Err(Failure::Conflict)));
    ensure!(store.read_lease(namespace, LEASE).await? == created);
    ensure!(sighted(&mut sightings).await?.as_ref() == Some(&created));

    let write = LeaseWrite {
        holder: Set::To("a".to_owned()),
        duration_seconds: Set::To(7),
        acquire_time: Set::To(WireTime::from_micros(SECOND + 1)),
        renew_time: Set::To(WireTime::from_micros(2 * SECOND + 1)),
        transitions: Set::To(3),
        session: Set::To(SessionMark::read(Some("s/1/7"))),
        token: Set::To(resource_version),
        preferred_holder: Set::To("b".to_owned()),
        strategy: Set::To("OldestEmulationVersion".to_owned()),
        hold: Set::To("paused".to_owned()),
        key: Set::To(-4),
        ..LeaseWrite::new(Purpose::Claim, &created)
    };
    let written = store.write_lease(namespace, LEASE, &write, &created).await?;
    ensure!(written == write.applied_to(&created, written.resource_version), "{written:?}");
    ensure!(written.resource_version > resource_version);
    let stale = store.write_lease(namespace, LEASE, &write, &created).await;
    ensure!(matches!(stale, Err(Failure::Conflict)), "{stale:?}");
    let nothing = LeaseWrite::new(Purpose::Enrol, &written);
    let same = store.write_lease(namespace, LEASE, &nothing, &written).await?;
    ensure!(same == written, "a write of nothing makes no version: {same:?}");

    let release = LeaseWrite {
        holder: Set::Remove,
        duration_seconds: Set::To(1),
        session: Set::To(SessionMark::Open),
        token: Set::Keep,
        preferred_holder: Set::Remove,
        hold: Set::Remove,
        ..LeaseWrite::new(Purpose::Release, &written)
    };
    let released = store.write_lease(namespace, LEASE, &release, &written).await?;
    ensure!(released.is_given_up() && released.token == Some(resource_version) && released.hold.is_none());
    ensure!(sighted_where(&mut sightings, |lease| lease.as_ref() == Some(&released)).await?);
    let mut late = store.watch_lease(namespace, LEASE);
    ensure!(sighted(&mut late).await? == Some(released));
    Ok(())
}

async fn candidates(store: &dyn Backend, namespace: &str) -> Result<()> {
    let time = |seconds: i64| WireTime::from_micros(seconds * SECOND);
    let nomination = Nomination {
        namespace: namespace.to_owned(),
        name: "a".to_owned(),
        lease_name: LEASE.to_owned(),
        binary_version: "1.2.0".to_owned(),
        emulation_version: Some("1.1.0".to_owned()),
        strategy: None,
        priority: Some(3),
        lease_duration_seconds: 15,
        session: "s".to_owned(),
        pod: None,
    };
    let mut sightings = store.watch_candidate(namespace, "a");
    ensure!(sighted(&mut sightings).await?.is_none());
    ensure!(matches!(store.read_candidate(namespace, "a").await, Err(Failure::Missing)));
    let missing = store.renew_candidate(&nomination, "u", time(1), false).await;
    ensure!(matches!(missing, Err(Failure::Missing)), "{missing:?}");

    let created = store.create_candidate(&nomination, time(1)).await?;
    let CandidateRecord { uid, resource_version, creation_time, .. } = created.clone();
    let expected = CandidateRecord {
        name: "a".to_owned(),
        uid: uid.clone(),
        resource_version,
        creation_time,
        lease_name: LEASE.to_owned(),
        binary_version: "1.2.0".to_owned(),
        emulation_version: Some("1.1.0".to_owned()),
        priority: 3,
        renew_time: Some(time(1)),
        lease_duration_seconds: Some(15),
        session: Some("s".to_owned()),
        strategy: created.strategy.clone(),
        ..CandidateRecord::default()
    };
    ensure!(created == expected, "{created:?}");
    ensure!(creation_time > time(0) && creation_time.as_micros() % SECOND == 0);
    ensure!(matches!(store.create_candidate(&nomination, time(2)).await, Err(Failure::Conflict)));
    ensure!(store.read_candidate(namespace, "a").await? == created);
    ensure!(sighted(&mut sightings).await?.as_ref() == Some(&created));

    let other = store.renew_candidate(&nomination, "another", time(2), false).await;
    ensure!(matches!(other, Err(Failure::Conflict)), "{other:?}");
    let newer = Nomination {
        binary_version: "1.3.0".to_owned(),
        priority: Some(9),
        lease_duration_seconds: 20,
        session: "t".to_owned(),
        pod: Some(Pod { name: "a".to_owned(), uid: "p".to_owned() }),
        ..nomination.clone()
    };
    let renewed = store.renew_candidate(&newer, &uid, time(3), false).await?;
    ensure!(renewed.renew_time == Some(time(3)) && renewed.binary_version == "1.2.0" && !renewed.owned);
    ensure!(renewed.resource_version > resource_version);
    let refreshed = store.renew_candidate(&newer, &uid, time(4), true).await?;
    ensure!((refreshed.binary_version.as_str(), refreshed.lease_duration_seconds) == ("1.3.0", Some(20)));
    ensure!(refreshed.session.as_deref() == Some("t"));
    ensure!(refreshed.owned && refreshed.priority == 3, "the priority is the administrator's");

    let neighbours = [("0", LEASE), ("b", LEASE), ("c", "other")].map(|(name, lease_name)| Nomination {
        name: name.to_owned(),
        lease_name: lease_name.to_owned(),
        ..nomination.clone()
    });
    for neighbour in &neighbours {
        store.create_candidate(neighbour, time(1)).await?;
    }
    let listed = store.list_candidates(namespace, LEASE).await?;
    ensure!(listed.iter().map(|candidate| candidate.name.as_str()).eq(["0", "a", "b"]), "{listed:?}");
    ensure!(listed[1] == refreshed);

    let other = store.delete_candidate(namespace, "a", "another").await;
    ensure!(matches!(other, Err(Failure::Conflict)), "{other:?}");
    store.delete_candidate(namespace, "a", &uid).await?;
    ensure!(sighted_where(&mut sightings, Option::is_none).await?);
    ensure!(matches!(store.delete_candidate(namespace, "a", &uid).await, Err(Failure::Missing)));
    let again = store.create_candidate(&nomination, time(1)).await?;
    ensure!(again.uid != uid && again.resource_version > refreshed.resource_version, "versions grow across deletion");
    ensure!(sighted(&mut sightings).await? == Some(again));
    Ok(())
}

async fn sighted<T>(sightings: &mut Sightings<T>) -> Result<Option<T>> {
    let sighted = tokio::time::timeout(PATIENCE, sightings.next()).await.context("the watch is silent")?;
    sighted.context("a watch never ends")
}

/// Versions in between may be left out or not.
async fn sighted_where<T>(sightings: &mut Sightings<T>, like: impl Fn(&Option<T>) -> bool) -> Result<bool> {
    while !like(&sighted(sightings).await?) {}
    Ok(true)
}
