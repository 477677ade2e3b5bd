//! A namespace of the shared control plane, controllers that elect in it, and waits.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::api::{LeaseCandidate, ReadCandidate, ReadLease, crd};
use hustings_client::clock::SystemClock;
use hustings_client::store::Kubernetes;
use hustings_controlplane::{ControlPlane, PATIENCE, Process, Shared, serve, shared};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How many objects are created at a time.
pub(crate) const AT_A_TIME: usize = 16;

/// One test's namespace.
pub(crate) struct World<Plane = Shared> {
    pub(crate) plane: Plane,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// A controller that runs as a process.
pub(crate) struct Controller {
    pub(crate) process: Process,
    address: String,
}

/// An answer of the admin server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl World {
    pub(crate) async fn new(name: &str) -> Self {
        let plane = shared().await.unwrap();
        let client = plane.admin();
        install_crd(&client).await;
        let namespace = plane.create_namespace(name).await.unwrap();
        Self { plane, client, namespace }
    }
}

impl<Plane: std::ops::Deref<Target = ControlPlane>> World<Plane> {
    pub(crate) fn store(&self) -> Kubernetes {
        Kubernetes::new(self.client.clone(), SystemClock::shared(), Duration::from_secs(30))
    }

    /// A controller that elects in this namespace only.
    pub(crate) async fn controller(&self) -> Controller {
        self.controller_with(&[]).await
    }

    pub(crate) async fn controller_with(&self, flags: &[&str]) -> Controller {
        let flags = [&["--watch-namespaces", &self.namespace, "--namespace", &self.namespace], flags].concat();
        Controller::start(&self.plane, &self.plane.kubeconfig(), &flags).await
    }

    pub(crate) async fn lease(&self, name: &str) -> Option<ReadLease> {
        let leases: Api<ReadLease> = Api::namespaced(self.client.clone(), &self.namespace);
        leases.get_opt(name).await.unwrap()
    }

    pub(crate) async fn candidate(&self, name: &str) -> Option<ReadCandidate> {
        let candidates: Api<ReadCandidate> = Api::namespaced(self.client.clone(), &self.namespace);
        candidates.get_opt(name).await.unwrap()
    }

    pub(crate) async fn holder(&self, lease: &str) -> Option<String> {
        self.lease(lease).await?.record.holder
    }

    /// Waits until the Lease has this holder, whose term has begun.
    pub(crate) async fn led_by(&self, lease: &str, holder: &str) -> ReadLease {
        eventually(&format!("{lease} is led by {holder}"), || async {
            let lease = self.lease(lease).await.ok_or("no lease")?;
            let led = lease.record.holder.as_deref() == Some(holder) && !lease.record.is_open();
            if led { Ok(lease) } else { Err(format!("{:?}", lease.record)) }
        })
        .await
    }

    /// Waits until the controller has shown in the status that it knows this candidate.
    pub(crate) async fn standing(&self, name: &str) {
        eventually(&format!("{name} has a status"), || async {
            let candidate = self.candidate(name).await.ok_or("no candidate")?;
            candidate.record.status.state.map(drop).ok_or("no status")
        })
        .await;
    }

    pub(crate) async fn patch_lease(&self, name: &str, patch: Value) {
        let leases: Api<ReadLease> = Api::namespaced(self.client.clone(), &self.namespace);
        leases.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// The type and the note of each event so far.
    pub(crate) async fn events(&self) -> Vec<(String, String)> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await.unwrap().into_iter();
        events.map(|event| (event.type_.unwrap(), event.note.unwrap())).collect()
    }

    /// Waits until an event of this type has this note.
    pub(crate) async fn published(&self, type_: &str, note: &str) {
        eventually(&format!("the event {note:?} is published"), || async {
            let all = self.events().await;
            if all.iter().any(|event| event.0 == type_ && event.1 == note) { Ok(()) } else { Err(all) }
        })
        .await;
    }

    /// Creates a candidate from its spec.
    pub(crate) async fn stand(&self, name: &str, spec: Value) -> LeaseCandidate {
        self.create(json!({ "metadata": { "name": name }, "spec": spec })).await
    }

