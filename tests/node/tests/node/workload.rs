//! Pods of which one leads.

use std::{fs, time::Duration};

use hustings_controlplane::{PATIENCE, Tool, eventually, within};
use hustings_node::{Interval, Reports, WORKER};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    coordination::v1::Lease,
    core::v1::Pod,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    objects::create,
    stage::{Group, LEASE},
};

/// The container with the program.
pub(crate) const PROGRAM: &str = "program";

/// The container with the sidecar.
pub(crate) const SIDECAR: &str = "hustings";

/// So long that its end cannot pass for evidence.
pub(crate) const LONG_LEASE: Duration = Duration::from_mins(3);

/// How a program learns that it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `hustings run` starts it.
    Wrapped,
    /// `hustings sidecar` runs beside it.
    Sidecar,
    /// It links the library.
    Library,
}

/// A template of pods with a version.
pub(crate) fn template(group: &Group, way: Way, version: &str) -> Value {
    let command = match way {
        Way::Wrapped => {
            let run = ["/hustings", "run", "--lease=work", "--binary-version=$(VERSION)", "--stop-grace=5s"];
            run.into_iter().chain(["--", "/worker", "command"]).collect::<Vec<_>>()
        }
        Way::Sidecar => vec!["/worker", "sidecar"],
        Way::Library => vec!["/worker", "library"],
    };
    let mut containers = json!([container(group, PROGRAM, &command)]);
    make_mortal(&mut containers[0]);
    let mut spec = json!({
        "terminationGracePeriodSeconds": 20,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": containers,
    });
    if way == Way::Sidecar {
        let sidecar = ["/hustings", "sidecar", "--lease=work", "--binary-version=$(VERSION)", "--handover-delay=500ms"];
        let mut sidecar = container(group, SIDECAR, &sidecar);
        sidecar["restartPolicy"] = json!("Always");
        spec["initContainers"] = json!([sidecar]);
    }
    json!({"metadata": {"labels": {"app": "worker", "version": version}}, "spec": spec})
}

/// A template of pods with a program that knows nothing of Hustings. The worker runs it.
pub(crate) async fn foreign(group: &Group, program: Tool, arguments: &[&str]) -> Value {
    // A pod cannot mount a path with `..` in it.
    let path = fs::canonicalize(group.plane().tool(program).await.unwrap()).unwrap();
    let command: Vec<&str> = ["/worker", "beside", "/program"].into_iter().chain(arguments.iter().copied()).collect();
    let mut worker = container(group, PROGRAM, &command);
    worker["volumeMounts"] = json!([{"name": "program", "mountPath": "/program", "readOnly": true}]);
    let spec = json!({
        "terminationGracePeriodSeconds": 20,
        "containers": [worker],
        "volumes": [{"name": "program", "hostPath": {"path": path, "type": "File"}}],
    });
    json!({"metadata": {"labels": {"app": "worker", "version": "1.0.0"}}, "spec": spec})
}

/// Lets a container fail its liveness probe, or take more memory than it may, when its worker is ordered to.
pub(crate) fn make_mortal(container: &mut Value) {
    container["livenessProbe"] = json!({"exec": {"command": ["/worker", "check"]}, "periodSeconds": 2, "failureThreshold": 2, "timeoutSeconds": 20});
    container["resources"] = json!({"limits": {"memory": "256Mi"}});
}

/// Assists the Lease of a group with these options, once it exists.
pub(crate) async fn assist(group: &Group, options: &str) {
    let marks = json!({"metadata": {
        "labels": {"hustings.io/enrolled": "true"}, "annotations": {"hustings.io/assist": options},
    }});
    let leases = group.api::<Lease>();
    let marked = eventually(async || leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(&marks)).await);
    marked.await.unwrap();
}

/// A container as Pod Security wants it, with the environment that Hustings and the worker read.
pub(crate) fn container(group: &Group, name: &str, command: &[&str]) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let value = |name: &str, value: &str| json!({"name": name, "value": value});
    json!({
        "name": name,
        "image": WORKER,
        "imagePullPolicy": "Never",
        "command": command,
        "env": [
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_UID", "metadata.uid"),
            field("VERSION", "metadata.labels['version']"),
            value("CONTAINER_NAME", name),
            value("LEASE", LEASE),
            value("GROUP", &group.name),
            value("REPORTS_TO", &Reports::address().to_string()),
        ],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    })
}

