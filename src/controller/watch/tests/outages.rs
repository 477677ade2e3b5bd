//! Tests of watches whose server does not answer, or answers wrongly.

use futures::future::pending;

use super::*;
use crate::controller::outage::{PATIENCE, UNREADY};

/// How a server fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No request gets an answer.
    Silent,
    /// Discoveries are answered, lists are not.
    SilentLists,
    /// Discoveries are answered, and lists with this status code.
    Status(u16),
    /// Lists are answered with a text that is no list.
    Garbage,
    /// Each page of the list takes five seconds, and there is always another.
    Slow,
}

const ALL: [Fault; 7] = [
    Fault::Silent,
    Fault::SilentLists,
    Fault::Status(500),
    Fault::Status(503),
    Fault::Status(429),
    Fault::Garbage,
    Fault::Slow,
];

/// A server that fails while the switch is on. Otherwise it has no objects. Counts the requests.
fn faulty(fault: Fault) -> (Client, Sender<bool>, Arc<Mutex<usize>>) {
    let (switch, requests) = (watch::channel(true).0, Arc::<Mutex<usize>>::default());
    let (is_on, counted) = (switch.subscribe(), Arc::clone(&requests));
    let service = tower::service_fn(move |request: Request<Body>| {
        *counted.lock().unwrap() += 1;
        let mut is_on = is_on.clone();
        let fault = Some(fault).filter(|_| *is_on.borrow());
        async move {
            let is_discovery = !request.uri().path().ends_with("leasecandidates");
            let (code, body) = match fault {
                Some(Fault::Silent) => pending().await,
                _ if is_discovery => discovery(&["leasecandidates"]),
                Some(Fault::SilentLists) => pending().await,
                Some(Fault::Status(code)) => status(code),
                Some(Fault::Garbage) => (200, json!("<html>")),
                Some(Fault::Slow) => {
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    let mut page = list(&["a"]);
                    page.1["metadata"]["continue"] = json!("more");
                    page
                }
                None if request.uri().query().is_some_and(|query| query.contains("watch=true")) => {
                    let _ = is_on.wait_for(|is_on| *is_on).await;
                    status(410)
                }
                None => list(&["a"]),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    (Client::new(service, "n"), switch, requests)
}

/// Waits until the watch reports that elections need not wait, and returns how long that took.
async fn listed(events: &mut mpsc::Receiver<WatchEvent>) -> Duration {
    let began = tokio::time::Instant::now();
    while !matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)) {}
    began.elapsed()
}

/// Whether the process is ready, and the message of its only check.
fn shown(health: &Health) -> (bool, Option<String>) {
    let readiness = health.readiness();
    (readiness.ready, readiness.checks.into_iter().next().unwrap().message)
}

#[tokio::test(start_paused = true)]
async fn elections_wait_ten_seconds_for_an_optional_kind_and_the_process_is_unready_for_two_minutes() {
    for fault in ALL {
        let (client, fails, requests) = faulty(fault);
        let (mut events, health, ..) = start_native(client);
        assert_eq!(listed(&mut events).await, PATIENCE, "{fault:?}");
        let drained = tokio::spawn(async move { while events.recv().await.is_some() {} });
        tokio::time::sleep(UNREADY.saturating_sub(PATIENCE + Duration::from_secs(1))).await;
        let (is_ready, message) = shown(&health);
        assert!(!is_ready && message.as_ref().unwrap().contains(", since 20"), "{fault:?}: {message:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!((true, message.is_some()), (shown(&health).0, shown(&health).1.is_some()), "{fault:?}");
        assert!(*requests.lock().unwrap() > 1, "{fault:?}: it tries again");
        // Once the server answers, everything is as if it always had. A connection without an answer ends after 65 s,
        // which this client cannot do.
        if !matches!(fault, Fault::SilentLists) {
            fails.send(false).unwrap();
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(shown(&health), (true, None), "{fault:?}");
        }
        drained.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_that_was_listed_before_makes_the_process_unready_only_if_it_stays_away() {
    let (client, fails, _) = faulty(Fault::Status(503));
    fails.send(false).unwrap();
    let (mut events, health, _, metrics) = start_native_with_metrics(client);
    listed(&mut events).await;
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let shown_at = async |seconds| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let unlisted = metrics.unlisted.get_or_create(&Resource::NativeCandidates.label()).get();
        (shown(&health).0, shown(&health).1.is_some(), unlisted)
    };
    assert_eq!(shown_at(1).await, (true, false, 0));
    fails.send(true).unwrap();
    assert_eq!(shown_at(5).await, (true, true, 0), "a warning");
    assert_eq!(shown_at(10).await, (false, true, 1));
    assert_eq!(shown_at(120).await, (true, true, 1), "the rollout may continue");
    fails.send(false).unwrap();
    assert_eq!(shown_at(10).await, (true, false, 0));
}

#[tokio::test(start_paused = true)]
async fn elections_wait_for_the_kinds_that_they_need_as_long_as_it_takes() {
    for fault in ALL {
        let (client, _fails, _) = faulty(fault);
        let (mut events, health, metrics) = start(client);
        let waits = tokio::time::timeout(UNREADY * 3, listed(&mut events)).await;
        assert!(waits.is_err(), "{fault:?}");
        let checks = health.readiness().checks;
        let check = checks.iter().find(|check| check.name == "leasecandidates").unwrap();
        assert!(!check.ok && check.message.as_ref().unwrap().contains(", since 20"), "{fault:?}: {check:?}");
        assert_eq!(metrics.unlisted.get_or_create(&Resource::Candidates.label()).get(), 1);
    }
}
