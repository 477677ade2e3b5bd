//! Namespaces whose requests hang, together with a namespace whose holder crashes: the real controller with the model
//! of the API server, in virtual time.
//!
//! An admission webhook that never answers makes every write of its namespace hang. The failover of every other
//! namespace must take as long as without it. A namespace must not be slowed down while the others need nothing.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod controller;
mod evidence;
mod objects;

use std::convert::Infallible;
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Uri};
use hustings::controller::EvidenceConfig;
use hustings_client::clock::Clock;
use hustings_client::testing::TokioClock;
use hustings_client::{Campaign, Elector};
use hustings_world::server::{Kind, Server};
use kube::Client;
use kube::client::Body;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use controller::Controller;
use objects::{put_hostile, put_silent};

/// How long a round trip to the server takes.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// How much longer a failover may take than in an undisturbed cluster.
const TOLERANCE: Duration = Duration::from_secs(1);

/// How many requests may be under way at a time, watches excluded.
const MOST_UNDER_WAY: usize = 200;

/// The delay of the answers to requests of a slow namespace.
const SLOW: Duration = Duration::from_millis(1900);

/// How long a round trip to a large and busy server takes.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(20);

/// How many Leases of one namespace fail over at the same time.
const LEASES_AT_ONCE: usize = 3000;

/// How long all their grants together may take. With 48 requests at a time they take 1.25 s.
const LONGEST_BURST: Duration = Duration::from_millis(1500);

/// Namespaces whose requests are answered late, or never.
#[derive(Clone, Debug)]
struct Hostile {
    /// The number of Leases in each namespace.
    leases: Vec<usize>,
    hang: Hang,
    /// `None` if the requests are never answered.
    answered_after: Option<Duration>,
}

/// The requests of hostile namespaces that hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hang {
    Statuses,
    Pings,
    LeaseWrites,
    Reads,
    Events,
    Everything,
}

/// The figures of one run.
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

impl Hostile {
    fn never_answered(hang: Hang, leases: impl Into<Vec<usize>>) -> Self {
        Self { leases: leases.into(), hang, answered_after: None }
    }

    fn answered_late(leases: impl Into<Vec<usize>>) -> Self {
        Self { leases: leases.into(), hang: Hang::Everything, answered_after: Some(SLOW) }
    }

    /// Waits as long as the answer takes.
    async fn delay(&self, method: &Method, uri: &Uri) {
        if self.hang.covers(method, uri) {
            match self.answered_after {
                Some(delay) => sleep(delay).await,
                None => std::future::pending().await,
            }
        }
    }
}

impl Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { leases, hang, answered_after } = self;
        let (most, all) = (leases.iter().max().unwrap_or(&0), leases.iter().sum::<usize>());
        write!(f, "{} namespaces, {most} Leases in one and {all} in all, {hang:?} ", leases.len())?;
        match answered_after {
            Some(delay) => write!(f, "answered after {delay:?}"),
            None => f.write_str("never answered"),
        }
    }
}

#[test]
fn a_namespace_whose_requests_hang_delays_no_failover_of_another() {
    let undisturbed = run(None);
    println!("undisturbed: {undisturbed}");
    for hang in Hang::ALL {
        let leases = if matches!(hang, Hang::Statuses | Hang::Pings | Hang::LeaseWrites) { 1000 } else { 300 };
        compare(&undisturbed, &Hostile::never_answered(hang, [leases]));
    }
}

#[test]
fn several_namespaces_whose_requests_hang_delay_no_failover_of_another() {
    let undisturbed = run(None);
    for hang in [Hang::Statuses, Hang::Pings, Hang::Everything] {
        compare(&undisturbed, &Hostile::never_answered(hang, [100; 10]));
    }
    compare(&undisturbed, &Hostile::never_answered(Hang::Everything, [4; 250]));
}

#[test]
fn namespaces_whose_requests_are_answered_late_delay_no_failover_of_another() {
    let undisturbed = run(None);
    compare(&undisturbed, &Hostile::answered_late([300]));
    compare(&undisturbed, &Hostile::answered_late([30; 20]));
}

#[test]
fn a_namespace_that_fails_over_as_a_whole_uses_the_slots_that_no_other_wants() {
    let burst = in_virtual_time(fail_over_as_a_whole());
    println!("{LEASES_AT_ONCE} Leases of one namespace: granted within {burst:?}");
    assert!(burst < LONGEST_BURST, "{burst:?}");
}

fn compare(undisturbed: &Outcome, hostile: &Hostile) {
    let outcome = run(Some(hostile));
    println!("{hostile}: {outcome}");
    assert!(outcome.first_election < undisturbed.first_election + TOLERANCE, "{hostile}: {outcome}");
    assert!(outcome.failover < undisturbed.failover + TOLERANCE, "{hostile}: {outcome}, undisturbed {undisturbed}");
    assert_eq!(outcome.events, undisturbed.events, "{hostile}: {outcome}");
    assert!(outcome.under_way < MOST_UNDER_WAY, "{hostile}: {outcome}");
}

