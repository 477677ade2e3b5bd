//! The configuration of the controller, and everything outside the process that it uses.

use std::sync::Arc;

use hustings_client::WriteGate;
use hustings_client::clock::Clock;
use hustings_core::assist::AssistOptions;
use hustings_core::election;
pub use hustings_core::election::EvidenceConfig;
use hustings_core::elector::Timing;
use kube::Client;
use rand::rngs::StdRng;

use super::watched::Scope;
use crate::serve::health::Health;
use crate::serve::http::ListenAddress;
use crate::serve::metrics::ControllerMetrics;
use crate::serve::page::Page;

/// The name of the controllers' own Lease, unless a flag gives another.
pub(crate) const OWN_LEASE: &str = "hustings-controller";

/// The configuration of the controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces in which this controller elects; empty for all.
    pub watch_namespaces: Vec<String>,
    /// Where the admin server listens.
    pub admin_address: ListenAddress,
    /// Whether the admin server serves the page; `None` to serve it only on a loopback address.
    pub ui: Option<bool>,
    /// The Lease whose holder is the leading controller; `None` if this is the only controller.
    pub own_lease: Option<OwnLease>,
    /// Whether this controller elects native candidates, those of `coordination.k8s.io`.
    pub native: NativeMode,
    /// The label selector of the Pods to watch for evidence; `None` for all.
    pub evidence_pod_selector: Option<String>,
    /// Whether the leading controller keeps the labels of `hustings.io/leader-label` on the Pods of holders.
    pub leader_labels: bool,
    /// The Leases that the leading controller keeps assisted, sorted.
    pub assist: Vec<AssistedLease>,
    /// The configuration of each election.
    pub election: election::Config,
    /// The most Leases that have their own series in the metrics.
    pub metrics_lease_limit: usize,
}

impl Config {
    /// The parts of the cluster that this controller watches.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        Scope::all_of(&self.watch_namespaces)
    }

    /// Whether this controller watches this namespace: its Leases, its candidates and its Pods.
    pub(crate) fn watches(&self, namespace: &str) -> bool {
        self.scopes().iter().any(|scope| scope.contains(namespace))
    }

    /// Whether this controller can prove dead a holder whose Pod is in this namespace, if the Pod has the labels of
    /// [`evidence_pod_selector`](Self::evidence_pod_selector).
    pub(crate) fn uses_evidence_in(&self, namespace: &str) -> bool {
        self.election.evidence.pods && self.watches(namespace)
    }
}

/// A Lease that a controller keeps assisted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AssistedLease {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where its holders run.
    pub options: AssistOptions,
}

/// Whether a controller elects native candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeMode {
    /// It neither watches nor elects them.
    #[default]
    Off,
    /// It elects them while Kubernetes' controller does not.
    Elect,
    /// It takes the place of Kubernetes' controller and elects them.
    StandIn,
}

/// The controllers' own Lease: only its holder elects.
#[derive(Clone, Debug)]
pub struct OwnLease {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for the namespace of the process.
    pub namespace: Option<String>,
    /// The timing of its electors.
    pub timing: Timing,
}

/// Builds a client whose writes pass the gate.
pub type GatedClient = Box<dyn Fn(&WriteGate) -> anyhow::Result<Client> + Send + Sync>;

/// Everything outside the process that a controller uses. Simulations replace it.
pub struct Surroundings {
    /// Its name among the controllers.
    pub identity: String,
    /// The namespace of its own Lease, unless [`OwnLease::namespace`] names another.
    pub namespace: String,
    /// The client for lists, watches and all requests that pass no gate. It must not retry on its own.
    pub leases: Client,
    /// Builds a client like `leases` behind a gate.
    pub gated: GatedClient,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub rng: StdRng,
    /// The checks of this controller.
    pub health: Health,
    /// The metrics of this controller.
    pub metrics: ControllerMetrics,
    /// The page of this controller, if it has one.
    pub page: Option<Page>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::testing::controller;

    #[test]
    fn each_flag_of_an_election_takes_effect() {
        let config = controller("--settling=3s --candidate-validity=7m --evidence-pods --evidence-nodes").unwrap();
        let election::Config { settling, validity, evidence, .. } = config.election;
        assert_eq!((settling, validity), (Duration::from_secs(3), Duration::from_mins(7)));
        assert!(evidence.pods && evidence.nodes);
        let [off, on] = ["", "--leader-labels"].map(|flags| controller(flags).unwrap().leader_labels);
        assert!(!off && on);
        let evidence = controller("--evidence-pods").unwrap().election.evidence;
        assert!(evidence.pods && !evidence.nodes, "a controller may read no Node");
    }
}