/// Creates pods that nobody starts again, and waits until they stand.
async fn run_once(group: &Group, replicas: usize, mut template: Value) {
    template["spec"]["restartPolicy"] = json!("Never");
    run(group, replicas, &template).await;
}

/// Three pods with the library and a long lease, which nobody starts again. Returns their leader, once evidence counts.
pub(crate) async fn lasting_leader(group: &Group) -> Interval {
    let mut template = template(group, Way::Library, "1.0.0");
    let variables = template["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    variables.push(json!({"name": "LEASE_SECONDS", "value": LONG_LEASE.as_secs().to_string()}));
    run_once(group, 3, template).await;
    group.settled_leader().await
}

/// A budget that allows one eviction at a time. Until its controller has counted the pods, it allows none.
pub(crate) async fn allow_one_disruption(group: &Group) {
    let budget = json!({
        "metadata": {"name": "worker"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "worker"}}},
    });
    create::<PodDisruptionBudget>(&group.api(), budget).await;
}

/// Creates pods, and waits until they stand.
pub(crate) async fn run(group: &Group, replicas: usize, template: &Value) {
    for number in 0..replicas {
        start(group, &format!("worker-{number}"), template.clone()).await;
    }
    group.wait_for_candidates(replicas).await;
}

/// Creates a pod.
pub(crate) async fn start(group: &Group, name: &str, mut template: Value) {
    template["metadata"]["name"] = json!(name);
    create::<Pod>(&group.api(), template).await;
}

/// Creates a Deployment, and waits until all its pods stand.
pub(crate) async fn deploy(group: &Group, replicas: usize, template: Value) {
    create_deployment(group, replicas, template).await;
    group.wait_for_candidates(replicas).await;
}

/// Creates a Deployment.
pub(crate) async fn create_deployment(group: &Group, replicas: usize, template: Value) {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "worker"}}, "template": template});
    create::<Deployment>(&group.api(), json!({"metadata": {"name": "worker"}, "spec": spec})).await;
}

/// Creates a StatefulSet, and waits until all its pods stand.
pub(crate) async fn deploy_stateful(group: &Group, replicas: usize, template: Value) {
    create_stateful(group, replicas, template).await;
    group.wait_for_candidates(replicas).await;
}

/// Creates a StatefulSet.
pub(crate) async fn create_stateful(group: &Group, replicas: usize, template: Value) {
    let spec = json!({
        "replicas": replicas, "serviceName": "worker", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "worker"}}, "template": template,
    });
    create::<StatefulSet>(&group.api(), json!({"metadata": {"name": "worker"}, "spec": spec})).await;
}

/// Replaces the pods of the Deployment by those of another version, and waits until only these are left.
pub(crate) async fn update(group: &Group, version: &str) {
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": version}}}}});
    let deployments = group.api::<Deployment>();
    deployments.patch("worker", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    within(PATIENCE, async || {
        let deployment = deployments.get("worker").await.map_err(|error| error.to_string())?;
        let wanted = deployment.spec.and_then(|spec| spec.replicas);
        let status = deployment.status.unwrap_or_default();
        let is_done = status.observed_generation == deployment.metadata.generation
            && [status.updated_replicas, status.replicas, status.available_replicas].iter().all(|of| *of == wanted);
        is_done.then_some(()).ok_or_else(|| format!("{status:?}"))
    })
    .await
    .unwrap();
}

/// Waits until the record of the Lease has changed twice.
pub(crate) async fn renewed_twice(group: &Group) {
    let leases = group.api::<Lease>();
    let mut seen = Vec::new();
    let renewed = within(PATIENCE, async || {
        let version = leases.get(LEASE).await.map_err(|error| error.to_string())?.resource_version();
        if !seen.contains(&version) {
            seen.push(version);
        }
        if seen.len() > 2 { Ok(()) } else { Err(format!("{} versions", seen.len())) }
    });
    renewed.await.unwrap_or_else(|error| panic!("{}: not renewed: {error}", group.name));
}

/// Waits until so many pods run.
pub(crate) async fn all_run(group: &Group, replicas: usize) {
    let all = eventually(async || {
        let pods = group.pods().await;
        let running = pods.iter().filter(|pod| runs(pod)).count();
        if running == replicas { Ok(()) } else { Err(format!("{}: {running} pods run", group.name)) }
    });
    all.await.unwrap();
}

/// Whether all containers of a pod run, by its status.
pub(crate) fn runs(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut running = statuses.map(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.next().is_some_and(|first| first && running.all(|runs| runs))
}
