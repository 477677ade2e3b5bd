//! A controller with the model of the API server.

use std::sync::Arc;

use hustings::controller::{Config, EvidenceConfig, NativeMode, OwnLease, Surroundings, elect};
use hustings::serve::health::Health;
use hustings::serve::http::ListenAddress;
use hustings::serve::metrics::{ControllerMetrics, DEFAULT_LEASE_LIMIT};
use hustings_client::Timing;
use hustings_client::clock::Clock;
use hustings_core::election;
use kube::Client;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running controller.
pub(crate) struct Controller {
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Controller {
    pub(crate) fn start(client: Client, clock: Arc<dyn Clock>, evidence: EvidenceConfig) -> Self {
        let own_lease = OwnLease { name: "hustings-controller".to_owned(), namespace: None, timing: Timing::default() };
        let config = Config {
            watch_namespaces: Vec::new(),
            admin_address: ListenAddress::read("127.0.0.1:0").unwrap(),
            ui: None,
            own_lease: Some(own_lease),
            native: NativeMode::Off,
            evidence_pod_selector: None,
            leader_labels: false,
            assist: Vec::new(),
            election: election::Config { evidence, ..election::Config::default() },
            metrics_lease_limit: DEFAULT_LEASE_LIMIT,
        };
        let surroundings = Surroundings {
            identity: "controller".to_owned(),
            namespace: "hustings".to_owned(),
            leases: client.clone(),
            gated: Box::new(move |gate| Ok(gate.gate(client.clone()))),
            clock,
            rng: StdRng::seed_from_u64(1),
            health: Health::new(),
            metrics: ControllerMetrics::new().0,
            page: None,
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let stop = stop.clone();
            async move { elect(&config, surroundings, stop).await }
        });
        Self { stop, running }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }
}
