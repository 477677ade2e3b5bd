//! The chart's rendering, without a cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize as _;
use serde_json::{Value, json};

use hustings_controlplane::Tool;

use super::{HELMS, assert_committed, read, run_helm, succeed};

const SYSTEM: &str = "hustings-system";

/// The container of the controller, among the lines of the rendered chart.
const CONTAINER: &str = "Deployment hustings-system/hustings spec.template.spec.containers.0";

/// Values beside the default ones, whose rendering is `deploy/install.yaml`.
const CASES: [&str; 3] = ["namespaced", "everything", "control-plane"];

/// Values that the case `everything` leaves at their defaults, since they exclude others.
const EXCLUDED: [&str; 4] = ["podMonitor.enabled", "deployment.enabled", "hostNetwork", "adminHost"];

/// Values that are Kubernetes maps, which the chart copies as a whole.
const WHOLE: [&str; 3] = ["resources", "podSecurityContext", "containerSecurityContext"];

#[test]
fn chart_lints_and_renders_what_is_committed_with_either_version_of_helm() {
    for helm in HELMS {
        succeed(&run_helm(helm, &["lint", "--strict", "charts/hustings"]));
    }
    for case in CASES {
        let values = format!("tests/testdata/chart/values-{case}.yaml");
        let rendered = HELMS.map(|helm| {
            succeed(&run_helm(helm, &["lint", "--strict", "charts/hustings", "--values", &values]));
            render_with(helm, SYSTEM, &["--values", &values])
        });
        let golden = format!("tests/testdata/chart/{case}.golden.yaml");
        assert_committed(&golden, &rendered[0]);
        // The two versions differ in empty lines.
        assert_eq!(documents(&rendered[0]), documents(&rendered[1]), "{case}");
    }
}

#[test]
fn case_everything_differs_from_the_default_in_every_value() {
    let default = leaves(&yaml(&read("charts/hustings/values.yaml")));
    let everything = leaves(&yaml(&read("tests/testdata/chart/values-everything.yaml")));
    for (path, value) in default {
        if EXCLUDED.contains(&path.as_str()) {
            continue;
        }
        let other = everything.iter().filter(|(other, _)| **other == path || other.starts_with(&format!("{path}.")));
        assert!(other.clone().count() > 0, "{path} is not set");
        assert!(other.clone().all(|(_, other)| *other != value), "{path} has its default");
    }
}

#[test]
fn readme_lists_every_value_with_its_default() {
    let rows: BTreeMap<String, Value> = read("charts/hustings/README.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let (path, rest) = row.split_once("` | `").unwrap();
            let (default, _) = rest.split_once("` | ").unwrap();
            (path.to_owned(), serde_json::from_str(default).unwrap())
        })
        .collect();
    assert_eq!(rows, leaves(&yaml(&read("charts/hustings/values.yaml"))));
}

#[test]
fn image_is_named_by_its_registry_repository_tag_and_digest() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let version = env!("CARGO_PKG_VERSION");
    for (values, expected) in [
        ("image.repository=hustings", format!("hustings:{version}")),
        ("image.tag=1.2.3", "hustings:1.2.3".to_owned()),
        ("image.registry=r.example/p,image.tag=1.2.3", "r.example/p/hustings:1.2.3".to_owned()),
        ("global.imageRegistry=g.example,image.tag=1.2.3", "g.example/hustings:1.2.3".to_owned()),
        (&format!("image.tag=1.2.3,image.digest={digest}"), format!("hustings@{digest}")),
    ] {
        let rendered = render(&["--set", values]);
        let deployment = documents(&rendered).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], expected, "{values}");
    }
}

