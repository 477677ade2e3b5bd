//! A right that the leading controller loses and gets back.

use std::ops::Deref;
use std::time::Duration;

use hustings_controlplane::ControlPlane;
use hustings_core::model::CandidateState;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::elections::in_state;
use super::evidence;
use super::peer::Peer;
use super::support::{Controller, World, eventually};

/// The rights of a controller in a namespace.
const GRANTS: [(&str, &str, &[&str]); 4] = [
    ("hustings.io", "leasecandidates", &["get", "list", "watch", "patch", "delete"]),
    ("hustings.io", "leasecandidates/status", &["patch"]),
    ("coordination.k8s.io", "leases", &["get", "list", "watch", "create", "patch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
];

/// A controller under an account of its own.
async fn controller(world: &World, account: &str) -> Controller {
    controller_with(world, account, &[]).await
}

/// The same with the rights on native candidates.
pub(super) async fn native_controller<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    account: &str,
) -> Controller {
    let role = format!("{account}-native");
    grant(world, &world.namespace, (account, &role), &[native_candidates()]).await;
    grant(world, "kube-system", (account, &role), &[native_lease()]).await;
    controller_with(world, account, &["--native"]).await
}

/// The rights on native candidates.
fn native_candidates() -> Value {
    let verbs = ["get", "list", "watch", "patch", "delete"];
    json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leasecandidates"], "verbs": verbs })
}

/// The right to observe who elects native candidates.
fn native_lease() -> Value {
    let lease = ["leader-election-controller"];
    json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": lease, "verbs": ["get"] })
}

pub(super) async fn controller_with<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    account: &str,
    more: &[&str],
) -> Controller {
    world.plane.create_service_account(&world.namespace, account).await.unwrap();
    withhold(world, account, None).await;
    let kubeconfig = world.plane.kubeconfig_for_service_account(&world.namespace, account).await.unwrap();
    let flags = ["--watch-namespaces", &world.namespace, "--namespace", &world.namespace];
    let short =
        ["--leader-elect-lease-duration=11s", "--leader-elect-retry-period=1s", "--leader-elect-renew-deadline=8s"];
    Controller::start(&world.plane, &kubeconfig, &[&flags[..], &short, more].concat()).await.ready().await
}

/// Grants an account all rights of a controller, without the verb `patch` on one resource.
pub(super) async fn withhold<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    account: &str,
    without_patch: Option<&str>,
) {
    grant(world, &world.namespace, (account, account), &rules(without_patch)).await;
}

/// Grants an account of the world's namespace all rights of a controller in another namespace, as the chart does.
pub(super) async fn grant_all<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    namespace: &str,
    account: &str,
) {
    let existence =
        json!({ "apiGroups": [""], "resources": ["namespaces"], "resourceNames": [namespace], "verbs": ["get"] });
    grant(world, namespace, (account, account), &[rules(None), vec![existence]].concat()).await;
}

fn rules(without_patch: Option<&str>) -> Vec<Value> {
    GRANTS
        .iter()
        .map(|(group, resource, verbs)| {
            let is_granted = |verb: &&&str| without_patch != Some(resource) || **verb != "patch";
            json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs.iter().filter(is_granted).collect::<Vec<_>>() })
        })
        .filter(|rule| rule["verbs"] != json!([]))
        .collect()
}

/// Grants an account some rules in a namespace, by a Role of this name.
pub(super) async fn grant<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    namespace: &str,
    (account, name): (&str, &str),
    granted: &[Value],
) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": name },
        "rules": granted,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": world.namespace }],
    });
    let apply = PatchParams::apply("test").force();
    let roles: Api<Role> = Api::namespaced(world.client.clone(), namespace);
    roles.patch(name, &apply, &Patch::Apply(role)).await.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
    bindings.patch(name, &apply, &Patch::Apply(binding)).await.unwrap();
}

