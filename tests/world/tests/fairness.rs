//! Namespaces whose requests hang, beside a namespace whose holder crashes: the real controller before the modelled API
//! server, in virtual time.
//!
//! An admission webhook that never answers makes every write of its namespace hang. The failover of every other
//! namespace must take as long as without it.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, Uri};
use hustings::controller::{Config, OwnLease, Surroundings, elect};
use hustings::ops::health::Health;
use hustings::ops::http::ListenAddress;
use hustings::ops::metrics::{DEFAULT_LEASE_LIMIT, Metrics};
use hustings_client::clock::Clock;
use hustings_client::testing::TokioClock;
use hustings_client::{Campaign, Elector, Timing};
use hustings_world::server::{Kind, Server};
use kube::Client;
use kube::client::Body;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Layer;

/// What a round trip to the server takes.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// How much longer a failover may take than in an undisturbed cluster.
const TOLERANCE: Duration = Duration::from_secs(1);

/// How many requests may be under way at a time, watches aside.
const MOST_UNDER_WAY: usize = 200;

/// The requests of hostile namespaces that are never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hang {
    Statuses,
    Pings,
    LeaseWrites,
    Reads,
    Events,
    Everything,
}

/// What one run took.
#[derive(Debug)]
struct Outcome {
    first_election: Duration,
    failover: Duration,
    /// How many events were published about the namespace that failed over.
    events: usize,
    /// The most requests that were under way at a time.
    under_way: usize,
}

impl Hang {
    const ALL: [Self; 6] =
        [Self::Statuses, Self::Pings, Self::LeaseWrites, Self::Reads, Self::Events, Self::Everything];

    fn covers(self, method: &Method, uri: &Uri) -> bool {
        let path = uri.path();
        let is_object = uri.query().is_none_or(|query| !query.contains("watch="));
        let candidate = path.contains("/leasecandidates/");
        let writes = *method != Method::GET;
        path.contains("/namespaces/hostile-")
            && is_object
            && match self {
                Self::Statuses => candidate && path.ends_with("/status"),
                Self::Pings => candidate && writes && !path.ends_with("/status"),
                Self::LeaseWrites => path.contains("/leases") && writes,
                Self::Reads => !writes,
                Self::Events => path.contains("/events"),
                Self::Everything => true,
            }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_election, failover, events, under_way } = self;
        write!(f, "first election {first_election:?}, failover {failover:?}, {events} events, ")?;
        write!(f, "{under_way} requests at a time")
    }
}

#[test]
fn a_namespace_whose_requests_hang_delays_no_failover_of_another() {
    let undisturbed = run(0, 0, None);
    println!("undisturbed: {undisturbed}");
    for hang in Hang::ALL {
        let leases = if matches!(hang, Hang::Statuses | Hang::Pings | Hang::LeaseWrites) { 1000 } else { 300 };
        compare(&undisturbed, 1, leases, hang);
    }
}

#[test]
fn several_namespaces_whose_requests_hang_delay_no_failover_of_another() {
    let undisturbed = run(0, 0, None);
    for (namespaces, leases) in [(2, 200), (10, 100)] {
        for hang in [Hang::Statuses, Hang::Everything] {
            compare(&undisturbed, namespaces, leases, hang);
        }
    }
}

fn compare(undisturbed: &Outcome, namespaces: usize, leases: usize, hang: Hang) {
    let outcome = run(namespaces, leases, Some(hang));
    println!("{namespaces} namespaces, {leases} Leases each, {hang:?}: {outcome}");
    assert!(outcome.first_election < undisturbed.first_election + TOLERANCE, "{hang:?}: {outcome}");
    assert!(outcome.failover < undisturbed.failover + TOLERANCE, "{hang:?}: {outcome}, undisturbed {undisturbed}");
    assert_eq!(outcome.events, undisturbed.events, "{hang:?}: {outcome}");
    assert!(outcome.under_way < MOST_UNDER_WAY, "{hang:?}: {outcome}");
}

fn run(namespaces: usize, leases: usize, hang: Option<Hang>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(fail_over(namespaces, leases, hang))
}

