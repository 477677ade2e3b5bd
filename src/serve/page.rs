//! The page `/ui` of the controller. For each Lease it shows the holder and why it leads, the next in line, and
//! problems.
//!
//! These rules must hold:
//!
//! - The page is read-only and causes no requests to the API server. The controller publishes only its own
//!   observations.
//! - A reader can neither block the controller nor make it keep more state. No reader has a queue. After each event, a
//!   reader fetches the changes since that event. A slow reader skips intermediate states, never the latest.
//! - Texts from objects are data. The routes forbid all scripts but the embedded one, which never parses markup.

mod feed;
mod routes;
mod view;

use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;

use self::feed::Feed;
pub use self::routes::Hosts;
pub use self::view::{
    ActView, CandidateView, ControllerView, ElectionView, NextView, Problem, Severity, Span, SpanKind,
};

/// The page of one process. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Page(Arc<Feed>);

impl Page {
    /// Creates a page without any Lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the view of a Lease. Does nothing if the view is the same.
    pub fn publish(&self, lease: &ElectionView) {
        self.0.put_lease((&lease.namespace, &lease.name), lease);
    }

    /// Removes a Lease.
    pub fn remove(&self, namespace: &str, name: &str) {
        self.0.remove_lease((namespace, name));
    }

    /// Replaces the view of the controller. Does nothing if the view is the same.
    pub fn publish_controller(&self, controller: &ControllerView) {
        self.0.put_controller(controller);
    }

    /// The Leases that a new reader sees, and the controller.
    #[cfg(test)]
    pub(crate) fn shown(&self) -> (Vec<String>, Option<String>) {
        let batch = self.0.next(&mut feed::Position::default(), usize::MAX).unwrap_or_default();
        let leases = batch.leases.iter().map(|lease| lease.get().to_owned()).collect();
        (leases, batch.controller.map(|controller| controller.get().to_owned()))
    }

    /// The routes below `/ui`. Streams end when `stop` is cancelled.
    pub fn router(&self, hosts: Hosts, stop: CancellationToken) -> Router {
        routes::router(Arc::clone(&self.0), hosts, stop)
    }
}
