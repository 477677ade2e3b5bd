//! What every process that elects or stands for a Lease has: its stop, its health, its metrics and its servers.

use std::sync::Arc;

use axum::Router;
use axum::serve::Listener;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::health::Health;
use super::{admin, http};
use crate::base::cluster::Stopped;

/// The runtime of one process.
pub struct Runtime {
    /// Cancelled when the process must stop, for example by a signal.
    pub shutdown: CancellationToken,
    /// The health of the process.
    pub health: Health,
    /// Ends the servers and their streams.
    pub over: CancellationToken,
    registry: Arc<Registry>,
    servers: TaskTracker,
}

impl Runtime {
    /// The runtime of a process that `shutdown` stops, and that has these metrics.
    pub fn new(shutdown: CancellationToken, registry: Registry) -> Self {
        Self {
            shutdown,
            health: Health::new(),
            over: CancellationToken::new(),
            registry: Arc::new(registry),
            servers: TaskTracker::new(),
        }
    }

    /// Starts to serve health, metrics and these routes to administrators.
    pub fn serve_admin(&self, listener: TcpListener, routes: Router) {
        self.serve(listener, self.admin_router(routes));
    }

    /// Starts to serve these routes.
    pub fn serve(&self, listener: TcpListener, routes: Router) {
        self.servers.spawn(http::serve(listener, routes, self.over.clone()));
    }

    /// Starts to serve these routes on a listener of any kind, and keeps `guard` until the server has ended.
    pub fn serve_on(&self, listener: impl Listener, guard: impl Send + 'static, routes: Router) {
        let serving = http::serve_on(listener, |_| None, routes, self.over.clone());
        self.servers.spawn(async move {
            serving.await;
            drop(guard);
        });
    }

    /// Ends the servers, within a second.
    pub async fn finish(&self) {
        self.over.cancel();
        self.servers.close();
        self.servers.wait().await;
    }

    /// Health, metrics and these routes.
    pub(crate) fn admin_router(&self, routes: Router) -> Router {
        admin::router(self.health.clone(), Arc::clone(&self.registry)).merge(routes)
    }
}

/// Whether a process ended without a failure. A stop while it connects is none.
pub fn has_stopped(ended: &anyhow::Result<()>) -> bool {
    ended.as_ref().err().is_none_or(anyhow::Error::is::<Stopped>)
}
