//! Checks the LeaseCandidate CRD: it is installed, it is served, and it has the schema of this binary.

use hustings_client::api::{ReadCandidate, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::{Api, Client, Error, Resource as _, ResourceExt as _};

use super::report::Finding;
use crate::base::cluster::api_error;
use crate::controller;

const CHECK: &str = "crd";

/// How to install the CRD, or to replace it.
const APPLY: &str = "install or upgrade the chart, or run `hustings crds | kubectl apply -f -`";

pub(super) async fn check(client: &Client) -> Vec<Finding> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    vec![match crds.get_opt(&name()).await {
        Ok(Some(crd)) => judge(&crd),
        Ok(None) => missing(),
        Err(Error::Api(status)) if status.code == 403 => discover(client).await,
        Err(error) => unknown(error),
    }]
}

/// The CRD's name.
pub(super) fn name() -> String {
    format!("{}.{}", ReadCandidate::plural(&()), names::GROUP)
}

fn missing() -> Finding {
    Finding::fail(CHECK, "the LeaseCandidate CRD is not installed in this cluster", APPLY)
}

fn unknown(error: Error) -> Finding {
    Finding::unknown(CHECK, format!("cannot read the CRD: {:#}", api_error(error)))
}

/// Checks without the permission to read the CRD. Every user may list the served resources.
async fn discover(client: &Client) -> Finding {
    let version = ReadCandidate::api_version(&());
    match client.list_api_group_resources(&version).await {
        Ok(_) => {
            Finding::ok(CHECK, format!("{version} is served; you may not get the CRD, so its schema is not compared"))
        }
        Err(Error::Api(status)) if status.code == 404 => missing(),
        Err(error) => unknown(error),
    }
}

fn judge(crd: &CustomResourceDefinition) -> Finding {
    let (name, version) = (name(), ReadCandidate::version(&()));
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if let Some(condition) = conditions.clone().find(|one| one.type_ == "Established" && one.status != "True") {
        let reason = condition.message.as_deref().unwrap_or_default();
        return Finding::fail(
            CHECK,
            format!("the CRD is not established: {reason}"),
            format!("see `kubectl describe crd {name}`"),
        );
    }
    let Some(served) = crd.spec.versions.iter().find(|one| one.name == *version && one.served) else {
        return Finding::fail(CHECK, format!("the CRD does not serve {version}"), APPLY);
    };
    let of = installed_by(crd).map_or_else(String::new, |version| format!(" of version {version}"));
    let own = env!("CARGO_PKG_VERSION");
    match own_version() {
        Some(expected) if expected.schema == served.schema => {
            Finding::ok(CHECK, format!("the CRD{of} is served and has the schema of this binary ({own})"))
        }
        _ => Finding::warn(CHECK, format!("the schema of the CRD{of} differs from that of this binary ({own})"), APPLY),
    }
}

/// The version of Hustings whose chart installed the CRD. `hustings crds` adds no label.
pub(super) fn installed_by(crd: &CustomResourceDefinition) -> Option<String> {
    crd.labels().get("app.kubernetes.io/version").cloned()
}

/// The served version of this binary's CRD.
fn own_version() -> Option<CustomResourceDefinitionVersion> {
    let crd: CustomResourceDefinition = serde_saphyr::from_str(controller::CRDS).ok()?;
    crd.spec.versions.into_iter().find(|version| version.served)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::{cluster, failure};
    use crate::operate::check::report::Verdict;

    fn crd() -> CustomResourceDefinition {
        serde_saphyr::from_str(controller::CRDS).unwrap()
    }

    #[test]
    fn own_crd_has_the_schema_of_this_binary() {
        let finding = judge(&crd());
        assert_eq!((finding.verdict, crd().name_any()), (Verdict::Ok, name()));
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(finding.message, format!("the CRD is served and has the schema of this binary ({own})"));
    }

    #[test]
    fn different_schema_is_a_warning_and_an_unserved_version_is_a_problem() {
        let mut other = crd();
        other.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap().description = None;
        other.labels_mut().insert("app.kubernetes.io/version".to_owned(), "0.0.9".to_owned());
        let finding = judge(&other);
        assert_eq!(finding.verdict, Verdict::Warn);
        assert!(finding.message.starts_with("the schema of the CRD of version 0.0.9 differs "), "{}", finding.message);

        other.spec.versions[0].served = false;
        assert_eq!(judge(&other).message, "the CRD does not serve v1alpha1");
    }

    #[test]
    fn crd_whose_names_conflict_is_a_problem() {
        let mut crd = crd();
        let condition = json!({"conditions": [{"type": "Established", "status": "False", "message": "taken"}]});
        crd.status = Some(serde_json::from_value(condition).unwrap());
        assert_eq!(judge(&crd).message, "the CRD is not established: taken");
        // Another condition is usually false.
        let others = json!({"conditions": [{"type": "Terminating", "status": "False"}, {"type": "Established", "status": "True"}]});
        crd.status = Some(serde_json::from_value(others).unwrap());
        assert_eq!(judge(&crd).verdict, Verdict::Ok);
    }

    #[tokio::test]
    async fn without_the_right_to_read_the_crd_the_list_of_resources_shows_whether_it_is_served() {
        let served = json!({ "kind": "APIResourceList", "groupVersion": "hustings.io/v1alpha1", "resources": [] });
        let own = serde_json::to_value(crd()).unwrap();
        for (read, discovery, verdict, message) in [
            ((200, own.clone()), None, Verdict::Ok, "the CRD is served and has the schema of this binary"),
            (failure(404), None, Verdict::Fail, "the LeaseCandidate CRD is not installed in this cluster"),
            (failure(500), None, Verdict::Unknown, "cannot read the CRD: "),
            (failure(403), Some((200, served)), Verdict::Ok, "hustings.io/v1alpha1 is served; you may not get the CRD"),
            (
                failure(403),
                Some(failure(404)),
                Verdict::Fail,
                "the LeaseCandidate CRD is not installed in this cluster",
            ),
            (failure(403), Some(failure(500)), Verdict::Unknown, "cannot read the CRD: "),
        ] {
            let asks = discovery.is_some();
            let (cluster, requests) = cluster(move |sent| match &*sent.path {
                "/apis/hustings.io/v1alpha1" => discovery.clone(),
                path => path.ends_with("/customresourcedefinitions/leasecandidates.hustings.io").then(|| read.clone()),
            });
            let [finding] = &check(&cluster.leases).await[..] else { panic!("one finding") };
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert!(finding.message.starts_with(message), "{finding:?}");
            assert_eq!(finding.hint.as_deref(), (verdict == Verdict::Fail).then_some(APPLY));
            assert_eq!(requests.lock().unwrap().len(), 1 + usize::from(asks));
        }
    }
}
