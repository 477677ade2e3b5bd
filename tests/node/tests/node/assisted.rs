//! Assisted Leases: programs that know nothing of Hustings, unchanged, and each way in which Kubernetes ends their leader.
//! The history of the Lease says what ended a term, so an expiry cannot pass for evidence.
//!
//! The gate runs each program and each way at least once. With `--include-ignored`, all pairs run:
//! `cargo test -p hustings-node --test node -- assisted:: --include-ignored`.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use hustings_controlplane::{NODE, Tool, eventually};
use hustings_node::Interval;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, EvictParams, Patch, PatchParams},
};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    endings::{ending, was_proven_dead},
    scales::{gone, scale},
    stage::{Group, LEASE, Stage},
    workload::{
        PROGRAM, all_run, assist, container, create_deployment, create_stateful, foreign, make_mortal, renewed_twice,
        update,
    },
};

/// Shorter than the lease of 120 s, whose expiry so never passes for evidence.
const LIMIT: Duration = Duration::from_secs(90);

/// A program whose replicas elect a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    /// The manager of controller-runtime.
    Manager,
    /// client-go's `RunOrDie`, which releases nothing by default.
    RunOrDie,
    /// The same with `ReleaseOnCancel`.
    Releasing,
}

/// A way in which a leader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `kill -9`.
    Killed,
    /// It takes more memory than it may.
    OutOfMemory,
    /// It fails its liveness probe.
    Unhealthy,
    /// It is evicted.
    Evicted,
    /// A rolling update replaces it.
    Updated,
    /// It is scaled to zero with all others, and back.
    Scaled,
    /// `kill -9` of the only replica, whose container starts again.
    Restarted,
}

use End::{Evicted, Killed, OutOfMemory, Restarted, Scaled, Unhealthy, Updated};
use Program::{Manager, Releasing, RunOrDie};

const PROGRAMS: [Program; 3] = [Manager, RunOrDie, Releasing];

const ENDS: [End; 7] = [Killed, OutOfMemory, Unhealthy, Evicted, Updated, Scaled, Restarted];

/// The pairs that the gate runs.
const IN_GATE: [(Program, End); 9] = [
    (Manager, Killed),
    (RunOrDie, OutOfMemory),
    (RunOrDie, Unhealthy),
    (Manager, Evicted),
    (Manager, Updated),
    (RunOrDie, Scaled),
    (Manager, Restarted),
    (Releasing, Killed),
    (Releasing, Updated),
];

/// A test for each pair.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    let pairs = PROGRAMS.into_iter().flat_map(|program| ENDS.map(|end| (program, end)));
    pairs.map(|(program, end)| {
        let name = format!("assisted::pairs::{program:?}_{end:?}").to_lowercase();
        let run = move || {
            Runtime::new()?.block_on(follow(program, end));
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!IN_GATE.contains(&(program, end)))
    })
}

impl Program {
    async fn template(self, group: &Group) -> Value {
        let flags: &[&str] = match self {
            Self::Manager => &["--lease-duration=120s"],
            Self::RunOrDie => &["--run-or-die", "--lease-duration=120s"],
            Self::Releasing => &["--run-or-die", "--release-on-cancel", "--lease-duration=120s"],
        };
        let mut template = foreign(group, Tool::Manager, flags).await;
        make_mortal(&mut template["spec"]["containers"][0]);
        template
    }

    /// Whether its leader ends so suddenly that it does not release the Lease.
    fn leaves_its_lease(self, end: End) -> bool {
        self != Self::Releasing || matches!(end, Killed | OutOfMemory | Restarted)
    }
}

