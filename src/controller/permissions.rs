//! Checks that the controller has the permissions it needs, before it needs them.
//!
//! Without this check, a missing permission would show at the worst time: when a Lease needs a new holder. The
//! controller therefore sends SelfSubjectAccessReviews at the start, periodically, and after the server has rejected a
//! request as forbidden. It reports missing permissions in the terms of a Role.

use std::sync::Arc;
use std::time::Duration;

use hustings_core::election::EvidenceConfig;
use kube::Client;
use tokio::sync::Notify;

use super::config::{Config, Native};
use super::key::LeaseKey;
use super::native;
use super::watched::Scope;
use crate::ops::health::Check;
use crate::reviews::{Rule, Subject};

/// The pause between checks while a permission is missing. No pause is shorter than this.
const PAUSE_WHILE_MISSING: Duration = Duration::from_secs(5);

/// The pause between checks while no permission is missing.
const PAUSE: Duration = Duration::from_mins(5);

/// The verbs on Leases, including the controllers' own Lease.
const LEASES: Rule = Rule::new("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "patch"]);

/// The rules for each scope of the controller.
const RULES: [Rule; 4] = [
    Rule::new("hustings.io", "leasecandidates", &["get", "list", "watch", "patch", "delete"]),
    Rule::new("hustings.io", "leasecandidates/status", &["patch"]),
    LEASES,
    Rule::new("events.k8s.io", "events", &["create", "patch"]),
];

/// The rule for native candidates. Without it, the controller elects all others.
const NATIVE: Rule = Rule::new("coordination.k8s.io", "leasecandidates", &["get", "list", "watch", "patch", "delete"]);

/// The rule to observe whether Kubernetes' controller elects native candidates.
const OBSERVES: Rule = Rule::new("coordination.k8s.io", "leases", &["get"]);

/// The rule to stand in for Kubernetes' controller.
const STANDS_IN: Rule = Rule::new("coordination.k8s.io", "leases", &["get", "patch"]);

/// The rule to read the Pod of a silent holder. Without it, the controller waits until the Lease expires.
const EVIDENCE_PODS: Rule = Rule::new("", "pods", &["get"]);

/// The rule to read the Node of a silent holder.
const EVIDENCE_NODES: Rule = Rule::new("", "nodes", &["get"]);

/// All permissions that the controller needs.
pub(crate) struct Requirements(Vec<Requirement>);

/// One required rule, for every object in a scope or for the object with this name.
struct Requirement {
    scope: Scope,
    name: Option<String>,
    rule: &'static Rule,
    purpose: Purpose,
}

/// The purpose of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Elections.
    Elections,
    /// The election of native candidates.
    Native,
    /// Evidence of the death of a silent holder.
    Evidence,
}

impl Requirements {
    /// The permissions for a controller with this configuration that runs in the namespace `own`.
    pub(crate) fn of(config: &Config, own: &str) -> Self {
        let own_lease = config.own_lease.as_ref();
        let own_lease = own_lease.map(|lease| LeaseKey::new(lease.namespace.as_deref().unwrap_or(own), &lease.name));
        Self::new(&Scope::all_of(&config.watch_namespaces), own_lease.as_ref(), config.native, &config.evidence)
    }

    /// The permissions for elections in `scopes` and for the controllers' own Lease, and those for native candidates
    /// and evidence if these are on.
    pub(super) fn new(
        scopes: &[Scope],
        own_lease: Option<&LeaseKey>,
        native: Native,
        evidence: &EvidenceConfig,
    ) -> Self {
        let optional =
            [(&NATIVE, Purpose::Native, native != Native::Off), (&EVIDENCE_PODS, Purpose::Evidence, evidence.pods)];
        let optional = optional.into_iter().filter(|(_, _, is_needed)| *is_needed);
        let optional = optional.map(|(rule, purpose, _)| (rule, purpose));
        let rules = || RULES.iter().map(|rule| (rule, Purpose::Elections)).chain(optional.clone());
        let everywhere = scopes.iter().flat_map(|scope| {
            rules().map(|(rule, purpose)| Requirement { scope: scope.clone(), name: None, rule, purpose })
        });
        // A Role may allow access to the controllers' own Lease alone, by its name.
        let own = own_lease.map(|key| Requirement {
            scope: Scope::Namespace(key.namespace().to_string()),
            name: Some(key.name().to_string()),
            rule: &LEASES,
            purpose: Purpose::Elections,
        });
        let electors_lease = match native {
            Native::Off => None,
            Native::Elect => Some(&OBSERVES),
            Native::StandIn => Some(&STANDS_IN),
        };
        let electors_lease = electors_lease.map(|rule| Requirement {
            scope: Scope::Namespace(native::NAMESPACE.to_owned()),
            name: Some(native::LEASE.to_owned()),
            rule,
            purpose: Purpose::Native,
        });
        let nodes = evidence.nodes.then_some(Requirement {
            scope: Scope::Cluster,
            name: None,
            rule: &EVIDENCE_NODES,
            purpose: Purpose::Evidence,
        });
        Self(everywhere.chain(own).chain(electors_lease).chain(nodes).collect())
    }
}

