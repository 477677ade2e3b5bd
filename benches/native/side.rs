//! One control plane with its controller, and the replicas of every Lease.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use hustings_client::api::crd;
use hustings_controlplane::{ControlPlane, NativeElection, Process, Tool, serve};
use jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

/// How long a change may take. What takes longer counts as this: Kubernetes' controller was seen never to finish an
/// election among candidates of one second.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// How long a rest is observed.
const REST: Duration = Duration::from_mins(1);

/// The controller under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Elector {
    /// That of kube-apiserver
    Kubernetes,
    /// Hustings, which stands in
    Hustings,
}

/// Everything that runs.
pub(crate) struct Side {
    leases: Vec<Vec<Replica>>,
    namespace: String,
    _controllers: Vec<Process>,
    // Last, so that the processes end before the control plane.
    plane: ControlPlane,
}

struct Replica {
    name: String,
    process: Process,
    /// A killed replica cannot report its end.
    killed: Option<Timestamp>,
}

/// What happens in a minute of rest, for each Lease.
pub(crate) struct Rest {
    pub(crate) writes: Vec<f64>,
    pub(crate) changes: Vec<f64>,
}

impl Side {
    /// A control plane whose native candidates this controller elects.
    pub(crate) async fn start(elector: Elector, leases: usize) -> Result<Self> {
        let plane = ControlPlane::builder().audit(true).native_election(NativeElection::On).start().await?;
        let mut controllers = Vec::new();
        if elector == Elector::Hustings {
            serve(&plane.admin(), &crd()).await?;
            for name in ["hustings-0", "hustings-1"] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_hustings"));
                command.args(["controller", "--native", "--native-stand-in", "--admin-address=127.0.0.1:0"]);
                command.arg("--namespace=default").env("POD_NAME", name).arg("--kubeconfig").arg(plane.kubeconfig());
                controllers.push(plane.spawn(name, command)?);
            }
            until(|| {
                controllers.iter().find_map(|controller| {
                    log(controller).contains("this controller elects native candidates").then_some(())
                })
            })
            .await
            .context("the stand-in does not begin")?;
        }
        let namespace = plane.create_namespace("native").await?;
        let leases = (0..leases).map(|_| Vec::new()).collect();
        Ok(Self { leases, namespace, _controllers: controllers, plane })
    }

    /// Starts one replica of each of these names for each Lease. Returns for each Lease when its first one began.
    pub(crate) async fn stand(&mut self, names: &[&str], version: &str) -> Result<Vec<Timestamp>> {
        let tool = self.plane.tool(Tool::ClientGo).await?;
        let mut began = Vec::new();
        for (number, replicas) in self.leases.iter_mut().enumerate() {
            began.push(Timestamp::now());
            for name in names {
                let (lease, name) = (format!("lease-{number}"), format!("lease-{number}-{name}"));
                let mut command = Command::new(&tool);
                command.args(["--namespace", &self.namespace, "--lease", &lease, "--identity", &name]);
                command.args(["--binary-version", version, "--kubeconfig"]).arg(self.plane.kubeconfig());
                let process = self.plane.spawn(&format!("{}-{name}", self.namespace), command)?;
                replicas.push(Replica { name, process, killed: None });
            }
        }
        Ok(began)
    }

    /// For each Lease the seconds from `since` until a replica begins to lead.
    pub(crate) async fn gaps(&self, since: &[Timestamp]) -> Vec<f64> {
        self.led_by("", since).await
    }

    /// The same until a replica begins to lead whose name ends with this.
    pub(crate) async fn led_by(&self, suffix: &str, since: &[Timestamp]) -> Vec<f64> {
        let mut seconds = Vec::new();
        for (replicas, since) in self.leases.iter().zip(since) {
            let begins = || {
                let terms = terms(replicas).into_iter().filter(|term| term.name.ends_with(suffix));
                terms.map(|term| term.from).filter(|from| from >= since).min()
            };
            let led = until(begins).await;
            seconds.push(led.map_or(LIMIT.as_secs_f64(), |led| seconds_between(*since, led)));
        }
        seconds
    }

    /// For each Lease the seconds between its last two terms, if the last replaced the one before.
    pub(crate) fn last_gaps(&self) -> Vec<f64> {
        let gap = |replicas: &Vec<Replica>| {
            let mut terms = terms(replicas);
            let (last, former) = (terms.pop()?, terms.pop()?);
            Some(seconds_between(former.until?, last.from))
        };
        self.leases.iter().filter_map(gap).collect()
    }

    /// Kills the leader of each Lease that has one, and returns when.
    pub(crate) async fn kill_leaders(&mut self) -> Result<Vec<Timestamp>> {
        let mut killed = Vec::new();
        for replicas in &mut self.leases {
            if let Some(replica) = leader(replicas).await {
                replica.process.kill()?;
                replica.killed = Some(Timestamp::now());
            }
            killed.push(Timestamp::now());
        }
        Ok(killed)
    }

    /// Stops the leader of each Lease that has one, and returns when its work ended.
    pub(crate) async fn stop_leaders(&mut self) -> Result<Vec<Timestamp>> {
        let mut stopped = Vec::new();
        for replicas in &mut self.leases {
            let began = Timestamp::now();
            if let Some(replica) = leader(replicas).await {
                replica.process.stop().await?;
            }
            stopped.push(terms(replicas).into_iter().filter_map(|term| term.until).max().unwrap_or(began).max(began));
        }
        Ok(stopped)
    }

    /// Creates a candidate without a process for each Lease. Its version is older than all others.
    pub(crate) async fn create_dead_candidates(&self, version: &str) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate"));
        let candidates = Api::<DynamicObject>::namespaced_with(self.plane.admin(), &self.namespace, &kind);
        for number in 0..self.leases.len() {
            let now = format!("{:.6}", Timestamp::now());
            let candidate = json!({
                "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
                "metadata": { "name": format!("lease-{number}-dead") },
                "spec": { "leaseName": format!("lease-{number}"), "binaryVersion": version, "emulationVersion": version,
                    "strategy": "OldestEmulationVersion", "pingTime": now, "renewTime": now },
            });
            candidates.create(&PostParams::default(), &serde_json::from_value(candidate)?).await?;
        }
        Ok(())
    }

    /// Counts what happens in a minute.
    pub(crate) async fn rest(&self) -> Result<Rest> {
        let from = Timestamp::now();
        tokio::time::sleep(REST).await;
        let to = Timestamp::now();
        let is_within = |at: Timestamp| from <= at && at < to;
        let events = self.plane.audit_events()?;
        let writes = |number: usize| {
            let lease = format!("lease-{number}");
            let is_about = |name: &str| name == lease || name.starts_with(&format!("{lease}-"));
            let writes = events.iter().filter(|event| {
                let object = event.object_ref.as_ref();
                object.is_some_and(|object| object.namespace == self.namespace && is_about(&object.name))
                    && ["create", "update", "patch", "delete"].contains(&event.verb.as_str())
                    && event.request_received_timestamp.parse().is_ok_and(is_within)
            });
            count(writes.count())
        };
        let changes =
            |replicas: &Vec<Replica>| count(terms(replicas).into_iter().filter(|term| is_within(term.from)).count());
        Ok(Rest {
            writes: (0..self.leases.len()).map(writes).collect(),
            changes: self.leases.iter().map(changes).collect(),
        })
    }
}

/// A term by the replica's own reports.
struct Term {
    name: String,
    from: Timestamp,
    until: Option<Timestamp>,
}

/// The terms of all replicas of one Lease, in order.
fn terms(replicas: &[Replica]) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for replica in replicas {
        for line in log(&replica.process).lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(time) = line["time"].as_str().and_then(|time| time.parse().ok()) else { continue };
            match line["event"].as_str() {
                Some("leading") => terms.push(Term { name: replica.name.clone(), from: time, until: replica.killed }),
                Some("stopped") => {
                    if let Some(term) = terms.last_mut() {
                        term.until = Some(time);
                    }
                }
                _ => {}
            }
        }
    }
    terms.sort_by_key(|term| term.from);
    terms
}

/// The replica that leads, once one does.
async fn leader(replicas: &mut [Replica]) -> Option<&mut Replica> {
    let leading = || terms(replicas).into_iter().rev().find(|term| term.until.is_none());
    let name = until(leading).await?.name;
    replicas.iter_mut().find(|replica| replica.name == name)
}

/// The answer, once there is one; `None` after the limit.
async fn until<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
    let asked = async {
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.ok()
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
