//! Asks a router without a connection, for the tests of routes.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use serde_json::Value;
use tower::util::ServiceExt as _;

/// The response to a GET.
pub(crate) async fn ask(router: &Router, path: &str) -> Response {
    router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap()
}

/// The whole body of a response.
pub(crate) async fn text_of(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().into()).unwrap()
}

/// The code of a response, and its body, which is JSON.
pub(crate) async fn json_of(response: Response) -> (u16, Value) {
    let code = response.status().as_u16();
    (code, serde_json::from_str(&text_of(response).await).unwrap())
}
