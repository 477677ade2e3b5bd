//! Checks that the controller has the permissions it needs, before it needs them.
//!
//! Without this check, a missing permission would show at the worst time: when a Lease needs a new holder. The
//! controller therefore sends SelfSubjectAccessReviews at the start, periodically, and after the server has rejected a
//! request as forbidden. It reports missing permissions in the terms of a Role.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::config::{Config, NativeMode};
use super::key::LeaseKey;
use super::namespaces::Namespaces;
use super::native;
use super::outage::UNREADY;
use super::watched::Scope;
use crate::base::reviews::{RoleRule, Subject};
use crate::serve::health::Check;

/// The pause between checks after a permission was found missing. Each further check that finds the same doubles it. No
/// pause is shorter than this.
const PAUSE_WHILE_MISSING: Duration = Duration::from_secs(5);

/// The longest pause between checks while a permission is missing.
const LONGEST_PAUSE_WHILE_MISSING: Duration = Duration::from_mins(1);

/// The pause between checks while no permission is missing.
const PAUSE: Duration = Duration::from_mins(5);

/// The verbs on Leases, including the controllers' own Lease.
const LEASES: RoleRule = RoleRule::new("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "patch"]);

/// The rules for each scope of the controller.
const RULES: [RoleRule; 4] = [
    RoleRule::new("hustings.io", "leasecandidates", &["get", "list", "watch", "patch", "delete"]),
    RoleRule::new("hustings.io", "leasecandidates/status", &["patch"]),
    LEASES,
    RoleRule::new("events.k8s.io", "events", &["create", "patch"]),
];

/// The rule for native candidates. Without it, the controller elects all others.
const NATIVE: RoleRule =
    RoleRule::new("coordination.k8s.io", "leasecandidates", &["get", "list", "watch", "patch", "delete"]);

/// The rule to observe whether Kubernetes' controller elects native candidates.
const OBSERVES: RoleRule = RoleRule::new("coordination.k8s.io", "leases", &["get"]);

/// The rule to stand in for Kubernetes' controller.
const STANDS_IN: RoleRule = RoleRule::new("coordination.k8s.io", "leases", &["get", "patch"]);

/// The rule to watch the Pods of holders. Without it, the controller waits until the Lease expires.
const EVIDENCE_PODS: RoleRule = RoleRule::new("", "pods", &["list", "watch"]);

/// The rule to keep labels on the Pods of holders. Without it, no Service finds a leader.
const LEADER_LABELS: RoleRule = RoleRule::new("", "pods", &["get", "list", "watch", "patch"]);

/// The rule to watch the Nodes of holders.
const EVIDENCE_NODES: RoleRule = RoleRule::new("", "nodes", &["list", "watch"]);

/// All permissions that the controller needs.
pub(crate) struct Requirements(Vec<Requirement>);

/// One required rule, for every object in a scope or for the object with this name.
struct Requirement {
    scope: Scope,
    name: Option<String>,
    rule: &'static RoleRule,
    purpose: PermissionPurpose,
}

/// The purpose of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermissionPurpose {
    /// Elections.
    Elections,
    /// The election of native candidates.
    Native,
    /// Evidence of the death of a silent holder.
    Evidence,
    /// Labels of the Pods of holders.
    LeaderLabels,
}

impl Requirements {
    /// The permissions for a controller with this configuration that runs in the namespace `own`.
    pub(crate) fn of(config: &Config, own: &str) -> Self {
        let own_lease = config.own_lease.as_ref();
        let own_lease = own_lease.map(|lease| LeaseKey::new(lease.namespace.as_deref().unwrap_or(own), &lease.name));
        Self::new(config, &config.scopes(), own_lease.as_ref())
    }

