//! Applies hostile objects, and then keeps changing them and the ordinary ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::api::names;
use kube::Client;
use kube::core::Status;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::corpus::{Hostile, Kind};

/// How many objects are created at a time.
const AT_A_TIME: usize = 16;
/// How many changes are under way at a time. A server that is slow gets fewer of them.
const CHANGES_AT_A_TIME: usize = 4;

/// The results of creating objects.
#[derive(Debug, Default)]
pub(super) struct Applied {
    pub(super) accepted: Vec<Path>,
    /// The reasons, with how many there were of each.
    pub(super) refused: BTreeMap<String, usize>,
}

/// The location of an object.
#[derive(Clone, Debug)]
pub(super) struct Path {
    kind: Kind,
    url: String,
    /// The object as created.
    object: Arc<Value>,
    /// Stands for an ordinary Lease.
    is_rival: bool,
}

/// Changes objects at a given rate, until it is dropped.
pub(super) struct Churn {
    _task: AbortOnDropHandle<()>,
    pub(super) changed: Arc<AtomicU64>,
    pub(super) refused: Arc<AtomicU64>,
}

/// Creates the objects in a namespace, each candidate for the Lease that `stands_for` returns.
pub(super) async fn apply(
    client: &Client,
    namespace: &str,
    objects: impl IntoIterator<Item = Hostile>,
    stands_for: impl Fn(usize) -> String,
) -> Applied {
    let applying = objects.into_iter().enumerate().map(|(number, Hostile { kind, is, mut object })| {
        if kind == Kind::Candidate {
            object["spec"]["leaseName"] = json!(stands_for(number));
        }
        let url = url(kind, namespace);
        let is_rival = kind == Kind::Candidate && object["spec"]["leaseName"].as_str().unwrap().starts_with("work-");
        let path = Path {
            is_rival,
            kind,
            url: format!("{url}/{}", object["metadata"]["name"].as_str().unwrap()),
            object: object.into(),
        };
        async move {
            let created = send(client, "POST", &url, &path.object).await;
            if created.is_ok() && path.object["status"].is_object() {
                let status = json!({ "status": path.object["status"] });
                let _ = send(client, "PATCH", &format!("{}/status", path.url), &status).await;
            }
            (path, is, created)
        }
    });
    let mut applied = Applied::default();
    let mut created = futures::stream::iter(applying).buffer_unordered(AT_A_TIME);
    while let Some((path, is, created)) = created.next().await {
        match created {
            Ok(()) => applied.accepted.push(path),
            Err(error) => {
                let reason: String = error.message.chars().take(160).collect();
                assert!((400..500).contains(&error.code), "{is}: {error:?}");
                *applied
                    .refused
                    .entry(if is.contains("of seed") { "generated".to_owned() } else { format!("{is}: {reason}") })
                    .or_default() += 1;
            }
        }
    }
    applied
}

impl Churn {
    /// Changes these and, in labels only, the `ordinary` Leases and candidates.
    pub(super) fn start(client: Client, hostile: Vec<Path>, ordinary: Vec<String>, per_second: u32) -> Self {
        let (changed, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&changed), Arc::clone(&refused));
        let churning = async move {
            let mut rng = StdRng::seed_from_u64(3);
            let places = Arc::new(Semaphore::new(CHANGES_AT_A_TIME));
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            for number in 0_u64.. {
                ticks.tick().await;
                // The semaphore is never closed.
                let place = Arc::clone(&places).acquire_owned().await;
                let change = change(&hostile, &ordinary, number, &mut rng);
                let (client, (changed, refused)) = (client.clone(), counts.clone());
                tokio::spawn(async move {
                    let done = change.carry_out(&client).await;
                    if done { changed } else { refused }.fetch_add(1, Ordering::Relaxed);
                    drop(place);
                });
            }
        };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(churning)), changed, refused }
    }
}

enum Change {
    Patch(String, Value),
    Replace(Path),
}

fn change(hostile: &[Path], ordinary: &[String], number: u64, rng: &mut StdRng) -> Change {
    let labels = |rng: &mut StdRng| {
        let enrolled = [json!("true"), json!("false"), Value::Null].choose(rng).unwrap().clone();
        json!({ "metadata": { "labels": { "example.com/churn": number.to_string(), names::ENROLLED_LABEL: enrolled } } })
    };
    if rng.random_bool(0.3) {
        // A client that may write the Lease and removes its label makes every controller measure the expiry from the
        // start.
        let patch = json!({ "metadata": { "labels": { "example.com/churn": number.to_string() } } });
        return Change::Patch(ordinary.choose(rng).unwrap().clone(), patch);
    }
    let target = hostile.choose(rng).unwrap();
    let has_strategy = !target.object["spec"]["strategy"].is_null();
    let body = match (target.kind, rng.random_range(0..5)) {
        // A candidate that asks for another strategy, and is created again and again, keeps its Lease on hold.
        (_, 0) if !(target.is_rival && has_strategy) => return Change::Replace(target.clone()),
        // Only an answer proves that a candidate lives.
        (Kind::Candidate, 1) if !target.is_rival => {
            json!({ "spec": { "renewTime": format!("2026-01-01T00:00:{:02}.{:06}Z", number % 60, number % 1_000_000) } })
        }
        // A third party's strategy with the highest version would keep the Lease on hold for ever.
        (Kind::Candidate, 2) if !has_strategy => {
            json!({ "spec": { "binaryVersion": format!("1.{number}.0"), "emulationVersion": "0", "priority": number % 7 } })
        }
        (Kind::Lease, 1) => {
            json!({ "spec": { "holderIdentity": format!("h-{number}"), "leaseDurationSeconds": number % 60 + 1 } })
        }
        (Kind::Lease, 2) => {
            json!({ "metadata": { "annotations": { names::SESSION: "open" } }, "spec": { "holderIdentity": "" } })
        }
        _ => labels(rng),
    };
    Change::Patch(target.url.clone(), body)
}

impl Change {
    /// Whether the server accepted it.
    async fn carry_out(self, client: &Client) -> bool {
        match self {
            Self::Patch(url, body) => send(client, "PATCH", &url, &body).await.is_ok(),
            Self::Replace(Path { url, object, .. }) => {
                let deleted = send(client, "DELETE", &url, &json!({})).await.is_ok();
                let (parent, _) = url.rsplit_once('/').unwrap();
                // With a finalizer it still exists.
                send(client, "POST", parent, &object).await.is_ok() || deleted
            }
        }
    }
}

pub(super) fn url(kind: Kind, namespace: &str) -> String {
    let (group, plural) = match kind {
        Kind::Lease => ("coordination.k8s.io/v1", "leases"),
        Kind::Candidate => ("hustings.io/v1alpha1", "leasecandidates"),
    };
    format!("/apis/{group}/namespaces/{namespace}/{plural}")
}

pub(super) async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<(), Box<Status>> {
    match client.request::<Value>(request(method, path, body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status),
        // The server has gone, or is too busy.
        Err(error) => {
            let message = error.to_string();
            Err(Box::new(Status { message, code: 503, ..Status::default() }))
        }
    }
}

pub(super) fn request(method: &str, path: &str, body: &Value) -> http::Request<Vec<u8>> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    request.body(if method == "GET" { Vec::new() } else { body.to_string().into_bytes() }).unwrap()
}
