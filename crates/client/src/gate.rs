//! A client through which reads always pass, and writes only while this process leads.
//!
//! What must hold: a write is sent only if it is over before the validity of its term is, so it is refused when less is
//! left than it may take, and ended when it takes longer. A write belongs to the term in which it began: when that is
//! lost early, because somebody edited or deleted the Lease, it is ended at once. A term that is given up on purpose
//! waits for the writes under way, each of which has a deadline, and lets none in meanwhile. To depend on nobody, a
//! write is a task of its own: it ends in time also if whoever asked for it looks elsewhere. Dropping its future ends it.
//!
//! To end a write means to close its connection. The server may execute it all the same: whoever cannot have that
//! [fences](crate::fence) what is written.
//!
//! The gate stands before everything that kube does with a request, also before its retries, which are then part of one
//! write: within its deadline, and within its term.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, mem};

use futures::future::{Either, ErrInto, Ready, ready};
use futures::{FutureExt, TryFutureExt};
use http::{Request, Response};
use kube::client::Body;
use kube::{Client, Config};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, Service, ServiceExt};
use tracing::Instrument;

use crate::leadership::{Leadership, Term, TermWrite};

mod request;

pub use request::{Attributes, Target};

/// A layer that lets writes pass only while this process leads.
///
/// Besides reads there pass: dry runs, and the reviews of access and tokens, none of which changes anything; and what is
/// [allowed](Self::allow). Requests whose effect is not the API server's own (`exec`, `attach`, `portforward`, `proxy`,
/// and every upgrade) count as writes whatever their method, and what goes over an upgraded connection is not gated.
#[derive(Clone)]
pub struct WriteGate {
    leadership: Leadership,
    lease: Arc<str>,
    deadline: Duration,
    within: Option<Term>,
    parking: Option<Parking>,
    rules: Vec<Rule>,
}

/// A service behind a [`WriteGate`].
#[derive(Clone)]
pub struct Gated<S> {
    service: S,
    gate: WriteGate,
}

/// The times of a gate do not suit those of its elector. No retry helps: one of them is to be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGate {
    /// No write could ever be in time.
    #[error("cannot gate writes under Lease {lease}: their deadline must be above 0")]
    DeadlineZero {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// Writes would be refused although this process leads and renews in time.
    #[error(
        "cannot gate writes under Lease {lease}: their deadline must be at most {} ms, the renew deadline without a \
         jittered retry period",
        .most.as_millis()
    )]
    DeadlineTooLong {
        /// `namespace/name`.
        lease: Arc<str>,
        /// The longest deadline.
        most: Duration,
    },
    /// A write under way could outlast the grace, and cost the Lease its giving up.
    #[error(
        "cannot gate writes under Lease {lease}: their deadline must be at most {} ms, the grace of work that is to stop",
        .grace.as_millis()
    )]
    DeadlineAboveGrace {
        /// `namespace/name`.
        lease: Arc<str>,
        /// The grace.
        grace: Duration,
    },
}

/// A write was refused, or ended, by the gate. Reads never see this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// It was not sent. The leader's writes are; this one is to be made anew should this process lead.
    #[error("not the leader of Lease {lease}: the write was not sent, so make it anew once this process leads")]
    NotLeading {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// It was not sent: as many writes wait for this process to lead as may.
    #[error(
        "not the leader of Lease {lease}, and {most} writes wait for that already: the write was not sent, so make it \
         anew once this process leads"
    )]
    TooManyParked {
        /// `namespace/name`.
        lease: Arc<str>,
        /// How many may wait.
        most: usize,
    },
    /// It took as long as a write may take, and the server may still execute it.
    #[error(
        "the write took too long to stay within the term of Lease {lease}: its outcome is unknown, so read before you \
         write again"
    )]
    TookTooLong {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The term in which it began was lost while it was under way, and the server may still execute it.
    #[error(
        "the term of Lease {lease} was lost during the write: its outcome is unknown, so read before you write again"
    )]
    LostMeanwhile {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The runtime shuts down, or sending it panicked.
    #[error(
        "the write under Lease {lease} was given up since its task is gone: its outcome is unknown, and this process \
         should be started anew"
    )]
    GivenUp {
        /// `namespace/name`.
        lease: Arc<str>,
    },
}

