//! The in-memory store and a real API server behave alike in everything that electors rely on.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use hustings_client::Elector;
use hustings_client::model::{CandidateRecord, LeaseRecord, LeaseWrite, Purpose, SessionMark, Set, WireTime};
use hustings_client::store::{
    CandidatePatch, Failure, Nomination, Object, Pod, Request, Store, Versions, candidate_of, lease_of,
};
use hustings_client::testing::MemoryStore;

use super::stage::{LEASE, PATIENCE, Stage, patiently};

const SECOND: i64 = 1_000_000;

#[tokio::test]
async fn leases_behave_alike_in_memory_and_on_a_real_api_server() -> Result<()> {
    leases(&MemoryStore::new(), "default").await.context("in memory")?;
    let stage = Stage::new("backend-leases").await?;
    leases(&stage.store(), &stage.namespace).await.context("on the API server")
}

#[tokio::test]
async fn candidates_behave_alike_in_memory_and_on_a_real_api_server() -> Result<()> {
    candidates(&MemoryStore::new(), "default").await.context("in memory")?;
    let stage = Stage::with_candidates("backend-candidates").await?;
    candidates(&stage.store(), &stage.namespace).await.context("on the API server")
}

#[tokio::test(start_paused = true)]
async fn a_candidate_in_memory_answers_pings_takes_up_grants_and_hands_over() -> Result<()> {
    let store = MemoryStore::new();
    let elector = |name: &str| Elector::coordinated(&store, "default", LEASE, "1.2").identity(name);
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

async fn leases(store: &dyn Store, namespace: &str) -> Result<()> {
    let send = async |request: Request| lease_of(store.send(namespace, &request).await);
    let (read, create) = (|| Request::read_lease(LEASE), || Request::create_lease(LEASE));
    let write_on = |write: &LeaseWrite| Request::write_lease(LEASE, write.clone());
    let mut versions = store.watch_lease(namespace, LEASE);
    ensure!(sighted(&mut versions).await?.is_none(), "a watch begins with how it stands");
    ensure!(matches!(send(read()).await, Err(Failure::Missing)));
    let nothing = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let answer = send(write_on(&LeaseWrite::new(Purpose::Renew, &nothing))).await;
    ensure!(matches!(answer, Err(Failure::Missing)), "a write never creates: {answer:?}");

    let created = send(create()).await?;
    let LeaseRecord { uid, resource_version, .. } = created.clone();
    ensure!(created == LeaseRecord { uid: uid.clone(), resource_version, ..LeaseRecord::as_created() });
    ensure!(!uid.is_empty() && resource_version > 0);
    ensure!(matches!(send(create()).await, Err(Failure::Conflict)));
    ensure!(send(read()).await? == created);
    ensure!(sighted(&mut versions).await?.as_ref() == Some(&created));

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
    let written = send(write_on(&write)).await?;
    ensure!(written == write.applied_to(&created, written.resource_version), "{written:?}");
    ensure!(written.resource_version > resource_version);
    let stale = send(write_on(&write)).await;
    ensure!(matches!(stale, Err(Failure::Conflict)), "{stale:?}");
    let nothing = LeaseWrite::new(Purpose::Enrol, &written);
    let same = send(write_on(&nothing)).await?;
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
    let released = send(write_on(&release)).await?;
    ensure!(released.is_given_up() && released.token == Some(resource_version) && released.hold.is_none());
    ensure!(sighted_where(&mut versions, |lease| lease.as_ref() == Some(&released)).await?);
    let mut late = store.watch_lease(namespace, LEASE);
    ensure!(sighted(&mut late).await? == Some(released));
    Ok(())
}

async fn candidates(store: &dyn Store, namespace: &str) -> Result<()> {
    let time = |seconds: i64| WireTime::from_micros(seconds * SECOND);
    let send = async |request: Request| candidate_of(store.send(namespace, &request).await);
    let read = || Request::ReadCandidate { candidate: "a".into() };
    let create = |nomination: &Nomination, renew_time| Request::CreateCandidate {
        nomination: Box::new(nomination.clone()),
        renew_time,
    };
    let renew = |uid: &str, time| Request::patch_candidate("a", uid, CandidatePatch::Renew(time));
    let delete = async |uid: &str| {
        let request = Request::DeleteCandidate { candidate: "a".into(), uid: uid.to_owned(), resource_version: None };
        store.send(namespace, &request).await
    };
    let nomination = Nomination {
        name: "a".to_owned(),
        lease_name: LEASE.to_owned(),
        binary_version: "1.2.0".to_owned(),
        emulation_version: Some("1.1.0".to_owned()),
        priority: Some(3),
        lease_duration_seconds: 15,
        session: "s".to_owned(),
        ..Nomination::default()
    };
    let mut versions = store.watch_candidate(namespace, "a");
    ensure!(sighted(&mut versions).await?.is_none());
    ensure!(matches!(send(read()).await, Err(Failure::Missing)));
    let missing = send(renew("u", time(1))).await;
    ensure!(matches!(missing, Err(Failure::Missing)), "{missing:?}");

    let created = send(create(&nomination, time(1))).await?;
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
    ensure!(matches!(send(create(&nomination, time(2))).await, Err(Failure::Conflict)));
    ensure!(send(read()).await? == created);
    ensure!(sighted(&mut versions).await?.as_ref() == Some(&created));

    let other = send(renew("another", time(2))).await;
    ensure!(matches!(other, Err(Failure::Conflict)), "{other:?}");
    let newer = Nomination {
        binary_version: "1.3.0".to_owned(),
        priority: Some(9),
        lease_duration_seconds: 20,
        session: "t".to_owned(),
        pod: Some(Pod { name: "a".to_owned(), uid: "p".to_owned() }),
        ..nomination.clone()
    };
    let renewed = send(renew(&uid, time(3))).await?;
    ensure!(renewed.renew_time == Some(time(3)) && renewed.binary_version == "1.2.0" && !renewed.owned);
    ensure!(renewed.resource_version > resource_version);
    let refresh = CandidatePatch::Refresh { nomination: Box::new(newer), renew_time: time(4) };
    let refreshed = send(Request::patch_candidate("a", &uid, refresh)).await?;
    ensure!((refreshed.binary_version.as_str(), refreshed.lease_duration_seconds) == ("1.3.0", Some(20)));
    ensure!(refreshed.session.as_deref() == Some("t"));
    ensure!(refreshed.owned && refreshed.priority == 3, "the priority is the administrator's");

    let neighbours = [("0", LEASE), ("b", LEASE), ("c", "other")].map(|(name, lease_name)| Nomination {
        name: name.to_owned(),
        lease_name: lease_name.to_owned(),
        ..nomination.clone()
    });
    for neighbour in &neighbours {
        send(create(neighbour, time(1))).await?;
    }
    let list = Request::ListCandidates { lease_name: LEASE.to_owned() };
    let Some(Object::Candidates(listed)) = store.send(namespace, &list).await? else { bail!("no list") };
    ensure!(listed.iter().map(|candidate| candidate.name.as_str()).eq(["0", "a", "b"]), "{listed:?}");
    ensure!(listed[1] == refreshed);

    let other = delete("another").await;
    ensure!(matches!(other, Err(Failure::Conflict)), "{other:?}");
    ensure!(delete(&uid).await?.is_none());
    ensure!(sighted_where(&mut versions, Option::is_none).await?);
    ensure!(matches!(delete(&uid).await, Err(Failure::Missing)));
    let again = send(create(&nomination, time(1))).await?;
    ensure!(again.uid != uid && again.resource_version > refreshed.resource_version, "versions grow across deletion");
    ensure!(sighted(&mut versions).await? == Some(again));
    Ok(())
}

async fn sighted<T>(versions: &mut Versions<T>) -> Result<Option<T>> {
    let sighted = tokio::time::timeout(PATIENCE, versions.next()).await.context("the watch is silent")?;
    sighted.context("a watch never ends")
}

/// Waits for a matching version. A watch may skip the versions before it.
async fn sighted_where<T>(versions: &mut Versions<T>, like: impl Fn(&Option<T>) -> bool) -> Result<bool> {
    while !like(&sighted(versions).await?) {}
    Ok(true)
}
