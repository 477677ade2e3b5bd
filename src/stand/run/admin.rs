//! The admin server of a wrapper: health, metrics, `/isleader`, and the time range for its command.
//!
//! It has no default address, because the wrapper shares its network with the command, which may need any port.

use axum::Router;
use hustings_client::Leadership;

use crate::serve::health::{Check, Health};
use crate::serve::http::ListenAddress;
use crate::serve::runtime::Runtime;
use crate::stand::candidacy::succession::Succession;

/// The admin server of a wrapper. It ends with the process.
pub(super) struct Admin {
    elector_runs: Check,
    electors: Succession,
}

impl Admin {
    /// Starts to serve, with the health and the metrics of this process.
    ///
    /// # Errors
    /// Fails if the address is in use or cannot be bound.
    pub(super) async fn start(address: &ListenAddress, runtime: &Runtime) -> anyhow::Result<Self> {
        let listener = address.listen("admin-address").await?;
        tracing::info!(address = %listener.local_addr()?, "the admin server listens");
        let admin = Self::new(&runtime.health);
        runtime.serve_admin(listener, admin.routes());
        Ok(admin)
    }

    fn new(health: &Health) -> Self {
        Self { elector_runs: health.check("elector"), electors: Succession::default() }
    }

    fn routes(&self) -> Router {
        self.electors.is_leader().merge(self.electors.range())
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
    use hustings_client::metrics::Metrics;
    use hustings_client::testing::MemoryStore;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::serve::http::testing::{ask, text_of};
    use crate::serve::metrics::registry;

    #[tokio::test(start_paused = true)]
    async fn each_answer_is_that_of_the_elector_that_stands() {
        let mut registry = registry();
        let metrics = Metrics::register(&mut registry);
        let runtime = Runtime::new(CancellationToken::new(), registry);
        let admin = Admin::new(&runtime.health);
        let router = runtime.admin_router(admin.routes());
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
        let campaign = builder.metrics(&metrics).build().unwrap().start();
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
