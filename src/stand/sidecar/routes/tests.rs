//! The routes for the program, over the store in memory and in virtual time.

use hustings_client::testing::MemoryStore;
use hustings_client::{Campaign, Elector};
use serde_json::Value;
use tokio::time::Instant;

use super::super::testing::spawn_follow;
use super::*;
use crate::serve::http::testing::{ask, json_of, text_of};

/// A sidecar of `a`, whose elector has not started yet.
struct Served {
    elector: Elector,
    updates: Arc<Updates>,
    router: Router,
    stop: CancellationToken,
}

fn served(store: &MemoryStore) -> Served {
    let elector = Elector::direct(store, "n", "l").identity("a").build().unwrap();
    let stop = CancellationToken::new();
    let updates = Arc::new(Updates::new(elector.leadership(), stop.clone()));
    let router = program(&updates, &stop);
    Served { elector, updates, router, stop }
}

/// Starts a rival that leads.
async fn rival(store: &MemoryStore) -> Campaign {
    let rival = Elector::direct(store, "n", "l").identity("b").build().unwrap().start();
    rival.leadership().wait_until_leader().await.unwrap();
    rival
}

#[tokio::test(start_paused = true)]
async fn each_route_names_the_holder_of_the_moment() {
    let store = MemoryStore::new();
    let Served { elector, router, .. } = served(&store);
    let none = json!({ "holder": null, "identity": "a", "isLeader": false, "term": null, "token": null,
        "validForSeconds": 0.0 });
    assert_eq!(json_of(ask(&router, "/").await).await, (200, json!({ "name": "" })));
    assert_eq!(json_of(ask(&router, "/leader").await).await, (200, none));
    let campaign = elector.start();
    campaign.leadership().wait_until_leader().await.unwrap();
    assert_eq!(json_of(ask(&router, "/").await).await, (200, json!({ "name": "a" })));
    let (code, leader) = json_of(ask(&router, "/leader").await).await;
    assert_eq!(
        (code, &leader["holder"], &leader["isLeader"], &leader["token"]),
        (200, &json!("a"), &json!(true), &json!(1))
    );
    assert_eq!(ask(&router, "/").await.headers()[header::CACHE_CONTROL], "no-store");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_own_term_with_its_limit_or_with_the_sidecar() {
    let store = MemoryStore::new();
    let Served { elector, router, updates, stop } = served(&store);
    let rival = rival(&store).await;
    let _campaign = elector.start();
    spawn_follow(&updates, &crate::serve::health::Health::new());
    for (query, seconds) in [("", 30), ("?timeout=2s", 2), ("?timeout=5m", 300)] {
        let began = Instant::now();
        let (code, leader) = json_of(ask(&router, &format!("/leader/wait{query}")).await).await;
        assert_eq!((code, &leader["holder"], began.elapsed().as_secs()), (503, &json!("b"), seconds), "{query}");
    }
    let waiting = tokio::spawn({
        let router = router.clone();
        async move { json_of(ask(&router, "/leader/wait?timeout=5m").await).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    rival.stop().await.unwrap();
    let (code, leader) = waiting.await.unwrap();
    assert_eq!((code, &leader["isLeader"]), (200, &json!(true)));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(ask(&router, "/leader/wait").await.status(), StatusCode::OK, "it leads");

    let store = MemoryStore::new();
    let Served { router, stop: sidecar, .. } = served(&store);
    sidecar.cancel();
    let began = Instant::now();
    assert_eq!(ask(&router, "/leader/wait").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(stop);
}

#[tokio::test]
async fn a_wait_that_is_invalid_is_refused_with_its_reason() {
    let Served { router, .. } = served(&MemoryStore::new());
    for (query, expected) in [
        ("timeout=301s", r#"timeout: "301s" is longer than 5m"#),
        ("timeout=soon", r#"timeout: "soon" is not a duration: use a form such as 15s, 5m or 500ms"#),
    ] {
        let answer = json_of(ask(&router, &format!("/leader/wait?{query}")).await).await;
        assert_eq!(answer, (400, json!({ "error": expected })));
    }
    let (code, answer) = json_of(ask(&router, "/leader/wait?timeout=1s&timeout=2s").await).await;
    assert_eq!(code, 400);
    assert!(answer["error"].as_str().unwrap().starts_with("timeout: "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn streams_show_each_change_and_end_with_the_sidecar() {
    let store = MemoryStore::new();
    let Served { elector, router, updates, stop } = served(&store);
    let rival = rival(&store).await;
    let campaign = elector.start();
    spawn_follow(&updates, &crate::serve::health::Health::new());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let [events, names] = [ask(&router, "/events").await, ask(&router, "/sse").await];
    assert_eq!(events.headers()[header::CACHE_CONTROL], "no-store");
    assert_eq!(events.headers()[header::CONTENT_TYPE], "text/event-stream");
    let [events, names] = [events, names].map(|stream| tokio::spawn(text_of(stream)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    rival.stop().await.unwrap();
    campaign.leadership().wait_until_leader().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The holder is the same in the second term of this replica.
    store.edit_lease("n", "l", |lease| lease.holder = None);
    tokio::time::sleep(Duration::from_mins(1)).await;
    stop.cancel();
    let (events, names) = (events.await.unwrap(), names.await.unwrap());
    let fields = |text: &str, name: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect()
    };
    let kinds = fields(&events, "event: ");
    assert_eq!(kinds.first().map(String::as_str), Some("observed"), "{events}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "leading").count(), 2, "{events}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "stopped").count(), 1, "{events}");
    assert_eq!(
        (fields(&events, "retry: "), fields(&names, "retry: ")),
        (vec!["1000".to_owned()], vec!["1000".to_owned()])
    );
    let numbers: Vec<u64> = fields(&events, "id: ").iter().map(|id| id.parse().unwrap()).collect();
    assert!(numbers.len() == kinds.len() && numbers.is_sorted(), "{events}");
    assert!(events.matches("\n:\n").count() >= 3, "comments during the silent minute: {events}");
    let first: Value = serde_json::from_str(&fields(&events, "data: ")[0]).unwrap();
    assert_eq!((&first["holder"], &first["isLeader"]), (&json!("b"), &json!(false)));
    let data: Vec<Value> = fields(&names, "data: ").iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let holders: Vec<_> = data.iter().map(|data| data["name"].as_str().unwrap()).collect();
    assert_eq!((holders[0], holders.contains(&"a")), ("b", true), "{names}");
    assert!(holders.windows(2).all(|pair| pair[0] != pair[1]), "each is another one: {names}");
    assert!(fields(&names, "event: ").is_empty(), "{names}");
    let time = data[0]["last_update"].as_str().unwrap();
    assert_eq!(time.len(), "2026-01-02T03:04:05Z".len(), "{time}");
}

#[tokio::test(start_paused = true)]
async fn streams_and_waits_are_limited_and_a_client_that_leaves_frees_its_place() {
    let Served { elector: _elector, router, .. } = served(&MemoryStore::new());
    let mut streams = Vec::new();
    for _ in 0..MOST_WAITING {
        streams.push(ask(&router, "/events").await);
    }
    for path in ["/events", "/sse", "/leader/wait"] {
        let refused = ask(&router, path).await;
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        let expected = json!({ "error": "too many streams and waits: retry later" });
        assert_eq!(json_of(refused).await, (503, expected), "{path}");
    }
    streams.pop();
    assert_eq!(ask(&router, "/sse").await.status(), StatusCode::OK);

    drop(streams);
    let wait = |_| {
        let router = router.clone();
        tokio::spawn(async move { ask(&router, "/leader/wait").await })
    };
    let waits: Vec<_> = (0..MOST_WAITING).map(wait).collect();
    tokio::time::sleep(DEFAULT_WAIT / 2).await;
    assert_eq!(ask(&router, "/sse").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    for waited in waits {
        waited.await.unwrap();
    }
    assert_eq!(ask(&router, "/sse").await.status(), StatusCode::OK);
}
