//! The replicas of some Leases, and their terms, as their own logs report them.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::join_all;
use hustings_controlplane::{ElectedComponent, Process, Tool};
use jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::json;

use crate::log::{change, log};
use crate::side::Side;

/// How long a change may take. A change that takes longer counts as this. Kubernetes' controller has been observed
/// never to finish an election among candidates that were created in the same second.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// The precision of a creation time.
const SECOND: Duration = Duration::from_secs(1);

/// How long a rest is observed.
const REST: Duration = Duration::from_mins(1);

/// The replicas that stand for some Leases.
pub(crate) struct Stands {
    elections: Vec<Election>,
    /// More arguments of each process of client-go.
    arguments: Vec<&'static str>,
}

/// One Lease and its replicas.
struct Election {
    lease: String,
    /// Which component they are; otherwise processes of client-go.
    component: Option<ElectedComponent>,
    replicas: Vec<Replica>,
}

struct Replica {
    name: String,
    process: Process,
    /// When it was killed or had ended, which it may not have reported.
    gone: Option<Timestamp>,
}

/// What happens in a minute of rest, for each Lease.
pub(crate) struct Rest {
    pub(crate) writes: Vec<f64>,
    pub(crate) changes: Vec<f64>,
}

/// A term, as the replica itself reported it.
struct Term {
    name: String,
    from: Timestamp,
    until: Option<Timestamp>,
}

impl Stands {
    /// `count` Leases, for which processes of client-go stand.
    pub(crate) fn client_go(prefix: &str, count: usize) -> Self {
        let lease = |number| Election { lease: format!("{prefix}-{number}"), component: None, replicas: Vec::new() };
        Self { elections: (0..count).map(lease).collect(), arguments: Vec::new() }
    }

    /// The Leases of kube-controller-manager and kube-scheduler.
    pub(crate) fn components() -> Self {
        let components = [ElectedComponent::KubeControllerManager, ElectedComponent::KubeScheduler];
        let lease = |component: ElectedComponent| Election {
            lease: component.lease().to_owned(),
            component: Some(component),
            replicas: Vec::new(),
        };
        Self { elections: components.map(lease).into(), arguments: Vec::new() }
    }

