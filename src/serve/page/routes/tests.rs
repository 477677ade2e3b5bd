use std::pin::pin;

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};
use tower::util::ServiceExt as _;

use super::*;

fn feed(leases: usize) -> Arc<Feed> {
    let feed = Feed::default();
    for number in 0..leases {
        feed.put_lease(("n", &format!("l{number}")), &json!({ "name": format!("l{number}") }));
    }
    Arc::new(feed)
}

async fn ask(router: &Router, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = axum::http::Request::builder().method(Method::GET).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

/// The `data` of the next `change` of a stream, and the name of each event before it.
async fn next_change(
    events: &mut (impl futures::Stream<Item = Result<axum::body::Bytes, axum::Error>> + Unpin),
) -> (Vec<String>, Value, String) {
    let mut before = Vec::new();
    loop {
        let event = String::from_utf8(events.next().await.unwrap().unwrap().to_vec()).unwrap();
        let line = |field: &str| event.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned);
        match line("event: ") {
            Some(name) if name == "change" => {
                return (before, serde_json::from_str(&line("data: ").unwrap()).unwrap(), line("id: ").unwrap());
            }
            name => before.push(name.unwrap_or_default()),
        }
    }
}

#[tokio::test]
async fn every_answer_forbids_other_scripts_frames_and_caches() {
    let router = router(feed(1), Hosts::Any, CancellationToken::new());
    for (path, code, type_) in [
        ("/ui/", StatusCode::OK, "text/html; charset=utf-8"),
        ("/ui/page.css", StatusCode::OK, "text/css; charset=utf-8"),
        ("/ui/page.js", StatusCode::OK, "text/javascript; charset=utf-8"),
        ("/ui/lease.js", StatusCode::OK, "text/javascript; charset=utf-8"),
        ("/ui/events", StatusCode::OK, "text/event-stream"),
        ("/ui", StatusCode::PERMANENT_REDIRECT, ""),
    ] {
        let response = ask(&router, path, &[]).await;
        assert_eq!(response.status(), code, "{path}");
        let header = |name: &HeaderName| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(header(&header::CONTENT_TYPE), type_, "{path}");
        for (name, value) in HEADERS {
            assert_eq!(header(&name), value, "{path}");
        }
        let location = if path == "/ui" { "ui/" } else { "" };
        assert_eq!(header(&header::LOCATION), location, "relative, for a proxy with a prefix");
    }
    for source in ["'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"] {
        assert!(!POLICY.contains(source), "{source}");
    }
}

#[test]
fn the_embedded_files_load_nothing_from_elsewhere() {
    let files = [
        include_str!("../assets/index.html"),
        include_str!("../assets/page.css"),
        include_str!("../assets/page.js"),
        include_str!("../assets/lease.js"),
    ];
    for file in files {
        let namespaces = file.replace("http://www.w3.org/2000/svg", "");
        for forbidden in [
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "url(",
            "@import",
            "style=\"",
            "onclick",
        ] {
            assert!(!namespaces.contains(forbidden), "{forbidden}");
        }
        assert!(file.lines().count() < 400);
    }
}

