//! Whether a success answers the request that was sent.
//!
//! Not everything that answers 200 is the API server. A login page, a default backend or a cache answers with HTML, with
//! `{"message": …}` or with another object. Read without a check, such an answer is an object whose fields are all
//! empty: a Lease without a holder, or a candidate for another Lease.
//!
//! The rule that must hold: an answer is used only if its kind, apiVersion, name, namespace, uid and resourceVersion are
//! those for which the request asks. Any other answer is a failure with an unknown outcome. An event that a watch of
//! these objects cannot have ends that watch, which then resumes after the last good event.
//!
//! All requests of the library and of the binary pass here. Requests whose answers have no fixed form, such as logs or
//! tables, are not checked.

mod expected;

use std::mem;

use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde::de::IgnoredAny;
use tower::BoxError;

use self::expected::Expected;

/// The remedy for an answer that is not the API server's.
pub(super) const NOT_THE_SERVER: &str = "check for a proxy or a login page in between";

/// The longest event of a watch, in bytes. The API server stores no object of this size.
const LONGEST_EVENT: usize = 16 << 20;

/// An answer with status 200 that does not answer the request.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not {expected}: {received}; {NOT_THE_SERVER}")]
pub struct WrongAnswer {
    expected: String,
    received: String,
}

/// Marks a request whose answer is checked already.
#[derive(Clone, Copy)]
struct Checked;

pub(crate) type CheckedBody = UnsyncBoxBody<Bytes, BoxError>;

/// Returns a client like `client` that accepts only the objects for which it asks.
pub(crate) fn checked(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { send(&client, request).await }
    });
    Client::new(service, namespace)
}

/// Sends one request. Fails if the answer is not the object for which it asks.
pub(crate) async fn send(client: &Client, mut request: Request<Body>) -> Result<Response<CheckedBody>, kube::Error> {
    let expected = match request.extensions_mut().insert(Checked) {
        None => Expected::of(&request),
        Some(Checked) => None,
    };
    let answer = client.send(request).await?;
    match expected {
        Some(expected) if is_success(answer.status()) => check(answer, expected).await,
        _ => Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync())),
    }
}

/// Whether kube takes an answer with this status for a success.
fn is_success(status: StatusCode) -> bool {
    !status.is_client_error() && !status.is_server_error()
}

async fn check(answer: Response<Body>, expected: Expected) -> Result<Response<CheckedBody>, kube::Error> {
    let (head, body) = answer.into_parts();
    if expected.is_watch() {
        let events = StreamBody::new(events(body, expected).map(|event| event.map(Frame::data)));
        return Ok(Response::from_parts(head, events.boxed_unsync()));
    }
    let body = body.collect().await?.to_bytes();
    expected.check(&body).map_err(|wrong| kube::Error::Service(wrong.into()))?;
    Ok(Response::from_parts(head, Full::new(body).map_err(BoxError::from).boxed_unsync()))
}

/// The events of a watch, each with its end of line, until one is wrong.
fn events<B>(body: B, expected: Expected) -> impl Stream<Item = Result<Bytes, BoxError>> + Send
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let state = (Some(body), Bytes::new(), Vec::new(), expected);
    stream::unfold(state, |(mut body, mut chunk, mut begun, expected)| async move {
        loop {
            if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
                let mut line = chunk.split_to(end + 1);
                if !begun.is_empty() {
                    begun.extend_from_slice(&line);
                    line = mem::take(&mut begun).into();
                }
                let checked = expected.check_event(&line);
                let body = body.filter(|_| checked.is_ok());
                let chunk = if checked.is_ok() { chunk } else { Bytes::new() };
                return Some((checked.map(|()| line).map_err(BoxError::from), (body, chunk, begun, expected)));
            }
            begun.extend_from_slice(&mem::take(&mut chunk));
            if begun.len() > LONGEST_EVENT {
                let wrong = expected.wrong("an event is longer than any object".to_owned());
                return Some((Err(wrong.into()), (None, chunk, Vec::new(), expected)));
            }
            chunk = match body.as_mut()?.frame().await {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Some((Err(error.into()), (None, chunk, begun, expected))),
                // An event that the end of the stream cuts off comes again in the next watch.
                None if is_cut_off(&begun) => return None,
                None => {
                    body = None;
                    Bytes::from_static(b"\n")
                }
            };
        }
    })
}

fn is_cut_off(event: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(event).is_err_and(|error| error.is_eof())
}

#[cfg(test)]
mod tests;
