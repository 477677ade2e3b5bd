//! What every sidecar does: it builds electors, serves the program, and keeps the label.

use axum::Router;
use hustings_client::metrics::Metrics;
use hustings_client::{Elector, UNKNOWN_CONTAINER};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::Config;
use super::label::Keeper;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::serve::health::Check;
use crate::serve::http::Socket;
use crate::serve::runtime::Runtime;
use crate::stand::candidacy::{self, Connection};

/// The parts of the sidecar that do not depend on when it stands.
pub(super) struct Sidecar<'a> {
    pub(super) access: &'a Access,
    pub(super) config: Config,
    pub(super) connection: Connection,
    pub(super) metrics: Metrics,
    pub(super) runtime: Runtime,
    elector_runs: Check,
}

/// Where the sidecar listens.
pub(super) struct Endpoints {
    pub(super) program: TcpListener,
    pub(super) socket: Option<(UnixListener, Socket)>,
    pub(super) admin: TcpListener,
}

impl<'a> Sidecar<'a> {
    pub(super) fn new(
        access: &'a Access,
        config: Config,
        connection: Connection,
        metrics: Metrics,
        runtime: Runtime,
    ) -> Self {
        let elector_runs = runtime.health.check("elector");
        Self { access, config, connection, metrics, runtime, elector_runs }
    }

    /// Builds an elector that stops gracefully when `stop` is cancelled.
    pub(super) fn elector(&self, stop: &CancellationToken) -> Result<Elector, Hinted> {
        let builder = self.config.candidacy.builder(&self.connection, self.runtime.health.heartbeat(), stop)?;
        // The program runs in another container. The end of this container is therefore no evidence of its death.
        let builder = builder.container(UNKNOWN_CONTAINER);
        candidacy::build(builder.metrics(&self.metrics).fail_open(self.config.fail_open))
    }

    /// Starts to serve `program`, and on the admin address `is_leader`, health and metrics. Then checks that this
    /// replica may stand. Returns the keeper of the label.
    pub(super) async fn start(
        &self,
        endpoints: Endpoints,
        program: Router,
        is_leader: Router,
    ) -> anyhow::Result<Option<Keeper>> {
        let Endpoints { program: listener, socket, admin } = endpoints;
        if let Some((listener, socket)) = socket {
            self.runtime.serve_on(listener, socket, program.clone());
        }
        self.runtime.serve(listener, program);
        self.runtime.serve_admin(admin, is_leader);

        self.config.candidacy.check(&self.connection).await?;
        let label = match self.config.pod_label.clone().zip(self.config.pod.clone()) {
            Some((label, pod)) => {
                // Keep the label even if the election is switched off. Only the label needs the cluster then.
                let cluster = Cluster::connect_until(self.access, "sidecar", Some(&self.runtime.over)).await?;
                Some(Keeper::start(cluster.leases, label, pod).await?)
            }
            None => None,
        };
        self.elector_runs.pass();
        Ok(label)
    }

    /// Ends the servers, within a second.
    pub(super) async fn finish(&self) {
        self.elector_runs.fail("the elector has ended");
        self.runtime.finish().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hustings_client::FailOpen;
    use hustings_client::testing::MemoryStore;
    use serde_json::json;

    use super::super::testing::{config, endpoints, sidecar};
    use super::*;
    use crate::base::cluster::testing::{cluster, failure};
    use crate::stand::candidacy::Candidacy;

    #[tokio::test(start_paused = true)]
    async fn the_time_range_of_a_sidecar_may_continue_after_its_end() {
        for (fail_open, continues) in [(FailOpen::Off, false), (FailOpen::Unbounded, true)] {
            let access = Access::default();
            let config = Config { fail_open, ..config() };
            let sidecar = sidecar(&access, config, Connection::Memory(MemoryStore::new()));
            let campaign = sidecar.elector(&sidecar.runtime.shutdown).unwrap().start();
            let leadership = campaign.leadership();
            leadership.wait_until_leader().await.unwrap();
            // Nothing runs meanwhile, so that the elector has neither renewed nor noticed it.
            tokio::time::advance(Duration::from_secs(30)).await;
            assert_eq!((leadership.is_leader(), leadership.failing_open()), (false, continues));
            drop(campaign);
        }
    }

    #[tokio::test]
    async fn a_sidecar_whose_candidate_needs_a_missing_crd_does_not_start() {
        let groups = json!({ "kind": "APIGroupList", "groups": [{ "name": "apps", "versions": [] }] });
        let (cluster, _) =
            cluster(move |request| Some(if request.path == "/apis" { (200, groups.clone()) } else { failure(404) }));
        let access = Access::default();
        let mut config = config();
        config.candidacy = Candidacy { direct: false, fallback: false, ..config.candidacy };
        let sidecar = sidecar(&access, config, Connection::Cluster(Box::new(cluster)));
        let started = sidecar.start(endpoints(None).await.0, Router::new(), Router::new()).await;
        let error = started.err().unwrap().to_string();
        assert!(error.contains("the LeaseCandidate CRD is not installed"), "{error}");
        assert!(!sidecar.runtime.health.readiness().ready);
    }

    #[tokio::test]
    async fn a_sidecar_is_ready_from_its_start_to_its_end() {
        let access = Access::default();
        let sidecar = sidecar(&access, config(), Connection::Memory(MemoryStore::new()));
        assert!(!sidecar.runtime.health.readiness().ready);
        sidecar.start(endpoints(None).await.0, Router::new(), Router::new()).await.unwrap();
        assert!(sidecar.runtime.health.readiness().ready);
        sidecar.finish().await;
        assert!(!sidecar.runtime.health.readiness().ready);
    }
}