#[tokio::test]
async fn on_a_loopback_address_the_page_is_served_only_for_names_of_this_machine() {
    let page = |hosts| router(feed(0), hosts, CancellationToken::new());
    for (host, served) in [
        ("localhost:8080", true),
        ("LOCALHOST", true),
        ("127.0.0.1:8080", true),
        ("[::1]:8080", true),
        ("[::1]", true),
        ("evil.example", false),
        ("evil.example:8080", false),
        ("localhost.evil.example", false),
        ("evil-localhost", false),
        ("127.0.0.1.evil.example", false),
        ("192.0.2.1:8080", false),
        ("", false),
    ] {
        let response = ask(&page(Hosts::Loopback), "/ui/", &[("host", host)]).await;
        assert_eq!(response.status() == StatusCode::OK, served, "{host:?}");
        assert!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY), "{host:?}");
        assert_eq!(ask(&page(Hosts::Any), "/ui/", &[("host", host)]).await.status(), StatusCode::OK, "{host:?}");
        // The kubelet connects a port forward from within the Pod, and the sidecar of a mesh from an address of its own.
        for (ip, is_forward) in
            [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("::1", true), ("127.0.0.6", false), ("10.0.0.1", false)]
        {
            let from = page(Hosts::Any).layer(axum::Extension(Peer::new(Some(ip.parse().unwrap()))));
            let status = ask(&from, "/ui/", &[("host", host)]).await.status();
            assert_eq!(status == StatusCode::OK, served || !is_forward, "{host:?} {ip}");
        }
    }
    let without_a_host = ask(&page(Hosts::Loopback), "/ui/", &[]).await;
    assert_eq!(without_a_host.status(), StatusCode::OK, "a browser always sends one");
}

#[tokio::test(start_paused = true)]
async fn a_stream_begins_with_the_whole_state_and_continues_with_changes_and_heartbeats() {
    let feed = feed(MOST_LEASES + 1);
    let router = router(Arc::clone(&feed), Hosts::Any, CancellationToken::new());
    let mut events = pin!(ask(&router, "/ui/events", &[]).await.into_body().into_data_stream());
    let (_, first, _) = next_change(&mut events).await;
    assert_eq!(
        (&first["reset"], &first["more"], first["leases"].as_array().unwrap().len()),
        (&json!(true), &json!(true), MOST_LEASES)
    );
    let (_, second, id) = next_change(&mut events).await;
    assert_eq!(
        (&second["reset"], &second["more"], second["leases"].as_array().unwrap().len()),
        (&json!(false), &json!(false), 1)
    );

    let started = tokio::time::Instant::now();
    tokio::spawn({
        let feed = Arc::clone(&feed);
        async move {
            tokio::time::sleep(HEARTBEAT * 5 / 2).await;
            feed.remove_lease(("n", "l7"));
        }
    });
    let (before, third, _) = next_change(&mut events).await;
    assert_eq!((before, &third["removed"]), (vec!["heartbeat".to_owned(); 2], &json!(["n/l7"])));
    assert_eq!(started.elapsed(), HEARTBEAT * 5 / 2, "a change waits for no heartbeat");

    let mut resumed = pin!(ask(&router, "/ui/events", &[("last-event-id", &id)]).await.into_body().into_data_stream());
    let (_, change, _) = next_change(&mut resumed).await;
    assert_eq!((&change["reset"], &change["removed"]), (&json!(false), &json!(["n/l7"])));
    assert_eq!(change["leases"], json!([]), "it knows the others");
    let mut foreign =
        pin!(ask(&router, "/ui/events", &[("last-event-id", "0-1")]).await.into_body().into_data_stream());
    assert_eq!(next_change(&mut foreign).await.1["reset"], json!(true), "another process wrote this id");
}

#[tokio::test]
async fn the_number_of_streams_is_limited_and_a_closed_one_makes_room() {
    let router = router(feed(1), Hosts::Any, CancellationToken::new());
    let mut open = Vec::new();
    for _ in 0..MOST_STREAMS {
        let response = ask(&router, "/ui/events", &[]).await;
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    let refused = ask(&router, "/ui/events", &[]).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    let body = axum::body::to_bytes(refused.into_body(), 1 << 10).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("too many open pages: close one, or retry later"));
    assert_eq!(ask(&router, "/ui/", &[]).await.status(), StatusCode::OK, "other requests are served");
    open.pop();
    assert_eq!(ask(&router, "/ui/events", &[]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn streams_end_when_the_process_stops() {
    let stop = CancellationToken::new();
    let router = router(feed(1), Hosts::Any, stop.clone());
    let mut events = pin!(ask(&router, "/ui/events", &[]).await.into_body().into_data_stream());
    next_change(&mut events).await;
    stop.cancel();
    assert!(events.next().await.is_none());
}
