//! A layer of a client that always passes reads, and passes writes only while this process leads.
//!
//! The rules that must hold:
//!
//! - The gate sends a write only if the write can end before the validity of its term does. It rejects a write that may
//!   take longer, and ends a write that does take longer.
//! - A write belongs to the term in which it began. If the term is lost early, because the Lease was edited or deleted,
//!   the gate ends the write at once.
//! - The elector gives a term up only after the writes under way have ended. Each has a deadline. While the elector
//!   waits, the gate admits no further write.
//! - Each write runs in its own task, so it ends in time even if its caller does not poll it. Dropping its future ends
//!   it.
//!
//! To end a write, the gate closes its connection. The server may execute the write anyway. Where that must not happen,
//! [fence](crate::Fence) your writes.
//!
//! The gate comes before everything that kube does with a request, including its retries. The retries of a write belong
//! to that write, and share its deadline and its term.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, mem};

use futures::future::{Either, ErrInto, Ready, ready};
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use hustings_wire::attributes;
use kube::client::Body;
use kube::{Client, Config};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, Service, ServiceExt};
use tracing::Instrument;

use crate::leadership::{Leadership, Term, TermWrite};

mod error;

pub use error::{GateError, InvalidGate, gate_error, is_not_leading};
pub use hustings_wire::attributes::{Attributes, RequestTarget};

/// A layer that passes writes only while this process leads.
///
/// These requests always pass:
///
/// - reads;
/// - dry runs, and reviews of access and of tokens, which change nothing;
/// - requests that the caller [allows](Self::allow).
///
/// Requests that take effect outside the API server (`exec`, `attach`, `portforward`, `proxy`, and every upgrade) count
/// as writes, whatever their method. The gate does not check the traffic of an upgraded connection.
#[derive(Clone)]
pub struct WriteGate {
    leadership: Leadership,
    lease: Arc<str>,
    deadline: Duration,
    within: Option<Term>,
    parking: Option<Parking>,
    rules: Vec<GateRule>,
}

/// A service behind a [`WriteGate`].
#[derive(Clone)]
pub struct Gated<S> {
    service: S,
    gate: WriteGate,
}

