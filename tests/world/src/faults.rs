//! A tower layer that injects faults, for the simulation and for a proxy in front of the real server.
//!
//! Once sent, a request is under way whatever happens to its sender. The server may execute it long after the sender
//! has given it up.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::link::Link;
use crate::server::AnswerBody;

/// The fate of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How long the request takes to reach the server.
    pub outward: Duration,
    /// What happens when the request would arrive.
    pub arrival: Arrival,
    /// How long the answer takes to come back.
    pub homeward: Duration,
    /// What happens to the answer.
    pub answer: Answer,
    /// How long after the request a second copy arrives, if any. The answer to the copy is lost.
    pub repeated_after: Option<Duration>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The server executes it.
    Executed,
    /// It never arrives.
    Lost,
    /// A proxy in front of the server answers with this code. The request is not executed.
    Refused(u16),
    /// A proxy in front of the server answers itself, and differently from the server.
    Forged(Forgery),
}

/// An answer that does not refer to the object of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// 404, a page of a proxy.
    Page,
    /// 404, a Status that names no object, as for an unknown path.
    NoObject,
    /// 404, a Status that names another object.
    OtherObject,
    /// 200, a page.
    SignInPage,
    /// 200, JSON that is no object.
    SignInMessage,
    /// 200, a Status.
    Success,
    /// 200, another object of the same kind, newer than any.
    Stranger,
    /// 200, an object with the right name and nothing else.
    Blank,
}

/// What happens to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is delivered.
    Delivered,
    /// A proxy answers in its place.
    Replaced(Forgery),
    /// The connection breaks.
    Broken,
    /// No answer ever arrives.
    Silence,
}

/// The fate of one piece of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// It is delivered after this time, and later pieces after it.
    After(Duration),
    /// The connection breaks instead.
    Broken,
    /// No further piece arrives on this connection.
    Silence,
    /// A proxy puts something else in its place.
    Replaced(Forgery),
}

/// Decides what goes wrong.
pub trait Fates: Send + 'static {
    /// The fate of this request.
    fn of_request(&mut self, method: &Method, path: &str, is_watch: bool) -> Fate;

    /// The fate of the next piece of a watch of this path.
    fn of_piece(&mut self, path: &str) -> Piece;
}

/// The layer. One per process.
pub struct Faults<F> {
    fates: Arc<Mutex<F>>,
    link: Link,
}

/// A service behind the layer.
pub struct Faulty<S, F> {
    service: S,
    faults: Faults<F>,
}

impl Fate {
    /// Nothing goes wrong.
    pub const fn good(outward: Duration, homeward: Duration) -> Self {
        Self { outward, arrival: Arrival::Executed, homeward, answer: Answer::Delivered, repeated_after: None }
    }
}

impl<F> Clone for Faults<F> {
    fn clone(&self) -> Self {
        Self { fates: Arc::clone(&self.fates), link: self.link.clone() }
    }
}

impl<S: Clone, F> Clone for Faulty<S, F> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), faults: self.faults.clone() }
    }
}

impl<F: Fates> Faults<F> {
    /// The layer for the process behind `link`. `fates` decides the faults.
    pub fn new(fates: F, link: Link) -> Self {
        Self { fates: Arc::new(Mutex::new(fates)), link }
    }

