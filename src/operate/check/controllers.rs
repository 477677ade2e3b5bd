//! Checks the controllers: whether they run, their versions, and their permissions for the features that are on.

use std::collections::BTreeSet;

use hustings_client::api::ReadCandidate;
use hustings_client::store::discover_native;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client};

use super::installation::Installation;
use super::limit::TIMEOUT;
use super::report::Finding;
use super::{bootstrap, crd, own_lease, second_controller};
use crate::base::cluster::{api_error, limited, scoped};
use crate::base::reviews::Subject;
use crate::controller::{self, Config, Missing, NativeMode, OWN_LEASE, PermissionPurpose, Requirements};

/// The most candidates that show whether a controller has run.
const CANDIDATES: u32 = 500;

/// Checks the controllers that were `found`, in this namespace or in all. `others` do not watch the namespace of the user.
pub(super) async fn check(
    client: &Client,
    namespace: Option<&str>,
    found: Result<Vec<Installation>, String>,
    others: Vec<Installation>,
) -> Vec<Finding> {
    let (installations, unlisted) = match found {
        Ok(installations) => (installations, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let mut findings = Vec::new();
    for installation in &installations {
        findings.extend(of_installation(client, installation).await);
    }
    if let ([], [other, ..]) = (&*installations, &*others) {
        let place = format!("Deployment {} in namespace {}", other.name, other.namespace);
        let message = format!("no controller watches this namespace: that of {place} watches others");
        findings.push(Finding::fail("deployment", message, "add the namespace to its watchNamespaces"));
    } else if installations.is_empty() {
        let why = match unlisted {
            Some(_) => "its Deployment is unknown",
            None => "no Deployment of a controller was found",
        };
        findings.extend(unlisted.map(|reason| Finding::unknown("deployment", reason)));
        findings.extend(without_a_deployment(client, namespace, why).await);
    }
    findings.extend(second_controller::check(client, namespace, &installations, &others).await);
    findings
}

async fn of_installation(client: &Client, installation: &Installation) -> Vec<Finding> {
    let Installation { namespace, name, .. } = installation;
    let place = format!("Deployment {name} in namespace {namespace}");
    let own_lease = match installation.own_lease() {
        Some((namespace, lease)) => Some(own_lease::check(client, &namespace, &lease).await),
        None => None,
    };
    let leads = own_lease.as_ref().is_some_and(own_lease::leads);
    let mut findings = vec![availability(installation, leads)];
    findings.push(versions(client, installation).await);
    let config = match &installation.config {
        Ok(config) => config,
        Err(reason) => {
            let message = format!("cannot read the flags of {place}: {reason}");
            findings
                .push(Finding::unknown("flags", message).with_hint("use `hustings check` of the controller's version"));
            findings.extend(own_lease);
            return findings;
        }
    };
    findings.extend(own_lease);
    findings.extend(permissions(client, installation, config).await);
    findings.extend(bootstrap::check(client, config).await);
    findings
}

/// Judges how many replicas of the Deployment are available, and whether one leads although none is.
fn availability(installation: &Installation, leads: bool) -> Finding {
    let Installation { namespace, name, replicas, available, .. } = installation;
    let state =
        format!("{available} of {replicas} controllers of Deployment {name} in namespace {namespace} are available");
    let hint = if leads {
        not_ready(installation)
    } else {
        format!("`kubectl describe pods --namespace {namespace}` shows why")
    };
    match available {
        0 if leads => Finding::warn("deployment", format!("{state}, although one elects"), hint),
        0 => Finding::fail("deployment", state, hint),
        some if some < replicas => Finding::warn("deployment", state, hint),
        _ => Finding::ok("deployment", state),
    }
}

/// The hint for Pods that are not available although a controller elects.
fn not_ready(Installation { namespace, name, .. }: &Installation) -> String {
    format!(
        "a controller elects, so look at the readiness of the Pods: `/readyz?verbose` on their admin port names the check \
         that fails, and `kubectl describe deployment {name} --namespace {namespace}` shows the readinessProbe"
    )
}

/// Checks a cluster without a known Deployment of the chart, which `why` says: a controller runs by other means, or not
/// at all.
async fn without_a_deployment(client: &Client, namespace: Option<&str>, why: &str) -> Vec<Finding> {
    let namespaces: Vec<_> = match own_lease::list(client, namespace).await {
        Ok(leases) => leases.into_iter().filter_map(|lease| lease.metadata.namespace).collect(),
        Err(error) => {
            let reason = api_error(error);
            return vec![Finding::unknown("own-lease", format!("cannot look for the Lease {OWN_LEASE}: {reason:#}"))];
        }
    };
    let candidates: Api<ReadCandidate> = scoped(client.clone(), namespace);
    let candidates = limited(TIMEOUT, candidates.list(&ListParams::default().limit(CANDIDATES))).await;
    let candidates = candidates.map(|list| list.items).unwrap_or_default();
    match namespace {
        _ if !namespaces.is_empty() => {}
        Some(name) => {
            let message =
                format!("no controller has run in namespace {name}, and you may not look for those elsewhere");
            return vec![Finding::unknown("own-lease", message)];
        }
        None if candidates.iter().any(|candidate| candidate.record.status.state.is_some()) => {
            let message = "no controller was found, but one has written the statuses of candidates: one with \
                           --leader-elect=false, or under another Lease, is not visible here";
            return vec![Finding::unknown("own-lease", message)];
        }
        None => {
            let hint = "install the chart; without a controller, candidates elect a leader among themselves";
            return vec![Finding::fail("own-lease", "no controller has run in this cluster".to_owned(), hint)];
        }
    }
    let first = || namespaces.iter().take(own_lease::MOST_OBSERVED);
    let findings = futures::future::join_all(first().map(|place| own_lease::check(client, place, OWN_LEASE))).await;
    let is_needed = !candidates.is_empty() && !findings.iter().any(own_lease::leads);
    let judge =
        |(finding, place): (_, &String)| own_lease::without_deployment(finding, (place, OWN_LEASE), is_needed, why);
    findings.into_iter().zip(first()).map(judge).collect()
}

/// Compares the versions of the chart, its image, the CRD and this command.
async fn versions(client: &Client, Installation { chart, image, .. }: &Installation) -> Finding {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    // Without the permission to read the CRD, compare the other versions.
    let crd = limited(TIMEOUT, crds.get_opt(&crd::name())).await.ok().flatten();
    let crd = crd.as_ref().and_then(crd::installed_by);
    let own = Some(env!("CARGO_PKG_VERSION").to_owned());
    let known = [("chart", chart), ("image", image), ("CRD", &crd), ("this command", &own)];
    let known: Vec<_> = known.into_iter().filter_map(|(what, version)| Some((what, version.as_ref()?))).collect();
    let list = known.iter().map(|(what, version)| format!("{what} {version}")).collect::<Vec<_>>().join(", ");
    if known.iter().map(|(_, version)| version).collect::<BTreeSet<_>>().len() == 1 {
        Finding::ok("versions", list)
    } else {
        let hint = "upgrade the release with the chart of the newest version, and use the command of that version";
        Finding::warn("versions", format!("they differ: {list}"), hint)
    }
}

/// Checks the controllers' permissions, by purpose.
async fn permissions(client: &Client, installation: &Installation, config: &Config) -> Vec<Finding> {
    let Installation { namespace, service_account, .. } = installation;
    let subject = Subject::ServiceAccount { namespace: namespace.clone(), name: service_account.clone() };
    let missing = controller::missing(client, &subject, &Requirements::of(config, namespace)).await;
    let missing = match missing {
        Ok(missing) => missing,
        Err(reason) => {
            let message = format!("cannot check those of ServiceAccount {service_account}: {reason}");
            return vec![Finding::unknown("permissions", message)];
        }
    };
    let finding = |check, what: &str, purpose| {
        let grants = grants(&missing, purpose);
        if grants.is_empty() {
            return Finding::ok(check, format!("the controllers have the permissions for {what}"));
        }
        let hint = "upgrade the release with the same values, so that the chart adds the rules";
        Finding::fail(check, format!("the controllers lack permissions for {what}: {}", grants.join("; ")), hint)
    };
    let mut findings = vec![finding("permissions", "elections", PermissionPurpose::Elections)];
    if config.native != NativeMode::Off {
        findings.push(match discover_native(client).await {
            Ok(Some(_)) => finding("native", "native candidates", PermissionPurpose::Native),
            Ok(None) => Finding::warn(
                "native",
                "native.enabled is on, but the API server serves no leasecandidates.coordination.k8s.io",
                "turn on the API by --runtime-config=coordination.k8s.io/v1beta1=true, or native.enabled off",
            ),
            Err(error) => Finding::unknown("native", format!("cannot discover the API: {:#}", api_error(error))),
        });
    }
    // The flag for nodes needs the one for Pods.
    if config.election.evidence.pods {
        findings.push(finding("evidence", "evidence", PermissionPurpose::Evidence));
    }
    if config.leader_labels {
        findings.push(finding("labels", "the labels of leaders", PermissionPurpose::LeaderLabels));
    }
    findings
}

fn grants(missing: &[Missing], purpose: PermissionPurpose) -> Vec<&str> {
    missing.iter().filter(|missing| missing.purpose == purpose).map(|missing| missing.grant.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cluster::testing::{cluster, silent_cluster};
    use crate::cli::testing::controller;
    use crate::operate::check::report::Verdict;

    fn installation(chart: &str, available: i32) -> Installation {
        Installation {
            namespace: "n".to_owned(),
            name: "hustings".to_owned(),
            service_account: "hustings".to_owned(),
            replicas: 2,
            available,
            chart: Some(chart.to_owned()),
            image: None,
            config: Err(String::new()),
        }
    }

    #[tokio::test]
    async fn versions_that_differ_are_a_warning() {
        let (cluster, _) = cluster(|_| None);
        for (chart, expected) in [(env!("CARGO_PKG_VERSION"), Verdict::Ok), ("9.9.9", Verdict::Warn)] {
            let finding = versions(&cluster.leases, &installation(chart, 2)).await;
            assert_eq!(finding.verdict, expected, "{}", finding.message);
        }
    }

    #[tokio::test]
    async fn a_missing_permission_fails_the_check_of_its_purpose_alone() {
        // The server allows nothing on Pods, and serves no native candidates.
        let (cluster, _) = cluster(|request| {
            let is_of_pods = request.body["spec"]["resourceAttributes"]["resource"] == "pods";
            let review = serde_json::json!({ "metadata": {}, "spec": {}, "status": { "allowed": !is_of_pods } });
            (request.method == http::Method::POST).then_some((201, review))
        });
        for (flags, expected) in [
            ("", &[("permissions", Verdict::Ok)][..]),
            ("--evidence-pods", &[("permissions", Verdict::Ok), ("evidence", Verdict::Fail)]),
            ("--leader-labels", &[("permissions", Verdict::Ok), ("labels", Verdict::Fail)]),
            ("--native", &[("permissions", Verdict::Ok), ("native", Verdict::Warn)]),
            ("--native --native-stand-in", &[("permissions", Verdict::Ok), ("native", Verdict::Warn)]),
        ] {
            let config = controller(flags).unwrap();
            let findings = permissions(&cluster.leases, &installation("1.0.0", 2), &config).await;
            let found: Vec<_> = findings.iter().map(|finding| (finding.check, finding.verdict)).collect();
            assert_eq!(found, expected, "{findings:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_lease_is_read_where_the_flags_of_the_controller_place_it() {
        for (flags, expected) in [
            ("", Some("/namespaces/n/leases/hustings-controller")),
            ("--leader-elect-resource-name=own --leader-elect-resource-namespace=o", Some("/namespaces/o/leases/own")),
            ("--leader-elect=false", None),
        ] {
            let (cluster, requests) = cluster(|_| None);
            let installation = Installation { config: Ok(controller(flags).unwrap()), ..installation("1.0.0", 2) };
            of_installation(&cluster.leases, &installation).await;
            let requests = requests.lock().unwrap();
            let read =
                requests.iter().find_map(|sent| sent.path.split_once("coordination.k8s.io/v1").map(|(_, path)| path));
            assert_eq!(read, expected, "{flags}");
        }
    }

    #[test]
    fn a_missing_replica_is_a_warning_and_the_lack_of_any_is_a_failure() {
        for (available, leads, expected) in [
            (0, false, Verdict::Fail),
            (0, true, Verdict::Warn),
            (1, false, Verdict::Warn),
            (1, true, Verdict::Warn),
            (2, false, Verdict::Ok),
        ] {
            let finding = availability(&installation("1.0.0", available), leads);
            assert_eq!(finding.verdict, expected, "{}", finding.message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_about_controllers_that_is_not_answered_ends_in_time() {
        let config = || Config { own_lease: None, ..controller("").unwrap() };
        let installation = Installation { config: Ok(config()), ..installation("9.9.9", 2) };
        let findings = of_installation(&silent_cluster(|_| None).leases, &installation).await;
        let found: Vec<_> = findings.iter().map(|finding| (finding.check, finding.message.as_str())).collect();
        let versions = format!("they differ: chart 9.9.9, this command {}", env!("CARGO_PKG_VERSION"));
        let permissions = "cannot check those of ServiceAccount hustings: no answer within 5 s";
        assert_eq!(found[1..], [("versions", versions.as_str()), ("permissions", permissions)]);
    }
}
