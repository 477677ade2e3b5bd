//! The chart as a subchart, and together with a second release of itself: names, labels and selectors are distinct, and
//! each controller elects in its own namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hustings_controlplane::ControlPlane;
use serde_json::Value;

use super::{HELMS, repository, run_helm, succeed};
use super::{pod::Pod, release::Release, rendering::documents};
use crate::replica::{campaign, candidate_account, lease, until};

/// The objects that a cluster has once, for all releases.
const FIXED: [&str; 5] =
    ["leasecandidates.hustings.io", "hustings-candidate", "hustings-view", "hustings-edit", "hustings-operator"];

#[test]
fn parent_chart_contains_it_twice_beside_an_object_of_its_own_name() {
    let parent = parent("rendered", "a", "b");
    for helm in HELMS {
        succeed(&run_helm(helm, &["dependency", "update", "--skip-refresh", parent.to_str().unwrap()]));
        let rendered = succeed(&run_helm(helm, &["template", "shop", parent.to_str().unwrap(), "--namespace", "n"]));
        let objects: Vec<_> = documents(&rendered).into_iter().filter(Value::is_object).collect();

        let id =
            |object: &Value| [&object["kind"], &object["metadata"]["namespace"], &object["metadata"]["name"]].map(text);
        let ids: BTreeSet<_> = objects.iter().map(id).collect();
        assert_eq!(ids.len(), objects.len(), "two objects have one name: {ids:#?}");
        for [kind, namespace, name] in &ids {
            let of = |alias: &str, lease: &str| {
                name.starts_with(&format!("shop-{alias}"))
                    || (kind.starts_with("Role") && *name == format!("{lease}-lease"))
            };
            let is_own = (kind.as_str(), name.as_str()) == ("Deployment", "shop");
            let is_of_chart = of("first", "hustings-controller") || of("second", "second-controller");
            assert!(is_own || is_of_chart || FIXED.contains(&name.as_str()), "{kind} {namespace}/{name}");
        }

        let deployments: Vec<_> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
        assert_eq!(deployments.len(), 3);
        for deployment in &deployments {
            let selector = deployment["spec"]["selector"]["matchLabels"].as_object().unwrap();
            let is_selected =
                |pod: &Value| selector.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value);
            let selected = deployments.iter().filter(|other| is_selected(&other["spec"]["template"]));
            assert_eq!(selected.count(), 1, "{selector:?}");
        }
        for deployment in deployments.iter().filter(|deployment| deployment["metadata"]["name"] != "shop") {
            let pod = &deployment["spec"]["template"]["spec"];
            let image = format!("mirror.example/hustings:{}", env!("CARGO_PKG_VERSION"));
            assert_eq!(pod["containers"][0]["image"], image);
            assert_eq!(pod["imagePullSecrets"], serde_json::json!([{"name": "mirror"}]));
        }
    }
}

#[tokio::test]
async fn both_controllers_of_a_parent_chart_elect_each_in_its_namespaces() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let namespace = plane.create_namespace("parent").await.unwrap();
    let (a, b) = (plane.create_namespace("a").await.unwrap(), plane.create_namespace("b").await.unwrap());
    let parent = parent("installed", &a, &b);
    let release = Release::new(&plane, &namespace, "shop");
    succeed(&run_helm(release.helm, &["dependency", "update", "--skip-refresh", parent.to_str().unwrap()]));
    release.apply_chart(&parent, &[]).await;

    for (alias, own_lease, watched) in [("first", "hustings-controller", &a), ("second", "second-controller", &b)] {
        let deployment = format!("shop-{alias}");
        let pod = Pod::start(Release { name: &deployment, ..release }, alias).await;
        let kubeconfig = candidate_account(&plane, watched, "web").await;
        let component =
            campaign(&kubeconfig, watched, "web", "web-0", &["--binary-version=1.31.0", "--fallback=false"]);
        let component = crate::replica::Replica::start(&plane, watched, "web-0", component);
        component.says("leading", 0).await;
        let own = lease(&plane, &namespace, own_lease).await;
        assert_eq!(own["spec"]["holderIdentity"], alias, "{}", pod.log());
        assert!(pod.process.stop().await.unwrap().success(), "{}", pod.log());
    }
    release.uninstall().await;
    let left: BTreeSet<_> = release.objects().await.into_iter().collect();
    let kept = [
        "clusterrole.rbac.authorization.k8s.io/hustings-candidate",
        "customresourcedefinition.apiextensions.k8s.io/leasecandidates.hustings.io",
    ];
    assert_eq!(left, kept.map(str::to_owned).into());
}

#[tokio::test]
async fn releases_of_one_name_in_two_namespaces_leave_each_other_alone() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let (one, other) = (plane.create_namespace("one").await.unwrap(), plane.create_namespace("other").await.unwrap());
    let watched = plane.create_namespace("watched").await.unwrap();
    let first = Release::new(&plane, &one, "hustings");
    let second = Release { namespace: &other, helm: HELMS[1], ..first };
    first.apply(&[]).await;
    let alone = first.objects().await;
    second
        .apply(&["crds.install=false", "clusterRoles.create=false", &format!(r#"watchNamespaces=["{watched}"]"#)])
        .await;
    let pods = [Pod::start(first, "first").await, Pod::start(second, "second").await];
    for (pod, namespace) in pods.iter().zip([&one, &other]) {
        let holds = async || {
            let own = lease(&plane, namespace, "hustings-controller").await;
            (own["spec"]["holderIdentity"] == pod.name.as_str()).then_some(())
        };
        until("each controller has a Lease of its own", || pod.log(), holds).await;
    }
    second.uninstall().await;
    assert_eq!(first.objects().await, alone);
}

/// A chart that contains this one twice, and a Deployment with the name of its release.
fn parent(name: &str, first: &str, second: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("parent").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("templates")).unwrap();
    let write = |file: &str, content: String| fs::write(folder.join(file), content).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let dependency = |alias: &str| {
        let path = repository("charts/hustings");
        format!(
            "  - {{name: hustings, version: {version}, alias: {alias}, condition: {alias}.enabled, repository: 'file://{}'}}\n",
            path.display()
        )
    };
    let dependencies = [dependency("first"), dependency("second")].concat();
    write("Chart.yaml", format!("apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n{dependencies}"));
    write(
        "values.yaml",
        format!(
            r#"
global:
  imageRegistry: mirror.example
  imagePullSecrets: [mirror]
  somethingElse: of another subchart
first:
  enabled: true
  watchNamespaces: ["{first}"]
  settling: 0s
second:
  enabled: true
  watchNamespaces: ["{second}"]
  settling: 0s
  crds: {{install: false}}
  clusterRoles: {{create: false}}
  leaderElection: {{leaseName: second-controller}}
"#
        ),
    );
    write(
        "templates/shop.yaml",
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}", labels: {app.kubernetes.io/instance: "{{ .Release.Name }}"}}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: shop, app.kubernetes.io/instance: "{{ .Release.Name }}"}}
  template:
    metadata: {labels: {app.kubernetes.io/name: shop, app.kubernetes.io/instance: "{{ .Release.Name }}"}}
    spec: {containers: [{name: shop, image: shop}]}
"#
        .to_owned(),
    );
    folder
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
