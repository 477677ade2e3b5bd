//! ServiceAccounts whose permissions are revoked and restored while their electors run.

use anyhow::{Context, Result};
use hustings_client::lease_client;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::json;

use super::stage::{Stage, eventually};

pub(super) const LEASES: &str = "leases";
pub(super) const CANDIDATES: &str = "leasecandidates";

/// The API group, resource and verbs of everything that an elector does. It uses `list` if the server does not stream
/// lists, and in the fallback.
pub(super) const GRANTS: [(&str, &str, &[&str]); 2] = [
    ("coordination.k8s.io", LEASES, &["get", "list", "watch", "create", "patch"]),
    ("hustings.io", CANDIDATES, &["get", "list", "watch", "create", "patch", "delete"]),
];

/// A ServiceAccount with its own Role, which grants everything that an elector does.
pub(super) struct Account {
    name: String,
    namespace: String,
    admin: Client,
    config: Config,
}

impl Account {
    pub(super) async fn new(stage: &Stage, name: &str) -> Result<Self> {
        stage.plane.create_service_account(&stage.namespace, name).await?;
        let config = stage.plane.config_for_service_account(&stage.namespace, name).await?;
        let account =
            Self { name: name.to_owned(), namespace: stage.namespace.clone(), admin: stage.client.clone(), config };
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": account.namespace }],
        }))?;
        let bindings = Api::<RoleBinding>::namespaced(account.admin.clone(), &account.namespace);
        bindings.create(&PostParams::default(), &binding).await?;
        account.restore().await?;
        Ok(account)
    }

    /// The client configuration of this account.
    pub(super) fn config(&self) -> Config {
        self.config.clone()
    }

    /// Revokes one verb. Returns when the server denies it.
    pub(super) async fn revoke(&self, resource: &str, verb: &str) -> Result<()> {
        self.grant_all_but(Some((resource, verb))).await
    }

    /// Restores what was revoked. Returns when the server allows it.
    pub(super) async fn restore(&self) -> Result<()> {
        self.grant_all_but(None).await
    }

    async fn grant_all_but(&self, withheld: Option<(&str, &str)>) -> Result<()> {
        let is_granted = |resource: &str, verb: &str| withheld != Some((resource, verb));
        let granted = GRANTS.map(|(group, resource, verbs)| {
            let verbs: Vec<_> = verbs.iter().filter(|verb| is_granted(resource, verb)).collect();
            json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
        });
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": self.name },
            "rules": granted,
        });
        let roles = Api::<Role>::namespaced(self.admin.clone(), &self.namespace);
        roles.patch(&self.name, &PatchParams::apply("test").force(), &Patch::Apply(role)).await?;
        // The server's authorizer reads from a cache.
        let reviews = Api::<SelfSubjectAccessReview>::all(lease_client(self.config())?);
        for (group, resource, verbs) in GRANTS {
            for verb in verbs {
                let attributes =
                    json!({ "namespace": self.namespace, "verb": verb, "group": group, "resource": resource });
                let question = serde_json::from_value(json!({ "spec": { "resourceAttributes": attributes } }))?;
                eventually("the role is in force", || async {
                    let answer = reviews.create(&PostParams::default(), &question).await.ok()?;
                    (answer.status?.allowed == is_granted(resource, verb)).then_some(())
                })
                .await
                .with_context(|| format!("{}: {verb} {resource}", self.name))?;
            }
        }
        Ok(())
    }
}
