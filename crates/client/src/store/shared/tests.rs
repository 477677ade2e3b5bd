//! Many elections, against a server that never answers and against a slow one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{join_all, pending};
use futures::stream::FuturesUnordered;
use http::{Method, Response};
use hustings_core::model::{LeaseWrite, Purpose};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::*;
use crate::elector::driver::tests::{failure, merge, missing};
use crate::testing::TokioClock;
use crate::{Campaign, Durations};

const PATIENCE: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_request_that_has_waited_for_half_of_its_time_is_not_sent_and_does_not_delay_a_term() {
    let asked = Arc::new(AtomicUsize::new(0));
    let never_answers = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |_: http::Request<Body>| {
            asked.fetch_add(1, Ordering::SeqCst);
            pending::<Result<Response<Body>, Infallible>>()
        }
    });
    let Elections(shared) = Elections::new(Client::new(never_answers, "default"), "n");
    let share = Share { shared, clock: SystemClock::shared(), patience: PATIENCE };
    let read = Request::read_lease("l");
    let mut reads: Vec<_> = (0..32).map(|_| share.send("n", &read)).collect();
    assert!(reads.iter_mut().all(|read| read.now_or_never().is_none()));
    let current = LeaseRecord::default();
    let [renewal, claim] = [Purpose::Renew, Purpose::Claim].map(|purpose| {
        let write = Box::new(LeaseWrite::new(purpose, &current));
        Request::WriteLease { name: "l".to_owned(), write }
    });
    let claimed = share.send("n", &claim).await;
    assert!(matches!(claimed, Err(Failure::NotSent(PATIENCE))), "{claimed:?}");
    let renewed = timeout(PATIENCE * 3, share.send("n", &renewal)).await;
    assert!(renewed.is_err(), "it is under way: {renewed:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 32 + 1);
}

#[tokio::test(start_paused = true)]
async fn each_watch_delivers_the_object_of_its_listener() {
    let server = tower::service_fn(|request: http::Request<Body>| async move {
        let (api_version, kind) = if request.uri().path().contains("candidates") {
            ("hustings.io/v1alpha1", "LeaseCandidate")
        } else {
            ("coordination.k8s.io/v1", "Lease")
        };
        let metadata = |name| json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": "1" });
        let object = |name| json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata(name) });
        let events = ["other", "l"].map(|name| format!("{}\n", json!({ "type": "ADDED", "object": object(name) })));
        Ok::<_, Infallible>(Response::new(Body::from(events.concat().into_bytes())))
    });
    let Elections(shared) = Elections::new(Client::new(server, "default"), "n");
    let share = Share { shared, clock: SystemClock::shared(), patience: PATIENCE };
    let (mut leases, mut candidates) = (share.watch_lease("n", "l"), share.watch_candidate("n", "l"));
    let first = timeout(Duration::from_secs(10), futures::future::join(leases.next(), candidates.next())).await;
    let (lease, candidate) = first.expect("both are delivered");
    assert_eq!(lease.flatten().map(|lease| lease.uid).as_deref(), Some("l"));
    assert_eq!(candidate.flatten().map(|candidate| candidate.uid).as_deref(), Some("l"));
}

#[tokio::test]
async fn an_election_is_in_the_namespace_of_its_elections() {
    let elections = Elections::new(slow_server().0, "shop");
    let elector = elections.direct("l").identity("a").build().unwrap();
    assert_eq!(elector.leadership().lease(), "shop/l");
}

/// How long the slow server works on a request, even if the client no longer waits for the answer.
const WORK: Duration = Duration::from_millis(50);

/// It processes one request at a time, and its watches send no events.
#[derive(Default)]
struct SlowServer {
    leases: HashMap<String, Value>,
    version: u64,
    busy_until: Option<Instant>,
    in_vain: u32,
}

#[tokio::test(start_paused = true)]
async fn many_elections_that_begin_at_once_on_a_slow_server_soon_lead_and_keep_their_leases() {
    let (client, server) = slow_server();
    let elections = Elections::new(client, "n");
    all_lead_and_keep_their_leases(|_| elections.clone()).await;
    let in_vain = server.lock().unwrap().in_vain;
    assert!(in_vain < 150, "{in_vain} requests were given up although the server worked on them");
}

