//! The connections of one process: HTTP over pipes in memory, below the client's own rules for its connections.
//!
//! The load balancer between the process and the server can fail over without a word. From then on nothing comes over
//! the connections of before, and what is sent over them is lost, while new ones work at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::{DuplexStream, duplex};
use tower::{Service, ServiceExt};

use crate::faults::Faulty;
use crate::server::Server;
use crate::trouble::Trouble;

/// How much lies in a pipe at the most, in bytes, before its writer waits.
const PIPE: usize = 64 * 1024;

/// The load balancer of one process. Clones are the same.
#[derive(Clone, Default)]
pub struct Balancer(Arc<AtomicU64>);

/// Makes connections to a server.
#[derive(Clone)]
pub struct Connector {
    /// What lies behind the connections.
    pub server: Faulty<Server, Trouble>,
    /// What lies before them.
    pub balancer: Balancer,
}

/// The client's end of a connection.
pub struct Wire {
    pipe: TokioIo<DuplexStream>,
    balancer: Balancer,
    /// How often the load balancer had failed over when the connection was made.
    failovers: u64,
}

impl Balancer {
    /// Leaves every connection without another word.
    pub fn fail_over(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn failovers(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Wire>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (near, far) = duplex(PIPE);
        let server = self.server.clone();
        let answer = service_fn(move |request: Request<Incoming>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = Body::from(body.collect().await?.to_bytes());
                server.oneshot(Request::from_parts(parts, body)).await
            }
        });
        // A client that goes away ends it.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(far), answer).map(drop));
        let balancer = self.balancer.clone();
        let wire = Wire { pipe: TokioIo::new(near), failovers: balancer.failovers(), balancer };
        async move { Ok(wire) }.boxed()
    }
}

impl Wire {
    fn is_stale(&self) -> bool {
        self.balancer.failovers() != self.failovers
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_stale() { Poll::Pending } else { Pin::new(&mut self.pipe).poll_read(context, buffer) }
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_stale() { Poll::Ready(Ok(bytes.len())) } else { Pin::new(&mut self.pipe).poll_write(context, bytes) }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_stale() { Poll::Ready(Ok(())) } else { Pin::new(&mut self.pipe).poll_flush(context) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
