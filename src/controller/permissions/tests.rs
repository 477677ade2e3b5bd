//! Tests of the permissions against a server that reviews them.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::silent_cluster;
use crate::base::reviews::TIMEOUT;
use crate::cli::testing::controller;
use crate::serve::health::Health;

type Reviewed = Arc<Mutex<Vec<Value>>>;

/// A server that answers each review with the status that `answer` returns for the attributes. Also returns the
/// reviewed attributes.
fn server(answer: fn(&Value) -> Value) -> (Client, Reviewed) {
    let reviewed = Reviewed::default();
    let recorded = Arc::clone(&reviewed);
    let cluster = silent_cluster(move |sent| {
        let mut review = sent.body.clone();
        let attributes = review["spec"]["resourceAttributes"].clone();
        review["status"] = answer(&attributes);
        recorded.lock().unwrap().push(attributes);
        (review["status"] != json!("never")).then_some((200, review))
    });
    (cluster.leases, reviewed)
}

fn requirements() -> Requirements {
    let config = controller("").unwrap();
    Requirements::new(&config, &[Scope::Namespace("shop".to_owned())], Some(&LeaseKey::new("system", "own")))
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
    let requirements = Requirements::new(&controller("--native").unwrap(), &[Scope::Cluster], None);
    let health = Health::new();
    tokio::spawn(watch(client, requirements, Namespaces::new(&[]), Arc::default(), health.check("permissions")));
    tokio::time::sleep(PAUSE_WHILE_MISSING).await;
    let readiness = health.readiness();
    let expected = "not allowed: grant get, list, watch, patch, delete on leasecandidates of coordination.k8s.io in \
                    all namespaces";
    assert_eq!((readiness.ready, readiness.checks[0].message.as_deref()), (true, Some(expected)));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_lacks_a_permission_of_each_purpose_is_not_ready() {
    let (client, _) = server(|_| json!({ "allowed": false }));
    let requirements = Requirements::new(&controller("--native").unwrap(), &[Scope::Cluster], None);
    let health = Health::new();
    tokio::spawn(watch(client, requirements, Namespaces::new(&[]), Arc::default(), health.check("permissions")));
    tokio::time::sleep(PAUSE_WHILE_MISSING).await;
    assert!(!health.readiness().ready);
}

#[tokio::test]
async fn evidence_and_labels_need_pods_in_each_scope_and_evidence_the_nodes_of_the_cluster() {
    let (client, _) = server(|_| json!({ "allowed": false }));
    let scopes = ["a", "b"].map(|namespace| Scope::Namespace(namespace.to_owned()));
    let config = controller("--evidence-pods --evidence-nodes --leader-labels").unwrap();
    let requirements = Requirements::new(&config, &scopes, None);
    let missing = missing(&client, &Subject::Own, &requirements).await.unwrap();
    let optional: Vec<_> = missing.iter().filter(|missing| missing.is_optional()).map(|one| &*one.grant).collect();
    assert_eq!(
        optional,
        [
            "list, watch on pods in namespace a",
            "get, list, watch, patch on pods in namespace a",
            "list, watch on pods in namespace b",
            "get, list, watch, patch on pods in namespace b",
            "list, watch on nodes in all namespaces"
        ]
    );
}

#[tokio::test]
async fn the_election_of_native_candidates_needs_their_verbs_and_those_on_the_lease_of_its_elector() {
    let candidates = "get, list, watch, patch, delete on leasecandidates of coordination.k8s.io in all namespaces";
    let on_the_lease = |verbs| {
        format!(
            "{verbs} on leases of coordination.k8s.io by the name leader-election-controller in namespace kube-system"
        )
    };
    for (flags, expected) in [
        ("", vec![]),
        ("--native", vec![candidates.to_owned(), on_the_lease("get")]),
        ("--native --native-stand-in", vec![candidates.to_owned(), on_the_lease("get, patch")]),
    ] {
        let (client, _) = server(|_| json!({ "allowed": false }));
        let requirements = Requirements::new(&controller(flags).unwrap(), &[Scope::Cluster], None);
        let missing = missing(&client, &Subject::Own, &requirements).await.unwrap();
        let of_native = missing.into_iter().filter(|missing| missing.purpose == PermissionPurpose::Native);
        assert_eq!(of_native.map(|missing| missing.grant).collect::<Vec<_>>(), expected, "{flags}");
    }
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

#[test]
fn the_own_lease_needs_permissions_in_the_namespace_of_the_flag_or_else_of_the_controller() {
    for (flags, expected) in [
        ("", "by the name hustings-controller in namespace n"),
        ("--leader-elect-resource-namespace=other", "by the name hustings-controller in namespace other"),
    ] {
        let Requirements(requirements) = Requirements::of(&controller(flags).unwrap(), "n");
        let named = requirements.iter().map(ToString::to_string).filter(|rule| rule.contains("by the name"));
        let named: Vec<_> = named.collect();
        assert!(named.len() == 1 && named[0].ends_with(expected), "{named:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_is_repeated_soon() {
    let (client, reviewed) = server(|_| json!("never"));
    let health = Health::new();
    tokio::spawn(watch(client, requirements(), Namespaces::new(&[]), Arc::default(), health.check("permissions")));
    tokio::time::sleep(5 * (TIMEOUT + PAUSE_WHILE_MISSING)).await;
    assert!((5..=6).contains(&reviewed.lock().unwrap().len()));
    let unknown = Some("the permissions are not known: no answer within 5 s".to_owned());
    let readiness = health.readiness();
    assert_eq!((readiness.ready, &readiness.checks[0].message), (false, &unknown));
    tokio::time::sleep(UNREADY).await;
    let readiness = health.readiness();
    assert_eq!((readiness.ready, &readiness.checks[0].message), (true, &unknown), "some clusters allow no reviews");
}

#[tokio::test(start_paused = true)]
async fn permissions_are_checked_more_often_while_one_is_missing_and_soon_after_a_denial() {
    for (answer, most) in
        [((|_| json!({ "allowed": true })) as fn(&Value) -> Value, 1), (|_| json!({ "allowed": false }), 5)]
    {
        let (client, reviewed) = server(answer);
        let (health, forbidden) = (Health::new(), Arc::new(Notify::new()));
        let check = health.check("permissions");
        let watching = tokio::spawn(watch(client, requirements(), Namespaces::new(&[]), Arc::clone(&forbidden), check));
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
