//! Whether two controllers elect for the same Leases. Each then undoes writes of the other.
//!
//! The check knows which namespaces the controllers of a Deployment watch, but not those of a controller that somebody
//! runs by other means. It finds such a one by its own Lease.

use std::collections::BTreeSet;

use kube::Client;

use super::installation::Installation;
use super::own_lease;
use super::report::Finding;
use crate::controller::{Config, OWN_LEASE};

const CHECK: &str = "second-controller";

const HINT: &str = "uninstall one of them, or give each its own namespaces (watchNamespaces)";

/// Checks these controllers. `others` are known, and watch other namespaces.
pub(super) async fn check(
    client: &Client,
    namespace: Option<&str>,
    installations: &[Installation],
    others: &[Installation],
) -> Vec<Finding> {
    let mut findings = among(installations);
    findings.extend(beside(client, namespace, installations.iter().chain(others)).await);
    findings
}

/// Compares the flags of the Deployments.
fn among(installations: &[Installation]) -> Vec<Finding> {
    let known = || installations.iter().filter_map(|one| Some((one, one.config.as_ref().ok()?)));
    let mut findings = Vec::new();
    for (index, (one, config)) in known().enumerate() {
        if config.own_lease.is_none() && one.replicas > 1 {
            let message = format!(
                "all {} controllers of {} elect at once, because of --leader-elect=false",
                one.replicas,
                place(one)
            );
            findings.push(Finding::warn(CHECK, message, "remove that flag, or run one replica"));
        }
        for (other, others) in known().skip(index + 1) {
            if share_namespaces(config, others) && one.own_lease() != other.own_lease() {
                let message =
                    format!("the controllers of {} and {} elect for the same Leases", place(one), place(other));
                findings.push(Finding::warn(CHECK, message, HINT));
            }
        }
    }
    findings
}

/// Looks for leading controllers of no Deployment.
async fn beside(
    client: &Client,
    namespace: Option<&str>,
    installations: impl Iterator<Item = &Installation>,
) -> Option<Finding> {
    let known = installations.filter(|one| one.config.is_ok());
    let known: BTreeSet<_> = known.filter_map(Installation::own_lease).collect();
    // Without the Deployments, another check has already observed these Leases.
    if known.is_empty() {
        return None;
    }
    let found = own_lease::list(client, namespace).await.ok()?;
    let places = found.into_iter().filter(|lease| lease.record.holder.is_some());
    let places = places.filter_map(|lease| lease.metadata.namespace);
    let places = places.filter(|namespace| !known.contains(&(namespace.clone(), OWN_LEASE.to_owned())));
    let observed = places.take(own_lease::MOST_OBSERVED).map(|namespace| async move {
        let leads = own_lease::leads(&own_lease::check(client, &namespace, OWN_LEASE).await);
        leads.then_some(namespace)
    });
    let leading: Vec<_> = futures::future::join_all(observed).await.into_iter().flatten().collect();
    (!leading.is_empty()).then(|| {
        let message = format!(
            "a controller without a Deployment leads, too: see the Lease {OWN_LEASE} in namespace {}",
            leading.join(", ")
        );
        Finding::warn(CHECK, message, "stop it, or make sure that it watches other namespaces")
    })
}

fn share_namespaces(one: &Config, other: &Config) -> bool {
    let (one, other) = (&one.watch_namespaces, &other.watch_namespaces);
    one.is_empty() || other.is_empty() || one.iter().any(|namespace| other.contains(namespace))
}

fn place(Installation { namespace, name, .. }: &Installation) -> String {
    format!("Deployment {name} in namespace {namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::controller;
    use crate::operate::check::report::Verdict;

    fn installation(namespace: &str, flags: &str) -> Installation {
        Installation {
            namespace: namespace.to_owned(),
            name: "hustings".to_owned(),
            service_account: "hustings".to_owned(),
            replicas: 2,
            available: 2,
            chart: None,
            image: None,
            config: Ok(controller(flags).unwrap()),
        }
    }

    #[test]
    fn two_deployments_that_watch_the_same_namespace_are_a_warning() {
        for (one, other, expected) in [
            ("", "", 1),
            ("", "--watch-namespaces=a", 1),
            ("--watch-namespaces=a,b", "--watch-namespaces=b,c", 1),
            ("--watch-namespaces=a", "--watch-namespaces=b", 0),
            ("--leader-elect-resource-namespace=x", "--leader-elect-resource-namespace=x", 0),
            ("--leader-elect-resource-namespace=x", "", 1),
            // All replicas of the second one elect, beside each other and beside the first one.
            ("", "--leader-elect=false", 2),
        ] {
            let findings = among(&[installation("m", one), installation("n", other)]);
            assert_eq!(findings.len(), expected, "{one} {other}: {findings:?}");
            assert!(findings.iter().all(|finding| finding.verdict == Verdict::Warn));
        }
    }
}
