//! The control plane keeps its promises to the tests that use it.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::{
    env,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use hustings_controlplane::{
    ControlPlane, ElectedComponent, NativeElection, PATIENCE, Process, Stale, Tool, Tools, eventually, shared,
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret, ServiceAccount},
};
use kube::{
    Api, Client, Error,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, PostParams},
};
use serde_json::json;

#[tokio::test]
async fn serves_requests_and_audits_the_caller() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("serves").await.unwrap();
    create_config_map(&plane.admin(), &namespace, "one").await.unwrap();
    let events = plane.audit_events().unwrap();
    let event = events.iter().find(|event| {
        event.object_ref.as_ref().is_some_and(|o| o.resource == "configmaps" && o.namespace == namespace)
    });
    let event = event.expect("the creation is in the audit log");
    assert_eq!((event.verb.as_str(), event.user.username.as_str()), ("create", "admin"));
    assert_eq!(event.response_status.as_ref().unwrap().code, 201);
}

#[tokio::test]
async fn service_account_may_do_only_what_its_role_grants() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("bound").await.unwrap();
    plane.create_service_account(&namespace, "reader").await.unwrap();
    let client = plane.client_for_service_account(&namespace, "reader").await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    assert_eq!(code(config_maps.list(&ListParams::default()).await), Some(403));

    for object in [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"},
               "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
               "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}]}),
    ] {
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        let kind = kube::discovery::ApiResource::from_gvk(
            &GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap(),
        );
        let api = Api::<kube::api::DynamicObject>::namespaced_with(plane.admin(), &namespace, &kind);
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    // The authorizer reads from a cache.
    until("the role works", async || config_maps.list(&ListParams::default()).await.is_ok()).await;
    assert_eq!(code(create_config_map(&client, &namespace, "one").await), Some(403));
    let secrets = Api::<Secret>::namespaced(client, &namespace);
    assert_eq!(code(secrets.list(&ListParams::default()).await), Some(403));
}

#[tokio::test]
async fn kubectl_and_helm_act_as_the_administrator() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("tools").await.unwrap();
    let output = plane.kubectl(["create", "configmap", "made-by-kubectl", "-n", &namespace]).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Api::<ConfigMap>::namespaced(plane.admin(), &namespace).get("made-by-kubectl").await.unwrap();
    let output = plane.helm(["status", "no-such-release", "-n", &namespace]).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("release: not found"), "{output:?}");
}

#[tokio::test]
async fn restarted_apiserver_has_the_same_objects_at_the_same_address() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.admin();
    create_config_map(&client, "default", "kept").await.unwrap();
    let before = plane.apiserver().pid();

    plane.apiserver().restart().await.unwrap();
    assert_ne!(plane.apiserver().pid(), before);
    Api::<ConfigMap>::namespaced(client.clone(), "default").get("kept").await.unwrap();

    plane.etcd().kill().unwrap();
    plane.apiserver().kill().unwrap();
    assert!(Api::<ConfigMap>::namespaced(client.clone(), "default").get("kept").await.is_err());
    plane.etcd().start().unwrap();
    plane.apiserver().restart().await.unwrap();
    Api::<ConfigMap>::namespaced(client, "default").get("kept").await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_while_etcd_is_paused() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.admin();
    plane.etcd().pause().unwrap();
    let write = create_config_map(&client, "default", "late");
    let outcome = tokio::time::timeout(Duration::from_secs(2), write).await;
    assert!(!matches!(outcome, Ok(Ok(_))), "written without etcd");
    plane.etcd().resume().unwrap();
    until("etcd is back", async || create_config_map(&client, "default", "after").await.is_ok()).await;
}