type Rule = Arc<dyn Fn(&Attributes<'_>) -> bool + Send + Sync>;

/// Where writes wait for this process to lead.
#[derive(Clone)]
struct Parking {
    room: Arc<Semaphore>,
    most: usize,
    wait: Duration,
}

impl WriteGate {
    /// A gate in which each write may take up to `deadline`, with all of its retries.
    pub fn new(leadership: Leadership, deadline: Duration) -> Result<Self, InvalidGate> {
        let timing = leadership.timing();
        let lease: Arc<str> = leadership.lease().into();
        let most = timing.renew_deadline.saturating_sub(timing.longest_retry_period());
        if deadline.is_zero() {
            return Err(InvalidGate::DeadlineZero { lease });
        }
        if deadline > most {
            return Err(InvalidGate::DeadlineTooLong { lease, most });
        }
        if deadline > timing.stop_grace {
            return Err(InvalidGate::DeadlineAboveGrace { lease, grace: timing.stop_grace });
        }
        Ok(Self { leadership, lease, deadline, within: None, parking: None, rules: Vec::new() })
    }

    /// Has up to `most` writes wait, each up to `wait`, until this process leads, instead of refusing them. They are sent
    /// in no particular order, and rest on what was read before the promotion: they should be conditional on it.
    #[must_use]
    pub fn park(mut self, most: usize, wait: Duration) -> Self {
        // More than a semaphore can count is more than memory can hold.
        let most = most.min(Semaphore::MAX_PERMITS);
        self.parking = Some(Parking { room: Arc::new(Semaphore::new(most)), most, wait });
        self
    }

    /// Lets the requests pass for which `rule` says so, whoever leads. Nothing else about them is looked after either.
    #[must_use]
    pub fn allow(mut self, rule: impl Fn(&Attributes<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// This gate for one term: what began in it cannot go on in a later term of the same process.
    #[must_use]
    pub fn within(mut self, term: &Term) -> Self {
        self.within = Some(term.clone());
        self
    }

    /// A client behind this gate.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        Ok(self.gate(Client::try_from(config)?))
    }

    /// A client that sends by `client`, behind this gate. Clients of one `client` share its connections.
    pub fn gate(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let service = tower::service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(self.layer(service), namespace)
    }

    /// Whether a write would be sent now: this process leads, and for longer than a write may take. Costs one atomic load
    /// and one reading of the clock. A term that is just being given up lets no more in all the same.
    pub fn is_open(&self) -> bool {
        self.leadership.write_until(self.deadline).is_some() && !self.within.as_ref().is_some_and(Term::is_over)
    }

    /// Whether a request passes whoever leads.
    fn passes(&self, request: &Request<Body>) -> bool {
        request::is_read(request)
            || request::changes_nothing(request)
            || (!self.rules.is_empty()
                && request::with_attributes(request, |attributes| self.rules.iter().any(|rule| rule(attributes))))
    }

    fn begin(&self) -> Option<TermWrite> {
        self.leadership.begin_write(self.deadline, self.within.as_ref())
    }

    /// A write that is to wait, if there is room for it.
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

impl fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGate")
            .field("lease", &self.lease)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl GateError {
    /// Whether the write may have been executed, or still may be.
    pub const fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::NotLeading { .. } | Self::TooManyParked { .. } => false,
            Self::TookTooLong { .. } | Self::LostMeanwhile { .. } | Self::GivenUp { .. } => true,
        }
    }

    /// Whether the write may succeed later without anybody having changed something: once this process leads. One whose
    /// [outcome is unknown](Self::is_outcome_unknown) may have succeeded already, and is to be made anew from what stands.
    pub const fn is_retryable(&self) -> bool {
        !matches!(self, Self::GivenUp { .. })
    }
}

/// Whether `error` says that the gate kept a write back since this process does not lead.
pub fn is_not_leading(error: &kube::Error) -> bool {
    matches!(gate_error(error), Some(GateError::NotLeading { .. }))
}

/// What the gate said, where it is the gate that failed the request.
pub fn gate_error(error: &kube::Error) -> Option<&GateError> {
    match error {
        kube::Error::Service(error) => error.downcast_ref(),
        _ => None,
    }
}

impl<S> Layer<S> for WriteGate {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        Gated { service, gate: self.clone() }
    }
}

type Answer<B> = Result<Response<B>, BoxError>;

/// A write, which goes on in its task until this is dropped.
pub struct Write<B> {
    task: AbortOnDropHandle<Answer<B>>,
    lease: Arc<str>,
}

impl<B: Send + 'static> Write<B> {
    /// Sends `request` as soon as it is admitted.
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
            // The task may have waited long for its turn.
            if write.has_ended() || clock.now() >= write.until() {
                return Err(GateError::NotLeading { lease }.into());
            }
            let deadline = clock.sleep_until(write.until());
            let mut answer = pin!(service.oneshot(request));
            // To look for the answer may be what sends the write, or repeats it. So whether it may still be sent is
            // looked at each time before, and by the clock: a timer stands still while the machine is suspended. What was
            // given to the connection before is beyond that.
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

impl<B> Future for Write<B> {
    type Output = Answer<B>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer<B>> {
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
    type Future = Either<ErrInto<S::Future, BoxError>, Either<Ready<Answer<B>>, Write<B>>>;

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
                // The service that was found ready is the one to use.
                let service = mem::replace(&mut self.service, other);
                Either::Right(Write::start(&self.gate, ready(Ok(write)), service, request))
            }
            (None, None) => Either::Left(ready(Err(self.gate.not_leading().into()))),
            (None, Some(parking)) => match self.gate.parked(parking) {
                Ok(admission) => Either::Right(Write::start(&self.gate, admission, other, request)),
                Err(error) => Either::Left(ready(Err(error.into()))),
            },
        })
    }
}

#[cfg(test)]
mod tests;
