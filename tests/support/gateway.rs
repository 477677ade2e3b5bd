//! A plain HTTP server in front of the real API server, in which a test observes and changes the requests of a process.

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use kube::Client;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

/// The longest body of a request, in bytes.
const LONGEST_BODY: usize = 1 << 20;

/// Serves these routes on loopback, and returns a kubeconfig file with their address.
pub(crate) async fn open(router: Router) -> NamedTempFile {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server } }],
        "users": [{ "name": "c", "user": {} }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }],
    });
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    file
}

/// Sends a request to the API server under the credentials of `client`.
pub(crate) async fn forward(client: &Client, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LONGEST_BODY).await.unwrap().to_vec();
    // The server rejects a request with two credentials, and the client adds its own user agent.
    let mut passed = Request::builder().method(head.method).uri(head.uri);
    if let Some(kind) = head.headers.get("content-type") {
        passed = passed.header("content-type", kind);
    }
    match client.send(passed.body(body.into()).unwrap()).await {
        Ok(answer) => answer.map(Body::new).into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