/// Checks periodically, for ever, and reports the result to `check`. A notification of `forbidden` brings the next
/// check forward.
pub(super) async fn watch(client: Client, requirements: Requirements, forbidden: Arc<Notify>, check: Check) {
    loop {
        let pause = match missing(&client, &Subject::Own, &requirements).await {
            Ok(missing) if missing.is_empty() => {
                if check.pass() {
                    tracing::info!("the controller has all permissions that it needs");
                }
                PAUSE
            }
            Ok(missing) => {
                let grants: Vec<_> = missing.iter().map(|missing| missing.grant.as_str()).collect();
                let message = format!("not allowed: grant {}", grants.join("; "));
                let is_ready = missing.iter().all(Missing::is_optional);
                if if is_ready { check.pass_with(Some(message)) } else { check.fail(message) } {
                    for grant in grants {
                        tracing::warn!(grant, "not allowed: a Role or ClusterRole must grant this");
                    }
                }
                PAUSE_WHILE_MISSING
            }
            Err(error) => {
                // The permissions are unknown, so the check keeps its last result.
                tracing::debug!(error, "cannot check the permissions; retrying");
                PAUSE_WHILE_MISSING
            }
        };
        tokio::time::sleep(PAUSE_WHILE_MISSING).await;
        let rest = pause.saturating_sub(PAUSE_WHILE_MISSING);
        // A notification and the end of the pause both make the next check due.
        let _ = tokio::time::timeout(rest, forbidden.notified()).await;
    }
}

/// A permission that is missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The permission, in the terms of a Role.
    pub(crate) grant: String,
    /// Its purpose.
    pub(crate) purpose: Purpose,
}

impl Missing {
    /// Whether the controller is ready without it.
    fn is_optional(&self) -> bool {
        self.purpose != Purpose::Elections
    }
}