    pub(crate) async fn create(&self, candidate: Value) -> LeaseCandidate {
        let mut object = json!({ "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate" });
        object.as_object_mut().unwrap().extend(candidate.as_object().unwrap().clone());
        let candidate: LeaseCandidate = serde_json::from_value(object).unwrap();
        let candidates: Api<LeaseCandidate> = Api::namespaced(self.client.clone(), &self.namespace);
        candidates.create(&PostParams::default(), &candidate).await.unwrap()
    }
}

impl Controller {
    /// Starts a controller and waits until it listens.
    pub(crate) async fn start(plane: &ControlPlane, kubeconfig: &Path, flags: &[&str]) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let mut command = Command::new(binary());
        command.args(["controller", "--admin-address", "127.0.0.1:0", "--log-format", "json"]);
        command.arg("--kubeconfig").arg(kubeconfig).args(flags);
        command.env_remove("POD_NAME");
        let name = format!("controller-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        let process = plane.spawn(&name, command).unwrap();
        let address = eventually("the controller listens", || async {
            if let Some(status) = process.exit_status().unwrap() {
                panic!("the controller ended ({status}):\n{}", std::fs::read_to_string(process.log()).unwrap());
            }
            let line = log_line(process.log(), "the admin server listens").ok_or("not yet")?;
            Ok::<_, &str>(line["address"].as_str().unwrap().to_owned())
        })
        .await;
        Self { process, address }
    }

    /// The address of its admin server.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Waits until every check passes.
    pub(crate) async fn ready(self) -> Self {
        eventually("the controller is ready", || async {
            let answer = self.get("/readyz?verbose").await?;
            if answer.code == 200 { Ok(()) } else { Err(answer.body) }
        })
        .await;
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, String> {
        get(&self.address, path).await.map_err(|error| error.to_string())
    }

    /// The value of a series, such as `hustings_acks_total`.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        self.metric_if_any(series).await.unwrap_or_else(|text| panic!("no {series} in\n{text}"))
    }

    /// The same; all metrics if there is no such series.
    pub(crate) async fn metric_if_any(&self, series: &str) -> Result<f64, String> {
        let text = self.get("/metrics").await.unwrap().body;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap()).ok_or(text)
    }

    /// Waits for the first line of the log with this message, or a part of it.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        eventually(message, async || log_line(self.process.log(), message).ok_or("no such line in the log")).await
    }

    /// How many requests of each kind there were.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let text = self.get("/metrics").await.unwrap().body;
        text.lines().filter(|line| line.starts_with("hustings_requests_total{")).map(str::to_owned).collect()
    }

    /// Waits until `/readyz?verbose` contains this.
    pub(crate) async fn reports(&self, message: &str) {
        eventually(message, || async {
            let readiness = self.get("/readyz?verbose").await?.body;
            if readiness.contains(message) { Ok(()) } else { Err(readiness) }
        })
        .await;
    }

    /// Waits until this controller elects.
    pub(crate) async fn leads(&self) {
        eventually("the controller leads", || async {
            let leading = self.metric("hustings_leading").await;
            if leading > 0.5 { Ok(()) } else { Err("it stands by") }
        })
        .await;
    }
}

/// Tries until it succeeds, and fails with the last error.
pub(crate) async fn eventually<T, E: Debug>(what: &str, attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let outcome = hustings_controlplane::eventually(attempt).await;
    outcome.unwrap_or_else(|error| panic!("not within {PATIENCE:?}: {what}: {error:?}"))
}

/// Creates this many candidates, each with a name and a Lease.
pub(crate) async fn stand_many(world: &World, count: usize, name: impl Fn(usize) -> (String, String)) {
    futures::stream::iter((0..count).map(name))
        .for_each_concurrent(AT_A_TIME, |(name, lease)| async move {
            let spec = json!({ "leaseName": lease, "binaryVersion": "1.1.0", "emulationVersion": "1.1.0" });
            world.stand(&name, spec).await;
        })
        .await;
}

/// Installs the CRD and waits until the server serves it.
pub(crate) async fn install_crd(client: &Client) {
    serve(client, &crd()).await.unwrap();
}

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_hustings"))
}

fn log_line(log: &Path, message: &str) -> Option<Value> {
    let text = std::fs::read_to_string(log).ok()?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.into_iter().find(|line| line["message"].as_str().is_some_and(|text| text.contains(message)))
}

/// One GET, by hand: an HTTP client would be a dependency for this only.
async fn get(address: &str, path: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Ok(Answer { code, body: body.to_owned() })
}
