//! A kubelet rotates the tokens of pods: no client keeps one for longer than it is valid. It is no test of every run, since
//! a token is valid for ten minutes at least:
//! `cargo test -p hustings-node --test node -- tokens:: --ignored --nocapture`.

use std::{collections::BTreeSet, time::Duration};

use hustings_controlplane::{AuditEvent, within};
use hustings_node::Interval;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus},
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    endings::assert_handed_over,
    stage::{self, Group, RELEASE},
    workload::{PROGRAM, Way, deploy, renewed_twice, template},
};

/// Where pods have their token.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The shortest that Kubernetes allows. The kubelet replaces a token when 80 % of that are over.
const VALIDITY: Duration = Duration::from_mins(10);

/// A token that was just issued, and is replaced late, is invalid by then.
const EXPIRED: Duration = Duration::from_mins(15);

/// The pause between two questions whether a token is valid.
const PAUSE: Duration = Duration::from_secs(2);

/// A hand-over takes milliseconds. The rest is for a busy machine.
const HAND_OVER: Duration = Duration::from_secs(30);

/// One group, and the first token of its leader.
struct Rotating {
    group: Group,
    leader: Interval,
    token: String,
}

pub(crate) async fn rotated_tokens_cost_no_holder_its_lease() {
    let volume = format!("--set-json=volumes={}", json!([volume()]));
    let mount = format!("--set-json=volumeMounts={}", json!([mount()]));
    stage::install(&["--set=automountServiceAccountToken=false", &volume, &mount]).await;

    let mut all = Vec::new();
    for (name, way) in [("library", Way::Library), ("wrapped", Way::Wrapped), ("sidecar", Way::Sidecar)] {
        let group = Group::new(&format!("tokens-{name}")).await;
        deploy(&group, 2, with_token(template(&group, way, "1.0.0"))).await;
        let leader = group.leader().await;
        let token = token(&group, &leader).await;
        assert!(is_valid(&group, &token).await);
        all.push(Rotating { group, leader, token });
    }
    for Rotating { group, leader, token: first } in &all {
        within(EXPIRED, async || {
            sleep(PAUSE).await;
            if is_valid(group, first).await { Err("the first token is still valid") } else { Ok(()) }
        })
        .await
        .unwrap();
        assert!(is_valid(group, &token(group, leader).await).await, "the kubelet has replaced the token");
    }
    for Rotating { group, leader, .. } in &all {
        renewed_twice(group).await;
        let still = group.leader().await;
        assert!(still.is_same(leader), "{}: {still:?} follows {leader:?}", group.name);
        assert!(still.lasts() > VALIDITY, "{still:?}");
        println!("{}: led by {} for {:.0?} by now, without a break", group.name, still.replica, still.lasts());
        group.delete(&leader.replica, &DeleteParams::default()).await;
        let next = group.leader_after(&still, HAND_OVER).await;
        assert_ne!(next.replica, leader.replica);
        assert_handed_over(group, leader).await;
        assert!(credentials(group, &group.name, &next.replica) > 1, "{} has used one token only", next.replica);
    }
    let [Rotating { group, .. }, ..] = all.as_slice() else { unreachable!("there are three") };
    let controllers = Api::<Pod>::namespaced(group.plane().admin(), RELEASE);
    for controller in controllers.list(&ListParams::default()).await.unwrap() {
        let name = controller.name_any();
        assert!(credentials(group, RELEASE, &name) > 1, "{name} has used one token only");
        let statuses = controller.status.and_then(|status| status.container_statuses).unwrap_or_default();
        assert!(statuses.iter().all(|status| status.restart_count == 0), "{statuses:?}");
    }
    for Rotating { group, .. } in all {
        group.end().await;
    }
}

/// What each pod has by default, with a token that is valid for ten minutes.
fn volume() -> Value {
    json!({"name": "token", "projected": {"sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": VALIDITY.as_secs()}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]}})
}

fn mount() -> Value {
    json!({"name": "token", "mountPath": FOLDER, "readOnly": true})
}

fn with_token(mut template: Value) -> Value {
    let spec = &mut template["spec"];
    spec["automountServiceAccountToken"] = json!(false);
    spec["volumes"] = json!([volume()]);
    for containers in ["containers", "initContainers"] {
        for container in spec[containers].as_array_mut().into_iter().flatten() {
            container["volumeMounts"] = json!([mount()]);
        }
    }
    template
}

/// The token that a leader's pod has now.
async fn token(group: &Group, leader: &Interval) -> String {
    let read = format!("read -r token < {FOLDER}/token; echo $token");
    group.exec(&leader.replica, PROGRAM, &["/bin/sh", "-c", &read]).await.trim().to_owned()
}

/// Whether the API server accepts a token.
async fn is_valid(group: &Group, token: &str) -> bool {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
    let reviews = Api::<TokenReview>::all(group.plane().admin());
    let review = TokenReview { spec, ..TokenReview::default() };
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    matches!(review.status, Some(TokenReviewStatus { authenticated: Some(true), .. }))
}

/// How many tokens a pod has used, by the audit log.
fn credentials(group: &Group, namespace: &str, pod: &str) -> usize {
    let events = group.plane().audit_events().unwrap();
    let of_pod = events.iter().filter(|event| in_namespace(event, namespace) && extra(event, "pod-name") == Some(pod));
    of_pod.filter_map(|event| extra(event, "credential-id")).collect::<BTreeSet<_>>().len()
}

fn in_namespace(event: &AuditEvent, namespace: &str) -> bool {
    event.user.username.starts_with(&format!("system:serviceaccount:{namespace}:"))
}

fn extra<'event>(event: &'event AuditEvent, name: &str) -> Option<&'event str> {
    let values = event.user.extra.get(&format!("authentication.kubernetes.io/{name}"))?;
    values.first().map(String::as_str)
}