/// Returns the permissions that `subject` lacks, one for each requirement.
///
/// # Errors
/// Fails with the reason if a review fails.
pub(crate) async fn missing(
    client: &Client,
    subject: &Subject,
    Requirements(requirements): &Requirements,
) -> Result<Vec<Missing>, String> {
    let mut missing = Vec::new();
    for requirement in requirements {
        let Requirement { scope, name, rule, purpose } = requirement;
        let verbs = rule.missing(client, subject, scope.namespace(), name.as_deref()).await?;
        if !verbs.is_empty() {
            let grant = format!("{} on {requirement}", verbs.join(", "));
            missing.push(Missing { grant, purpose: *purpose });
        }
    }
    Ok(missing)
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scope, name, rule, .. } = self;
        write!(f, "{rule}")?;
        if let Some(name) = name {
            write!(f, " by the name {name}")?;
        }
        write!(f, " in {scope}")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use super::*;
    use crate::ops::health::Health;
    use crate::reviews::TIMEOUT;

    type Reviewed = Arc<Mutex<Vec<Value>>>;

    /// A server that answers each review with the status that `answer` returns for the attributes. Also returns the
    /// reviewed attributes.
    fn server(answer: fn(&Value) -> Value) -> (Client, Reviewed) {
        let reviewed = Reviewed::default();
        let service = tower::service_fn({
            let reviewed = Arc::clone(&reviewed);
            move |request: Request<Body>| {
                let reviewed = Arc::clone(&reviewed);
                async move {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    let mut review: Value = serde_json::from_slice(&body).unwrap();
                    let attributes = review["spec"]["resourceAttributes"].clone();
                    let status = answer(&attributes);
                    if status == json!("never") {
                        std::future::pending::<()>().await;
                    }
                    review["status"] = status;
                    reviewed.lock().unwrap().push(attributes);
                    Ok::<_, Infallible>(Response::new(Body::from(review.to_string().into_bytes())))
                }
            }
        });
        (Client::new(service, "n"), reviewed)
    }

    fn requirements() -> Requirements {
        Requirements::new(
            &[Scope::Namespace("shop".to_owned())],
            Some(&LeaseKey::new("system", "own")),
            Native::Off,
            &EvidenceConfig::default(),
        )
    }

    #[tokio::test]
    async fn missing_verbs_are_named_by_their_rule() {
        let (client, reviewed) = server(|attributes| {
            let is_denied = attributes["subresource"] == "status" || attributes["name"] == "own";
            json!({ "allowed": !is_denied })
        });
        assert_eq!(
            missing(&client, &Subject::Own, &requirements())
                .await
                .unwrap()
                .iter()
                .map(|missing| &*missing.grant)
                .collect::<Vec<_>>(),
            [
                "patch on leasecandidates/status of hustings.io in namespace shop",
                "get, list, watch, patch on leases of coordination.k8s.io by the name own in namespace system",
            ]
        );
        let reviewed = reviewed.lock().unwrap();
        let in_shop = reviewed.iter().filter(|attributes| attributes["namespace"] == "shop").count();
        assert_eq!((reviewed.len(), in_shop), (18, 13));
        let verbs = reviewed.iter().filter(|attributes| attributes["namespace"] == "system").map(|own| &own["verb"]);
        assert_eq!(verbs.collect::<Vec<_>>(), ["get", "list", "watch", "create", "patch"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_without_the_permissions_for_native_candidates_is_ready() {
        let (client, _) = server(|attributes| {
            let group = &attributes["group"];
            json!({ "allowed": !(group == "coordination.k8s.io" && attributes["resource"] == "leasecandidates") })
        });
        let requirements = Requirements::new(&[Scope::Cluster], None, Native::Elect, &EvidenceConfig::default());
        let health = Health::new();
        tokio::spawn(watch(client, requirements, Arc::default(), health.check("permissions")));
        tokio::time::sleep(PAUSE_WHILE_MISSING).await;
        let readiness = health.readiness();
        let expected = "not allowed: grant get, list, watch, patch, delete on leasecandidates of coordination.k8s.io in \
                        all namespaces";
        assert_eq!((readiness.ready, readiness.checks[0].message.as_deref()), (true, Some(expected)));
    }

    #[tokio::test]
    async fn evidence_needs_reads_of_pods_in_each_scope_and_of_nodes_in_the_cluster() {
        let (client, _) = server(|_| json!({ "allowed": false }));
        let scopes = ["a", "b"].map(|namespace| Scope::Namespace(namespace.to_owned()));
        let evidence = EvidenceConfig { pods: true, nodes: true, ..EvidenceConfig::default() };
        let requirements = Requirements::new(&scopes, None, Native::Off, &evidence);
        let missing = missing(&client, &Subject::Own, &requirements).await.unwrap();
        let optional: Vec<_> = missing.iter().filter(|missing| missing.is_optional()).map(|one| &*one.grant).collect();
        assert_eq!(
            optional,
            ["get on pods in namespace a", "get on pods in namespace b", "get on nodes in all namespaces"]
        );
    }

    #[tokio::test]
    async fn a_review_without_a_verdict_allows_nothing() {
        assert_eq!(missing(&server(|_| Value::Null).0, &Subject::Own, &requirements()).await.unwrap().len(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_without_an_answer_fails_and_leaves_the_permissions_unknown() {
        let (client, _) = server(|_| json!("never"));
        let began = Instant::now();
        assert_eq!(missing(&client, &Subject::Own, &requirements()).await, Err("no answer within 5 s".to_owned()));
        assert!(began.elapsed() < 2 * TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn permissions_are_checked_often_while_one_is_missing_and_soon_after_a_denial() {
        for (answer, most) in
            [((|_| json!({ "allowed": true })) as fn(&Value) -> Value, 1), (|_| json!({ "allowed": false }), 24)]
        {
            let (client, reviewed) = server(answer);
            let (health, forbidden) = (Health::new(), Arc::new(Notify::new()));
            let check = health.check("permissions");
            let watching = tokio::spawn(watch(client, requirements(), Arc::clone(&forbidden), check));
            tokio::time::sleep(PAUSE_WHILE_MISSING * 23 + Duration::from_secs(4)).await;
            let checks = reviewed.lock().unwrap().len() / 18;
            assert_eq!((checks, health.readiness().ready), (most, most == 1));
            let listed = health.readiness().checks[0].message.iter().flat_map(|text| text.split("; ")).count();
            assert_eq!(listed, if most == 1 { 0 } else { 5 });
            forbidden.notify_one();
            tokio::time::sleep(PAUSE_WHILE_MISSING).await;
            assert_eq!(reviewed.lock().unwrap().len() / 18, checks + 1, "the denial brings the check forward");
            watching.abort();
        }
    }
}