    fn decide<T>(&self, decision: impl FnOnce(&mut F) -> T) -> T {
        decision(&mut self.fates.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The pieces of a watch, each delivered after its delay.
    fn disturb(&self, path: String, body: AnswerBody) -> AnswerBody {
        let faults = self.clone();
        let pieces = BodyStream::new(body);
        let disturbed = stream::unfold(Some(pieces), move |pieces| {
            let (faults, path) = (faults.clone(), path.clone());
            async move {
                let mut pieces = pieces?;
                let piece = pieces.next().await?;
                let fate = faults.decide(|fates| fates.of_piece(&path));
                if let Piece::After(delay) = fate {
                    pause(delay).await;
                }
                faults.link.open().await;
                faults.link.thawed().await;
                match fate {
                    Piece::After(_) => Some((piece, Some(pieces))),
                    Piece::Broken => Some((Err(broken()), None)),
                    // This lasts until the client closes the connection.
                    Piece::Silence => std::future::pending().await,
                    Piece::Replaced(forgery) => {
                        let object = forgery.body(&path);
                        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n");
                        Some((Ok(Frame::data(Bytes::from(event))), Some(pieces)))
                    }
                }
            }
        });
        StreamBody::new(disturbed).boxed_unsync()
    }
}

impl<S, F> Layer<S> for Faults<F> {
    type Service = Faulty<S, F>;

    fn layer(&self, service: S) -> Faulty<S, F> {
        Faulty { service, faults: self.clone() }
    }
}

impl<S, F> Service<Request<Body>> for Faulty<S, F>
where
    S: Service<Request<Body>, Response = Response<AnswerBody>> + Clone + Send + 'static,
    S::Error: Into<BoxError> + Send,
    S::Future: Send,
    F: Fates,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (service, faults) = (self.service.clone(), self.faults.clone());
        async move {
            let path = request.uri().path().to_owned();
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            faults.link.thawed().await;
            let fate = faults.decide(|fates| fates.of_request(request.method(), &path, is_watch));
            let mut request = request;
            if let Some(after) = fate.repeated_after {
                let copy;
                (request, copy) = copied(request).await?;
                let (service, link) = (service.clone(), faults.link.clone());
                tokio::spawn(async move {
                    pause(fate.outward + after).await;
                    link.open().await;
                    drop(service.oneshot(copy).await);
                });
            }
            let (answer, answered) = oneshot::channel();
            let sent_to = path.clone();
            let link = faults.link.clone();
            tokio::spawn(async move {
                pause(fate.outward).await;
                link.open().await;
                let outcome = match fate.arrival {
                    Arrival::Executed => service.oneshot(request).await.map_err(Into::into),
                    Arrival::Refused(code) => Ok(refusal(code)),
                    Arrival::Forged(forgery) => Ok(forgery.answer(&sent_to)),
                    Arrival::Lost => Err(broken()),
                };
                pause(fate.homeward).await;
                link.open().await;
                // If the sender has given up, nobody receives the answer.
                drop(answer.send(outcome));
            });
            let outcome = answered.await?;
            faults.link.thawed().await;
            match fate.answer {
                Answer::Delivered if is_watch => outcome.map(|answer| answer.map(|body| faults.disturb(path, body))),
                Answer::Delivered => outcome,
                Answer::Replaced(forgery) => outcome.map(|_| forgery.answer(&path)),
                Answer::Broken => Err(broken()),
                // This lasts until the client closes the connection.
                Answer::Silence => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Two copies of the request.
async fn copied(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), BoxError> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?.to_vec();
    let copy = Request::from_parts(head.clone(), Body::from(body.clone()));
    Ok((Request::from_parts(head, Body::from(body)), copy))
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

fn broken() -> BoxError {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke").into()
}

fn refusal(code: u16) -> Response<AnswerBody> {
    answer(code, status(code, "Refused", "not now").to_string())
}

impl Forgery {
    /// Every forgery.
    pub const ALL: [Self; 8] = [
        Self::Page,
        Self::NoObject,
        Self::OtherObject,
        Self::SignInPage,
        Self::SignInMessage,
        Self::Success,
        Self::Stranger,
        Self::Blank,
    ];

    /// Whether it looks like a success.
    pub const fn is_success(self) -> bool {
        !matches!(self, Self::Page | Self::NoObject | Self::OtherObject)
    }

    fn answer(self, path: &str) -> Response<AnswerBody> {
        answer(if self.is_success() { 200 } else { 404 }, self.body(path))
    }

    /// The body of an answer to a request for this path.
    fn body(self, path: &str) -> String {
        let missing = status(404, "NotFound", "the server could not find the requested resource");
        let (api_version, kind) = if path.contains("/leasecandidates") {
            ("hustings.io/v1alpha1", "LeaseCandidate")
        } else {
            ("coordination.k8s.io/v1", "Lease")
        };
        let object =
            |metadata: Value| json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {} });
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let namespace = parts.iter().position(|part| *part == "namespaces").and_then(|at| parts.get(at + 1));
        let body = match self {
            Self::Page | Self::SignInPage => {
                return "<html><head><title>404 Not Found</title></head></html>".to_owned();
            }
            Self::NoObject => missing,
            Self::OtherObject => {
                let mut status = missing;
                status["details"] = json!({ "name": "upstream", "kind": "services" });
                status
            }
            Self::SignInMessage => json!({ "message": "please sign in" }),
            Self::Success => json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }),
            Self::Stranger => object(json!({
                "name": "stranger", "namespace": namespace, "uid": "stranger", "resourceVersion": u64::MAX.to_string(),
            })),
            Self::Blank => object(json!({ "name": parts.last(), "namespace": namespace })),
        };
        body.to_string()
    }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn answer(code: u16, body: String) -> Response<AnswerBody> {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