#[tokio::test(start_paused = true)]
async fn as_many_processes_that_begin_at_once_soon_lead_and_keep_their_leases_too() {
    let (client, _) = slow_server();
    all_lead_and_keep_their_leases(|_| Elections::new(client.clone(), "n")).await;
}

/// The electors begin with requests for half a minute of the server's work. From then on they use two thirds of its
/// time.
async fn all_lead_and_keep_their_leases(elections: impl Fn(u32) -> Elections) {
    let timing = Durations {
        lease_duration_seconds: 60,
        renew_deadline: Duration::from_secs(40),
        retry_period: Duration::from_secs(10),
        ..Durations::default()
    };
    let start = |number| {
        let builder = elections(number).direct(format!("shard-{number}")).identity("a");
        builder.timing(timing).clock(TokioClock::shared()).build().unwrap().start()
    };
    let campaigns: Vec<_> = (0..150).map(start).collect();
    let leads = |campaign: &Campaign| campaign.leadership().is_leader();
    let all_lead = join_all(campaigns.iter().map(async |campaign| campaign.leadership().wait_until_leader().await));
    let all_lead = timeout(Duration::from_mins(2), all_lead).await;
    assert!(all_lead.is_ok(), "{} lead", campaigns.iter().filter(|campaign| leads(campaign)).count());
    let terms: Vec<_> = campaigns.iter().map(|campaign| campaign.leadership().term()).collect();
    sleep(Duration::from_mins(5)).await;
    let kept = campaigns.iter().zip(&terms).filter(|(campaign, term)| campaign.leadership().term() == **term);
    assert_eq!((kept.count(), terms.iter().flatten().count()), (150, 150));
}

fn slow_server() -> (Client, Arc<Mutex<SlowServer>>) {
    let server = Arc::new(Mutex::new(SlowServer::default()));
    let service = tower::service_fn({
        let server = Arc::clone(&server);
        move |request| serve(Arc::clone(&server), request)
    });
    (Client::new(service, "default"), server)
}

async fn serve(server: Arc<Mutex<SlowServer>>, request: http::Request<Body>) -> Result<Response<Body>, Infallible> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=") {
        return pending().await;
    }
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap();
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let done_at = {
            let mut server = server.lock().unwrap();
            let from = server.busy_until.map_or_else(Instant::now, |until| until.max(Instant::now()));
            *server.busy_until.insert(from + WORK)
        };
        sleep_until(done_at).await;
        let mut server = server.lock().unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let answer = answer.send(server.carry_out(&head.method, head.uri.path(), body));
        server.in_vain += u32::from(answer.is_err());
    });
    let (code, body) = answered.await.unwrap();
    Ok(Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap())
}

impl SlowServer {
    fn carry_out(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let stands = self.leases.get(&name).cloned();
        match (method, stands) {
            (&Method::GET, _) if name == "leases" => {
                let metadata = json!({ "resourceVersion": self.version.to_string() });
                let items: Vec<&Value> = self.leases.values().collect();
                (
                    200,
                    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": metadata, "items": items }),
                )
            }
            (&Method::GET, Some(lease)) => (200, lease),
            (&Method::POST, _) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.leases.contains_key(&name) { failure(409) } else { (201, self.store(name, body)) }
            }
            (&Method::PATCH, Some(lease))
                if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"] =>
            {
                failure(409)
            }
            (&Method::PATCH, Some(mut lease)) => {
                merge(&mut lease, &body);
                (200, self.store(name, lease))
            }
            _ => missing(path),
        }
    }

    fn store(&mut self, name: String, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = json!(format!("uid-{name}"));
        self.leases.insert(name, lease.clone());
        lease
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_turn_for_half_of_its_time() {
    let never_answers = tower::service_fn(|_: http::Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let timeout = Duration::from_secs(4);
    let store = Elections::new(Client::new(never_answers, "n"), "n").store(TokioClock::shared(), timeout);
    let read = Request::read_lease("l");
    let mut reads: FuturesUnordered<_> = (0..=32).map(|_| store.send("n", &read)).collect();
    let began = Instant::now();
    let first = reads.next().await.unwrap();
    assert!(matches!(first, Err(Failure::NotSent(waited)) if waited == timeout / 2), "{first:?}");
    assert!(began.elapsed() >= timeout / 2 && began.elapsed() < timeout, "{:?}", began.elapsed());
}