/// A controller elects in hostile namespaces and in one that behaves, whose holder crashes.
async fn fail_over(namespaces: usize, leases: usize, hang: Option<Hang>) -> Outcome {
    let server = Server::default();
    let clock = TokioClock::shared();
    for namespace in 0..namespaces {
        for lease in 0..leases {
            put_hostile(&server, &format!("hostile-{namespace}"), &format!("l{lease}"));
        }
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = {
        let (server, now, most) = (server.clone(), Arc::clone(&now), Arc::clone(&most));
        tower::service_fn(move |request: Request<Body>| {
            let (server, now, most) = (server.clone(), Arc::clone(&now), Arc::clone(&most));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let _under_way = UnderWay::begin(now, &most);
                sleep(ROUND_TRIP).await;
                if hang.is_some_and(|hang| hang.covers(&parts.method, &parts.uri)) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(server.execute(&parts.method, &parts.uri, &parts.headers, &body))
            }
        })
    };
    let timing = Timing::default();
    let config = Config {
        watch_namespaces: Vec::new(),
        admin_address: ListenAddress::read("127.0.0.1:0").unwrap(),
        own_lease: Some(OwnLease { name: "hustings-controller".to_owned(), namespace: None, timing }),
        settling: Duration::from_secs(1),
        candidate_validity: Duration::from_mins(30),
        metrics_lease_limit: DEFAULT_LEASE_LIMIT,
    };
    let surroundings = Surroundings {
        identity: "controller".to_owned(),
        namespace: "hustings".to_owned(),
        leases: Client::new(service.clone(), "hustings"),
        gated: Box::new(move |gate| Ok(Client::new(gate.layer(service.clone()), "hustings"))),
        clock: Arc::clone(&clock),
        rng: StdRng::seed_from_u64(1),
        health: Health::new(),
        metrics: Metrics::new().0,
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { elect(&config, surroundings, stop).await }
    });
    // By then the hostile namespaces have all that they may have under way.
    sleep(Duration::from_secs(20)).await;

    let began = Instant::now();
    let [first, second] = ["a", "b"].map(|name| stand(&server, &clock, name));
    timeout(Duration::from_mins(2), first.leadership().wait_until_leader()).await.expect("a first election");
    let first_election = began.elapsed();
    sleep(Duration::from_secs(40)).await;
    let crashed = Instant::now();
    first.abort();
    let failover = timeout(Duration::from_mins(2), second.leadership().wait_until_leader()).await;
    let failover = failover.map_or(Duration::from_mins(2), |_| crashed.elapsed());

    // Events are published a second later.
    sleep(Duration::from_secs(5)).await;
    let news = server.news(0);
    let events = news.iter().filter(|news| news.kind == Kind::Event && news.namespace == "good").count();
    let own_lease = news.iter().rfind(|news| news.name == "hustings-controller").unwrap();
    assert_eq!(own_lease.object().unwrap()["spec"]["holderIdentity"], "controller");
    let terms = news.iter().filter(|news| is_term(news)).count();
    assert!(terms <= 1, "the controller lost its own Lease");
    stop.cancel();
    running.await.unwrap().unwrap();
    Outcome { first_election, failover, events, under_way: most.load(Ordering::Relaxed) }
}

/// Whether this version of the controllers' own Lease begins a term.
fn is_term(news: &hustings_world::server::News) -> bool {
    let spec = |name| news.object().map(|object| &object["spec"][name]);
    news.kind == Kind::Lease
        && news.name == "hustings-controller"
        && spec("holderIdentity") == Some(&json!("controller"))
        && spec("acquireTime") == spec("renewTime")
}

/// A Lease that needs writes of every kind: it lacks the label, and its holder and its other candidate never answer.
fn put_hostile(server: &Server, namespace: &str, lease: &str) {
    let renewed = "2023-11-14T22:13:20.000000Z";
    let spec = json!({ "holderIdentity": format!("{lease}-a"), "leaseDurationSeconds": 15, "renewTime": renewed });
    create(server, ("coordination.k8s.io/v1", "Lease", "leases"), namespace, lease, &spec);
    for name in ["a", "b"] {
        let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
        let kind = ("hustings.io/v1alpha1", "LeaseCandidate", "leasecandidates");
        create(server, kind, namespace, &format!("{lease}-{name}"), &spec);
    }
}

fn create(server: &Server, kind: (&str, &str, &str), namespace: &str, name: &str, spec: &Value) {
    let (version, kind, plural) = kind;
    let path = format!("/apis/{version}/namespaces/{namespace}/{plural}").parse().unwrap();
    let object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec }).to_string();
    let answer = server.execute(&Method::POST, &path, &HeaderMap::new(), object.as_bytes());
    assert_eq!(answer.status(), StatusCode::CREATED);
}

fn stand(server: &Server, clock: &Arc<dyn Clock>, name: &str) -> Campaign {
    Elector::builder(server.client("good"), "good", "web")
        .identity(name)
        .binary_version("1.0.0")
        .fallback(false)
        .clock(Arc::clone(clock))
        .rng(StdRng::seed_from_u64(2))
        .build()
        .unwrap()
        .start()
}

/// A request that is under way as long as this lives.
struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(now: Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(now)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
