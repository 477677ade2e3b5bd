//! The container of the chart's Deployment, run as a kubelet would. It is the image's binary with the chart's
//! arguments, environment, token and probes. So it has the rights of the chart's roles.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use hustings_controlplane::{ControlPlane, Process};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Container, Probe},
};
use kube::Api;

use super::{
    image::{Root, image},
    release::Release,
};
use crate::{
    kubelet::{environment, expand, pod_of},
    replica::{logged_address, until},
};

/// Where Kubernetes mounts what a process needs to reach the API server.
const SERVICE_ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// In the end, the own Lease is neither in the namespace of the release nor in one that the controller watches.
#[tokio::test]
async fn controller_of_the_chart_becomes_ready_and_stops_when_asked_whatever_its_namespaces() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let (watched, own_lease) = (r#"watchNamespaces=["default"]"#, r#"leaderElection.namespace="kube-public""#);
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let release = Release::new(&plane, &namespace, "hustings");
    for (name, values) in [("own", &[][..]), ("other", &[watched]), ("third", &[watched, own_lease])] {
        becomes_ready_and_stops(release, name, values).await;
    }
    let lease = Api::<Lease>::namespaced(plane.admin(), "kube-public").get("hustings-controller").await.unwrap();
    assert_eq!(lease.spec.unwrap().lease_transitions, Some(1));
}

async fn becomes_ready_and_stops(release: Release<'_>, name: &str, values: &[&str]) {
    release.apply(&[values, &[r#"log.level="debug""#]].concat()).await;

    let pod = Pod::start(release, name).await;
    until("the controller listens", || pod.log(), async || (pod.admin_address().is_some()).then_some(())).await;
    until(
        "the controller is alive",
        || pod.log(),
        async || (pod.passes(pod.container.liveness_probe.as_ref())).then_some(()),
    )
    .await;
    until(
        "the controller is ready",
        || pod.log(),
        async || (pod.passes(pod.container.readiness_probe.as_ref())).then_some(()),
    )
    .await;
    assert!(pod.process.stop().await.unwrap().success(), "{}", pod.log());
}

/// One Pod of a release. Dropping this value kills it.
pub(super) struct Pod {
    pub(super) name: String,
    container: Container,
    pub(super) process: Process,
    _root: Root,
}

impl Pod {
    /// Starts the container of the release's Deployment under the name of a Pod.
    pub(super) async fn start(release: Release<'_>, name: &str) -> Self {
        let Release { plane, namespace, name: release, .. } = release;
        let mut pod = pod_of(plane, namespace, release, name).await;
        pod.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
        let spec = pod.spec.as_ref().unwrap();
        let (container, account) = (spec.containers[0].clone(), spec.service_account_name.clone().unwrap());
        let environment = environment(&container, &pod);
        let arguments = container.args.iter().flatten().map(|argument| {
            // All Pods of this machine share its ports.
            expand(argument, &environment).replace("--admin-address=:8080", "--admin-address=127.0.0.1:0")
        });

        let mut image = image(&format!("{namespace}-{name}"));
        let mount = image.root.0.join(SERVICE_ACCOUNT);
        fs::create_dir_all(&mount).unwrap();
        fs::copy(plane.folder().join("ca.crt"), mount.join("ca.crt")).unwrap();
        fs::write(mount.join("namespace"), namespace).unwrap();
        fs::write(mount.join("token"), plane.token(namespace, &account).await.unwrap()).unwrap();
        image
            .command
            .args(arguments)
            .envs(&environment)
            .env("KUBERNETES_SERVICE_HOST", plane.url().host().unwrap())
            .env("KUBERNETES_SERVICE_PORT", plane.url().port_u16().unwrap().to_string());
        let process = plane.spawn(name, image.command).unwrap();
        Self { name: name.to_owned(), container, process, _root: image.root }
    }

    /// Where the admin server listens, by the log.
    fn admin_address(&self) -> Option<SocketAddr> {
        let log = self.log();
        assert!(self.process.exit_status().unwrap().is_none(), "the controller has ended: {log}");
        logged_address(&log, "the admin server listens")
    }

    /// Whether a probe passes, as a kubelet asks it.
    fn passes(&self, probe: Option<&Probe>) -> bool {
        let path = probe.unwrap().http_get.as_ref().unwrap().path.as_deref().unwrap();
        let mut stream = TcpStream::connect(self.admin_address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.split_whitespace().nth(1) == Some("200")
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }
}
