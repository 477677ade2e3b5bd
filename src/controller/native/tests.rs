//! Tests of the stand-in in virtual time, against a server with one Lease. Another program renews that Lease until the
//! stand-in takes it.

use std::convert::Infallible;
use std::sync::Mutex;

use http::{Method, Request, Response};
use hustings_client::Elector;
use hustings_client::testing::{MemoryStore, TokioClock};
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::controller::outage::UNREADY;
use crate::serve::health::Health;

/// An API server with one Lease.
#[derive(Default)]
struct Server {
    lease: Value,
    version: u64,
    /// Writes that did not pass the gate.
    ungated: usize,
    hangs: bool,
    reads: u32,
    /// How long each write takes.
    latency: Duration,
    rejects_writes: bool,
    /// When the last write that was accepted was sent.
    last_sent_at: Option<Instant>,
}

type Shared = Arc<Mutex<Server>>;

impl Server {
    fn store(&mut self, lease: Value) {
        self.version += 1;
        self.lease = lease;
        self.lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    /// Renews the Lease as the other program, if that program still holds it.
    fn renew(&mut self, seconds: i64) {
        let mut lease = self.lease.clone();
        lease["spec"]["renewTime"] = json!(MicroTime(WireTime::from_micros(seconds * 1_000_000)));
        if lease["spec"]["holderIdentity"] == "apiserver-1" {
            self.store(lease);
        }
    }

    fn answer(&mut self, method: &Method, patch: &Value) -> (u16, Value) {
        if *method == Method::PATCH {
            if patch["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"] {
                return (409, json!({ "kind": "Status", "status": "Failure", "code": 409, "message": "stale" }));
            }
            let mut lease = self.lease.clone();
            for part in ["metadata", "spec"] {
                for (field, value) in patch[part].as_object().into_iter().flatten() {
                    lease[part][field] = value.clone();
                }
            }
            self.store(lease);
        }
        (200, self.lease.clone())
    }
}

fn client(server: &Shared, is_gated: bool) -> Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let method = request.method().clone();
            assert_eq!(request.uri().query().unwrap_or_default(), "", "a read of a cache");
            let body = request.into_body().collect_bytes().await.unwrap();
            let patch = serde_json::from_slice(&body).unwrap_or_default();
            server.lock().unwrap().reads += u32::from(method == Method::GET);
            if server.lock().unwrap().hangs {
                std::future::pending::<()>().await;
            }
            if method == Method::PATCH {
                let (sent_at, latency) = (Instant::now(), server.lock().unwrap().latency);
                sleep(latency).await;
                let mut server = server.lock().unwrap();
                server.ungated += usize::from(!is_gated);
                if server.rejects_writes {
                    return Ok(Response::builder().status(403).body(Body::from(b"no".to_vec())).unwrap());
                }
                server.last_sent_at = Some(sent_at);
            }
            let mut server = server.lock().unwrap();
            let (code, answer) = server.answer(&method, &patch);
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, NAMESPACE)
}

/// Starts a stand-in that leads. Returns its server, whether it elects, and where it reports.
fn start() -> (Shared, watch::Receiver<bool>, Health, ControllerMetrics) {
    start_with(Electing::Always)
}

fn start_with(leading: Electing) -> (Shared, watch::Receiver<bool>, Health, ControllerMetrics) {
    let server = Shared::default();
    server.lock().unwrap().store(json!({
        "metadata": { "name": LEASE, "namespace": NAMESPACE, "uid": "u" },
        "spec": { "holderIdentity": "apiserver-1", "leaseDurationSeconds": 15, "leaseTransitions": 4 },
    }));
    let controller = stand_in::Controller { group: "n/own".into(), identity: "hustings-1".into() };
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let watch = NativeWatch::new(NativeParts {
        controller,
        stands_in: true,
        leading,
        reads: client(&server, false),
        writes: client(&server, true),
        clock: TokioClock::shared(),
        check: health.check("native"),
        metrics: metrics.clone(),
    });
    let elects = watch.elects();
    tokio::spawn(watch.run());
    let renewing = Arc::clone(&server);
    tokio::spawn(async move {
        for seconds in 0.. {
            renewing.lock().unwrap().renew(seconds);
            sleep(Duration::from_secs(1)).await;
        }
    });
    (server, elects, health, metrics)
}

fn elector_shown(metrics: &ControllerMetrics) -> Vec<NativeElectorKind> {
    let is_shown = |kind: &NativeElectorKind| metrics.native_elector.get_or_create(&kind.label()).get() == 1;
    NativeElectorKind::ALL.into_iter().filter(is_shown).collect()
}

fn report(health: &Health) -> String {
    health.readiness().checks[0].message.clone().unwrap()
}

