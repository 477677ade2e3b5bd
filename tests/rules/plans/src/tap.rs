//! The layer between one process and the real API server. It names and notes every request, and applies the plan's fault,
//! with the same fault layer as the simulation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hustings_world::faults::{Answer, Arrival, Fate, Fates, Faults, Piece};
use hustings_world::link::Link;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::ledger::Ledger;
use crate::point::{DELAY, Fault, LATE};
use crate::purpose::{Asked, of_event};

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// One life of one process, seen from the network. Clones are the same.
#[derive(Clone)]
pub struct Tap {
    /// Which process.
    pub role: Arc<str>,
    /// Its connection, which dies with it.
    pub link: Link,
    /// The real API server.
    pub server: Client,
    /// The record of the run.
    pub ledger: Arc<Ledger>,
    /// Receives the deaths that a plan causes.
    pub deaths: mpsc::UnboundedSender<Arc<str>>,
}

/// The treatment of one request.
struct One {
    fate: Fate,
    delay: Delay,
}

/// The delay of the next piece of a watch.
type Delay = Arc<Mutex<Duration>>;

/// The real server, and one request to it.
#[derive(Clone)]
struct Upstream {
    tap: Tap,
    /// What is asked, in words.
    what: Option<String>,
    /// The watch, if the request is one.
    delay: Option<Delay>,
}

/// The lines of a watch, and the former version of each object.
struct Lines {
    tap: Tap,
    body: BodyStream<Body>,
    rest: Vec<u8>,
    /// Each with its delay.
    ready: VecDeque<(Bytes, Duration)>,
    former: BTreeMap<String, Bytes>,
    /// An event was dropped: the watch delivers nothing more, and ends.
    has_gap: bool,
    delay: Delay,
}

impl Tap {
    /// A client of the process behind this.
    pub fn client(&self, namespace: &str) -> Client {
        Client::new(self.clone(), namespace)
    }

    async fn pass(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        self.link.thawed().await;
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        let asked = Asked::read(&head.method, &head.uri, &body);
        let request = Request::from_parts(head, Body::from(body.to_vec()));
        let delay = Delay::default();
        let (what, fault) = match &asked {
            Asked::Write(write) => {
                let name = write.name();
                let fault = self.ledger.note_write(&self.role, &write.verb, &write.kind, (write.purpose, &name));
                (Some(format!("{}: {} {} {name}", self.role, write.verb, write.kind)), fault)
            }
            Asked::Watch | Asked::Read => (None, None),
        };
        let upstream = Upstream { tap: self.clone(), what, delay: (asked == Asked::Watch).then(|| Arc::clone(&delay)) };
        let mut fate = Fate::good(Duration::ZERO, Duration::ZERO);
        match fault {
            Some(Fault::CrashBefore) => return self.die().await,
            Some(Fault::CrashAfter) => {
                drop(tokio::spawn(upstream.oneshot(request)).await);
                return self.die().await;
            }
            Some(Fault::AnswerLost) => fate.answer = Answer::Broken,
            Some(Fault::Conflict) => fate.arrival = Arrival::Refused(409),
            Some(Fault::TooMany) => fate.arrival = Arrival::Refused(429),
            Some(Fault::Failed) => fate.arrival = Arrival::Refused(500),
            Some(Fault::Hang) => (fate.arrival, fate.answer) = (Arrival::Lost, Answer::Silence),
            Some(Fault::Late) => (fate.outward, fate.answer) = (LATE, Answer::Silence),
            Some(Fault::Dropped | Fault::Delayed | Fault::Stale) | None => {}
        }
        Faults::new(One { fate, delay }, self.link.clone()).layer(upstream).oneshot(request).await
    }

    /// Stops the process's traffic here: no request passes, and no answer arrives.
    async fn die<T>(&self) -> T {
        self.link.kill();
        // When the run is over there is no receiver.
        drop(self.deaths.send(Arc::clone(&self.role)));
        std::future::pending().await
    }
}

impl Service<Request<Body>> for Tap {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().pass(request).boxed()
    }
}

impl Fates for One {
    fn of_request(&mut self, _: &Method, _: &str, _: bool) -> Fate {
        self.fate.clone()
    }

    fn of_piece(&mut self, _: &str) -> Piece {
        Piece::After(std::mem::take(&mut *self.delay.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Service<Request<Body>> for Upstream {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { tap, what, delay } = self.clone();
        async move {
            let sent = Instant::now();
            let answer = tap.server.send(request).await;
            if let Some(what) = what {
                tap.ledger.note_stall(sent.elapsed());
                let outcome = answer.as_ref().map_or_else(ToString::to_string, |answer| answer.status().to_string());
                tap.ledger.note(&format!("{what}: {outcome}"));
            }
            Ok(answer?.map(|body| match delay {
                Some(delay) => lines(tap, body, delay),
                None => body.map_err(Into::into).boxed_unsync(),
            }))
        }
        .boxed()
    }
}

/// The watch, one event a piece.
fn lines(tap: Tap, body: Body, delay: Delay) -> AnswerBody {
    let body = BodyStream::new(body);
    let (rest, ready, former) = (Vec::new(), VecDeque::new(), BTreeMap::new());
    let lines = Lines { tap, body, rest, ready, former, has_gap: false, delay };
    let pieces = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((line.map(http_body::Frame::data), lines))
    });
    StreamBody::new(pieces).boxed_unsync()
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some((line, delay)) = self.ready.pop_front() {
                *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
                return Some(Ok(line));
            }
            if self.has_gap {
                return None;
            }
            match self.body.next().await? {
                Err(error) => return Some(Err(error.into())),
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                        self.cut();
                    }
                }
            }
        }
    }

    /// Cuts whole lines off what has arrived.
    fn cut(&mut self) {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let rest = self.rest.split_off(end + 1);
            let line = Bytes::from(std::mem::replace(&mut self.rest, rest));
            self.take(line);
        }
    }

    fn take(&mut self, line: Bytes) {
        if self.has_gap {
            return;
        }
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let Some((kind, name, shown)) = of_event(&event) else {
            self.ready.push_back((line, Duration::ZERO));
            return;
        };
        let fault = self.tap.ledger.note_event(&self.tap.role, kind, &shown);
        let former = self.former.insert(format!("{kind} {name}"), line.clone());
        match fault {
            Some(Fault::Dropped) => {
                self.has_gap = true;
                self.ready.push_back((expired(), DELAY));
            }
            Some(Fault::Delayed) => self.ready.push_back((line, DELAY)),
            Some(Fault::Stale) => {
                self.ready.push_back((line.clone(), Duration::ZERO));
                self.ready.push_back((former.unwrap_or_else(|| line.clone()), Duration::ZERO));
                self.ready.push_back((line, DELAY));
            }
            _ => self.ready.push_back((line, Duration::ZERO)),
        }
    }
}

/// The last event of a server that no longer has the version from which the watch would continue.
fn expired() -> Bytes {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
        "reason": "Expired", "message": "too old resource version" });
    format!("{}\n", json!({ "type": "ERROR", "object": status })).into()
}
