//! The same faults for a process of its own: an HTTP proxy on loopback, before the real API server.
//!
//! One proxy serves one life of one process, so the port of a request identifies its process.

use std::convert::Infallible;
use std::future::Future;

use anyhow::{Context, Result};
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{BoxError, ServiceExt};

use crate::tap::Tap;

/// A proxy on a port of its own, and a kubeconfig with its address. It ends with the future.
pub fn open(tap: Tap, namespace: &str) -> Result<(impl Future<Output = Infallible> + Send + use<>, Value)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("cannot open a proxy")?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let url = format!("http://{}", listener.local_addr()?);
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "proxy", "cluster": { "server": url } }],
        "users": [{ "name": "nobody", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "proxy", "user": "nobody", "namespace": namespace } }],
        "current-context": "c",
    });
    Ok((serve(listener, tap), kubeconfig))
}

async fn serve(listener: TcpListener, tap: Tap) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let tap = tap.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let tap = tap.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                // An error breaks the connection.
                tap.oneshot(Request::from_parts(head, Body::from(body.to_vec()))).await as Result<_, BoxError>
            }
        });
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
