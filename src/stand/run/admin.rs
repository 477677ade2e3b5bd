//! The admin server of a wrapper: health, metrics, `/isleader`, and the time range for its command.
//!
//! It has no default address, because the wrapper shares its network with the command, which may need any port.

use std::sync::Arc;

use axum::Router;
use hustings_client::metrics::Metrics;
use hustings_client::{ElectorBuilder, Leadership};
use tokio_util::sync::CancellationToken;

use crate::serve::health::{Check, Health};
use crate::serve::http::{self, ListenAddress};
use crate::serve::{admin, metrics};
use crate::stand::candidacy::succession::Succession;

/// The admin server of a wrapper. It ends with the process.
pub(super) struct Admin {
    elector_runs: Check,
    metrics: Metrics,
    electors: Succession,
}

impl Admin {
    /// Starts to serve, with the health of this process.
    ///
    /// # Errors
    /// Fails if the address is in use or cannot be bound.
    pub(super) async fn start(address: &ListenAddress, health: &Health) -> anyhow::Result<Self> {
        let listener = address.listen("admin-address").await?;
        tracing::info!(address = %listener.local_addr()?, "the admin server listens");
        let (admin, router) = Self::new(health);
        tokio::spawn(http::serve(listener, router, CancellationToken::new()));
        Ok(admin)
    }

    fn new(health: &Health) -> (Self, Router) {
        let elector_runs = health.check("elector");
        let mut registry = metrics::registry();
        let metrics = Metrics::register(&mut registry);
        let electors = Succession::default();
        let router =
            admin::router(health.clone(), Arc::new(registry)).merge(electors.is_leader()).merge(electors.range());
        (Self { elector_runs, metrics, electors }, router)
    }

    /// Adds the elector to the metrics.
    pub(super) fn measure(&self, builder: ElectorBuilder) -> ElectorBuilder {
        builder.metrics(&self.metrics)
    }

    /// Reports that an elector stands from now on.
    pub(super) fn stands(&self, leadership: Leadership) {
        self.electors.stands(leadership);
        self.elector_runs.pass();
    }

    /// Reports that a term of the current elector has begun.
    pub(super) fn leads(&self, leadership: Leadership) {
        self.electors.leads(leadership);
    }

    /// Reports that the elector no longer stands. The wrapper may start another one later.
    pub(super) fn has_ended(&self) {
        self.elector_runs.fail("the command has ended");
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::Elector;
    use hustings_client::testing::MemoryStore;

    use super::*;
    use crate::serve::http::testing::{ask, text_of};

    #[tokio::test(start_paused = true)]
    async fn each_answer_is_that_of_the_elector_that_stands() {
        let (admin, router) = Admin::new(&Health::new());
        // The codes of three answers, and whether there is a time range.
        let answers = async || {
            let mut codes = Vec::new();
            for path in ["/livez", "/readyz", "/isleader"] {
                codes.push(ask(&router, path).await.status().as_u16());
            }
            (codes, text_of(ask(&router, "/range").await).await.contains("start"))
        };
        assert_eq!(answers().await, (vec![200, 503, 503], false), "nothing stands yet");
        let store = MemoryStore::new();
        let builder = Elector::direct(&store, "n", "l").identity("a");
        let campaign = admin.measure(builder).build().unwrap().start();
        admin.stands(campaign.leadership());
        campaign.leadership().wait_until_leader().await.unwrap();
        admin.leads(campaign.leadership());
        assert_eq!(answers().await, (vec![200; 3], true));
        let metrics = text_of(ask(&router, "/metrics").await).await;
        for expected in ["leader_election_master_status{name=\"l\"} 1", "hustings_build_info"] {
            assert!(metrics.contains(expected), "{metrics}");
        }
        admin.has_ended();
        campaign.stop().await.unwrap();
        assert_eq!(answers().await, (vec![200, 503, 503], true), "the range outlasts the term");
        let verbose = text_of(ask(&router, "/readyz?verbose").await).await;
        assert!(verbose.contains("the command has ended"), "{verbose}");
        let next = Elector::direct(&store, "n", "l").identity("a").build().unwrap();
        admin.stands(next.leadership());
        assert_eq!(answers().await, (vec![200, 200, 503], true), "the range lasts until the next term");
    }
}
