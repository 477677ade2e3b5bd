//! What operators ask a wrapper: health, metrics, and whether this replica leads; and what its command may ask: the time
//! range. It is served only where an address was given, since the wrapper shares its network with the command, which may
//! want any port for itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hustings_client::metrics::Metrics;
use hustings_client::{ElectorBuilder, Leadership};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::candidacy::range;
use crate::candidacy::snapshot::{self, Snapshot};
use crate::ops::health::{Check, Health};
use crate::ops::http::{self, ListenAddress};
use crate::ops::{admin, metrics};

/// How often the wrapper's own task shows that it goes on.
const BEAT_PERIOD: Duration = Duration::from_secs(1);

/// The admin server of a wrapper, which ends with the process.
pub(super) struct Admin {
    health: Health,
    elector_runs: Check,
    metrics: Metrics,
    /// That of the elector that stands now, or stood last.
    leadership: watch::Sender<Option<Leadership>>,
}

impl Admin {
    /// Begins to listen. Fails where the address cannot be had.
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

    /// Shows the elector among the metrics.
    pub(super) fn measure(&self, builder: ElectorBuilder) -> ElectorBuilder {
        builder.metrics(&self.metrics)
    }

    /// An elector stands from now on.
    pub(super) fn stands(&self, leadership: Leadership) {
        self.leadership.send_replace(Some(leadership));
        self.elector_runs.pass();
    }

    /// It stands no more; the wrapper may have another one stand later.
    pub(super) fn has_ended(&self) {
        self.elector_runs.fail("the command has ended");
    }

    /// Shows that the task which polls this goes on: a wrapper that is caught in a system call is not alive.
    pub(super) async fn beat(&self) -> Infallible {
        loop {
            self.health.beat();
            tokio::time::sleep(BEAT_PERIOD).await;
        }
    }
}
