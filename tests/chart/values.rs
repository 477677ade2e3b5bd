//! Values that make no sense are refused before anything is installed, with the place of the mistake.

use crate::helm;

#[test]
fn wrong_values_are_refused_in_words() {
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
        (r#"priorityClassName="a: b""#, "at '/priorityClassName': 'a: b' does not match pattern"),
        (r#"serviceAccount.name="A b""#, "at '/serviceAccount/name': 'A b' does not match pattern"),
        (r#"image.digest="abc""#, "at '/image/digest': 'abc' does not match pattern"),
        (r#"image.pullPolicy="Sometimes""#, "at '/image/pullPolicy'"),
        (r#"prometheusRule.runbook="docs""#, "at '/prometheusRule/runbook'"),
        ("serviceMonitor.enable=true", "at '/serviceMonitor': additional properties 'enable' not allowed"),
        ("networkPolicy.apiServerPorts=[]", "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"),
        // A null takes the default away, and without ports every port is meant.
        ("networkPolicy.apiServerPorts=null", "at '/networkPolicy': missing property 'apiServerPorts'"),
        ("admissionPolicy.enable=true", "at '/admissionPolicy': additional properties 'enable' not allowed"),
    ] {
        let output = helm(&["template", "hustings", "charts/hustings", "--set-json", value]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{value} is accepted");
        assert!(said.contains(reason), "{value}: {said}");
    }
}
