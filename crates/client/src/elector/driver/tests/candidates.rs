//! What an elector does about its candidate, against the store in memory.

use std::time::Duration;

use hustings_core::model::{Nomination, Request, WireTime};
use tokio::time::sleep;

use crate::Elector;
use crate::store::{Store, candidate_of};
use crate::testing::MemoryStore;

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stands_for_another_lease_is_reported_until_it_is_gone() {
    let store = MemoryStore::new();
    let start = |lease: &str| {
        let builder = Elector::coordinated(&store, "n", lease, "1.2.0").identity("a");
        builder.build().unwrap().start()
    };
    let first = start("first");
    sleep(Duration::from_secs(1)).await;
    let second = start("second");
    let leadership = second.leadership();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(first.leadership().obstacle(), None);
    let obstacle = leadership.obstacle().unwrap();
    assert_eq!(
        obstacle.to_string(),
        "LeaseCandidate a stands for Lease first and not for n/second: give each elector an identity of its own"
    );
    first.stop().await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(leadership.obstacle(), None);
    let stands_for = store.candidate("n", "a").unwrap().lease_name;
    assert_eq!(stands_for, "second", "the elector keeps trying");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_within_minutes_of_a_deletion_names_no_owner() {
    let store = MemoryStore::new();
    let builder = Elector::coordinated(&store, "n", "l", "1.2.0").identity("a").pod("a", "unknown");
    let elector = builder.build().unwrap();
    let unowned = Box::new(Nomination { pod: None, ..elector.nomination().unwrap() });
    let _campaign = elector.start();
    sleep(Duration::from_secs(1)).await;
    let first = store.candidate("n", "a").unwrap();
    assert!(first.owned);

    let delete = Request::DeleteCandidate { candidate: "a".into(), uid: first.uid, resource_version: None };
    store.send("n", &delete).await.unwrap();
    let create = Request::CreateCandidate { nomination: unowned, renew_time: WireTime::from_micros(0) };
    let second = candidate_of(store.send("n", &create).await).unwrap();
    sleep(Duration::from_secs(10)).await;
    let refreshed = store.candidate("n", "a").unwrap();
    assert_eq!(refreshed.uid, second.uid);
    assert_ne!(refreshed.renew_time, second.renew_time, "it is refreshed");
    assert!(!refreshed.owned);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_waits_for_a_controller_never_claims_and_leads_when_one_names_it() {
    let store = MemoryStore::new();
    let candidate = |name: &str, version: &str| Elector::coordinated(&store, "n", "l", version).identity(name);
    // By rank it would claim first.
    let waiting = candidate("waiting", "1.1.0").fallback(false).build().unwrap().start();
    sleep(Duration::from_mins(2)).await;
    assert!(store.lease("n", "l").is_none_or(|lease| lease.holder.is_none()), "nobody claims the Lease");

    let other = candidate("other", "1.2.0").build().unwrap().start();
    let term = other.leadership().wait_until_leader().await.unwrap();
    assert!(!waiting.leadership().is_leader());
    store.prefer("n", "l", "waiting").unwrap();
    term.cancelled().await;
    waiting.leadership().wait_until_leader().await.unwrap();
    assert!(!other.leadership().is_leader());
}
