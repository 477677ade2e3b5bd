//! Checks whether the user of this command may install Hustings, see elections, and stand for election.

use super::report::Finding;
use crate::base::cluster::Cluster;
use crate::base::reviews::{RoleRule, Subject};

const CHECK: &str = "rights";

/// What `hustings status` reads.
const TO_SEE: [RoleRule; 2] = [
    RoleRule::new("coordination.k8s.io", "leases", &["list"]),
    RoleRule::new("hustings.io", "leasecandidates", &["list"]),
];

/// The rules of the ClusterRole `hustings-candidate`.
const TO_STAND: [RoleRule; 2] = [
    RoleRule::new("hustings.io", "leasecandidates", &["get", "list", "watch", "create", "patch", "delete"]),
    RoleRule::new("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "patch"]),
];

/// The objects that the chart creates outside its namespace. For those inside it, Helm itself reports a missing
/// permission.
const TO_INSTALL: [RoleRule; 3] = [
    RoleRule::new("apiextensions.k8s.io", "customresourcedefinitions", &["create"]),
    RoleRule::new("rbac.authorization.k8s.io", "clusterroles", &["create"]),
    RoleRule::new("rbac.authorization.k8s.io", "clusterrolebindings", &["create"]),
];

pub(super) async fn check(cluster: &Cluster, namespace: Option<&str>, is_installed: bool) -> Vec<Finding> {
    let own = cluster.namespace.as_str();
    let place = namespace.map_or_else(|| "in all namespaces".to_owned(), |name| format!("in namespace {name}"));
    let mut findings = Vec::new();
    if !is_installed {
        let hint = "a cluster administrator must install the chart";
        findings.push(finding(cluster, "install Hustings", &TO_INSTALL, None, hint).await);
    }
    let hint = "bind the ClusterRole hustings-view to your user";
    findings.push(finding(cluster, &format!("see the elections {place}"), &TO_SEE, namespace, hint).await);
    let hint = "only components need that: bind the ClusterRole hustings-candidate to their ServiceAccounts";
    let activity = format!("stand for election in namespace {own}");
    findings.push(finding(cluster, &activity, &TO_STAND, Some(own), hint).await);
    findings
}

async fn finding(
    cluster: &Cluster,
    activity: &str,
    rules: &[RoleRule],
    namespace: Option<&str>,
    hint: &str,
) -> Finding {
    match missing(cluster, rules, namespace).await {
        Ok(missing) if missing.is_empty() => Finding::ok(CHECK, format!("you may {activity}")),
        Ok(missing) => Finding::warn(CHECK, format!("you may not {activity}: it needs {}", missing.join("; ")), hint),
        Err(reason) => Finding::unknown(CHECK, format!("cannot tell whether you may {activity}: {reason}")),
    }
}

/// Returns the missing verbs, in the terms of a Role.
async fn missing(cluster: &Cluster, rules: &[RoleRule], namespace: Option<&str>) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for rule in rules {
        let verbs = rule.missing(&cluster.leases, &Subject::Own, namespace, None).await?;
        if !verbs.is_empty() {
            missing.push(format!("{} on {rule}", verbs.join(", ")));
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::cluster;
    use crate::operate::check::report::Verdict;

    #[tokio::test]
    async fn missing_rights_are_warnings_that_name_the_verbs_and_the_right_to_install_matters_only_before() {
        for (is_installed, expected) in [(false, 3), (true, 2)] {
            let (cluster, requests) = cluster(|request| {
                let attributes = &request.body["spec"]["resourceAttributes"];
                let is_denied = attributes["verb"] == "delete" || attributes["verb"] == "watch";
                let review = json!({ "metadata": {}, "spec": {}, "status": { "allowed": !is_denied } });
                (request.method == Method::POST).then_some((201, review))
            });
            let findings = check(&cluster, Some("shop"), is_installed).await;
            assert_eq!(findings.len(), expected, "{findings:?}");
            let [.., see, stand] = &findings[..] else { panic!("{findings:?}") };
            assert_eq!((see.verdict, &*see.message), (Verdict::Ok, "you may see the elections in namespace shop"));
            let message = "you may not stand for election in namespace n: it needs watch, delete on leasecandidates of \
                           hustings.io; watch on leases of coordination.k8s.io";
            assert_eq!((stand.verdict, &*stand.message), (Verdict::Warn, message));
            let requests = requests.lock().unwrap();
            let namespace = |resource: &str| {
                let mut attributes = requests.iter().map(|sent| &sent.body["spec"]["resourceAttributes"]);
                attributes.find(|attributes| attributes["resource"] == resource).map(|one| one["namespace"].clone())
            };
            assert_eq!(namespace("leases"), Some(json!("shop")));
            let of_stand = requests.iter().rev().take(10).map(|sent| &sent.body["spec"]["resourceAttributes"]);
            for attributes in of_stand {
                assert_eq!(attributes["namespace"], "n", "{attributes}");
            }
            assert_eq!(namespace("clusterroles"), (!is_installed).then_some(json!(null)));
        }
    }
}
