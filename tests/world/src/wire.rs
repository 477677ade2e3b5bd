//! The connections of one process: HTTP over in-memory pipes, below the client's own pool of connections.
//!
//! A load balancer between the process and the servers chooses an instance for each connection. It can fail over
//! silently: nothing more arrives on the existing connections, and bytes sent on them are lost, while new connections
//! work at once. The end of an instance closes its connections.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::io::{DuplexStream, duplex};
use tower::{Layer, Service, ServiceExt};

use crate::faults::Faults;
use crate::server::Server;
use crate::server::cache::Cache;
use crate::trouble::Trouble;

/// How many bytes a pipe holds before its writer waits.
const PIPE: usize = 64 * 1024;

/// The load balancer of one process. Clones are the same.
#[derive(Clone)]
pub struct Balancer(Arc<Route>);

struct Route {
    failovers: AtomicU64,
    instances: Vec<Cache>,
    rng: Mutex<StdRng>,
}

/// Opens connections to the server, through one of its instances.
#[derive(Clone)]
pub struct Connector {
    /// The server, for requests of this process.
    pub server: Server,
    /// The faults on the way.
    pub faults: Faults<Trouble>,
    /// The load balancer that chooses the instance.
    pub balancer: Balancer,
}

/// The client's end of a connection.
pub struct Wire {
    pipe: TokioIo<DuplexStream>,
    balancer: Balancer,
    /// How many times the load balancer had failed over when the connection was made.
    failovers: u64,
}

impl Balancer {
    /// A load balancer in front of these instances. `seed` determines its choices.
    pub fn new(instances: Vec<Cache>, seed: u64) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        Self(Arc::new(Route { failovers: AtomicU64::new(0), instances, rng }))
    }

    /// Abandons every connection silently.
    pub fn fail_over(&self) {
        self.0.failovers.fetch_add(1, Ordering::Relaxed);
    }

    /// The instances.
    pub fn instances(&self) -> &[Cache] {
        &self.0.instances
    }

    fn failovers(&self) -> u64 {
        self.0.failovers.load(Ordering::Relaxed)
    }

    fn choose(&self) -> Cache {
        let mut rng = self.0.rng.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.instances.choose(&mut *rng).cloned().unwrap_or_default()
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
        let instance = self.balancer.choose();
        let ended = instance.incarnation();
        let server = self.faults.layer(self.server.through(instance));
        let answer = service_fn(move |request: Request<Incoming>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = Body::from(body.collect().await?.to_bytes());
                server.oneshot(Request::from_parts(parts, body)).await
            }
        });
        // A client that closes the connection ends it.
        let connection = http1::Builder::new().serve_connection(TokioIo::new(far), answer).map(drop);
        tokio::spawn(ended.run_until_cancelled_owned(connection));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt;
    use hustings_client::testing::client_over;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::Api;
    use kube::api::WatchParams;
    use tokio::time::Instant;

    use super::*;
    use crate::link::Link;
    use crate::trouble::{Dial, Tally};
    use crate::webhook::Webhook;

    /// How long a watch lasts if only `strike` disturbs it, some time after its start.
    async fn lasts(strike: impl FnOnce(&Server, &Balancer)) -> Duration {
        let server = Server::default();
        let balancer = Balancer::new(vec![Cache::default(), Cache::default()], 0);
        let fates = Trouble::new(Dial::default(), Webhook::default(), Tally::default(), 0);
        let faults = Faults::new(fates, Link::default());
        let client = client_over(Connector { server: server.clone(), faults, balancer: balancer.clone() }, "n");
        let watch = WatchParams::default().disable_bookmarks();
        let watch = Api::<Lease>::default_namespaced(client).watch(&watch, "1").await.unwrap();
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(10)).await;
        strike(&server, &balancer);
        watch.for_each(async |_| {}).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_gives_up_a_silent_connection() {
        let silent = lasts(|_, _| {}).await;
        assert_eq!(silent.as_secs(), 65, "{silent:?}");
        let stale = lasts(|_, balancer| balancer.fail_over()).await;
        assert_eq!(stale.as_secs(), 65, "{stale:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_instance_ends_its_connections() {
        let all = lasts(|server, balancer| balancer.instances().iter().for_each(|cache| cache.restart(server))).await;
        assert!(all < Duration::from_secs(11), "{all:?}");
    }
}