fn run(hostile: Option<&Hostile>) -> Outcome {
    in_virtual_time(fail_over(hostile.cloned()))
}

fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

/// A controller elects in hostile namespaces and in an ordinary one, whose holder crashes.
async fn fail_over(hostile: Option<Hostile>) -> Outcome {
    let server = Server::default();
    let clock = TokioClock::shared();
    for (number, leases) in hostile.iter().flat_map(|hostile| &hostile.leases).enumerate() {
        for lease in 0..*leases {
            put_hostile(&server, &format!("hostile-{number}"), &format!("l{lease}"));
        }
    }
    let hostile = Arc::new(hostile);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = {
        let (server, now, most) = (server.clone(), Arc::clone(&now), Arc::clone(&most));
        tower::service_fn(move |request: Request<Body>| {
            let (server, hostile) = (server.clone(), Arc::clone(&hostile));
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let _under_way = UnderWay::begin(now, &most);
                sleep(ROUND_TRIP).await;
                if let Some(hostile) = &*hostile {
                    hostile.delay(&parts.method, &parts.uri).await;
                }
                Ok::<_, Infallible>(server.execute(&parts.method, &parts.uri, &parts.headers, &body))
            }
        })
    };
    let controller = Controller::start(Client::new(service, "hustings"), Arc::clone(&clock), EvidenceConfig::default());
    // By then the hostile namespaces have as many requests under way as they may.
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

    // Events are published a second later, and queue behind those of slow namespaces.
    sleep(Duration::from_secs(20)).await;
    let news = server.news(0);
    let events = news.iter().filter(|news| news.kind == Kind::Event && news.namespace == "good").count();
    let own_lease = news.iter().rfind(|news| news.name == "hustings-controller").unwrap();
    assert_eq!(own_lease.object().unwrap()["spec"]["holderIdentity"], "controller");
    let terms = news.iter().filter(|news| is_term(news)).count();
    assert!(terms <= 1, "the controller lost its own Lease");
    controller.stop().await;
    Outcome { first_election, failover, events, under_way: most.load(Ordering::Relaxed) }
}

/// All holders of a namespace crash at once, and a candidate of each Lease answers pings. Returns the time from the
/// first grant to the last.
async fn fail_over_as_a_whole() -> Duration {
    let server = Server::default();
    for number in 0..LEASES_AT_ONCE {
        put_silent(&server, "busy", &format!("l{number}"));
    }
    let granted_at = Arc::new(Mutex::new(Vec::new()));
    let service = {
        let (server, granted_at) = (server.clone(), Arc::clone(&granted_at));
        tower::service_fn(move |request: Request<Body>| {
            let (server, granted_at) = (server.clone(), Arc::clone(&granted_at));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                sleep(LONG_ROUND_TRIP).await;
                let answer = server.execute(&parts.method, &parts.uri, &parts.headers, &body);
                if parts.method == Method::PATCH && parts.uri.path().contains("/namespaces/busy/leases/") {
                    granted_at.lock().unwrap().push(Instant::now());
                }
                if parts.method == Method::PATCH && parts.uri.path().contains("/leasecandidates/") {
                    let ping: Value = serde_json::from_slice(&body).unwrap();
                    let ack = json!({ "spec": { "renewTime": ping["spec"]["pingTime"] } }).to_string();
                    server.execute(&parts.method, &parts.uri, &parts.headers, ack.as_bytes());
                }
                Ok::<_, Infallible>(answer)
            }
        })
    };
    let controller =
        Controller::start(Client::new(service, "hustings"), TokioClock::shared(), EvidenceConfig::default());
    let all_granted = async {
        while granted_at.lock().unwrap().len() < LEASES_AT_ONCE {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_mins(1), all_granted).await.expect("grants of all Leases");
    controller.stop().await;
    let granted_at = granted_at.lock().unwrap();
    granted_at[LEASES_AT_ONCE - 1] - granted_at[0]
}

/// Whether this version of the controllers' own Lease begins a term.
fn is_term(news: &hustings_world::server::News) -> bool {
    let spec = |name| news.object().map(|object| &object["spec"][name]);
    news.kind == Kind::Lease
        && news.name == "hustings-controller"
        && spec("holderIdentity") == Some(&json!("controller"))
        && spec("acquireTime") == spec("renewTime")
}

fn stand(server: &Server, clock: &Arc<dyn Clock>, name: &str) -> Campaign {
    Elector::coordinated(server.client("good"), "good", "web", "1.0.0")
        .identity(name)
        .fallback(false)
        .clock(Arc::clone(clock))
        .rng(StdRng::seed_from_u64(2))
        .build()
        .unwrap()
        .start()
}

/// Counts as a request under way until it is dropped.
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
