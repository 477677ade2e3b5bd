//! The time that the write gate adds to a request, and whole requests with and without it. A server that answers at once
//! stands for the API server, so the rest is the library's own time.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use http::{Request, Response};
use hustings_client::WriteGate;
use kube::Client;
use kube::client::Body;
use tower::{Layer, Service};

use super::Row;
use super::batches::{BATCH, follows, leads, nanoseconds, row};

const OBJECT: &str = "/apis/example.com/v1/namespaces/default/widgets/w";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const DEADLINE: Duration = Duration::from_secs(5);

type Answer = Ready<Result<Response<Body>, Infallible>>;

pub(super) async fn measure() -> Result<Vec<Row>> {
    let (leadership, _campaign) = leads().await?;
    let leader = WriteGate::new(leadership, DEADLINE)?;
    let follower = WriteGate::new(follows()?, DEADLINE)?;
    let server = tower::service_fn(answer as fn(Request<Body>) -> Answer);
    let client = Client::new(server, "default");
    let gated = leader.gate(client.clone());

    let dropped = nanoseconds(|| prepared("PATCH", OBJECT), async |prepared| drop(black_box(prepared))).await;
    let read = calls(server, "GET", OBJECT).await;
    let gated_read = calls(follower.layer(server), "GET", OBJECT).await - read;
    let pod = calls(server, "GET", POD).await;
    let gated_pod = calls(follower.layer(server), "GET", POD).await - pod;
    let refused = calls(follower.layer(server), "PATCH", OBJECT).await - dropped;
    let passed = calls(leader.layer(server), "PATCH", OBJECT).await;
    let check = |gate: &WriteGate| {
        for _ in 0..BATCH {
            black_box(black_box(gate).is_open());
        }
    };
    let (open, shut) =
        (nanoseconds(|| (), async |()| check(&leader)).await, nanoseconds(|| (), async |()| check(&follower)).await);
    Ok(vec![
        row("gate: the check of a write that passes", open, Some(100.0)),
        row("gate: the check of a rejected write", shut, Some(100.0)),
        row("gate: added to a read", gated_read, Some(100.0)),
        row("gate: added to a read of the core group", gated_pod, Some(100.0)),
        row("gate: a rejected write in all, with its error", refused, None),
        row("gate: a passing write in all, with a task of its own", passed, None),
        row("kube client: GET, no gate", requests(&client, "GET").await, None),
        row("kube client: GET, gate", requests(&gated, "GET").await, None),
        row("kube client: PATCH, no gate", requests(&client, "PATCH").await, None),
        row("kube client: PATCH, gate", requests(&gated, "PATCH").await, None),
    ])
}

fn answer(_: Request<Body>) -> Answer {
    ready(Ok(Response::new(Body::empty())))
}

async fn calls<S>(service: S, method: &str, path: &str) -> f64
where
    S: Service<Request<Body>> + Clone,
{
    let batch = async |prepared| {
        let mut service = service.clone();
        for request in prepared {
            black_box(service.call(request).await).ok();
        }
    };
    nanoseconds(|| prepared(method, path), batch).await
}

async fn requests(client: &Client, method: &str) -> f64 {
    let batch = async |prepared| {
        for request in prepared {
            black_box(client.send(request).await).ok();
        }
    };
    nanoseconds(|| prepared(method, OBJECT), batch).await
}

fn prepared(method: &str, path: &str) -> Vec<Request<Body>> {
    let request = || Request::builder().method(method).uri(path).body(Body::from(b"{}".to_vec()));
    (0..BATCH).map(|_| request().expect("method and URI are constant")).collect()
}
