//! The chart's NetworkPolicy on a node of its own, where kube-router enforces it: which connections it leaves open, and
//! that the controller elects behind it. Something listens at the end of each path, so only the policy refuses one.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use hustings_controlplane::{NODE_ADDRESS, eventually};
use hustings_node::{Images, Node, WORKER};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

/// The release and its namespace.
const RELEASE: &str = "hustings";

/// The container of the controller.
const CONTROLLER: &str = "controller";

const ADMIN: u16 = 8080;
const API_SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);
const KUBELET: u16 = 10250;

/// A port at which the test listens in both pods.
const OTHER: u16 = 7777;

/// How long a connection and an answer may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Off,
    Enforced,
}

/// A pod at whose other port the test listens.
struct Peer<'node> {
    node: &'node Node,
    pod: Pod,
    container: &'static str,
    address: IpAddr,
}

#[tokio::test(flavor = "multi_thread")]
async fn enforced_policy_leaves_the_admin_port_and_the_way_to_the_api_server() {
    if !Node::is_allowed() || !Node::can_enforce_policies() {
        return;
    }
    let images = Images::new(env!("CARGO_BIN_EXE_product"), env!("CARGO_BIN_EXE_worker"));
    let node = Node::start(images).await.unwrap();
    let _enforcer = node.enforce_policies().await.unwrap();
    let visitor = Peer::new(&node, run_pod(&node, "visitor", &["/worker", "pause"]).await, "visitor");
    install(&node, Policy::Off).await;
    let controller = Peer::new(&node, controller_after(&node, None).await, CONTROLLER);
    expect(&controller, &visitor, Policy::Off).await;

    install(&node, Policy::Enforced).await;
    expect(&controller, &visitor, Policy::Enforced).await;

    // The policy leaves connections from before it alone. So only a new controller shows that it can do its work.
    let pods = Api::<Pod>::namespaced(node.plane().admin(), RELEASE);
    pods.delete(&controller.pod.name_any(), &DeleteParams::default()).await.unwrap();
    let controller = Peer::new(&node, controller_after(&node, controller.pod.uid()).await, CONTROLLER);
    expect(&controller, &visitor, Policy::Enforced).await;
    elects(&node).await;
    for path in ["/readyz", "/ui/"] {
        let answer = visitor.get(controller.at(ADMIN), path).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 "), "{path}: {answer}");
    }

    install(&node, Policy::Off).await;
    expect(&controller, &visitor, Policy::Off).await;
}

/// Waits until exactly the paths are open that the policy allows.
async fn expect(controller: &Peer<'_>, visitor: &Peer<'_>, policy: Policy) {
    let node = |port| SocketAddr::from((NODE_ADDRESS, port));
    let api_server = node(api_port(controller.node));
    let paths = [
        ("another pod to the admin port", visitor, controller.at(ADMIN), true),
        ("another pod to another port of the controller", visitor, controller.at(OTHER), false),
        ("the controller to the Service of the API server", controller, API_SERVICE, true),
        ("the controller to the endpoint of the API server", controller, api_server, true),
        ("the controller to the kubelet", controller, node(KUBELET), false),
        ("the controller to another pod", controller, visitor.at(OTHER), false),
    ];
    let open_as_expected = async || -> Result<()> {
        for (path, from, to, allowed) in paths {
            let open = from.connects(to)?;
            ensure!(open == (allowed || policy == Policy::Off), "policy {policy:?}: {path} ({to}): open is {open}");
        }
        Ok(())
    };
    eventually(open_as_expected).await.unwrap();
}

