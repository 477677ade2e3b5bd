//! The admin server of a wrapper: health, metrics, `/isleader`, and the time range for its command.
//!
//! It has no default address, since the wrapper shares its network with the command, which may need any port.

use std::sync::Arc;

use hustings_client::metrics::Metrics;
use hustings_client::{ElectorBuilder, Leadership};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::candidacy::range;
use crate::candidacy::snapshot::{self, Snapshot};
use crate::ops::health::{Check, Health};
use crate::ops::http::{self, ListenAddress};
use crate::ops::{admin, metrics};

/// The admin server of a wrapper. It ends with the process.
pub(super) struct Admin {
    pub(super) health: Health,
    elector_runs: Check,
    metrics: Metrics,
    /// The leadership of the current elector, or of the last one.
    leadership: watch::Sender<Option<Leadership>>,
}

impl Admin {
    /// Starts to serve.
    ///
    /// # Errors
    /// Fails if the address is in use or cannot be bound.
    pub(super) async fn start(address: &ListenAddress) -> anyhow::Result<Self> {
        let listener = address.listen("admin-address").await?;
        tracing::info!(address = %listener.local_addr()?, "the admin server listens");
        let health = Health::new();
        let elector_runs = health.check("elector");
        let mut registry = metrics::registry();
        let metrics = Metrics::register(&mut registry);
        let (leadership, current) = watch::channel(None);
        let snapshot = {
            let current = current.clone();
            move || current.borrow().as_ref().map(Snapshot::now)
        };
        let router = admin::router(health.clone(), Arc::new(registry))
            .merge(snapshot::routes(snapshot))
            .merge(range::routes(move || current.borrow().clone()));
        tokio::spawn(http::serve(listener, router, CancellationToken::new()));
        Ok(Self { health, elector_runs, metrics, leadership })
    }

    /// Adds the elector to the metrics.
    pub(super) fn measure(&self, builder: ElectorBuilder) -> ElectorBuilder {
        builder.metrics(&self.metrics)
    }

    /// Reports that an elector stands from now on.
    pub(super) fn stands(&self, leadership: Leadership) {
        self.leadership.send_replace(Some(leadership));
        self.elector_runs.pass();
    }

    /// Reports that the elector no longer stands. The wrapper may start another one later.
    pub(super) fn has_ended(&self) {
        self.elector_runs.fail("the command has ended");
    }
}
