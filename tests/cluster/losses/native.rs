//! Native holders, those of client-go with a LeaseCandidate of `coordination.k8s.io`, while a part of the control plane
//! fails.

use std::process::Command;
use std::time::Duration;

use futures::future::join_all;
use hustings_controlplane::Tool;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::stage::{Stage, Times, between};
use crate::replica::{Replica, Term, until};

/// How long a holder of client-go that cannot renew still believes that it leads: its renew deadline and one request.
const OVERLAP: Duration = Duration::from_secs(15);

/// Two replicas of client-go that stand for one Lease.
pub(crate) struct NativeGroup {
    lease: String,
    replicas: [Replica; 2],
}

impl NativeGroup {
    /// Starts a pair.
    pub(crate) async fn start(stage: &Stage, lease: &str, times: Times) -> Self {
        let tool = stage.plane.tool(Tool::ClientGo).await.unwrap();
        let replicas = ["a", "b"].map(|suffix| {
            let name = format!("{lease}-{suffix}");
            let mut command = Command::new(&tool);
            command.args(["--namespace", &stage.namespace, "--lease", lease, "--identity", &name]);
            command.args(times.flags()).args(["--binary-version=1.36.0", "--kubeconfig"]).arg(stage.plane.kubeconfig());
            Replica::start(&stage.plane, &stage.namespace, &name, command)
        });
        Self { lease: lease.to_owned(), replicas }
    }

    /// Waits until one of the pair leads and renews. Returns how many terms began and ended so far.
    async fn settled(&self, stage: &Stage) -> usize {
        let leases = Api::<Lease>::namespaced(stage.admin.clone(), &stage.namespace);
        let renewed = async || {
            let spec = leases.get(&self.lease).await.ok()?.spec?;
            let is_leader =
                |replica: &&Replica| replica.leads() && spec.holder_identity.as_ref() == Some(&replica.name);
            self.replicas.iter().find(is_leader)?;
            Some(spec.renew_time?.0)
        };
        let log = || self.replicas.iter().map(Replica::log).collect::<String>();
        let first = until(&format!("{} is held", self.lease), log, &renewed).await;
        let later = async || renewed().await.filter(|renewed| *renewed > first);
        until(&format!("{} is renewed", self.lease), log, later).await;
        self.terms().len() + self.terms().iter().filter(|term| term.until.is_some()).count()
    }

    /// All terms by the replicas' own reports, in order.
    fn terms(&self) -> Vec<Term> {
        let mut terms: Vec<_> = self.replicas.iter().flat_map(Replica::terms).collect();
        terms.sort_by_key(|term| term.from);
        terms
    }
}

/// How many of the native holders kept their terms during a disturbance. Fails if two of a pair led at once for longer than
/// client-go lets them.
pub(crate) async fn kept(stage: &Stage, groups: &[NativeGroup], disturb: impl Future<Output = ()>) -> usize {
    let before = join_all(groups.iter().map(|group| group.settled(stage))).await;
    disturb.await;
    let after = join_all(groups.iter().map(|group| group.settled(stage))).await;
    for group in groups {
        for pair in group.terms().windows(2) {
            let overlap = pair[0].until.map(|until| between(pair[1].from, until));
            assert!(overlap.is_some_and(|overlap| overlap < OVERLAP), "{}: two led at once: {pair:?}", group.lease);
        }
    }
    before.iter().zip(&after).filter(|(before, after)| before == after).count()
}
