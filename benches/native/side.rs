//! One control plane with its controller.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use hustings_client::api::crd;
use hustings_controlplane::{ControlPlane, NativeElection, Process, serve};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::log::log;
use crate::replicas::until;

/// The name of the policy that rejects writes, and of a Lease for the question whether it is in force.
const REJECT: &str = "reject";

/// The controller under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Elector {
    /// That of kube-apiserver
    Kubernetes,
    /// Hustings, which stands in
    Hustings,
}

/// Everything that runs, but the replicas.
pub(crate) struct Side {
    pub(crate) namespace: String,
    controllers: Vec<Process>,
    // Last, so that the processes end before the control plane.
    pub(crate) plane: ControlPlane,
}

impl Side {
    /// A control plane whose native candidates this controller elects.
    pub(crate) async fn start(elector: Elector, election: NativeElection) -> Result<Self> {
        let plane = ControlPlane::builder().audit(true).native_election(election).start().await?;
        let mut controllers = Vec::new();
        if elector == Elector::Hustings {
            serve(&plane.admin(), &crd()).await?;
            for name in ["hustings-0", "hustings-1"] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_hustings"));
                command.args(["controller", "--native", "--native-stand-in", "--admin-address=127.0.0.1:0"]);
                command.arg("--namespace=default").arg("--kubeconfig").arg(plane.kubeconfig());
                // As in a pod, so that a container that is started again takes the controllers' own Lease back.
                command.env("POD_NAME", name).env("POD_UID", format!("{:032x}", rand::random::<u128>()));
                controllers.push(plane.spawn(name, command)?);
            }
            until(async || {
                let elects =
                    |controller: &Process| log(controller).contains("this controller elects native candidates");
                controllers.iter().any(elects).then_some(())
            })
            .await
            .context("Hustings does not begin to elect")?;
        }
        let namespace = plane.create_namespace("native").await?;
        let side = Self { namespace, controllers, plane };
        let lease = json!({ "metadata": { "name": REJECT }, "spec": { "holderIdentity": REJECT } });
        side.leases(&side.namespace).create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        Ok(side)
    }

    pub(crate) fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.plane.admin(), namespace)
    }

    /// Kills the controllers, or the API server that contains them, and starts them again at once.
    pub(crate) async fn restart_controllers(&self) -> Result<()> {
        if self.controllers.is_empty() {
            self.plane.apiserver().kill()?;
            return self.plane.apiserver().restart().await;
        }
        self.kill_controllers()?;
        self.controllers.iter().try_for_each(Process::start)
    }

    /// Kills all controllers of Hustings.
    pub(crate) fn kill_controllers(&self) -> Result<()> {
        self.controllers.iter().try_for_each(Process::kill)
    }

    /// Makes the API server reject every update of a Lease in the namespace, or accept them again. Returns when that is
    /// in force.
    pub(crate) async fn reject_writes(&self, reject: bool) -> Result<()> {
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.plane.admin());
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(self.plane.admin());
        if reject {
            let policy = json!({ "metadata": { "name": REJECT }, "spec": {
                "matchConstraints": {
                    "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": self.namespace } },
                    "resourceRules": [{ "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"],
                        "operations": ["UPDATE"], "resources": ["leases"] }] },
                "validations": [{ "expression": "false" }] } });
            let binding = json!({ "metadata": { "name": REJECT },
                "spec": { "policyName": REJECT, "validationActions": ["Deny"] } });
            policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
            bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        } else {
            bindings.delete(REJECT, &DeleteParams::default()).await?;
            policies.delete(REJECT, &DeleteParams::default()).await?;
        }
        let leases = self.leases(&self.namespace);
        let mut probe = 0;
        let in_force = until(async || {
            probe += 1;
            let patch = Patch::Merge(json!({ "spec": { "leaseTransitions": probe } }));
            let rejected = leases.patch(REJECT, &PatchParams::default(), &patch).await.is_err();
            (rejected == reject).then_some(())
        })
        .await;
        ensure!(in_force.is_some(), "the policy is not in force");
        Ok(())
    }
}
