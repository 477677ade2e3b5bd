//! Asks the API server whether a request would be allowed.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client, Error};

use crate::base::cluster::{api_error, limited};

/// How long one review may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The sender of the request in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The user of this client.
    Own,
    /// A ServiceAccount. That needs the permission to create SubjectAccessReviews.
    ServiceAccount { namespace: String, name: String },
}

/// A rule of a Role.
pub(crate) struct RoleRule {
    /// The API group; empty for the core group.
    group: &'static str,
    /// The resource, or `RESOURCE/SUBRESOURCE`.
    resource: &'static str,
    verbs: &'static [&'static str],
}

impl RoleRule {
    pub(crate) const fn new(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { group, resource, verbs }
    }

    /// Returns the verbs that `subject` may not use in `namespace`; `None` means the whole cluster. With a `name`, it
    /// asks for that object only.
    ///
    /// # Errors
    /// Fails with the reason if a review fails.
    pub(crate) async fn missing(
        &self,
        client: &Client,
        subject: &Subject,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<&'static str>, String> {
        let mut parts = self.resource.split('/').map(str::to_owned);
        let (resource, subresource) = (parts.next(), parts.next());
        let mut missing = Vec::new();
        for verb in self.verbs {
            let attributes = ResourceAttributes {
                namespace: namespace.map(str::to_owned),
                verb: Some((*verb).to_owned()),
                group: Some(self.group.to_owned()),
                resource: resource.clone(),
                subresource: subresource.clone(),
                // RBAC does not know the object's name in a create request.
                name: name.filter(|_| *verb != "create").map(str::to_owned),
                ..ResourceAttributes::default()
            };
            if !is_allowed(client, subject, attributes).await? {
                missing.push(*verb);
            }
        }
        Ok(missing)
    }
}

impl fmt::Display for RoleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Pods and Nodes are in the core group, which has no name.
        let of = if self.group.is_empty() { "" } else { " of " };
        write!(f, "{}{of}{}", self.resource, self.group)
    }
}

/// Whether the request with these attributes would be allowed. A review without a verdict allows nothing.
///
/// # Errors
/// Fails with the reason if the review fails. The permission is then unknown.
async fn is_allowed(client: &Client, subject: &Subject, attributes: ResourceAttributes) -> Result<bool, String> {
    let review = async {
        match subject {
            Subject::Own => own(client, attributes).await,
            Subject::ServiceAccount { namespace, name } => of_account(client, namespace, name, attributes).await,
        }
    };
    limited(TIMEOUT, review).await.map_err(|error| format!("{:#}", api_error(error)))
}

async fn own(client: &Client, attributes: ResourceAttributes) -> Result<bool, Error> {
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn of_account(
    client: &Client,
    namespace: &str,
    name: &str,
    attributes: ResourceAttributes,
) -> Result<bool, Error> {
    // The groups that the API server gives to every ServiceAccount.
    let groups = ["system:authenticated", "system:serviceaccounts"].map(str::to_owned);
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        groups: Some(groups.into_iter().chain([format!("system:serviceaccounts:{namespace}")]).collect()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::cluster;

    #[tokio::test]
    async fn a_review_of_a_service_account_names_its_user_and_all_its_groups() {
        let (cluster, requests) =
            cluster(|_| Some((201, json!({ "metadata": {}, "spec": {}, "status": { "allowed": true } }))));
        let account = Subject::ServiceAccount { namespace: "shop".to_owned(), name: "web".to_owned() };
        for subject in [account, Subject::Own] {
            let attributes = ResourceAttributes { verb: Some("get".to_owned()), ..ResourceAttributes::default() };
            assert_eq!(is_allowed(&cluster.leases, &subject, attributes).await, Ok(true));
        }
        let requests = requests.lock().unwrap();
        let [of_account, own] = &requests[..] else { panic!("{requests:?}") };
        assert!(of_account.path.contains("/subjectaccessreviews"), "{}", of_account.path);
        assert!(own.path.contains("/selfsubjectaccessreviews"), "{}", own.path);
        assert_eq!(of_account.body["spec"]["user"], "system:serviceaccount:shop:web");
        let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:shop"];
        assert_eq!(of_account.body["spec"]["groups"], json!(groups));
    }

    #[tokio::test]
    async fn a_review_without_an_answer_is_no_permission() {
        let (cluster, _) = cluster(|_| Some((201, json!({ "metadata": {}, "spec": {} }))));
        let account = Subject::ServiceAccount { namespace: "shop".to_owned(), name: "web".to_owned() };
        for subject in [account, Subject::Own] {
            let asked = is_allowed(&cluster.leases, &subject, ResourceAttributes::default()).await;
            assert_eq!(asked, Ok(false), "{subject:?}");
        }
        let (cluster, _) = crate::base::cluster::testing::cluster(|_| None);
        let asked = is_allowed(&cluster.leases, &Subject::Own, ResourceAttributes::default()).await;
        assert_eq!(asked, Err("refused (404)".to_owned()));
    }
}