/// Ends the leader in this way. Another replica, or the next process of a single one, must lead because of the evidence.
async fn follow(program: Program, end: End) {
    let group = Group::foreign(&format!("assisted-{program:?}-{end:?}").to_lowercase()).await;
    let replicas = if end == Restarted { 1 } else { 3 };
    create_deployment(&group, replicas, program.template(&group).await).await;
    all_run(&group, replicas).await;
    let leader = observed_leader(&group, "").await;
    let pods = group.api::<Pod>();
    match end {
        Killed | Restarted => group.signal(&leader.replica, PROGRAM, Signal::KILL).await,
        OutOfMemory => drop(group.exec(&leader.replica, PROGRAM, &["/worker", "order", "devour"]).await),
        Unhealthy => drop(group.exec(&leader.replica, PROGRAM, &["/worker", "order", "sicken"]).await),
        Evicted => drop(eventually(async || pods.evict(&leader.replica, &EvictParams::default()).await).await.unwrap()),
        Updated => update(&group, "1.1.0").await,
        Scaled => {
            scale(&group.api(), "worker", 0).await;
            gone(&group).await;
            eventually(async || if holder(&group).await.is_empty() { Ok(()) } else { Err("the Lease is held") })
                .await
                .unwrap();
            scale(&group.api(), "worker", 3).await;
        }
    }
    group.leader_after(&leader, LIMIT).await;
    let next = group.leader().await;
    assert!(end != Killed || !next.is_same(&leader));
    let intervals = Stage::shared().node.reports().intervals(&group.name);
    for former in intervals.iter().filter(|interval| !interval.is_same(&next)) {
        let ending = ending(&group, former).await;
        let by_evidence = ending.as_deref() == Some("proven dead (container terminated)");
        assert_eq!(by_evidence, program.leaves_its_lease(end), "{}: {former:?} ended by {ending:?}", group.name);
    }
    assert_eq!(ending(&group, &next).await, None, "{}: {next:?} lives", group.name);
    group.end().await;
}

/// The leader, once the controller has observed a renewal of its assisted Lease.
async fn observed_leader(group: &Group, options: &str) -> Interval {
    group.leader().await;
    assist(group, options).await;
    renewed_twice(group).await;
    group.leader().await
}

async fn holder(group: &Group) -> String {
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

pub(crate) async fn static_kube_controller_manager_that_starts_again_does_not_wait_for_its_own_lease() {
    follow_component("kube-controller-manager", Tool::KubeControllerManager, "--controllers=ttl-controller").await;
}

pub(crate) async fn static_kube_scheduler_that_starts_again_does_not_wait_for_its_own_lease() {
    let plane = Stage::shared().node.plane();
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": plane.kubeconfig()},
        // No pod asks for it.
        "profiles": [{"schedulerName": "assisted"}],
    });
    let path = plane.folder().join("assisted-scheduler.json");
    fs::write(&path, config.to_string()).unwrap();
    follow_component("kube-scheduler", Tool::KubeScheduler, &format!("--config={}", path.display())).await;
}

/// Kills a component in a static pod, whose identity has the name of the node.
async fn follow_component(name: &str, program: Tool, flag: &str) {
    let group = Group::foreign(&format!("assisted-{name}")).await;
    let flags = [
        flag,
        &format!("--kubeconfig={}", group.plane().kubeconfig().display()),
        "--leader-elect=true",
        "--leader-elect-lease-duration=120s",
        "--leader-elect-renew-deadline=80s",
        &format!("--leader-elect-resource-name={LEASE}"),
        &format!("--leader-elect-resource-namespace={}", group.name),
        "--secure-port=0",
    ];
    let mut pod = foreign(&group, program, &flags).await;
    pod.as_object_mut().unwrap().extend([("apiVersion".to_owned(), json!("v1")), ("kind".to_owned(), json!("Pod"))]);
    (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!(name), json!(group.name));
    pod["spec"]["hostNetwork"] = json!(true);
    mount_files(&group, &mut pod["spec"]);
    let manifest = Stage::shared().node.manifests().join(format!("{name}.json"));
    fs::write(&manifest, pod.to_string()).unwrap();
    let leader = observed_leader(&group, &format!("pod-prefix={name}")).await;
    assert_eq!(leader.replica, format!("{name}-{NODE}"));
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    group.leader_after(&leader, LIMIT).await;
    assert!(was_proven_dead(&group, &leader).await, "{name}: {:?}", ending(&group, &leader).await);
    fs::remove_file(&manifest).unwrap();
    group.end().await;
}