impl<'node> Peer<'node> {
    fn new(node: &'node Node, pod: Pod, container: &'static str) -> Self {
        let address = pod.status.as_ref().unwrap().pod_ip.as_ref().unwrap().parse().unwrap();
        let listen = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, OTHER));
        let listener = node.run_in_pod(&pod, container, listen).unwrap().unwrap();
        listener.set_nonblocking(true).unwrap();
        // It stays in the network of the pod. Connections that nobody accepts would fill its queue.
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        Self { node, pod, container, address }
    }

    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address, port)
    }

    fn connect(&self, to: SocketAddr) -> Result<std::io::Result<TcpStream>> {
        self.node.run_in_pod(&self.pod, self.container, || TcpStream::connect_timeout(&to, CONNECT_LIMIT))
    }

    /// Whether a connection is accepted. The enforcer refuses those that no policy allows.
    fn connects(&self, to: SocketAddr) -> Result<bool> {
        match self.connect(to)? {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot connect to {to}")),
        }
    }

    /// The whole answer to a request.
    fn get(&self, server: SocketAddr, path: &str) -> Result<String> {
        let mut connection = self.connect(server)??;
        connection.set_read_timeout(Some(CONNECT_LIMIT))?;
        write!(connection, "GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// Installs or upgrades the chart.
async fn install(node: &Node, policy: Policy) {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/hustings");
    let mut arguments = vec!["upgrade", "--install", RELEASE, chart, "--namespace", RELEASE, "--create-namespace"];
    let ports = format!("--set=networkPolicy.apiServerPorts={{443,{}}}", api_port(node));
    arguments.extend(["--wait", "--timeout=110s", "--set=replicas=1,ui.enabled=true", &ports]);
    if policy == Policy::Enforced {
        arguments.push("--set=networkPolicy.enabled=true");
    }
    let output = node.plane().helm(arguments).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The port of the API server's endpoint.
fn api_port(node: &Node) -> u16 {
    node.plane().url().port_u16().unwrap()
}

/// The controller's pod once it is ready, and is another one than before.
async fn controller_after(node: &Node, former: Option<String>) -> Pod {
    let pods = Api::<Pod>::namespaced(node.plane().admin(), RELEASE);
    let ready = async || -> Result<Pod> {
        let pods = pods.list(&ListParams::default()).await?.items;
        let pod = pods.into_iter().find(|pod| pod.uid() != former && pod.metadata.deletion_timestamp.is_none());
        let pod = pod.context("no pod of the controller")?;
        ensure!(is_ready(&pod), "the pod of the controller is not ready: {:?}", pod.status);
        Ok(pod)
    };
    eventually(ready).await.unwrap()
}

/// Starts a pod that is not of the chart, and waits until it is ready.
async fn run_pod(node: &Node, name: &str, command: &[&str]) -> Pod {
    let pods = Api::<Pod>::default_namespaced(node.plane().admin());
    let namespace = json!({"name": "POD_NAMESPACE", "value": "default"});
    let name_of_pod = json!({"name": "POD_NAME", "value": name});
    let container = json!({
        "name": name, "image": WORKER, "imagePullPolicy": "Never", "command": command, "env": [namespace, name_of_pod],
    });
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ready = async || -> Result<Pod> {
        let pod = pods.get(name).await?;
        ensure!(is_ready(&pod), "the pod {name} is not ready: {:?}", pod.status);
        Ok(pod)
    };
    eventually(ready).await.unwrap()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The controller grants a Lease to a candidate that stands only with a controller.
async fn elects(node: &Node) {
    let role = ["--clusterrole=hustings-candidate", "--serviceaccount=default:default"];
    let output = node.plane().kubectl(["create", "rolebinding", "candidates"].iter().chain(&role)).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run =
        ["/hustings", "run", "--lease=web", "--binary-version=1.2.0", "--fallback=false", "--", "/worker", "pause"];
    run_pod(node, "web", &run).await;
    let leases = Api::<Lease>::default_namespaced(node.plane().admin());
    let granted = async || -> Result<()> {
        let holder = leases.get("web").await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(holder.as_deref() == Some("web"), "the holder is {holder:?}");
        Ok(())
    };
    eventually(granted).await.unwrap();
}
