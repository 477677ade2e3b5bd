//! What the campaigns compare: Hustings, with evidence and without, and processes of client-go, with their own election and
//! with the coordinated one of kube-apiserver.

use std::{path::PathBuf, time::Duration};

use hustings_controlplane::{NativeElection, Tool, eventually};
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::RoleBinding};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    objects::create,
    stage::{self, Group, LEASE, Stage},
    workload::{self, PROGRAM, Way, container, start},
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
        let group = Group::privileged(name).await;
        let binding = json!({
            "metadata": {"name": "native-candidates"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}],
        });
        create::<RoleBinding>(&group.api(), binding).await;
        group
    }

    /// A replica of a group.
    pub(crate) async fn template(self, group: &Group) -> Value {
        if self.is_hustings() {
            let mut template = workload::template(group, Way::Library, "1.0.0");
            // A probe is a process each second or two, in each pod.
            template["spec"]["containers"][0]["livenessProbe"].take();
            return template;
        }
        let program = group.plane().tool(Tool::ClientGo).await.unwrap();
        let flags = match self {
            Self::BuiltIn => "--identity=$POD_NAME --binary-version=$VERSION",
            // As controller-runtime names a process.
            _ => "--identity=${POD_NAME}_$(cat /proc/sys/kernel/random/uuid)",
        };
        client_go(group, &program, flags)
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
            assist(group).await;
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
        eventually(async || {
            let pods = group.pods().await;
            let running = pods.iter().filter(|pod| workload::runs(pod)).count();
            if running == REPLICAS { Ok(()) } else { Err(format!("{}: {running} pods run", group.name)) }
        })
        .await
        .unwrap();
    }

    pub(crate) const fn has_evidence(self) -> bool {
        matches!(self, Self::Evidence | Self::Assisted)
    }

    fn is_hustings(self) -> bool {
        Self::OF_HUSTINGS.contains(&self)
    }
}

/// Switches assistance on, once the Lease exists.
async fn assist(group: &Group) {
    let marks =
        json!({"metadata": {"labels": {"hustings.io/enrolled": "true"}, "annotations": {"hustings.io/assist": ""}}});
    let leases = group.api::<Lease>();
    let marked = eventually(async || leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&marks)).await);
    marked.await.unwrap();
}

/// A process of client-go, and beside it the worker that reports when it leads. Its first process is their shell: a kill of
/// that kills all of them at once.
fn client_go(group: &Group, program: &PathBuf, flags: &str) -> Value {
    let command = format!("/clientgo --namespace=$POD_NAMESPACE --lease=$LEASE {flags} | /worker relay");
    let mut worker = container(group, PROGRAM, &["/bin/sh", "-c", &command]);
    worker["volumeMounts"] = json!([{"name": "program", "mountPath": "/clientgo", "readOnly": true}]);
    let spec = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [worker],
        "volumes": [{"name": "program", "hostPath": {"path": program, "type": "File"}}],
    });
    json!({"metadata": {"labels": {"app": "worker", "version": "1.0.0"}}, "spec": spec})
}