/// The end of a sidecar proves nothing, so nothing is released before the container is named.
pub(crate) async fn dead_leader_beside_another_container_keeps_its_lease_until_its_container_is_named() {
    let group = Group::foreign("assisted-ambiguous").await;
    let mut template = foreign(&group, Tool::Manager, &["--run-or-die", "--lease-duration=120s"]).await;
    let beside = container(&group, "beside", &["/worker", "pause"]);
    template["spec"]["containers"].as_array_mut().unwrap().push(beside);
    create_deployment(&group, 2, template).await;
    all_run(&group, 2).await;
    let leader = observed_leader(&group, "").await;
    let identity = holder(&group).await;
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    eventually(async || {
        let status = group.pod(&leader.replica).await.status.unwrap_or_default();
        let restarts: i32 = status.container_statuses.iter().flatten().map(|container| container.restart_count).sum();
        if restarts > 0 { Ok(()) } else { Err("the container has not started again") }
    })
    .await
    .unwrap();
    let status = hustings(&group, &["status", LEASE, "--output=json"]);
    assert!(status.contains("\"ambiguous\""), "{status}");
    assert_eq!(holder(&group).await, identity, "nothing is released");

    hustings(&group, &["assist", LEASE, "--container", PROGRAM]);
    let next = group.leader_after(&leader, LIMIT).await;
    assert!(was_proven_dead(&group, &leader).await, "{next:?} leads; {:?}", ending(&group, &leader).await);
    group.end().await;
}

/// The kubelet of the node is gone, so it ends nothing, and the old process renews on. A new Pod of its name comes and ends on
/// another node, for whose kubelet this test reports.
pub(crate) async fn process_on_a_cut_off_node_keeps_its_lease_while_a_new_pod_of_its_name_ends() {
    let group = Group::foreign_alone("assisted-cut-off").await;
    let mut template = foreign(&group, Tool::Manager, &["--run-or-die"]).await;
    // The token of a pod ends with the pod.
    let variables = template["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    variables.push(json!({"name": "KUBECONFIG", "value": lasting_kubeconfig(&group).await}));
    mount_files(&group, &mut template["spec"]);
    create_stateful(&group, 1, template).await;
    let leader = observed_leader(&group, "").await;
    let node = &Stage::shared().node;
    let (name, old) = (&leader.replica, group.pod(&leader.replica).await.uid());
    node.kubelet().kill().unwrap();
    group.delete(name, &DeleteParams::default().grace_period(0)).await;
    let pods = group.api::<Pod>();
    eventually(async || {
        let new = pods.get_opt(name).await.ok().flatten().filter(|pod| pod.uid() != old);
        new.map(drop).ok_or("there is no new Pod")
    })
    .await
    .unwrap();
    let started = now();
    report(&group, name, json!({"running": {"startedAt": started}})).await;

    // As if another process had held the Lease meanwhile, and the old one had acquired it again. Its term is then younger than
    // the new container. A renewal keeps the time.
    let again = json!({"spec": {"acquireTime": MicroTime(Timestamp::now()), "leaseTransitions": 2}});
    group.api::<Lease>().patch(LEASE, &PatchParams::default(), &Patch::Merge(again)).await.unwrap();
    renewed_twice(&group).await;
    report(&group, name, json!({"terminated": {"exitCode": 1, "startedAt": started, "finishedAt": now()}})).await;
    renewed_twice(&group).await;
    let still = group.leader().await;
    assert!(still.is_same(&leader), "{still:?} follows {leader:?}");
    assert_eq!(ending(&group, &leader).await, None, "a live process was released");
    node.start_kubelet().await.unwrap();
    group.end().await;
}

/// Reports the state of the container of a Pod, as a kubelet does.
async fn report(group: &Group, pod: &str, state: Value) {
    let container =
        json!({"name": PROGRAM, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let patch = Patch::Merge(json!({"status": {"containerStatuses": [container]}}));
    group.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
}

/// The time in whole seconds, as a kubelet reports it.
fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap()
}

/// The path of a kubeconfig file for pods, with a token that does not end with a Pod.
async fn lasting_kubeconfig(group: &Group) -> PathBuf {
    let path = group.plane().kubeconfig_for_service_account(&group.name, "default").await.unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = json!("https://10.0.0.1");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// Lets the first container of a pod read the files of this run, which belong to root.
fn mount_files(group: &Group, spec: &mut Value) {
    let folder = group.plane().folder();
    let mount = json!({"name": "folder", "mountPath": folder, "readOnly": true});
    spec["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
    spec["containers"][0]["securityContext"] = json!({"runAsUser": 0});
    spec["volumes"].as_array_mut().unwrap().push(json!({"name": "folder", "hostPath": {"path": folder}}));
}

/// Runs a command of Hustings as the administrator, in the namespace of the group, and returns its output.
fn hustings(group: &Group, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_product"));
    command.args(arguments).arg("--namespace").arg(&group.name).arg("--kubeconfig").arg(group.plane().kubeconfig());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