    /// The same with one more argument.
    pub(crate) fn with(mut self, argument: &'static str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The same Leases without replicas.
    pub(crate) fn anew(&self) -> Self {
        let anew = |election: &Election| Election {
            lease: election.lease.clone(),
            component: election.component,
            replicas: Vec::new(),
        };
        Self { elections: self.elections.iter().map(anew).collect(), arguments: self.arguments.clone() }
    }

    /// Starts one replica of each of these names for each Lease. Returns for each Lease when its first one began.
    pub(crate) async fn stand(&mut self, side: &Side, names: &[&str], version: &str) -> Result<Vec<Timestamp>> {
        // Builds what is missing before the first one begins.
        side.plane.tool(Tool::ClientGo).await?;
        let mut began = Vec::new();
        for election in &mut self.elections {
            let mut commands = Vec::new();
            for name in names {
                let name = format!("{}-{name}", election.lease);
                commands.push((election.command(side, &name, version, &self.arguments).await?, name));
            }
            began.push(Timestamp::now());
            for (command, name) in commands {
                let process = side.plane.spawn(&format!("{}-{name}", side.namespace), command)?;
                election.replicas.push(Replica { name, process, gone: None });
            }
        }
        Ok(began)
    }

    /// The same, with candidates that are created in different seconds: Kubernetes orders them by that.
    pub(crate) async fn stand_apart(&mut self, side: &Side, names: &[&str], version: &str) -> Result<Vec<Timestamp>> {
        let mut first = Vec::new();
        for name in names {
            let began = self.stand(side, &[name], version).await?;
            if first.is_empty() {
                first = began;
            }
            let standing = self.elections.iter().map(async |election| {
                until(async || {
                    let standing = election.standing(side).await.ok()?;
                    (standing.len() == election.replicas.len()).then_some(())
                })
                .await
            });
            join_all(standing).await;
            tokio::time::sleep(SECOND).await;
        }
        Ok(first)
    }

    /// For each Lease the seconds from `since` until a replica begins to lead.
    pub(crate) async fn led(&self, since: &[Timestamp]) -> Vec<f64> {
        self.led_by("", since).await
    }

    /// The same, until a replica whose name ends with `suffix` begins to lead.
    pub(crate) async fn led_by(&self, suffix: &str, since: &[Timestamp]) -> Vec<f64> {
        let led = self.elections.iter().zip(since).map(async |(election, since)| {
            let begins = async || {
                let terms = election.terms().into_iter().filter(|term| term.name.ends_with(suffix));
                terms.map(|term| term.from).filter(|from| from >= since).min()
            };
            until(begins).await.map_or(LIMIT.as_secs_f64(), |led| seconds_between(*since, led))
        });
        join_all(led).await
    }

    /// For each Lease the seconds from `since` until it names a preferred holder.
    pub(crate) async fn asked(&self, side: &Side, since: &[Timestamp]) -> Vec<f64> {
        let asked = self.elections.iter().zip(since).map(async |(election, since)| {
            let leases = side.leases(election.namespace(side));
            let is_asked = async || {
                let spec = leases.get(&election.lease).await.ok()?.spec?;
                spec.preferred_holder.filter(|holder| !holder.is_empty()).map(|_| Timestamp::now())
            };
            until(is_asked).await.map_or(LIMIT.as_secs_f64(), |asked| seconds_between(*since, asked))
        });
        join_all(asked).await
    }

    /// Waits until the last term of each Lease has ended, and returns when it did.
    pub(crate) async fn ended(&self) -> Vec<Timestamp> {
        let ended = self
            .elections
            .iter()
            .map(async |election| until(async || election.terms().pop()?.until).await.unwrap_or_else(Timestamp::now));
        join_all(ended).await
    }

    /// For each Lease the seconds until the candidate of this name exists.
    pub(crate) async fn stood(&self, side: &Side, name: &str, since: &[Timestamp]) -> Vec<f64> {
        let stood = self.elections.iter().zip(since).map(async |(election, since)| {
            let (candidates, name) = (election.candidates(side), format!("{}-{name}", election.lease));
            let stands = async || candidates.get_opt(&name).await.ok()?.map(|_| Timestamp::now());
            until(stands).await.map_or(LIMIT.as_secs_f64(), |stood| seconds_between(*since, stood))
        });
        join_all(stood).await
    }

    /// For each Lease whether a replica leads.
    pub(crate) fn has_leader(&self) -> Vec<bool> {
        self.elections.iter().map(|election| election.terms().iter().any(|term| term.until.is_none())).collect()
    }

    /// For each Lease the seconds between its last two terms; the limit if the last did not replace the one before.
    pub(crate) fn last_gaps(&self) -> Vec<f64> {
        let gap = |election: &Election| {
            let mut terms = election.terms();
            let (last, former) = (terms.pop()?, terms.pop()?);
            Some(seconds_between(former.until?, last.from))
        };
        self.elections.iter().map(|election| gap(election).unwrap_or(LIMIT.as_secs_f64())).collect()
    }

    /// Kills the replica of this name of each Lease.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        for election in &mut self.elections {
            let name = format!("{}-{name}", election.lease);
            for replica in election.replicas.iter_mut().filter(|replica| replica.name == name) {
                replica.process.kill()?;
                replica.gone = Some(Timestamp::now());
            }
        }
        Ok(())
    }

    /// Kills the leader of each Lease that has one, and returns the times of the kills.
    pub(crate) async fn kill_leaders(&mut self) -> Result<Vec<Timestamp>> {
        let mut killed = Vec::new();
        for election in &mut self.elections {
            if let Some(replica) = election.leader().await {
                replica.process.kill()?;
                replica.gone = Some(Timestamp::now());
            }
            killed.push(Timestamp::now());
        }
        Ok(killed)
    }

    /// Stops the leader of each Lease that has one, and returns when its work ended.
    pub(crate) async fn stop_leaders(&mut self) -> Result<Vec<Timestamp>> {
        let mut stopped = Vec::new();
        for election in &mut self.elections {
            let began = Timestamp::now();
            if let Some(replica) = election.leader().await {
                // A component that gets SIGTERM may exit with 1.
                replica.process.stop().await?;
                replica.gone = Some(Timestamp::now());
            }
            let ends = election.terms().into_iter().filter_map(|term| term.until);
            stopped.push(ends.max().unwrap_or(began).max(began));
        }
        Ok(stopped)
    }

    /// Creates a candidate without a process for each Lease.
    pub(crate) async fn create_dead_candidates(&self, side: &Side, version: &str) -> Result<()> {
        for election in &self.elections {
            let now = format!("{:.6}", Timestamp::now());
            let candidate = json!({
                "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
                "metadata": { "name": election.dead_candidate() },
                "spec": { "leaseName": election.lease, "binaryVersion": version, "emulationVersion": version,
                    "strategy": "OldestEmulationVersion", "pingTime": now, "renewTime": now },
            });
            election.candidates(side).create(&PostParams::default(), &serde_json::from_value(candidate)?).await?;
        }
        Ok(())
    }

    /// Deletes these candidates.
    pub(crate) async fn delete_dead_candidates(&self, side: &Side) -> Result<()> {
        for election in &self.elections {
            let name = election.dead_candidate();
            election.candidates(side).delete(&name, &DeleteParams::default()).await.context(name)?;
        }
        Ok(())
    }

    /// Counts what happens in a minute.
    pub(crate) async fn rest(&self, side: &Side) -> Result<Rest> {
        let from = Timestamp::now();
        tokio::time::sleep(REST).await;
        let to = Timestamp::now();
        let is_within = |at: Timestamp| from <= at && at < to;
        let events = side.plane.audit_events()?;
        let mut rest = Rest { writes: Vec::new(), changes: Vec::new() };
        for election in &self.elections {
            let mut objects = election.standing(side).await?;
            objects.push(election.lease.clone());
            let writes = events.iter().filter(|event| {
                let object = event.object_ref.as_ref();
                object.is_some_and(|object| {
                    object.namespace == election.namespace(side) && objects.contains(&object.name)
                }) && ["create", "update", "patch", "delete"].contains(&event.verb.as_str())
                    && event.request_received_timestamp.parse().is_ok_and(is_within)
            });
            rest.writes.push(count(writes.count()));
            rest.changes.push(count(election.terms().into_iter().filter(|term| is_within(term.from)).count()));
        }
        Ok(rest)
    }
}