#[tokio::test(start_paused = true)]
async fn it_takes_the_lease_through_the_gate_and_elects_once_the_former_holder_must_have_noticed() {
    let (server, mut elects, health, metrics) = start();
    assert!(!health.readiness().ready, "a rollout waits for the first answer");
    sleep(Duration::from_secs(1)).await;
    assert!(health.readiness().ready);
    assert_eq!(elector_shown(&metrics), [NativeElectorKind::Other]);
    sleep(Duration::from_secs(9)).await;
    let taken = server.lock().unwrap().lease.clone();
    assert_eq!(taken["metadata"]["annotations"][names::STAND_IN], "n/own hustings-1");
    let spec = &taken["spec"];
    assert_eq!(spec["holderIdentity"], "hustings-1");
    assert_eq!(spec["leaseDurationSeconds"], LEASE_DURATION_SECONDS);
    assert_eq!(spec["leaseTransitions"], 5);
    assert!(spec["acquireTime"].as_str().is_some_and(|at| at > "2023-11-14T22:13:20"), "{spec}");
    assert_eq!(elector_shown(&metrics), [NativeElectorKind::StandIn]);
    assert!(!*elects.borrow(), "the former holder may not have noticed");
    assert!(report(&health).starts_with("hustings-1 stands in and elects native candidates after a wait, since "));

    assert!(!elects.has_changed().unwrap());
    sleep(stand_in::NOTICE).await;
    assert!(elects.has_changed().unwrap() && *elects.borrow_and_update());
    let since = metrics.native_elector_since_timestamp.get() - 1_700_000_000;
    assert!((15..=25).contains(&since), "{since} s after the start");
    let reported = report(&health);
    let shown = jiff::Timestamp::from_second(metrics.native_elector_since_timestamp.get())
        .unwrap()
        .strftime("%FT%T")
        .to_string();
    let expected = format!("this controller elects native candidates, since {shown}");
    assert!(reported.starts_with(&expected), "{reported}, not {expected}");
    let renewed = server.lock().unwrap().lease.clone();
    assert_eq!(renewed["spec"]["acquireTime"], spec["acquireTime"]);
    assert_ne!(renewed["spec"]["renewTime"], spec["renewTime"]);
    assert_eq!(server.lock().unwrap().ungated, 0);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(metrics.native_elector_since_timestamp.get() - 1_700_000_000, since, "nothing has changed");
    assert_eq!(report(&health), reported);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_ends_the_right_to_elect() {
    let (server, elects, health, metrics) = start();
    sleep(Duration::from_secs(30)).await;
    assert!(*elects.borrow());
    server.lock().unwrap().hangs = true;
    sleep(Duration::from_secs(30)).await;
    assert!(!*elects.borrow());
    assert_eq!(elector_shown(&metrics), [NativeElectorKind::Unknown]);
    let report = report(&health);
    assert!(report.ends_with("leader-election-controller: cannot read it: no answer within 5 s"), "{report}");
    assert!(!health.readiness().ready);
    sleep(UNREADY).await;
    assert!(health.readiness().ready, "all other elections go on, and a rollout must not hang");
    {
        let mut server = server.lock().unwrap();
        (server.hangs, server.reads) = (false, 0);
    }
    sleep(10 * PERIOD).await;
    assert!((5..=11).contains(&server.lock().unwrap().reads), "it does not catch up on the checks that it missed");
}

#[tokio::test(start_paused = true)]
async fn the_right_to_elect_counts_from_the_sending_of_the_last_renewal() {
    let (server, mut elects, ..) = start();
    sleep(Duration::from_secs(30)).await;
    server.lock().unwrap().latency = Duration::from_secs(4);
    sleep(Duration::from_secs(30)).await;
    assert!(*elects.borrow_and_update());
    server.lock().unwrap().rejects_writes = true;
    timeout(Duration::from_mins(2), elects.changed()).await.expect("the right ends").unwrap();
    let lasted = server.lock().unwrap().last_sent_at.unwrap().elapsed();
    // The end is noticed at the next check, after a write that is rejected.
    let expected = Duration::from_secs(45)..Duration::from_secs(45) + Duration::from_secs(4);
    assert!(expected.contains(&lasted), "{lasted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_no_longer_leads_gives_up_the_right_to_elect() {
    let store = MemoryStore::new();
    let campaign = Elector::direct(&store, "n", "own").identity("a").build().unwrap().start();
    let (_server, mut elects, ..) = start_with(Electing::Holding(campaign.leadership()));
    timeout(Duration::from_mins(1), elects.wait_for(|elects| *elects)).await.expect("it stands in").unwrap();
    campaign.abort();
    timeout(PERIOD, elects.wait_for(|elects| !*elects)).await.expect("at once").unwrap();
}

#[test]
fn each_elector_of_native_candidates_has_its_own_words() {
    use NativeElector::{Leader, Other, StandIn, Unknown};
    let lease = format!("Lease {NAMESPACE}/{LEASE}");
    for (elector, expected) in [
        (Unknown, format!("it is unknown who elects native candidates by {lease}")),
        (Leader, "the leading controller elects native candidates".to_owned()),
        (StandIn("h".into()), "h stands in and elects native candidates after a wait".to_owned()),
        (Other("k".into()), "k elects native candidates, and Hustings leaves them alone".to_owned()),
    ] {
        assert_eq!(sentence(&elector, false), expected);
        assert_eq!(sentence(&elector, true), "this controller elects native candidates");
    }
}