type GateRule = Arc<dyn Fn(&Attributes<'_>) -> bool + Send + Sync>;

/// How writes wait until this process leads.
#[derive(Clone)]
struct Parking {
    room: Arc<Semaphore>,
    most: usize,
    wait: Duration,
}

impl WriteGate {
    /// Creates a gate. Each write may take up to `deadline`, including all of its retries.
    ///
    /// # Errors
    /// Fails if `deadline` is zero, longer than the renew deadline minus one jittered retry period, or longer than the
    /// grace in which work must stop.
    pub fn new(leadership: Leadership, deadline: Duration) -> Result<Self, InvalidGate> {
        let timing = leadership.timing();
        let lease: Arc<str> = leadership.lease().into();
        let most = timing.longest_write();
        if deadline.is_zero() {
            return Err(InvalidGate::DeadlineZero { lease });
        }
        if deadline > most {
            return Err(InvalidGate::DeadlineTooLong { lease, deadline, most });
        }
        if deadline > timing.stop_grace() {
            return Err(InvalidGate::DeadlineAboveGrace { lease, deadline, grace: timing.stop_grace() });
        }
        Ok(Self { leadership, lease, deadline, within: None, parking: None, rules: Vec::new() })
    }

    /// Makes up to `most` writes wait until this process leads, each for up to `wait`, instead of rejecting them. The
    /// gate sends them in no particular order. They are based on reads from before the promotion, so they should be
    /// conditional on the versions that those returned.
    #[must_use]
    pub fn park(mut self, most: usize, wait: Duration) -> Self {
        // Memory could not hold more writes than a semaphore can count.
        let most = most.min(Semaphore::MAX_PERMITS);
        self.parking = Some(Parking { room: Arc::new(Semaphore::new(most)), most, wait });
        self
    }

    /// Passes the requests that match `rule`, whether or not this process leads.
    #[must_use]
    pub fn allow(mut self, rule: impl Fn(&Attributes<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// Restricts the gate to one term, so that no write of that term is sent in a later term of the same process.
    #[must_use]
    pub fn within(mut self, term: &Term) -> Self {
        self.within = Some(term.clone());
        self
    }

    /// Returns a client behind this gate.
    ///
    /// # Errors
    /// Fails if kube cannot create a client from `config`.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        Ok(self.gate(crate::access::client(config)?))
    }

    /// Returns a client behind this gate that sends through `client`. All clients gated from one `client` share its
    /// connections.
    pub fn gate(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(self.layer(service), namespace)
    }

    /// Whether this process leads for longer than a write may take. Costs one atomic load and one reading of the clock.
    /// While the elector gives the term up, the gate rejects writes even if this returns true.
    pub fn is_open(&self) -> bool {
        self.leadership.write_until(self.deadline).is_some() && !self.within.as_ref().is_some_and(Term::is_over)
    }

    /// Whether a request passes without leadership.
    fn passes(&self, request: &Request<Body>) -> bool {
        attributes::is_read(request)
            || attributes::changes_nothing(request, body_of)
            || attributes::with_attributes(request, |attributes| self.rules.iter().any(|rule| rule(attributes)))
    }

    fn begin(&self) -> Option<TermWrite> {
        self.leadership.begin_write(self.deadline, self.within.as_ref())
    }

    /// A write that waits for leadership, if there is room for it.
    fn parked(
        &self,
        parking: &Parking,
    ) -> Result<impl Future<Output = Result<TermWrite, GateError>> + Send + use<>, GateError> {
        let Ok(place) = Arc::clone(&parking.room).try_acquire_owned() else {
            return Err(GateError::TooManyParked { lease: Arc::clone(&self.lease), most: parking.most });
        };
        let clock = self.leadership.clock();
        let timeout = clock.sleep_until(clock.now().after(parking.wait));
        let gate = self.clone();
        Ok(async move {
            let _place = place;
            tokio::select! {
                biased;
                write = gate.leadership.wait_for_write(gate.deadline, gate.within.as_ref()) => write,
                () = timeout => None,
            }
            .ok_or_else(|| gate.not_leading())
        })
    }

    fn not_leading(&self) -> GateError {
        GateError::NotLeading { lease: Arc::clone(&self.lease) }
    }
}

/// The body of a request; `None` if it is a stream, of which nothing may be read.
fn body_of(request: &Request<Body>) -> Option<impl AsRef<[u8]> + use<>> {
    request.body().try_clone()?.collect_bytes().now_or_never()?.ok()
}

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGate")
            .field("lease", &self.lease)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for WriteGate {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        Gated { service, gate: self.clone() }
    }
}

type GateAnswer<B> = Result<Response<B>, BoxError>;

/// A write in its own task. Dropping this ends it.
pub struct GatedWrite<B> {
    task: AbortOnDropHandle<GateAnswer<B>>,
    lease: Arc<str>,
}

impl<B: Send + 'static> GatedWrite<B> {
    /// Sends `request` once it is admitted.
    fn start<S>(
        gate: &WriteGate,
        admission: impl Future<Output = Result<TermWrite, GateError>> + Send + 'static,
        service: S,
        request: Request<Body>,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        let (lease, clock) = (Arc::clone(&gate.lease), Arc::clone(gate.leadership.clock()));
        let write = async move {
            let write = admission.await?;
            // The runtime may have started this task late.
            if write.has_ended() || clock.now() >= write.until() {
                return Err(GateError::NotLeading { lease }.into());
            }
            let deadline = clock.sleep_until(write.until());
            let mut answer = pin!(service.oneshot(request));
            // Polling for the answer may send the write, or send it again. So check the clock before each poll: a timer
            // does not advance while the machine is suspended. A write that the connection has already accepted cannot
            // be withdrawn.
            let answer = poll_fn(|context| {
                if clock.now() < write.until() { answer.as_mut().poll(context).map(Some) } else { Poll::Ready(None) }
            });
            tokio::select! {
                biased;
                () = write.ended() => Err(GateError::LostMeanwhile { lease }.into()),
                answer = answer => match answer {
                    Some(answer) => answer.map_err(Into::into),
                    None => Err(GateError::TookTooLong { lease }.into()),
                },
                () = deadline => Err(GateError::TookTooLong { lease }.into()),
            }
        };
        let task = AbortOnDropHandle::new(tokio::spawn(write.in_current_span()));
        Self { task, lease: Arc::clone(&gate.lease) }
    }
}

impl<B> Future for GatedWrite<B> {
    type Output = GateAnswer<B>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<GateAnswer<B>> {
        self.task
            .poll_unpin(context)
            .map(|ended| ended.unwrap_or_else(|_| Err(GateError::GivenUp { lease: Arc::clone(&self.lease) }.into())))
    }
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Either<ErrInto<S::Future, BoxError>, Either<Ready<GateAnswer<B>>, GatedWrite<B>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.gate.passes(&request) {
            return Either::Left(self.service.call(request).err_into());
        }
        let other = self.service.clone();
        Either::Right(match (self.gate.begin(), &self.gate.parking) {
            (Some(write), _) => {
                // Use the service that was polled ready.
                let service = mem::replace(&mut self.service, other);
                Either::Right(GatedWrite::start(&self.gate, ready(Ok(write)), service, request))
            }
            (None, None) => Either::Left(ready(Err(self.gate.not_leading().into()))),
            (None, Some(parking)) => match self.gate.parked(parking) {
                Ok(admission) => Either::Right(GatedWrite::start(&self.gate, admission, other, request)),
                Err(error) => Either::Left(ready(Err(error.into()))),
            },
        })
    }
}

#[cfg(test)]
mod tests;
