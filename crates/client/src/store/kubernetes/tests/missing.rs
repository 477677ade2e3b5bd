//! Which answers prove that an object, or its kind, is missing.

use super::*;

/// The outcome of a request if the server, or a proxy, answers 404 with `body` and serves these API groups.
async fn not_found(body: &str, groups: &'static [&'static str], request: &Request) -> (Outcome<()>, String) {
    let body = body.to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        assert_eq!(request.headers().get(USER_AGENT), Some(&connections::user_agent()), "{request:?}");
        let version = json!({ "groupVersion": "g/v1", "version": "v1" });
        let group = |name| json!({ "name": name, "versions": [version], "preferredVersion": version });
        let groups: Vec<_> = groups.iter().map(group).collect();
        let groups = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
        let (code, body) =
            if request.uri().path() == "/apis" { (200, groups.to_string()) } else { (404, body.clone()) };
        async move {
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap(),
            )
        }
    });
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    let failure = store.send("n", request).await.err().unwrap();
    (failure.outcome(), failure.to_string())
}

fn status(group: &str, kind: &str, name: &str) -> String {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": "m", "details": { "name": name, "group": group, "kind": kind }, "code": 404 })
    .to_string()
}

#[tokio::test]
async fn a_404_proves_that_an_object_is_missing_only_if_a_status_names_it() {
    const GROUP: &str = "coordination.k8s.io";
    for (body, expected) in [
        (status(GROUP, "leases", "l"), Outcome::Missing),
        (status("", "namespaces", "n"), Outcome::Missing),
        (status(GROUP, "leases", "other"), Outcome::Refused),
        (status(GROUP, "others", "l"), Outcome::Refused),
        (status("", "namespaces", "other"), Outcome::Refused),
        (status("example.com", "leases", "l"), Outcome::Refused),
        (status("", "services", "l"), Outcome::Refused),
        (status(GROUP, "leases", "l").replace("NotFound", "Expired"), Outcome::Unknown),
        ("{}".to_owned(), Outcome::Unknown),
        ("404 page not found\n".to_owned(), Outcome::Unknown),
        ("<html>\n<title>Not found</title></html>".to_owned(), Outcome::Unknown),
        (String::new(), Outcome::Unknown),
    ] {
        let (outcome, message) = not_found(&body, &[], &read()).await;
        assert_eq!(outcome, expected, "{body}");
        if body.starts_with("<html>") {
            assert_eq!(
                message,
                "outcome unknown: answered without a Kubernetes Status: \"<html>\"; check for a proxy or a login page in between (404); \
                 read before you write again"
            );
        }
    }
}

#[tokio::test]
async fn a_status_without_a_name_proves_nothing_about_an_object() {
    let body = status("coordination.k8s.io", "leases", "");
    assert_eq!(not_found(&body, &[], &create()).await.0, Outcome::Refused);
    let mut named: Status = serde_json::from_str(&status("coordination.k8s.io", "leases", "l")).unwrap();
    assert!(is_missing::<ReadLease>(&named, "l"));
    named.code = 410;
    assert!(!is_missing::<ReadLease>(&named, "l"), "only a 404 does");
}

#[tokio::test]
async fn only_the_list_of_api_groups_proves_that_a_cluster_has_no_candidates() {
    for (groups, expected) in [
        (&["apps", "hustings.io"][..], Outcome::Unknown),
        (&["apps"][..], Outcome::Missing),
        // No server returns an empty list.
        (&[][..], Outcome::Unknown),
    ] {
        let list = Request::ListCandidates { lease_name: "l".to_owned() };
        assert_eq!(not_found("404 page not found", groups, &list).await.0, expected, "{groups:?}");
    }
}

/// The outcome of a request if the server answers `code` without naming an object, and lists these API groups.
async fn outcome_of(code: u16, groups: Option<&'static [&'static str]>, request: &Request) -> Outcome<()> {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let version = json!({ "groupVersion": "g/v1", "version": "v1" });
        let group = |name| json!({ "name": name, "versions": [version], "preferredVersion": version });
        let groups = groups.filter(|_| request.uri().path() == "/apis");
        let groups = groups.map(|groups| groups.iter().map(group).collect::<Vec<_>>());
        let (code, body) = match groups {
            Some(groups) => (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })),
            None => (code, json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code })),
        };
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    store.send("n", request).await.unwrap_err().outcome()
}

#[tokio::test]
async fn only_a_404_and_a_list_of_api_groups_prove_that_candidates_are_not_served() {
    let list = Request::ListCandidates { lease_name: "l".to_owned() };
    for (code, groups, expected) in [
        (404, Some(&["apps"][..]), Outcome::Missing),
        (404, None, Outcome::Unknown),
        (403, Some(&["apps"][..]), Outcome::Refused),
        (503, Some(&["apps"][..]), Outcome::Unknown),
    ] {
        assert_eq!(outcome_of(code, groups, &list).await, expected, "{code} {groups:?}");
    }
}

#[tokio::test]
async fn a_candidate_is_missing_if_a_status_names_it_whatever_else_is_served() {
    for (candidate, group) in
        [(CandidateKey::native("c"), "coordination.k8s.io"), (CandidateKey::hustings("c"), "hustings.io")]
    {
        let read = Request::ReadCandidate { candidate };
        for (name, expected) in [("c", Outcome::Missing), ("other", Outcome::Refused)] {
            let body = status(group, "leasecandidates", name);
            assert_eq!(not_found(&body, &["apps", "hustings.io"], &read).await.0, expected, "{name} of {group}");
        }
    }
}
