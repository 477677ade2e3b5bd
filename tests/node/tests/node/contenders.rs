//! What the campaigns compare: Hustings, with evidence and without, and processes of client-go, with their own election and
//! with the coordinated one of kube-apiserver.

use std::time::Duration;

use hustings_controlplane::{NativeElection, Tool, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;

use super::{
    stage::{self, Group, LEASE, Stage},
    workload::{self, Way, assist, foreign, start},
};

/// Replicas of a group.
const REPLICAS: usize = 3;

/// Candidates whose creation is of the same second depose each other in kube-apiserver's election.
const APART: Duration = Duration::from_secs(2);

/// Which election, and whose program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    /// Programs with the library.
    Evidence,
    /// The same while the controller reads no Pods.
    NoEvidence,
    /// client-go's own election, assisted.
    Assisted,
    /// client-go's own election.
    ClientGo,
    /// kube-apiserver elects processes of client-go.
    BuiltIn,
}

impl Contender {
    pub(crate) const OF_HUSTINGS: [Self; 2] = [Self::Evidence, Self::NoEvidence];

    /// `BuiltIn` is last: the API server that it starts stays.
    pub(crate) const ALL: [Self; 5] = [Self::Evidence, Self::NoEvidence, Self::Assisted, Self::ClientGo, Self::BuiltIn];

    /// The row of the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Evidence => "Hustings' library, with evidence",
            Self::NoEvidence => "Hustings' library, without",
            Self::Assisted => "client-go, assisted",
            Self::ClientGo => "client-go",
            Self::BuiltIn => "client-go, elected by kube-apiserver",
        }
    }

    /// Makes the cluster elect so.
    pub(crate) async fn set_up(self) {
        match self {
            Self::Evidence | Self::Assisted => stage::install(&["--set=evidence.pods=true"]).await,
            Self::NoEvidence => stage::install(&["--set=evidence.pods=false"]).await,
            Self::ClientGo => {}
            Self::BuiltIn => {
                let server = Stage::shared().node.plane().apiserver();
                NativeElection::On.flags().iter().for_each(|flag| server.add_argument(flag));
                server.restart().await.unwrap();
            }
        }
    }

    /// A group whose program this may be.
    pub(crate) async fn group(self, name: &str) -> Group {
        if self.is_hustings() {
            return Group::new(name).await;
        }
        Group::foreign(name).await
    }

    /// A replica of a group.
    pub(crate) async fn template(self, group: &Group) -> Value {
        if self.is_hustings() {
            let mut template = workload::template(group, Way::Library, "1.0.0");
            // A probe is a process each second or two, in each pod.
            template["spec"]["containers"][0]["livenessProbe"].take();
            return template;
        }
        match self {
            Self::BuiltIn => {
                let flags = [
                    "--namespace=$(POD_NAMESPACE)",
                    "--lease=$(LEASE)",
                    "--identity=$(POD_NAME)",
                    "--binary-version=$(VERSION)",
                ];
                foreign(group, Tool::ClientGo, &flags).await
            }
            _ => foreign(group, Tool::Manager, &["--run-or-die"]).await,
        }
    }

    /// Starts all replicas of a group.
    pub(crate) async fn start(self, group: &Group, template: &Value) {
        for number in 0..REPLICAS {
            start(group, &format!("worker-{number}"), template.clone()).await;
            if self == Self::BuiltIn {
                tokio::time::sleep(APART).await;
            }
        }
        self.wait_for_replicas(group).await;
        if self == Self::Assisted {
            assist(group, "").await;
        }
        if self == Self::BuiltIn {
            let leases = group.api::<Lease>();
            // Nothing else sets a strategy.
            let elected = eventually(async || {
                let spec = leases.get(LEASE).await.map_err(|error| error.to_string())?.spec.unwrap_or_default();
                if spec.strategy.is_some() { Ok(()) } else { Err(format!("not elected by kube-apiserver: {spec:?}")) }
            });
            elected.await.unwrap();
        }
    }

    /// Waits until all replicas stand.
    pub(crate) async fn wait_for_replicas(self, group: &Group) {
        if self.is_hustings() {
            return group.wait_for_candidates(REPLICAS).await;
        }
        workload::all_run(group, REPLICAS).await;
    }

    pub(crate) const fn has_evidence(self) -> bool {
        matches!(self, Self::Evidence | Self::Assisted)
    }

    fn is_hustings(self) -> bool {
        Self::OF_HUSTINGS.contains(&self)
    }
}