#[tokio::test]
async fn replicated_control_plane_goes_on_without_any_one_of_its_parts() {
    let plane = ControlPlane::builder().replicated().start().await.unwrap();
    let client = plane.admin();
    let serves = async |what: &str| {
        let metadata = ObjectMeta { generate_name: Some("object-".to_owned()), ..Default::default() };
        let object = ConfigMap { metadata, ..Default::default() };
        let objects = Api::<ConfigMap>::namespaced(client.clone(), "default");
        until(what, async || objects.create(&PostParams::default(), &object).await.is_ok()).await;
    };
    for member in [2, 1, 2] {
        until(&format!("member {member} leads"), async || {
            plane.move_etcd_leader(member).await.is_ok() && plane.etcd_leader().await.is_ok_and(|now| now == member)
        })
        .await;
    }

    // Members that are cut off lead no longer, and those that are killed come back.
    plane.partition_member(2).unwrap();
    until("another member leads", async || plane.etcd_leader().await.is_ok_and(|now| now != 2)).await;
    serves("a partitioned leader of etcd").await;
    plane.heal().unwrap();
    plane.member(2).kill().unwrap();
    serves("a killed member of etcd").await;
    plane.member(2).restart().await.unwrap();

    // A server without its etcd shows what it knew.
    let known = async |server: usize| {
        let api = Api::<ConfigMap>::namespaced(Client::try_from(plane.config_of(server).unwrap()).unwrap(), "default");
        let list = api.list(&ListParams::default().match_any()).await.unwrap();
        list.items.iter().any(|item| item.metadata.name.as_deref() == Some("late"))
    };
    plane.partition_server(0).unwrap();
    let late = create_config_map(&client, "default", "never");
    let late = tokio::time::timeout(Duration::from_secs(2), late).await;
    assert!(!matches!(late, Ok(Ok(_))), "written through a server without etcd");
    plane.fail_over_to(1, Stale::Resets).unwrap();
    until("the other server serves", async || create_config_map(&client, "default", "late").await.is_ok()).await;
    until("it shows that", async || known(1).await).await;
    assert!(!known(0).await);
    plane.heal().unwrap();
    until("both show that", async || known(0).await).await;

    plane.server(1).kill().unwrap();
    plane.switch_to(0).unwrap();
    serves("a killed API server").await;
    plane.server(1).restart().await.unwrap();
}

#[tokio::test]
async fn native_election_decides_what_is_served_and_what_is_kept() {
    for (native_election, served, kept) in
        [(NativeElection::Off, false, false), (NativeElection::Served, true, false), (NativeElection::On, true, true)]
    {
        let plane = ControlPlane::builder().native_election(native_election).start().await.unwrap();
        let client = plane.admin();
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
        assert_eq!(kube::discovery::pinned_kind(&client, &kind).await.is_ok(), served, "{native_election:?}");
        let lease = serde_json::from_value::<Lease>(json!({
            "metadata": {"name": "web"},
            "spec": {"holderIdentity": "web-0", "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion"},
        }));
        let leases = Api::<Lease>::namespaced(client, "default");
        let created = leases.create(&PostParams::default(), &lease.unwrap()).await.unwrap();
        assert_eq!(created.spec.unwrap().strategy.is_some(), kept, "{native_election:?}");
    }
}

#[tokio::test]
async fn the_built_in_controller_elects_the_oldest_emulation_version_of_kubernetes_own_components() {
    let plane = ControlPlane::builder().native_election(NativeElection::On).start().await.unwrap();
    let _replicas = tokio::join!(
        oldest_leads(&plane, ElectedComponent::KubeControllerManager),
        oldest_leads(&plane, ElectedComponent::KubeScheduler),
    );
    // The leader works.
    let namespace = plane.create_namespace("served").await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), &namespace);
    until("the namespace has a ServiceAccount", async || accounts.get("default").await.is_ok()).await;
}

/// Starts two replicas of a component, and waits until the Lease names the one that emulates an older version.
async fn oldest_leads(plane: &ControlPlane, component: ElectedComponent) -> [Process; 2] {
    let start = async |name: &str, flags: &[&str]| -> Process {
        let command = plane.elected_component(component, flags).await.unwrap();
        plane.spawn(&format!("{}-{name}", component.lease()), command).unwrap()
    };
    let replicas = [start("newer", &[]).await, start("older", &["--emulated-version=1.36"]).await];
    let leases = Api::<Lease>::namespaced(plane.admin(), "kube-system");
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
    let candidates = Api::<DynamicObject>::namespaced_with(plane.admin(), "kube-system", &ApiResource::from_gvk(&kind));
    until(&format!("{component:?}: the older replica leads"), async || {
        for replica in &replicas {
            replica.start_again().unwrap();
        }
        let holder = leases.get(component.lease()).await.ok().and_then(|lease| lease.spec?.holder_identity);
        let Some(holder) = holder.filter(|holder| !holder.is_empty()) else { return false };
        let candidate = candidates.get(&holder).await.ok();
        candidate.is_some_and(|candidate| candidate.data["spec"]["emulationVersion"] == "1.36.0")
    })
    .await;
    replicas
}

#[tokio::test]
async fn dropped_control_plane_leaves_nothing() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let sleeper = plane
        .spawn("sleeper", {
            let mut c = Command::new("sleep");
            c.arg("1000");
            c
        })
        .unwrap();
    let pids = [plane.etcd().pid(), plane.apiserver().pid(), sleeper.pid()];
    let folder = plane.folder().to_path_buf();
    assert!(folder.join("sleeper.log").is_file());
    assert!(pids.iter().all(|pid| alive(*pid)));
    plane.etcd().pause().unwrap();
    drop(plane);
    drop(sleeper);
    assert!(!pids.iter().any(|pid| alive(*pid)));
    assert!(!folder.exists());
}