    /// The permissions for elections in `scopes` and for the controllers' own Lease, and those for native candidates,
    /// evidence and labels if these are on.
    pub(super) fn new(config: &Config, scopes: &[Scope], own_lease: Option<&LeaseKey>) -> Self {
        let (native, evidence) = (config.native, config.election.evidence);
        let optional = [
            (&NATIVE, PermissionPurpose::Native, native != NativeMode::Off),
            (&EVIDENCE_PODS, PermissionPurpose::Evidence, evidence.pods),
            (&LEADER_LABELS, PermissionPurpose::LeaderLabels, config.leader_labels),
        ];
        let optional = optional.into_iter().filter(|(_, _, is_needed)| *is_needed);
        let optional = optional.map(|(rule, purpose, _)| (rule, purpose));
        let rules = || RULES.iter().map(|rule| (rule, PermissionPurpose::Elections)).chain(optional.clone());
        let everywhere = scopes.iter().flat_map(|scope| {
            rules().map(|(rule, purpose)| Requirement { scope: scope.clone(), name: None, rule, purpose })
        });
        // A Role may allow access to the controllers' own Lease alone, by its name.
        let own = own_lease.map(|key| Requirement {
            scope: Scope::Namespace(key.namespace().to_string()),
            name: Some(key.name().to_string()),
            rule: &LEASES,
            purpose: PermissionPurpose::Elections,
        });
        let electors_lease = match native {
            NativeMode::Off => None,
            NativeMode::Elect => Some(&OBSERVES),
            NativeMode::StandIn => Some(&STANDS_IN),
        };
        let electors_lease = electors_lease.map(|rule| Requirement {
            scope: Scope::Namespace(native::NAMESPACE.to_owned()),
            name: Some(native::LEASE.to_owned()),
            rule,
            purpose: PermissionPurpose::Native,
        });
        let nodes = evidence.nodes.then_some(Requirement {
            scope: Scope::Cluster,
            name: None,
            rule: &EVIDENCE_NODES,
            purpose: PermissionPurpose::Evidence,
        });
        Self(everywhere.chain(own).chain(electors_lease).chain(nodes).collect())
    }
}

/// Checks periodically, for ever, and reports the result to `check`. A notification of `forbidden` brings the next
/// check forward. Where no review succeeds, the permissions are not known, and the controller is ready after [`UNREADY`].
pub(super) async fn watch(
    client: Client,
    requirements: Requirements,
    namespaces: Namespaces,
    forbidden: Arc<Notify>,
    check: Check,
) {
    let began = Instant::now();
    let mut are_known = false;
    // Each check is a request for each permission, in each scope.
    let (mut missing_before, mut rest_while_missing) = (Vec::new(), PAUSE_WHILE_MISSING);
    loop {
        let pause = match missing(&client, &Subject::Own, &requirements).await {
            Ok(missing) if missing.is_empty() => {
                are_known = true;
                if check.pass() {
                    tracing::info!("the controller has all permissions that it needs");
                }
                PAUSE
            }
            Ok(missing) => {
                are_known = true;
                let absence = |missing: &Missing| namespaces.absence(missing.scope.as_ref()?);
                let absences: BTreeSet<_> = missing.iter().filter_map(absence).collect();
                let lacking = || missing.iter().filter(|missing| absence(missing).is_none());
                let grants: Vec<_> = lacking().map(|missing| missing.grant.as_str()).collect();
                let message = message(&absences, &grants);
                let is_ready = lacking().all(Missing::is_optional) && (absences.is_empty() || namespaces.any_watched());
                if if is_ready { check.pass_with(Some(message)) } else { check.fail(message) } {
                    for grant in grants {
                        tracing::warn!(grant, "not allowed: a Role or ClusterRole must grant this");
                    }
                }
                let now_missing: Vec<_> = missing.into_iter().map(|missing| missing.grant).collect();
                let is_same = now_missing == missing_before;
                let longer = (rest_while_missing * 2).min(LONGEST_PAUSE_WHILE_MISSING);
                rest_while_missing = if is_same { longer } else { PAUSE_WHILE_MISSING };
                missing_before = now_missing;
                rest_while_missing
            }
            Err(error) => {
                // The check keeps a result that it has.
                let message = format!("the permissions are not known: {error}");
                let is_ready = began.elapsed() >= UNREADY;
                if !are_known && if is_ready { check.pass_with(Some(message)) } else { check.fail(message) } {
                    tracing::warn!(error, "cannot check the permissions; retrying");
                }
                PAUSE_WHILE_MISSING
            }
        };
        tokio::time::sleep(PAUSE_WHILE_MISSING).await;
        let rest = pause.saturating_sub(PAUSE_WHILE_MISSING);
        // A notification and the end of the pause both make the next check due.
        let _ = tokio::time::timeout(rest, forbidden.notified()).await;
    }
}

/// The message about namespaces that may be missing, and about permissions that are missing elsewhere.
fn message(absences: &BTreeSet<String>, grants: &[&str]) -> String {
    let grants = (!grants.is_empty()).then(|| format!("not allowed: grant {}", grants.join("; ")));
    absences.iter().cloned().chain(grants).collect::<Vec<_>>().join("; ")
}

/// A permission that is missing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The permission, in the terms of a Role.
    pub(crate) grant: String,
    /// Its purpose.
    pub(crate) purpose: PermissionPurpose,
    /// The scope of elections that needs it; `None` for the permissions on one object.
    scope: Option<Scope>,
}

impl Missing {
    /// Whether the controller is ready without it.
    fn is_optional(&self) -> bool {
        self.purpose != PermissionPurpose::Elections
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
            let scope = name.is_none().then(|| scope.clone());
            missing.push(Missing { grant, purpose: *purpose, scope });
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
mod tests;
