//! Which version of native candidates a server serves.

use kube::{Client, Resource as _};

use crate::api::{NativeVersion, ReadNativeCandidate};

/// Asks the server for the newest version in which it serves native LeaseCandidates; `None` if it serves none.
///
/// # Errors
/// Fails if a request fails. A version that the server does not know is not a failure.
pub async fn discover_native(client: &Client) -> Result<Option<NativeVersion>, kube::Error> {
    for version in NativeVersion::ALL {
        let plural = ReadNativeCandidate::plural(&version);
        match client.list_api_group_resources(&ReadNativeCandidate::api_version(&version)).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == plural) => return Ok(Some(version)),
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A client of a server that answers each path as listed, and every other path as an API server does.
    fn client(answers: &'static [(&'static str, u16, &'static str)]) -> Client {
        let server = tower::service_fn(move |request: Request<Body>| async move {
            let known = answers.iter().find(|(path, ..)| *path == request.uri().path());
            let (status, body) = known.map_or((404, "404 page not found\n"), |(_, status, body)| (*status, *body));
            Ok::<_, Infallible>(Response::builder().status(status).body(Body::from(body.as_bytes().to_vec())).unwrap())
        });
        Client::new(server, "n")
    }

    #[tokio::test]
    async fn the_newest_version_that_the_server_serves_is_discovered() {
        const CANDIDATES: &str = r#"{"kind": "APIResourceList", "groupVersion": "coordination.k8s.io/v", "resources": [
            {"name": "leasecandidates", "singularName": "", "namespaced": true, "kind": "LeaseCandidate", "verbs": []}]}"#;
        const OTHERS: &str = r#"{"kind": "APIResourceList", "groupVersion": "coordination.k8s.io/v", "resources": [
            {"name": "leases", "singularName": "", "namespaced": true, "kind": "Lease", "verbs": []}]}"#;
        const BETA: &str = "/apis/coordination.k8s.io/v1beta1";
        const ALPHA: &str = "/apis/coordination.k8s.io/v1alpha2";
        let discovered = async |answers| discover_native(&client(answers)).await.unwrap();
        let both = discovered(&[(BETA, 200, CANDIDATES), (ALPHA, 200, CANDIDATES)]).await;
        assert_eq!(both, Some(NativeVersion::V1beta1));
        assert_eq!(discovered(&[(ALPHA, 200, CANDIDATES)]).await, Some(NativeVersion::V1alpha2));
        let beta_without_candidates = discovered(&[(BETA, 200, OTHERS), (ALPHA, 200, CANDIDATES)]).await;
        assert_eq!(beta_without_candidates, Some(NativeVersion::V1alpha2));
        assert_eq!(discovered(&[]).await, None);
    }

    #[tokio::test]
    async fn a_failed_discovery_is_an_error_and_not_a_server_without_the_api() {
        let failing = client(&[("/apis/coordination.k8s.io/v1beta1", 503, "unavailable")]);
        assert!(discover_native(&failing).await.is_err());
    }
}