/// Runs itself as a process that starts a control plane, and kills that.
#[tokio::test]
async fn nothing_outlives_a_killed_run() {
    const CHILD: &str = "HUSTINGS_KILLED_RUN";
    if env::var_os(CHILD).is_some() {
        let plane = ControlPlane::builder().start().await.unwrap();
        println!("\nstarted {} {} {}", plane.etcd().pid(), plane.apiserver().pid(), plane.folder().display());
        std::future::pending::<()>().await;
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "nothing_outlives_a_killed_run", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("started ")).expect("it starts");
    let mut words = line.splitn(4, ' ').skip(1);
    let pids: Vec<u32> = words.by_ref().take(2).map(|pid| pid.parse().unwrap()).collect();
    let folder = Path::new(words.next().unwrap());
    assert!(folder.is_dir() && pids.iter().all(|pid| alive(*pid)));

    child.kill().unwrap();
    child.wait().unwrap();
    let gone = async || !folder.exists() && !pids.iter().any(|pid| alive(*pid));
    until("the control plane of the killed run is gone", gone).await;
}

#[tokio::test]
async fn logs_of_a_failed_start_are_kept_and_quoted() {
    let Err(error) = ControlPlane::builder().apiserver_flag("--no-such-flag").start().await else {
        panic!("started with a flag that does not exist")
    };
    assert!(error.to_string().contains("unknown flag: --no-such-flag"), "{error}");
    let folder = error.to_string().lines().last().unwrap().trim_start_matches("the logs are in ").to_owned();
    assert!(Path::new(&folder).join("kube-apiserver.log").is_file(), "{error}");
    assert!(!Path::new(&folder).join("data").exists());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_go_the_error_names_the_ways_out() {
    let built = env::temp_dir().join(format!("hustings-controlplane-{}", std::process::id()));
    let tools = Tools { assets: None, search_path: OsString::from("/nowhere"), built: built.clone() };
    let error = tools.path(Tool::Etcd).unwrap_err().to_string();
    assert!(error.contains("install Go") && error.contains("KUBEBUILDER_ASSETS"), "{error}");

    // Assets take precedence over a build, and must be complete.
    fs::write(built.join("etcd"), "").unwrap();
    let tools = Tools { assets: Some(built.clone()), ..tools };
    assert_eq!(tools.path(Tool::Etcd).unwrap(), built.join("etcd"));
    let error = tools.path(Tool::KubeApiserver).unwrap_err().to_string();
    assert!(error.contains("has no kube-apiserver"), "{error}");
    fs::remove_dir_all(built).unwrap();
}

#[test]
fn missing_tools_are_built_side_by_side_and_those_of_one_module_at_once() {
    // Each build waits until another has started.
    const GO: &str = r#"#!/bin/sh
folder=$(dirname "$0")
[ "$1" = build ] || exit 0
while [ "$1" != -o ]; do shift; done
: > "$folder/started.$$"
tries=0
until [ "$(ls "$folder" | grep -c started)" -ge 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || exit 1
    sleep 0.1
done
output=$2
shift 2
for package; do
    package=${package%/v3}
    : > "$output/${package##*/}"
done
"#;
    let folder = env::temp_dir().join(format!("hustings-preparation-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("go.sh"), GO).unwrap();
    // In a separate process: a file that a child of another test inherits open for writing cannot be executed.
    let made = Command::new("install").args(["-m", "755", "go.sh", "go"]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let inherited = env::var_os("PATH").unwrap();
    let search_path = env::join_paths([folder.clone()].into_iter().chain(env::split_paths(&inherited))).unwrap();
    let tools = Tools { assets: None, search_path, built: folder.join("bin") };
    let wanted = [Tool::Etcd, Tool::KubeApiserver, Tool::Helm];
    let builds = || {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().starts_with("started")).count()
    };
    tools.prepare(&wanted).unwrap();
    assert_eq!(builds(), 2, "one for each module");
    for tool in wanted {
        let path = tools.path(tool).unwrap();
        assert!(path.starts_with(&folder) && path.is_file(), "{}", path.display());
    }
    tools.prepare(&wanted).unwrap();
    assert_eq!(builds(), 2, "what is there is not built again");
    fs::remove_dir_all(folder).unwrap();
}

async fn create_config_map(client: &Client, namespace: &str, name: &str) -> kube::Result<ConfigMap> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
    let object = ConfigMap { metadata, ..Default::default() };
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &object).await
}

fn code<T>(answer: kube::Result<T>) -> Option<u16> {
    match answer {
        Err(Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let is_met = eventually(async || if condition().await { Ok(()) } else { Err(()) }).await.is_ok();
    assert!(is_met, "not within {PATIENCE:?}: {what}");
}

/// A process that has ended, but whose parent has not collected its status yet, is a zombie.
fn alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}
