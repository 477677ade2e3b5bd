//! The driver in virtual time, against a server with one Lease whose answers a test can delay.

mod candidates;
mod notes;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::testing::{Log, MemoryStore, TokioClock};
use crate::{Campaign, CampaignError, Elector, ElectorBuilder, Timing};

/// A server that knows one Lease, and whose watches report nothing.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    delay: Duration,
    fault: Option<Fault>,
    patches: u32,
    reads: u32,
    faults: u32,
    /// Accepts each write but keeps nothing of it, as an admission policy may.
    reverts: bool,
}

/// The answer to every request while the server fails.
#[derive(Clone, Copy)]
struct Fault {
    code: u16,
    retry_after_seconds: Option<u32>,
}

type Shared = Arc<Mutex<Server>>;

#[tokio::test(start_paused = true)]
async fn a_term_is_valid_from_the_sending_of_its_claim_and_not_from_the_answer() {
    let (server, campaign) = started();
    server.lock().unwrap().delay = Duration::from_secs(4);
    let leadership = campaign.leadership();
    leadership.wait_until_leader().await.unwrap();
    let left = leadership.remaining();
    assert!(left <= Duration::from_secs(6) && left > Duration::from_secs(5), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_requests_hang_leads_until_its_deadline_and_no_longer() {
    let (server, campaign) = started();
    let leadership = campaign.leadership();
    let term = leadership.wait_until_leader().await.unwrap();
    sleep(Duration::from_mins(1)).await;
    assert!(leadership.is_leader());
    server.lock().unwrap().delay = Duration::MAX;
    let (hung_at, left) = (Instant::now(), leadership.remaining());
    term.cancelled().await;
    assert!(!leadership.is_leader());
    let led = hung_at.elapsed();
    assert!(led >= left && led < Timing::default().renew_deadline(), "{led:?} after {left:?} were left");
    // It campaigns again, and gets the Lease back under another token.
    server.lock().unwrap().delay = Duration::ZERO;
    let next = leadership.next_term(Some(&term)).await.unwrap();
    assert!(next.token > term.token);
}

#[tokio::test(start_paused = true)]
async fn the_holder_that_is_shown_expires_with_its_record() {
    let store = MemoryStore::new();
    let campaign = Elector::direct(&store, "n", "l").identity("a").build().unwrap().start();
    let leadership = campaign.leadership();
    leadership.wait_until_leader().await.unwrap();
    let holder = leadership.changes().boxed().next().await.and_then(|view| view.holder).unwrap();
    let left = holder.expires_at.since(store.clock().now());
    assert!(left > Duration::from_secs(14) && left < Duration::from_secs(16), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_to_hand_over_sets_the_native_field_of_a_lease_with_a_strategy() {
    let (server, _campaign) = started_with(|builder| builder.key(5));
    let annotations = json!({
        "hustings.io/session": "s/1/15", "hustings.io/key": "1", "hustings.io/strategy": "OldestEmulationVersion",
    });
    let spec = json!({ "holderIdentity": "b", "leaseDurationSeconds": 15, "leaseTransitions": 1 });
    let held = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "l", "namespace": "n", "annotations": annotations }, "spec": spec });
    server.lock().unwrap().store(held);
    sleep(Duration::from_secs(5)).await;
    let asked = server.lock().unwrap().lease.clone().unwrap();
    assert_eq!(asked["metadata"]["annotations"]["hustings.io/preferred-holder"], "a");
    assert_eq!(asked["spec"]["preferredHolder"], "a");
}

const FAULTS: [Fault; 6] = [
    // Like that of a proxy: it names no object.
    Fault { code: 404, retry_after_seconds: None },
    Fault { code: 429, retry_after_seconds: None },
    Fault { code: 429, retry_after_seconds: Some(1) },
    Fault { code: 429, retry_after_seconds: Some(3600) },
    Fault { code: 500, retry_after_seconds: None },
    Fault { code: 503, retry_after_seconds: Some(3) },
];

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_less_than_the_deadline_costs_no_term() {
    for fault in FAULTS {
        let (server, campaign) = started();
        let leadership = campaign.leadership();
        let term = leadership.wait_until_leader().await.unwrap();
        sleep(Duration::from_mins(1)).await;
        server.lock().unwrap().fault = Some(fault);
        // The last renewal was at most 2.4 s before, and the elector tries at least every 5 s.
        sleep(Duration::from_secs(4)).await;
        server.lock().unwrap().fault = None;
        sleep(Duration::from_secs(30)).await;
        assert_eq!(leadership.term(), Some(term), "{}", fault.code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_long_costs_the_term_exactly_at_its_end_and_gets_few_requests() {
    for fault in FAULTS {
        let (server, campaign) = started();
        let leadership = campaign.leadership();
        let term = leadership.wait_until_leader().await.unwrap();
        sleep(Duration::from_mins(1)).await;
        server.lock().unwrap().fault = Some(fault);
        let (cut, left) = (Instant::now(), leadership.remaining());
        term.cancelled().await;
        let led = cut.elapsed();
        assert!(!leadership.is_leader());
        // Timers count in milliseconds.
        assert!(led >= left && led <= left + Duration::from_millis(1), "{led:?} of {left:?}: {}", fault.code);

        sleep(Duration::from_mins(10)).await;
        let asked = server.lock().unwrap().faults;
        // Each request follows a pause of 8 s, and of up to 5 s more if the server asks for that.
        assert!((40..=80).contains(&asked), "{asked} requests: {}, {:?}", fault.code, fault.retry_after_seconds);
        server.lock().unwrap().fault = None;
        let recovered = timeout(Duration::from_secs(20), leadership.next_term(Some(&term))).await;
        assert!(recovered.unwrap().unwrap().token > term.token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_within_a_lease_and_a_request_if_the_server_never_answers() {
    let (server, campaign) = started();
    let leadership = campaign.leadership();
    leadership.wait_until_leader().await.unwrap();
    server.lock().unwrap().delay = Duration::MAX;
    let bound = Timing::default().lease_duration() + Timing::default().request_timeout();
    let stopping = campaign.stop();
    timeout(bound, stopping).await.expect("the stop needs no answer").unwrap();
    assert!(!leadership.is_leader());
}

/// Otherwise the next write could use another stale connection of the same pool.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_dropped_before_the_elector_sends_the_next_one() {
    let (server, campaign) = started();
    campaign.leadership().wait_until_leader().await.unwrap();
    server.lock().unwrap().delay = Duration::MAX;
    let next_write = async || {
        let patches = counts(&server).0;
        while counts(&server).0 == patches {
            sleep(Duration::from_millis(1)).await;
        }
        Instant::now()
    };
    let first = next_write().await;
    let second = next_write().await;
    assert!(second - first < Timing::default().request_timeout(), "{:?}", second - first);
}

#[tokio::test(start_paused = true)]
async fn an_hour_at_rest_costs_one_write_per_retry_period_and_no_read() {
    let (server, campaign) = started();
    let leadership = campaign.leadership();
    let term = leadership.wait_until_leader().await.unwrap();
    let (patches, reads) = counts(&server);
    sleep(Duration::from_hours(1)).await;
    let (patches, reads) = (counts(&server).0 - patches, counts(&server).1 - reads);
    assert_eq!(leadership.term(), Some(term));
    assert!((1500..=1800).contains(&patches), "{patches} writes with a period of 2.0 to 2.4 s");
    assert_eq!(reads, 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_record_of_a_term_contains_the_key_and_the_log_its_beginning() {
    let (log, _guard) = Log::begin();
    let store = MemoryStore::new();
    let elector = Elector::direct(&store, "n", "l").identity("a").key(7).build().unwrap();
    let campaign = elector.start();
    campaign.leadership().wait_until_leader().await.unwrap();
    assert_eq!(store.lease("n", "l").unwrap().key, Some(7));
    let log = log.take();
    assert!(log.contains("term began number=1 token=1"), "{log}");
    assert!(log.contains("waiting for an observation or a timer timer="), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_pauses_for_as_long_as_the_server_asks_and_a_holder_for_a_retry_period() {
    for (holds, seconds, expected) in
        [(true, None, 6..=9), (true, Some(4), 4..=6), (false, None, 3..=5), (false, Some(4), 1..=2)]
    {
        let (server, campaign) = started();
        if holds {
            campaign.leadership().wait_until_leader().await.unwrap();
        }
        server.lock().unwrap().fault = Some(Fault { code: 429, retry_after_seconds: seconds });
        sleep(Duration::from_secs(9)).await;
        let asked = server.lock().unwrap().faults;
        assert!(expected.contains(&asked), "{asked} requests in 9 s, although asked for {seconds:?}; holds: {holds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_has_expired_is_no_longer_reported() {
    let store = MemoryStore::new();
    let holder = Elector::direct(&store, "n", "l").identity("a").build().unwrap().start();
    holder.leadership().wait_until_leader().await.unwrap();
    let standby = Elector::coordinated(&store, "n", "l", "1.0.0").identity("b").fallback(false);
    let standby = standby.build().unwrap().start();
    sleep(Duration::from_secs(1)).await;
    let shown = async || standby.leadership().changes().boxed().next().await.unwrap().holder;
    assert_eq!(shown().await.unwrap().identity, "a");
    holder.abort();
    sleep(Timing::default().lease_duration() * 2).await;
    assert_eq!(shown().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_during_a_term_is_written() {
    let store = MemoryStore::new();
    let (key, receiver) = tokio::sync::watch::channel(None);
    let campaign = Elector::direct(&store, "n", "l").identity("a").key(receiver).build().unwrap().start();
    campaign.leadership().wait_until_leader().await.unwrap();
    key.send_replace(Some(7));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(store.lease("n", "l").unwrap().key, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_without_the_fallback_waits_for_a_controller() {
    for fallback in [false, true] {
        let store = MemoryStore::new();
        let builder = Elector::coordinated(&store, "n", "l", "1.0.0").identity("a").fallback(fallback);
        let campaign = builder.build().unwrap().start();
        sleep(Duration::from_mins(10)).await;
        assert_eq!(campaign.leadership().is_leader(), fallback);
    }
}

#[tokio::test(start_paused = true)]
async fn an_elector_that_keeps_its_lease_on_stop_lets_it_expire() {
    for keeps in [false, true] {
        let store = MemoryStore::new();
        let builder = Elector::direct(&store, "n", "l").identity("a");
        let builder = if keeps { builder.keep_on_stop() } else { builder };
        let campaign = builder.build().unwrap().start();
        campaign.leadership().wait_until_leader().await.unwrap();
        campaign.stop().await.unwrap();
        assert_eq!(store.lease("n", "l").unwrap().holder.is_some(), keeps);
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_campaign_reports_that_its_elector_died() {
    let (_server, campaign) = started();
    campaign.leadership().wait_until_leader().await.unwrap();
    campaign.abort();
    assert!(matches!(campaign.ended().await, Err(CampaignError::Died { lease, .. }) if lease == "n/l"));
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn a_renewal_that_the_server_accepts_and_does_not_keep_counts_as_failed() {
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = crate::metrics::Metrics::register(&mut registry);
    let (server, campaign) = started_with(|builder| builder.metrics(&metrics));
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    let has_failures = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        !text.contains("hustings_lease_renewal_failures_total{lease=\"n/l\"} 0")
    };
    sleep(Duration::from_mins(1)).await;
    assert!(!has_failures());
    server.lock().unwrap().reverts = true;
    term.cancelled().await;
    assert!(has_failures());
}

fn started() -> (Shared, Campaign) {
    started_with(|builder| builder)
}

fn started_with(build: impl FnOnce(ElectorBuilder) -> ElectorBuilder) -> (Shared, Campaign) {
    let server = Shared::default();
    let service = tower::service_fn({
        let server = Arc::clone(&server);
        move |request| answer(Arc::clone(&server), request)
    });
    let client = Client::new(service, "default");
    let builder = Elector::direct(client, "n", "l").identity("a").clock(TokioClock::shared());
    (server, build(builder).build().unwrap().start())
}

fn counts(server: &Shared) -> (u32, u32) {
    let server = server.lock().unwrap();
    (server.patches, server.reads)
}

async fn answer(server: Shared, request: http::Request<Body>) -> Result<Response<Body>, Infallible> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    if uri.query().is_some_and(|query| query.contains("watch=true")) {
        std::future::pending::<()>().await;
    }
    let body = request.into_body().collect_bytes().await.unwrap();
    let (code, answer) = server.lock().unwrap().execute(&method, uri.path(), &body);
    let (delay, fault) = {
        let server = server.lock().unwrap();
        (server.delay, server.fault)
    };
    sleep(delay).await;
    if let Some(Fault { retry_after_seconds: Some(seconds), .. }) = fault {
        let refused = Response::builder().status(code).header("Retry-After", seconds.to_string());
        return Ok(refused.body(Body::from(b"too many".to_vec())).unwrap());
    }
    Ok(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap())
}

impl Server {
    fn execute(&mut self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(fault) = self.fault {
            self.faults += 1;
            return failure(fault.code);
        }
        match (method, &self.lease) {
            (&Method::GET, lease) if path.ends_with("/leases") => {
                let items: Vec<&Value> = lease.iter().collect();
                let metadata = json!({ "resourceVersion": self.version.to_string() });
                (
                    200,
                    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": metadata, "items": items }),
                )
            }
            (&Method::GET, lease) => {
                self.reads += 1;
                lease.clone().map_or_else(|| missing(path), |lease| (200, lease))
            }
            (&Method::POST, None) => (201, self.store(body)),
            (&Method::PATCH, Some(lease)) => {
                self.patches += 1;
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] {
                    return failure(409);
                }
                let mut lease = lease.clone();
                if !self.reverts {
                    merge(&mut lease, &body);
                }
                (200, self.store(lease))
            }
            (&Method::POST, Some(_)) => failure(409),
            _ => missing(path),
        }
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!("u");
        self.lease = Some(lease.clone());
        lease
    }
}

pub(crate) fn failure(code: u16) -> (u16, Value) {
    (code, json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code }))
}

/// The answer that the object of this path is missing.
pub(crate) fn missing(path: &str) -> (u16, Value) {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, kind, group) = (parts[parts.len() - 1], parts[parts.len() - 2], parts[2]);
    let (code, mut status) = failure(404);
    status["reason"] = json!("NotFound");
    status["details"] = json!({ "name": name, "kind": kind, "group": group });
    (code, status)
}

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    for (name, value) in patch {
        merge(&mut target[name], value);
    }
}