/// Without the right to ping, no candidate can show that it lives. A status is only shown.
#[tokio::test]
async fn without_the_right_to_ping_nobody_is_elected_but_without_that_to_write_statuses_elections_continue() {
    for (request, resource, is_elected) in
        [("ping", "leasecandidates", false), ("status", "leasecandidates/status", true)]
    {
        let world = World::new("revoked").await;
        let only = controller(&world, "only").await;
        only.leads().await;
        withhold(&world, "only", Some(resource)).await;
        let peer = Peer::start(&world, "work", "a", "1.0.0").await;
        let series = format!(r#"hustings_request_failures_total{{request="{request}",error="forbidden"}}"#);
        eventually("requests are rejected", || async {
            let refused = only.metric(&series).await;
            if refused >= 2.0 { Ok(()) } else { Err(refused) }
        })
        .await;
        if is_elected {
            world.led_by("work", &peer.name).await;
        } else {
            let holder = world.holder("work").await.filter(|holder| !holder.is_empty());
            assert_eq!(holder, None, "it did not show that it lives");
            only.reports("not allowed: grant patch on leasecandidates of hustings.io").await;
        }

        withhold(&world, "only", None).await;
        world.led_by("work", &peer.name).await;
        in_state(&world, &peer.name, CandidateState::Holder).await;
        only.ready().await.leads().await;
    }
}

#[tokio::test]
async fn without_rights_on_native_candidates_the_others_are_elected_and_with_them_the_native_ones() {
    let world = World::with_native("revoked-native").await;
    let only = controller_with(&world, "only", &["--native"]).await;
    only.leads().await;
    only.reports("on leasecandidates of coordination.k8s.io").await;
    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;
    let native = world.client_go_with("other", "b", &["--binary-version", "1.0.0"]).await;
    eventually("it stands", || async { world.native().get("b").await.map_err(|error| error.to_string()) }).await;
    assert_eq!(world.holder("other").await, None, "no controller may know of it");

    grant(&world, &world.namespace, ("only", "native"), &[native_candidates()]).await;
    only.reports("grant get on leases of coordination.k8s.io by the name leader-election-controller").await;
    grant(&world, "kube-system", ("only", "native"), &[native_lease()]).await;
    native.says("leading", 0).await;
    world.led_by("other", "b").await;
    eventually("nothing is missing", || async {
        let answer = only.get("/readyz?verbose").await?;
        if answer.code == 200 && !answer.body.contains("not allowed") { Ok(()) } else { Err(answer.body) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_watch_pods_the_controller_is_ready_and_the_lease_of_a_dead_holder_runs_out() {
    const LEASE: u32 = 8;
    let world = evidence::world("revoked-pods").await;
    let only = controller_with(&world, "only", &["--evidence-pods"]).await;
    only.leads().await;
    let line = r#""name":"permissions","ok":true,"message":"not allowed: grant list, watch on pods in"#;
    only.reports(&format!("{line} namespace {}\"", world.namespace)).await;
    let (first, pod) = evidence::replica_with(&world, "web-1", None, LEASE, "6s").await;
    first.says("leading", 0).await;
    let (second, _) = evidence::replica_with(&world, "web-2", None, LEASE, "6s").await;
    second.says("started", 0).await;
    evidence::renews(&world).await;

    drop(first);
    let before = world.lease("web").await.unwrap().record;
    evidence::report_kill(&world, &pod).await;
    assert_eq!(before.holder.as_deref(), Some("web-1"));
    second.says("leading", 0).await;
    let after = world.led_by("web", "web-2").await.record;
    // The grant came after the lease. `acquireTime` would say so after evidence, too.
    let granted_at = after.running_term().map(|term| term.since);
    let lease = Duration::from_secs(LEASE.into());
    assert!(granted_at >= Some(before.renew_time.unwrap().after(lease)), "{after:?}\n{before:?}");
    assert!(after.history.as_str().contains(": expired"), "{:?}", after.history);
    world.published("Normal", "web-2 was elected: no other candidate is known to be live.").await;
    let refused = only.metric(r#"hustings_watch_failures_total{resource="pods"}"#).await;
    assert!(refused > 0.5, "{refused}");
    only.ready().await.leads().await;
}
