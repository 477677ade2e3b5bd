//! The chart rejects invalid values before it installs anything, and names the wrong value.

use hustings_controlplane::Tool;

use super::rendering::documents;
use super::{HELMS, run_helm, succeed};

#[test]
fn wrong_values_are_rejected_with_a_message() {
    for (value, reason) in [
        (r#"watchNamespace=["a"]"#, "additional properties 'watchNamespace' not allowed"),
        (r#"image.tags="1""#, "at '/image': additional properties 'tags' not allowed"),
        ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
        (r#"replicas="2""#, "at '/replicas': got string, want integer"),
        (r#"watchNamespaces="a,b""#, "at '/watchNamespaces': got string, want array"),
        (r#"watchNamespaces=["A"]"#, "at '/watchNamespaces/0': 'A' does not match pattern"),
        (r#"watchNamespaces=["a","a"]"#, "at '/watchNamespaces': items at 0 and 1 are equal"),
        (r#"watchNamespaces=["kube-node-lease"]"#, "kube-node-lease holds the heartbeats of nodes"),
        ("leaderElection.leaseDuration=15", "at '/leaderElection/leaseDuration': got number, want string"),
        (r#"leaderElection.renewDeadline="10 s""#, "at '/leaderElection/renewDeadline': '10 s' does not match pattern"),
        (r#"leaderElection.deadline="10s""#, "at '/leaderElection': additional properties 'deadline' not allowed"),
        (r#"settling="-1s""#, "at '/settling': '-1s' does not match pattern"),
        (r#"log.format="xml""#, "at '/log/format': value must be one of 'json', 'text'"),
        (r#"log.level="""#, "at '/log/level'"),
        (r#"log.level="silly""#, "at '/log/level': 'silly' does not match pattern"),
        (r#"crds.keep="yes""#, "at '/crds/keep': got string, want boolean"),
        (r#"clusterRoles.keep="yes""#, "at '/clusterRoles/keep': got string, want boolean"),
        (r#"clusterRoles="no""#, "at '/clusterRoles': got string, want object"),
        (r#"podLabels={"app.kubernetes.io/name":"a"}"#, "at '/podLabels/app.kubernetes.io~1name'"),
        (r#"commonLabels={"app.kubernetes.io/instance":"a"}"#, "at '/commonLabels/app.kubernetes.io~1instance'"),
        (r#"commonLabels={"team":1}"#, "at '/commonLabels/team': got number, want string"),
        (r#"nameOverride="A""#, "at '/nameOverride': 'A' does not match pattern"),
        (r#"fullnameOverride="1a""#, "at '/fullnameOverride': '1a' does not match pattern"),
        // A null removes the default.
        ("image=null", "at '': missing property 'image'"),
        ("leaderElection.leaseDuration=null", "at '/leaderElection': missing property 'leaseDuration'"),
        ("serviceMonitor.enabled=null", "at '/serviceMonitor': missing property 'enabled'"),
        (r#"fullnameOverride="a.b""#, "at '/fullnameOverride': 'a.b' does not match pattern"),
        (r#"global.imageRegistry="https://r""#, "at '/global/imageRegistry': 'https://r' does not match pattern"),
        (r#"global.imagePullSecrets=[{"secret":"a"}]"#, "at '/global/imagePullSecrets/0'"),
        (r#"image.registry="r example""#, "at '/image/registry': 'r example' does not match pattern"),
        (r#"image.repository="""#, "at '/image/repository': '' does not match pattern"),
        (r#"strategy.type="Recreate""#, "at '/strategy/type': value must be 'RollingUpdate'"),
        (r#"serviceAccount.automount="no""#, "at '/serviceAccount/automount': got string, want boolean"),
        (r#"leaderElection.leaseName="""#, "at '/leaderElection/leaseName': '' does not match pattern"),
        ("candidateValidity=30", "at '/candidateValidity': got number, want string"),
        (r#"extraArgs="--settling=1s""#, "at '/extraArgs': got string, want array"),
        (r#"extraArgs=["settling=1s"]"#, "at '/extraArgs/0': 'settling=1s' does not match pattern"),
        (r#"extraEnv=[{"value":"a"}]"#, "at '/extraEnv/0': missing property 'name'"),
        (r#"extraEnv=[{"name":"a","value":1}]"#, "at '/extraEnv/0/value': got number, want string"),
        (
            r#"extraSubjects=[{"kind":"ServiceAccount","name":"a"}]"#,
            "at '/extraSubjects/0': missing property 'namespace'",
        ),
        ("adminPort=80", "at '/adminPort': minimum: got 80, want 1,024"),
        (r#"volumes=[{"emptyDir":{}}]"#, "at '/volumes/0': missing property 'name'"),
        (r#"volumeMounts=[{"name":"a"}]"#, "at '/volumeMounts/0': missing property 'mountPath'"),
        (r#"resources.request={"cpu":1}"#, "at '/resources': additional properties 'request' not allowed"),
        ("livenessProbe.path=1", "at '/livenessProbe': additional properties 'path' not allowed"),
        ("livenessProbe.successThreshold=2", "at '/livenessProbe/successThreshold': value must be 1"),
        ("readinessProbe.periodSeconds=0", "at '/readinessProbe/periodSeconds': minimum: got 0, want 1"),
        ("affinity.podAffinities={}", "at '/affinity': additional properties 'podAffinities' not allowed"),
        (r#"topologySpreadConstraints=[{"maxSkew":1}]"#, "at '/topologySpreadConstraints/0': missing properties"),
        (r#"podDisruptionBudget.minAvailable="half""#, "at '/podDisruptionBudget/minAvailable': 'half' does not match"),
        ("podMonitor.interval=30", "at '/podMonitor/interval': got number, want string"),
        (r#"podMonitor.relabelings={"a":1}"#, "at '/podMonitor/relabelings': got object, want array"),
        (r#"serviceMonitor.scrapeTimeout="fast""#, "at '/serviceMonitor/scrapeTimeout': 'fast' does not match pattern"),
        ("extraObjects=[1]", "at '/extraObjects/0'"),
        (r#"priorityClassName="a: b""#, "at '/priorityClassName': 'a: b' does not match pattern"),
        (r#"serviceAccount.name="A b""#, "at '/serviceAccount/name': 'A b' does not match pattern"),
        (r#"image.digest="abc""#, "at '/image/digest': 'abc' does not match pattern"),
        (r#"image.pullPolicy="Sometimes""#, "at '/image/pullPolicy'"),
        (r#"prometheusRule.runbook="docs""#, "at '/prometheusRule/runbook'"),
        ("serviceMonitor.enable=true", "at '/serviceMonitor': additional properties 'enable' not allowed"),
        (r#"assist.leases=["shop/web"]"#, "at '/assist/leases/0': got string, want object"),
        (r#"assist.leases=[{"lease":"web"}]"#, "at '/assist/leases/0/lease': 'web' does not match pattern"),
        (r#"assist.leases=[{"container":"app"}]"#, "at '/assist/leases/0': missing property 'lease'"),
        ("networkPolicy.apiServerPorts=[]", "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
        // Without ports, the rule would allow every port.
        ("networkPolicy.apiServerPorts=null", "at '/networkPolicy': missing property 'apiServerPorts'"),
        (r#"dashboard.labels={"grafana_dashboard":1}"#, "at '/dashboard/labels/grafana_dashboard'"),
        ("flowSchema.matchingPrecedence=0", "at '/flowSchema/matchingPrecedence': minimum: got 0, want 1"),
        ("admissionPolicy.enable=true", "at '/admissionPolicy': additional properties 'enable' not allowed"),
    ] {
        for helm in HELMS {
            let said = refusal(helm, &["--set-json", value]);
            assert!(said.contains(reason), "{helm:?}, {value}: {said}");
        }
    }
}

#[test]
fn values_that_exclude_or_need_each_other_are_rejected() {
    for (values, reason) in [
        ("serviceMonitor.enabled=true,podMonitor.enabled=true", "set one of them to false"),
        ("native.standIn=true", "native.standIn: set native.enabled, too"),
        ("evidence.nodes=true", "evidence.nodes: set evidence.pods, too"),
        ("evidence.podSelector=app", "evidence.podSelector: set evidence.pods, too"),
        ("assist.leases[0].lease=shop/web", "assist.leases: set evidence.pods, too"),
        ("assist.leases[0].lease=kube-node-lease/a", "kube-node-lease/a is the heartbeat of a node"),
        (
            "assist.leases[0].lease=a/b,watchNamespaces={c}",
            "assist.leases: a/b needs the namespace a: add it to watchNamespaces",
        ),
        (
            "assist.leases[0].lease=a/b,assist.leases[0].podNamespace=c,watchNamespaces={a}",
            "assist.leases: a/b needs the namespace c: add it to watchNamespaces",
        ),
        ("assist.leases[0].lease=a/b,assist.leases[1].lease=a/b,assist.leases[1].container=c", "a/b is there twice"),
        (
            "hostNetwork=true,adminHost=127.0.0.1,podMonitor.enabled=true",
            "adminHost: Prometheus does not reach 127.0.0.1",
        ),
        ("hostNetwork=true,adminHost=[::1],serviceMonitor.enabled=true", "adminHost: Prometheus does not reach [::1]"),
        ("deployment.enabled=false,serviceMonitor.enabled=true", "serviceMonitor.enabled: needs deployment.enabled"),
        ("deployment.enabled=false,networkPolicy.enabled=true", "networkPolicy.enabled: needs deployment.enabled"),
    ] {
        let said = refusal(HELMS[0], &["--set", values]);
        assert!(said.contains(reason), "{values}: {said}");
    }
}

#[test]
fn disruption_budget_without_a_bound_is_rejected() {
    let unbounded = ["--set", "podDisruptionBudget.minAvailable=,podDisruptionBudget.maxUnavailable="];
    for helm in HELMS {
        let said = refusal(helm, &unbounded);
        assert!(said.contains("set minAvailable or maxUnavailable"), "{helm:?}: {said}");
        let render_with = |value: &str| {
            let command = ["template", "hustings", "charts/hustings"];
            succeed(&run_helm(helm, &[&command[..], &unbounded, &["--set", value]].concat()))
        };
        for bound in ["minAvailable", "maxUnavailable"] {
            let rendered = render_with(&format!("podDisruptionBudget.{bound}=0"));
            assert!(rendered.contains(&format!("{bound}: 0")), "{helm:?}: {rendered}");
        }
        assert!(!render_with("podDisruptionBudget.enabled=false").contains("PodDisruptionBudget"), "{helm:?}");
    }
}

/// As in a file that has the key without a value.
#[test]
fn empty_labels_and_secrets_count_as_none() {
    let empty = "podLabels=null,commonLabels=null,imagePullSecrets=null,global=null,serviceAccount.labels=null,\
                 nodeSelector=null,tolerations=null,extraArgs=null,extraObjects=null,watchNamespaces=null";
    for helm in HELMS {
        let template = |values: &[&str]| {
            succeed(&run_helm(helm, &[&["template", "hustings", "charts/hustings"], values].concat()))
        };
        assert_eq!(template(&["--set", empty]), template(&[]), "{helm:?}");
    }
}

#[test]
fn release_may_have_dots_in_its_name() {
    for helm in HELMS {
        let rendered = succeed(&run_helm(helm, &["template", "shop.v1", "charts/hustings"]));
        let objects = documents(&rendered);
        let service = objects.iter().find(|object| object["kind"] == "Service").unwrap();
        assert_eq!(service["metadata"]["name"], "shop-v1-hustings", "{helm:?}");
    }
}

/// Helm's error for values that it must reject.
fn refusal(helm: Tool, values: &[&str]) -> String {
    let output = run_helm(helm, &[&["template", "hustings", "charts/hustings"], values].concat());
    assert!(!output.status.success(), "{helm:?} accepts {values:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