#[test]
fn chart_has_the_version_of_the_workspace() {
    let chart = yaml(&read("charts/hustings/Chart.yaml"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn crd_files_are_generated_and_the_chart_adds_only_metadata() {
    let generated = serde_yaml::to_string(&hustings_client::api::crd()).unwrap();
    for path in ["crds/leasecandidates.yaml", "charts/hustings/files/leasecandidates.yaml"] {
        assert_committed(path, &generated);
    }

    let expected = yaml(&generated);
    for keep in [true, false] {
        let mut rendered = rendered_crd(&["--set", &format!("crds.keep={keep}")]).expect("the CRD is rendered");
        let metadata = rendered["metadata"].take();
        assert_eq!(metadata["name"], expected["metadata"]["name"]);
        assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], "hustings");
        let policy = if keep { json!("keep") } else { Value::Null };
        assert_eq!(metadata["annotations"]["helm.sh/resource-policy"], policy);
        rendered["metadata"] = expected["metadata"].clone();
        assert_eq!(rendered, expected);
    }
    assert_eq!(rendered_crd(&["--set", "crds.install=false"]), None);
}

#[test]
fn alerts_name_metrics_that_exist_and_have_paragraphs_in_the_runbook() {
    let runbook_url = "prometheusRule.runbook=https://wiki.example/docs/runbook.md#";
    let rendered = render(&["--set", "prometheusRule.enabled=true", "--set", runbook_url]);
    let rule = documents(&rendered).into_iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    let alerts = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    let names: Vec<_> = alerts.iter().map(|alert| alert["alert"].as_str().unwrap()).collect();
    let runbook = read("docs/runbook.md");
    let headings = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    let headings: Vec<_> = headings.filter(|heading| heading.starts_with("Hustings")).collect();
    assert_eq!(names, headings);

    let table = read("docs/metrics.md");
    for alert in alerts {
        let name = alert["alert"].as_str().unwrap();
        let url = alert["annotations"]["runbook_url"].as_str().unwrap();
        assert!(url.ends_with(&format!("/docs/runbook.md#{}", name.to_lowercase())), "{url}");
        let expression = alert["expr"].as_str().unwrap();
        let summary = alert["annotations"]["summary"].as_str().unwrap();
        let names_lease = summary.contains("$labels.namespace }}/{{ $labels.lease }}");
        assert_eq!(
            names_lease,
            expression.contains("hustings_election_"),
            "{name} must name the Lease, if it is of one"
        );
        let metrics = metrics(expression);
        assert!(!metrics.is_empty(), "{name}");
        for metric in metrics {
            assert!(table.contains(&format!("| `{metric}` |")), "{name} names {metric}");
        }
    }
    let dashboard = read("charts/hustings/dashboards/hustings.json");
    // A query names the buckets of a histogram, and the label `lease` is not a metric.
    for metric in metrics(&dashboard) {
        let metric = metric.strip_suffix("_bucket").unwrap_or(metric);
        assert!(table.contains(&format!("| `{metric}` |")), "the dashboard names {metric}");
    }
    for metric in metrics(&runbook) {
        assert!(table.contains(&format!("| `{metric}` |")), "the runbook names {metric}");
    }
}

#[test]
fn dashboard_is_whole_in_the_config_map_that_the_sidecar_selects() {
    assert!(!render(&[]).contains("grafana_dashboard"), "it is off by default");
    let rendered = render(&["--set", "dashboard.enabled=true"]);
    let labelled = |object: &Value| object["metadata"]["labels"]["grafana_dashboard"] == "1";
    let config_map = documents(&rendered).into_iter().find(labelled).expect("a ConfigMap");
    assert_eq!(config_map["data"]["hustings.json"], read("charts/hustings/dashboards/hustings.json"));
}

#[test]
fn evidence_by_pods_and_labels_of_leaders_each_add_one_flag_and_one_right_and_nothing_else() {
    let watched = ["--set", "watchNamespaces={a,b}"];
    for (arguments, rules) in [
        (&[][..], &["ClusterRole hustings-controller rules.4"][..]),
        (&watched, &["Role a/hustings-controller rules.5", "Role b/hustings-controller rules.5"]),
    ] {
        for (value, flag, verbs) in [
            ("evidence.pods=true", "--evidence-pods", &["list", "watch"][..]),
            ("leaderLabel.enabled=true", "--leader-labels", &["get", "list", "watch", "patch"]),
        ] {
            let right = rules.iter().flat_map(|place| {
                let verbs = verbs.iter().map(|verb| format!("verbs: {verb:?}"));
                let rule = [r#"apiGroups: """#, r#"resources: "pods""#].map(str::to_owned).into_iter().chain(verbs);
                rule.map(move |line| format!("{place}.{line}"))
            });
            let flag = format!("{CONTAINER}.args: {flag:?}");
            assert_eq!(difference(arguments, value), right.chain([flag]).collect());
        }
    }
    let selector = difference(&["--set", "evidence.pods=true"], "evidence.podSelector=app=shop");
    assert_eq!(selector, BTreeSet::from([format!(r#"{CONTAINER}.args: "--evidence-pod-selector=app=shop""#)]));
}

#[test]
fn roles_for_people_are_part_of_those_of_kubernetes_only_with_aggregation() {
    let aggregated = |set: &[&str]| render(set).matches("rbac.authorization.k8s.io/aggregate-to-").count();
    assert_eq!((aggregated(&[]), aggregated(&["--set", "clusterRoles.aggregate=false"])), (2, 0));
}

#[test]
fn pods_prefer_different_zones_unless_an_affinity_is_set() {
    let affinity = |set: &[&str]| {
        let deployment = documents(&render(set)).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["spec"]["affinity"].clone()
    };
    let default = affinity(&[]);
    let preferred = &default["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(preferred[0]["podAffinityTerm"]["topologyKey"], "topology.kubernetes.io/zone", "{default}");
    assert_eq!(affinity(&["--set-json", "affinity.podAntiAffinity={}"]), json!({"podAntiAffinity": {}}));
}

#[test]
fn native_election_reads_the_lease_of_kubernetes_controller_and_only_a_stand_in_writes_it() {
    let native = "native.enabled=true";
    // In the whole cluster the controller has these rights on every Lease.
    let stand_in_flag = format!(r#"{CONTAINER}.args: "--native-stand-in""#);
    let added = difference(&["--set", native], "native.standIn=true");
    assert_eq!(added, BTreeSet::from([stand_in_flag.clone()]));

    let watched = ["--set", "watchNamespaces={a}"];
    let role = "Role kube-system/hustings-controller-native";
    let rules = |added: &BTreeSet<String>| {
        let rules = added.iter().filter_map(|line| line.strip_prefix(role)?.strip_prefix(" rules."));
        rules.map(str::to_owned).collect::<Vec<_>>()
    };
    let added = difference(&watched, native);
    let lease = r#"0.resourceNames: "leader-election-controller""#;
    let expected = [r#"0.apiGroups: "coordination.k8s.io""#, lease, r#"0.resources: "leases""#, r#"0.verbs: "get""#];
    assert_eq!(rules(&added), expected);
    // Nothing else is added but this Role, its binding, the flag, and the rights on native candidates in the watched
    // namespace.
    let known =
        [role, "RoleBinding kube-system/hustings-controller-native", "Role a/hustings-controller rules.5.", CONTAINER];
    let unknown: Vec<_> = added.iter().filter(|line| !known.iter().any(|known| line.starts_with(known))).collect();
    assert_eq!(unknown, Vec::<&String>::new());

    // A controller that watches that namespace reads the Lease by the rules for it.
    let added = difference(&["--set", "watchNamespaces={a,kube-system}"], native);
    assert_eq!(rules(&added), Vec::<String>::new());

    let added = difference(&[&watched[..], &["--set", native]].concat(), "native.standIn=true");
    assert_eq!(added, BTreeSet::from([stand_in_flag, format!(r#"{role} rules.0.verbs: "patch""#)]));
}

/// What a value adds to the rendered chart. It must remove nothing.
fn difference(arguments: &[&str], value: &str) -> BTreeSet<String> {
    let (without, with) = (lines(&render(arguments)), lines(&render(&[arguments, &["--set", value]].concat())));
    let removed: Vec<_> = without.difference(&with).collect();
    assert!(removed.is_empty(), "{value} removes {removed:?}");
    with.difference(&without).cloned().collect()
}

/// Each value of each rendered object, after the object and the path in it. Lists of objects have numbers in the path.
fn lines(rendered: &str) -> BTreeSet<String> {
    fn add(lines: &mut BTreeSet<String>, path: &str, value: &Value) {
        let dot = if path.ends_with(' ') { "" } else { "." };
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| add(lines, &format!("{path}{dot}{key}"), value)),
            Value::Array(list) if list.iter().any(Value::is_object) => {
                list.iter().enumerate().for_each(|(number, value)| add(lines, &format!("{path}.{number}"), value));
            }
            Value::Array(list) => list.iter().for_each(|value| add(lines, path, value)),
            leaf => drop(lines.insert(format!("{path}: {leaf}"))),
        }
    }
    let mut all = BTreeSet::new();
    for document in documents(rendered) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &document["metadata"];
        let namespace = metadata["namespace"].as_str().map_or_else(String::new, |name| format!("{name}/"));
        add(&mut all, &format!("{} {namespace}{} ", text(&document["kind"]), text(&metadata["name"])), &document);
    }
    all
}

/// The metric names in `text`.
fn metrics(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("hustings_")).collect()
}

fn rendered_crd(arguments: &[&str]) -> Option<Value> {
    documents(&render(arguments)).into_iter().find(|object| object["kind"] == "CustomResourceDefinition")
}

pub(super) fn render(arguments: &[&str]) -> String {
    render_with(Tool::Helm, SYSTEM, arguments)
}

pub(super) fn render_with(helm: Tool, namespace: &str, arguments: &[&str]) -> String {
    let template = ["template", "hustings", "charts/hustings", "--namespace", namespace];
    succeed(&run_helm(helm, &[&template, arguments].concat()))
}

pub(super) fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text).map(|document| Value::deserialize(document).unwrap()).collect()
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

/// The values by their paths; an empty map is a value.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (key, value) in value.as_object().unwrap() {
        match value {
            Value::Object(map) if !map.is_empty() && !WHOLE.contains(&key.as_str()) => {
                found.extend(leaves(value).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            _ => drop(found.insert(key.clone(), value.clone())),
        }
    }
    found
}