impl Election {
    fn namespace<'a>(&self, side: &'a Side) -> &'a str {
        if self.component.is_some() { "kube-system" } else { &side.namespace }
    }

    fn candidates(&self, side: &Side) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate"));
        Api::namespaced_with(side.plane.admin(), self.namespace(side), &kind)
    }

    /// The names of its candidates.
    async fn standing(&self, side: &Side) -> Result<Vec<String>> {
        let candidates = self.candidates(side).list(&ListParams::default()).await?.into_iter();
        let own = candidates.filter(|candidate| candidate.data["spec"]["leaseName"] == json!(self.lease));
        Ok(own.filter_map(|candidate| candidate.metadata.name).collect())
    }

    fn dead_candidate(&self) -> String {
        format!("{}-dead", self.lease)
    }

    async fn command(&self, side: &Side, name: &str, version: &str, arguments: &[&str]) -> Result<Command> {
        let Some(component) = self.component else {
            let mut command = Command::new(side.plane.tool(Tool::ClientGo).await?);
            command.args(["--namespace", &side.namespace, "--lease", &self.lease, "--identity", name]);
            command.args(["--binary-version", version, "--kubeconfig"]).arg(side.plane.kubeconfig()).args(arguments);
            return Ok(command);
        };
        let emulated = format!("--emulated-version={}", version.trim_end_matches(".0"));
        let mut command = side.plane.elected_component(component, &[&emulated]).await?;
        // Its log has local times.
        command.env("TZ", "UTC");
        Ok(command)
    }

    /// The terms of all replicas, in order.
    fn terms(&self) -> Vec<Term> {
        let mut all = Vec::new();
        for Replica { name, process, gone } in &self.replicas {
            let mut terms: Vec<Term> = Vec::new();
            for (time, leads) in log(process).lines().filter_map(change) {
                if leads {
                    // Both a replica of tests/kit/clientgo and the client-go in it log the beginning. Count it once.
                    if terms.last().is_some_and(|term| term.until.is_none()) {
                        continue;
                    }
                    terms.push(Term { name: name.clone(), from: time, until: *gone });
                } else if let Some(term) = terms.last_mut() {
                    term.until = Some(time);
                }
            }
            all.extend(terms);
        }
        all.sort_by_key(|term| term.from);
        all
    }

    /// The replica that leads, once one does.
    async fn leader(&mut self) -> Option<&mut Replica> {
        let leading = async || self.terms().into_iter().rev().find(|term| term.until.is_none());
        let name = until(leading).await?.name;
        self.replicas.iter_mut().find(|replica| replica.name == name)
    }
}

/// The answer, once there is one; `None` after the limit.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.ok()
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
