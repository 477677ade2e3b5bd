//! Whether a success answers the request that was sent.
//!
//! [`hustings_wire::expected`] says what an answer must be. An event that a watch cannot have ends that watch, which then
//! resumes after the last good event.
//!
//! All requests of the library and of the binary pass here. Requests whose answers have no fixed form, such as logs or
//! tables, are not checked.

use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hustings_wire::expected::Expected;
pub use hustings_wire::expected::WrongAnswer;
use hustings_wire::watch::LONGEST_EVENT;
use hyper::body::Bytes;
use kube::Client;
use kube::client::Body;
use serde::de::IgnoredAny;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::BoxError;

/// The longest answer, in bytes. It is in memory twice for a moment, and objects of 1.5 MB make a page of a list long.
pub(crate) const LONGEST_ANSWER: usize = 32 << 20;

/// The longest page of a list of which only one is received at a time. An object is smaller.
const LONGEST_PAGE: usize = 8 << 20;

/// How long a page keeps its turn. A page that arrives more slowly continues without it, so that a connection that stalls
/// does not delay the lists of other kinds and namespaces.
const LONGEST_TURN: Duration = Duration::from_secs(2);

/// An answer that was given up, because it would take too much memory. A smaller page of a list may not.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer is longer than {0} MiB")]
pub struct AnswerTooLong(pub usize);

/// Marks a request whose answer is checked already.
#[derive(Clone, Copy)]
struct Checked;

/// Marks a request for a page of a list. Its body is read when the permit is free, and then at most [`LONGEST_PAGE`] long.
/// The head is not awaited with the permit: the server may take its time.
#[derive(Clone)]
pub(crate) struct PageTurn(pub(crate) Arc<Semaphore>);

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
        None => Expected::of(&request, &sent(&request)),
        Some(Checked) => None,
    };
    let turn = expected.is_some().then(|| request.extensions_mut().remove()).flatten();
    let answer = client.send(request).await?;
    match expected {
        Some(expected) if is_success(answer.status()) => check(answer, expected, turn).await,
        _ => Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync())),
    }
}

/// Sends one request whose answer the caller checks, and returns the answer with its body.
pub(crate) async fn send_unchecked(
    client: &Client,
    mut request: Request<Body>,
) -> Result<Response<Bytes>, kube::Error> {
    request.extensions_mut().insert(Checked);
    let (head, body) = client.send(request).await?.into_parts();
    Ok(Response::from_parts(head, collected(body, LONGEST_ANSWER).await?))
}

/// The body of a request; empty if it is a stream.
fn sent(request: &Request<Body>) -> Bytes {
    let body = request.body().try_clone().and_then(|body| body.collect_bytes().now_or_never());
    body.and_then(Result::ok).unwrap_or_default()
}

/// Whether kube takes an answer with this status for a success.
fn is_success(status: StatusCode) -> bool {
    !status.is_client_error() && !status.is_server_error()
}

async fn check(
    answer: Response<Body>,
    expected: Expected,
    turn: Option<PageTurn>,
) -> Result<Response<CheckedBody>, kube::Error> {
    let (head, body) = answer.into_parts();
    if expected.is_watch() {
        let events = StreamBody::new(events(body, expected).map(|event| event.map(Frame::data)));
        return Ok(Response::from_parts(head, events.boxed_unsync()));
    }
    let (body, permit) = match turn {
        Some(turn) => turn.collected(body).await?,
        None => (collected(body, LONGEST_ANSWER).await?, None),
    };
    expected.check(&body).map_err(|wrong| kube::Error::Service(wrong.into()))?;
    // The turn ends when kube has taken the body.
    let body = Full::new(body).map_err(move |never| -> BoxError {
        let _permit = &permit;
        match never {}
    });
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

impl PageTurn {
    async fn collected(self, body: Body) -> Result<(Bytes, Option<OwnedSemaphorePermit>), kube::Error> {
        let permit = self.0.acquire_owned().await.ok();
        let mut body = pin!(collected(body, LONGEST_PAGE));
        if let Ok(body) = tokio::time::timeout(LONGEST_TURN, &mut body).await {
            return Ok((body?, permit));
        }
        drop(permit);
        Ok((body.await?, None))
    }
}

/// The whole body of an answer that has at most `longest` bytes.
pub(crate) async fn collected(body: Body, longest: usize) -> Result<Bytes, kube::Error> {
    let of_body = |error: BoxError| {
        if error.is::<LengthLimitError>() {
            return kube::Error::Service(AnswerTooLong(longest >> 20).into());
        }
        error.downcast::<kube::Error>().map_or_else(kube::Error::Service, |error| *error)
    };
    Ok(Limited::new(body, longest).collect().await.map_err(of_body)?.to_bytes())
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
