//! How the controllers of the chart reach others, and who reaches them: the NetworkPolicy, the network of the node, and the
//! namespace of their own Lease.

use serde_json::{Value, json};

use super::rendering::{documents, render};

#[test]
fn policy_allows_the_api_server_names_if_some_are_looked_up_and_what_is_added() {
    let dns = json!({"ports": [
        {"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 5353, "protocol": "UDP"}, {"port": 5353},
    ]});
    let api_server = json!({"ports": [{"port": 443}, {"port": 6443}]});
    let variable = |name: &str, value: &str| format!(r#"extraEnv=[{{"name":"{name}","value":"{value}"}}]"#);
    for (value, expected) in [
        ("replicas=1".to_owned(), false),
        (r#"networkPolicy.dns="always""#.to_owned(), true),
        (r#"extraArgs=["--kubeconfig=/config"]"#.to_owned(), true),
        (r#"extraArgs=["--kubeconfig=/config"],networkPolicy.dns="never""#.to_owned(), false),
        (variable("KUBECONFIG", "/config"), true),
        (variable("HUSTINGS_KUBECONFIG", "/config"), true),
        (variable("KUBERNETES_SERVICE_HOST", "api.example"), true),
        (variable("KUBERNETES_SERVICE_HOST", "10.0.0.1"), false),
        (variable("KUBERNETES_SERVICE_HOST", "fd00::1"), false),
        (variable("https_proxy", "http://u:p@proxy.example:3128"), true),
        (variable("HTTPS_PROXY", "http://u:p@[fd00::1]:3128"), false),
        (variable("OTHER", "name.example"), false),
        (r#"extraEnv=[{"name":"HTTPS_PROXY","valueFrom":{"secretKeyRef":{"name":"a","key":"b"}}}]"#.to_owned(), true),
    ] {
        let policy = object("NetworkPolicy", &["--set", "networkPolicy.enabled=true", "--set-json", &value]);
        let egress = if expected { vec![api_server.clone(), dns.clone()] } else { vec![api_server.clone()] };
        assert_eq!(policy["spec"]["egress"], json!(egress), "{value}");
        assert_eq!(policy["spec"]["ingress"], json!([{"ports": [{"port": "admin"}]}]), "{value}");
    }
    let collector = json!({"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 4318}]});
    let readers = json!([{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]);
    let added = json!({"enabled": true, "extraEgress": [collector], "ingressFrom": readers});
    let policy = object("NetworkPolicy", &["--set-json", &format!("networkPolicy={added}")]);
    assert_eq!(policy["spec"]["egress"], json!([api_server, collector]));
    assert_eq!(policy["spec"]["ingress"], json!([{"ports": [{"port": "admin"}], "from": readers}]));
}

#[test]
fn pods_in_the_network_of_the_node_replace_one_another_and_are_probed_where_they_listen() {
    let host = r#"hostNetwork=true,adminPort=10262,adminHost="127.0.0.1",dnsPolicy="Default""#;
    let deployment = object("Deployment", &["--set-json", host]);
    let spec = &deployment["spec"];
    // A surge would need another node whose port is free.
    assert_eq!(spec["strategy"], json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}));
    let pod = &spec["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["dnsPolicy"]), (&json!(true), &json!("Default")));
    let container = &pod["containers"][0];
    assert!(container["args"].as_array().unwrap().contains(&json!("--admin-address=127.0.0.1:10262")), "{container}");
    assert_eq!(container["ports"], json!([{"name": "admin", "containerPort": 10262}]));
    assert_eq!(container["livenessProbe"]["httpGet"], json!({"path": "/livez", "port": "admin", "host": "127.0.0.1"}));
    let own = r#"strategy.rollingUpdate={"maxSurge":0,"maxUnavailable":"100%"}"#;
    let deployment = object("Deployment", &["--set-json", host, "--set-json", own]);
    assert_eq!(deployment["spec"]["strategy"], json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}));
    assert_eq!(object("Deployment", &[])["spec"]["strategy"], Value::Null);
}

#[test]
fn role_for_the_own_lease_is_in_the_namespace_of_that_lease() {
    for (value, expected) in [("replicas=1", "hustings-system"), (r#"leaderElection.namespace="other""#, "other")] {
        let flow = ["--set", "flowSchema.enabled=true"];
        let objects =
            documents(&render(&[&["--set-json", value, "--set", "watchNamespaces={shop}"][..], &flow].concat()));
        for kind in ["Role", "RoleBinding"] {
            let is_its =
                |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == "hustings-controller-lease";
            let found: Vec<_> = objects.iter().filter(is_its).map(|object| &object["metadata"]["namespace"]).collect();
            assert_eq!(found, [expected], "{value}: {kind}");
        }
        let schema = objects.iter().find(|object| object["kind"] == "FlowSchema").unwrap();
        let namespaces = schema["spec"]["rules"][0]["resourceRules"][0]["namespaces"].as_array().unwrap();
        assert!(namespaces.contains(&json!(expected)), "{value}: {namespaces:?}");
    }
}

fn object(kind: &str, arguments: &[&str]) -> Value {
    documents(&render(arguments)).into_iter().find(|object| object["kind"] == kind).unwrap()
}
