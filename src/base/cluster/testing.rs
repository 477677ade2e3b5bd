//! A cluster whose API server is a function, for the tests of commands.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::Cluster;

/// A request that a command has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: Method,
    /// With the query.
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// The requests so far.
pub(crate) type Requests = Arc<Mutex<Vec<Sent>>>;

/// A cluster with the namespace `n`. `answer` returns the status code and the body for a request; without an answer,
/// the server knows no such object.
pub(crate) fn cluster(answer: impl Fn(&Sent) -> Option<(u16, Value)> + Send + Sync + 'static) -> (Cluster, Requests) {
    build(move |sent| Some(answer(sent).unwrap_or_else(|| failure(404))))
}

/// A cluster whose server never answers a request for which `answer` returns nothing.
pub(crate) fn silent_cluster(answer: impl Fn(&Sent) -> Option<(u16, Value)> + Send + Sync + 'static) -> Cluster {
    build(answer).0
}

fn build(answer: impl Fn(&Sent) -> Option<(u16, Value)> + Send + Sync + 'static) -> (Cluster, Requests) {
    let (answer, requests) = (Arc::new(answer), Requests::default());
    let received = Arc::clone(&requests);
    let server = tower::service_fn(move |request: Request<Body>| {
        let (answer, received) = (Arc::clone(&answer), Arc::clone(&received));
        async move {
            let (method, path) = (request.method().clone(), request.uri().to_string());
            let body = request.into_body().collect_bytes().await.unwrap();
            let sent = Sent { method, path, body: serde_json::from_slice(&body).unwrap_or_default() };
            let answer = answer(&sent);
            received.lock().unwrap().push(sent);
            let Some((code, body)) = answer else { return std::future::pending().await };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let config = Config::new("http://api.example.com:6443".parse().unwrap());
    (Cluster { config, leases: Client::new(server, "n"), namespace: "n".to_owned() }, requests)
}

/// An answer of the server that rejects the request.
pub(crate) fn failure(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    (code, json!({ "kind": "Status", "status": "Failure", "message": "refused", "reason": reason, "code": code }))
}

/// An answer with these objects.
pub(crate) fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({ "kind": "List", "metadata": { "resourceVersion": "1" }, "items": items }))
}
