//! Tests of watches that a busy server begins late or never.

use super::*;

/// The requests that a server received: whether each was a watch, and when it came.
type Received = Arc<Mutex<Vec<(bool, Instant)>>>;

/// A server that lists one object, and begins watches, which end at once, while the switch is on. Else it asks to wait for so many seconds.
fn busy(seconds: &'static str) -> (Client, Sender<bool>, Received) {
    let (switch, received) = (watch::channel(false).0, Received::default());
    let (begins, log) = (switch.subscribe(), Arc::clone(&received));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        log.lock().unwrap().push((is_watch, Instant::now()));
        let answer = match (is_watch, *begins.borrow()) {
            (false, _) => Response::new(Body::from(list(&["a"]).1.to_string().into_bytes())),
            (true, true) => Response::new(Body::empty()),
            (true, false) => {
                let refused = Body::from(status(429).1.to_string().into_bytes());
                Response::builder().status(429).header("retry-after", seconds).body(refused).unwrap()
            }
        };
        async { Ok::<_, Infallible>(answer) }
    });
    (Client::new(service, "n"), switch, received)
}

fn unlisted(metrics: &ControllerMetrics) -> i64 {
    metrics.unlisted.get_or_create(&Resource::Candidates.label()).get()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lists_and_rejects_watches_gets_few_requests_and_is_reported() {
    let (client, begins, received) = busy("0");
    let (mut events, health, metrics) = start(client);
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let minutes = Duration::from_mins(10);
    tokio::time::sleep(minutes).await;
    let count = |of_watches| received.lock().unwrap().iter().filter(|(is_watch, _)| *is_watch == of_watches).count();
    let (watches, lists) = (count(true), count(false));
    assert!((120..=250).contains(&watches), "{watches} watches in {minutes:?}");
    assert!((4..=5).contains(&lists), "{lists} lists in {minutes:?}");
    assert_eq!((unlisted(&metrics), health.readiness().ready), (1, false));
    begins.send(true).unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!((unlisted(&metrics), health.readiness().ready), (0, true));
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_resumes_without_a_list_when_the_server_asked_for_it() {
    for (asked, waits) in [("0", 1), ("7", 7), ("3600", 30)] {
        let (client, begins, received) = busy(asked);
        let (_events, health, metrics) = start(client);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(metrics.watch_failures.get_or_create(&Resource::Candidates.label()).get(), 1);
        assert!(health.readiness().ready, "{asked}: it was listed just now");
        begins.send(true).unwrap();
        tokio::time::sleep(Duration::from_secs(50)).await;
        let received = received.lock().unwrap();
        let [(false, _), (true, refused), (true, begun), ref later @ ..] = received[..] else { panic!("{received:?}") };
        assert!(later.iter().all(|(is_watch, _)| *is_watch), "{asked}: {later:?}");
        assert_eq!((begun - refused).as_secs(), waits, "{asked}");
        assert!(health.readiness().ready && unlisted(&metrics) == 0, "{asked}");
    }
}
