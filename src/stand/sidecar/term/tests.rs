//! Tests of the stream that a connected client reads.

use futures::FutureExt as _;
use hustings_client::testing::MemoryStore;
use hustings_client::{Campaign, Elector};
use tower::util::ServiceExt as _;

use super::*;
use crate::serve::http::testing::text_of;

/// A term whose number and token differ, as those of a Lease that was created again do.
async fn leading() -> (Campaign, Term) {
    let store = MemoryStore::new();
    store.grant("n", "work", "former");
    store.edit_lease("n", "work", |lease| lease.token = Some(6));
    let elector = Elector::direct(&store, "n", "work").identity("a").build().unwrap();
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    (campaign, term)
}

fn reader(part: watch::Receiver<Option<ClientTerm>>, over: &CancellationToken) -> ClientStream {
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let (written, heartbeat) = (Written::Nothing, Duration::from_hours(1));
    ClientStream { part, validity: None, written, heartbeat, over: over.clone(), _place: place }
}

fn stream(part: watch::Receiver<Option<ClientTerm>>, over: &CancellationToken) -> Response {
    Sse::new(reader(part, over).events().map(Ok::<_, Infallible>)).into_response()
}

async fn text(event: Event) -> String {
    text_of(Sse::new(futures::stream::iter([Ok::<_, Infallible>(event)])).into_response()).await
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_the_last_events_of_its_term() {
    let (campaign, term) = leading().await;
    let (part, reader) = watch::channel(None);
    part.send_replace(Some(ClientTerm { term, leadership: campaign.leadership() }));
    campaign.stop().await.unwrap();
    let over = CancellationToken::new();
    over.cancel();
    let text = text_of(stream(reader, &over)).await;
    let events: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(events, ["stopping", "stopped"], "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_over_shows_no_validity_even_if_the_elector_leads_again() {
    let (campaign, term) = leading().await;
    term.resign();
    term.cancelled().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(campaign.leadership().is_leader(), "in its second term");
    let (over, (_part, part)) =
        (CancellationToken::new(), watch::channel(Some(ClientTerm { term, leadership: campaign.leadership() })));
    over.cancel();
    let text = text_of(stream(part, &over)).await;
    let shown = |event: &str| text.matches(&format!("event: {event}\n")).count();
    assert_eq!(
        (shown("stopping"), shown("stopped"), text.matches("\"validForSeconds\":0.0").count()),
        (1, 1, 2),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_learns_at_once_that_its_term_must_stop() {
    let (campaign, term) = leading().await;
    // It stays valid while the work goes on.
    let work = term.begin_work().unwrap();
    let (_part, part) = watch::channel(Some(ClientTerm { term: term.clone(), leadership: campaign.leadership() }));
    let mut reader = reader(part, &CancellationToken::new());
    assert!(reader.next().await.is_some());
    assert_eq!(reader.written, Written::Leading);
    term.resign();
    let resigned = Instant::now();
    let stopping = text(reader.next().await.unwrap()).await;
    assert!(stopping.starts_with("event: stopping\n") && !stopping.contains(r#""validForSeconds":0.0"#), "{stopping}");
    assert_eq!(reader.written, Written::Stopping);
    assert!(resigned.elapsed() < Duration::from_secs(1), "not with a later renewal: {:?}", resigned.elapsed());
    assert!(reader.due().is_none(), "it still leads");
    drop(work);
    let stopped = text(reader.next().await.unwrap()).await;
    assert!(stopped.starts_with("event: stopped\n") && stopped.contains(r#""validForSeconds":0.0"#), "{stopped}");
    assert_eq!(reader.written, Written::Stopped);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_due_at_the_end_of_the_servers_is_written() {
    // The order in which the reader notices the two is random.
    for _ in 0..8 {
        let (campaign, term) = leading().await;
        let _work = term.begin_work().unwrap();
        let (_part, part) = watch::channel(Some(ClientTerm { term: term.clone(), leadership: campaign.leadership() }));
        let over = CancellationToken::new();
        let mut reader = reader(part, &over);
        assert!(reader.next().await.is_some());
        let mut next = Box::pin(reader.next());
        assert!(next.as_mut().now_or_never().is_none());
        term.resign();
        term.cancelled().await;
        over.cancel();
        assert!(next.await.is_some());
        assert_eq!(reader.written, Written::Stopping);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_term_ends_with_the_sidecar() {
    let (_part, reader) = watch::channel(None);
    let over = CancellationToken::new();
    let stream = tokio::spawn(text_of(stream(reader, &over)));
    tokio::task::yield_now().await;
    assert!(!stream.is_finished());
    over.cancel();
    assert_eq!(stream.await.unwrap(), "");
}

#[tokio::test(start_paused = true)]
async fn one_client_at_a_time_gets_a_stream_and_others_a_reason() {
    let (shutdown, over) = (CancellationToken::new(), CancellationToken::new());
    let (router, mut clients) = route(Duration::from_secs(2), &shutdown, &over);
    let router = router.layer(Extension(Peer::default()));
    let ask = async |method: Method, body: Body| {
        let request = Request::builder().method(method).uri("/term").body(body).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response)
    };
    let get = async || ask(Method::GET, Body::empty()).await;
    let (code, refused) = ask(Method::HEAD, Body::empty()).await;
    assert_eq!((code, refused.headers().contains_key(header::RETRY_AFTER)), (405, false));
    let (code, refused) = ask(Method::GET, Body::from("body")).await;
    assert_eq!(
        (code, text_of(refused).await),
        (400, r#"{"error":"a request for /term has no body: remove it"}"#.to_owned())
    );
    let (code, stream) = get().await;
    assert_eq!((code, &stream.headers()[header::CACHE_CONTROL]), (200, &header::HeaderValue::from_static("no-store")));
    let began = Instant::now();
    let (code, refused) = get().await;
    assert_eq!((code, began.elapsed()), (409, FORMER_CLIENT_LIMIT));
    let reason = "another client is connected to /term: a sidecar stands for one process, so close that connection \
                  first";
    assert_eq!(text_of(refused).await, format!(r#"{{"error":"{reason}"}}"#));
    drop(stream);
    let later = async |expected: &str| {
        let (code, refused) = get().await;
        assert_eq!((code, &refused.headers()[header::RETRY_AFTER]), (503, &header::HeaderValue::from_static("1")));
        assert_eq!(text_of(refused).await, format!(r#"{{"error":"{expected}"}}"#));
    };
    later("the former client's term is still being given up").await;
    // The sidecar takes the former client.
    assert!(clients.recv().await.is_some());
    let (code, stream) = get().await;
    assert_eq!(code, 200);
    let client = clients.recv().await.unwrap();
    let (campaign, term) = leading().await;
    let numbers = format!("\"term\":{},\"token\":{},", term.number, term.token);
    assert_ne!(u64::from(term.number), term.token);
    client.begin(term, campaign.leadership());
    let reading = tokio::spawn(text_of(stream));
    tokio::time::sleep(Duration::from_secs(5)).await;
    over.cancel();
    let events = reading.await.unwrap();
    let begins = format!("event: leading\ndata: {{\"identity\":\"a\",\"lease\":\"n/work\",{numbers}");
    assert!(events.starts_with(&begins), "{events}");
    assert!(events.contains("\n\n: alive\n\n"), "{events}");
    shutdown.cancel();
    later("the sidecar stops").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_is_reported_as_stopped_and_a_client_without_a_term_gets_comments() {
    let (campaign, term) = leading().await;
    let (part, reader_part) = watch::channel(None);
    let mut reader =
        ClientStream { heartbeat: Duration::from_secs(2), ..reader(reader_part, &CancellationToken::new()) };
    let began = Instant::now();
    assert!(reader.next().await.is_some());
    assert_eq!((reader.written, began.elapsed()), (Written::Nothing, Duration::from_secs(2)), "a comment");
    part.send_replace(Some(ClientTerm { term, leadership: campaign.leadership() }));
    assert!(reader.next().await.is_some());
    assert_eq!((reader.written, began.elapsed()), (Written::Leading, Duration::from_secs(2)));
    drop(part);
    campaign.abort();
    campaign.leadership().ended().await;
    for expected in [Written::Stopping, Written::Stopped, Written::Stopped] {
        assert!(reader.next().await.is_some());
        assert_eq!(reader.written, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_do_not_postpone_the_heartbeat() {
    let (campaign, term) = leading().await;
    let (_part, part) = watch::channel(Some(ClientTerm { term, leadership: campaign.leadership() }));
    let heartbeat = Duration::from_secs(2);
    // The last one is longer than the time between two renewals.
    for heartbeat in [heartbeat, heartbeat * 5] {
        let mut reader = ClientStream { heartbeat, ..reader(part.clone(), &CancellationToken::new()) };
        assert!(reader.next().await.is_some());
        let began = Instant::now();
        for beats in 1..100 {
            assert!(reader.next().await.is_some());
            assert_eq!((reader.written, began.elapsed()), (Written::Leading, heartbeat * beats));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_before_its_term_wakes_no_reader() {
    let (part, reader_part) = watch::channel(None);
    let mut reader =
        ClientStream { heartbeat: Duration::from_secs(2), ..reader(reader_part, &CancellationToken::new()) };
    drop(part);
    let began = Instant::now();
    assert!(reader.next().await.is_some());
    assert_eq!((reader.written, began.elapsed()), (Written::Nothing, Duration::from_secs(2)));
}
