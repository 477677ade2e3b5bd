//! A set in a ConfigMap, to which the leader adds numbers as many programs do. It reads the set, and writes it back
//! with one more number, without a resourceVersion. An acknowledged number that is missing in the end is a lost update.
//!
//! One leader at a time does not prevent a late write of a former leader. Each [`Protection`] leaves another gap. The
//! test forces each [`Gap`] open: a process stops itself at that place, or the test holds its bytes in the network, until
//! another process leads and has added.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hustings_controlplane::{ControlPlane, Process};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::adding::{Action, Orders, Place, SET, Said, Stop};
use super::wire::Wire;
use super::worker::{self, said};
use crate::fenced::{self, NAME, enforce, populate};
use crate::replica::until;

/// What a leader does before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(crate) enum Protection {
    /// Nothing: it works until it observes that its term is over.
    TermOnly,
    /// It checks `is_leader()` right before.
    Flag,
    /// It writes through the write gate.
    Gate,
    /// It marks with the token, and the admission policy compares.
    Policy,
    /// Both.
    GateAndPolicy,
}

/// Where a write is when its leader loses the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The process is frozen after its read, before it checks whether it leads.
    FrozenBeforeCheck,
    /// The process is frozen after that check, before it sends the request.
    FrozenBeforeSending,
    /// The request is sent, and delayed in the network.
    InTheNetwork,
}

/// The results for the numbers.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) acknowledged: usize,
    pub(crate) lost: usize,
    /// Writes that the process, the gate or the server rejected.
    pub(crate) refused: usize,
    /// How many times a number of an earlier term follows one of a later term in the set.
    pub(crate) late: usize,
    /// The terms with numbers in the set.
    pub(crate) terms: usize,
}

/// A control plane with the policy in force.
pub(crate) struct Lockset {
    pub(crate) plane: ControlPlane,
}

/// One set, and the processes that add to it.
pub(crate) struct Arena<'a> {
    plane: &'a ControlPlane,
    namespace: String,
    protection: Protection,
    sets: Api<ConfigMap>,
}

impl Protection {
    pub(crate) const ALL: [Self; 5] = [Self::TermOnly, Self::Flag, Self::Gate, Self::Policy, Self::GateAndPolicy];

    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Gate | Self::GateAndPolicy)
    }

    pub(crate) fn is_marked(self) -> bool {
        matches!(self, Self::Policy | Self::GateAndPolicy)
    }

    /// Whether updates are lost through this gap; `None` for a race.
    pub(crate) fn loses(self, gap: Gap) -> Option<bool> {
        match (self, gap) {
            (Self::TermOnly, _)
            | (Self::Flag, Gap::FrozenBeforeSending | Gap::InTheNetwork)
            | (Self::Gate, Gap::InTheNetwork) => Some(true),
            // The gate checks again, and withdraws a request that the connection has not yet taken.
            (Self::Gate, Gap::FrozenBeforeSending) => None,
            (Self::Flag | Self::Gate, Gap::FrozenBeforeCheck) | (Self::Policy | Self::GateAndPolicy, _) => Some(false),
        }
    }
}

impl Gap {
    pub(crate) const ALL: [Self; 3] = [Self::FrozenBeforeCheck, Self::FrozenBeforeSending, Self::InTheNetwork];
}

impl Lockset {
    pub(crate) async fn new() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        enforce(&plane).await;
        Self { plane }
    }

    /// One process loses the Lease with a write in this gap. Another adds before that write continues.
    pub(crate) async fn force(&self, protection: Protection, gap: Gap) -> Outcome {
        let arena = self.arena(protection).await;
        let file = |name: &str| self.plane.folder().join(format!("{}-{name}", arena.namespace));
        let (send, go_on) = (file("send"), file("go-on"));
        let (place, action, wire) = match gap {
            Gap::FrozenBeforeCheck => (Place::Check, Action::Freeze, None),
            Gap::FrozenBeforeSending => (Place::Send, Action::Freeze, None),
            Gap::InTheNetwork => (Place::Send, Action::Await(send.clone()), Some(Wire::to(&self.plane).await)),
        };
        let first = arena.start("first", Some(Stop { place, action }), wire.as_ref()).await;
        reported(&first, "it stops", 1, is_stop).await;
        if let Some(wire) = &wire {
            wire.hold();
            std::fs::write(&send, "").unwrap();
        }
        // The successor is between two additions when the late write arrives, so it cannot restore the lost number by chance.
        let stop = Stop { place: Place::Begin, action: Action::Await(go_on.clone()) };
        let second = arena.start("second", Some(stop), None).await;
        reported(&second, "it stops", 1, is_stop).await;
        let ended = count(&first, is_over);
        if let Some(wire) = &wire {
            wire.release().await;
        } else {
            first.resume().unwrap();
            reported(&first, "the write that it had in its hands has ended", ended + 1, is_over).await;
        }
        std::fs::write(&go_on, "").unwrap();
        reported(&second, "it has added again", additions(&second) + 1, is_added).await;
        arena.end(&[first, second]).await
    }

    /// Three processes add. Each time another has led for a moment, the test freezes the leader past its lease, kills it, or
    /// cuts it off, at a random point.
    pub(crate) async fn trouble(&self, protection: Protection, rounds: usize) -> Outcome {
        let arena = self.arena(protection).await;
        let mut all = Vec::new();
        for pod in ["first", "second", "third"] {
            let wire = Wire::to(&self.plane).await;
            all.push((arena.start(pod, None, Some(&wire)).await, wire));
        }
        for round in 0..rounds {
            let leader = leader(&all).await;
            let (process, wire) = &all[leader];
            let others = || all.iter().enumerate().filter(|(other, _)| *other != leader).map(|(_, (other, _))| other);
            let before: usize = others().map(additions).sum();
            let other_adds = async || {
                let after: usize = others().map(additions).sum();
                (after >= before + 5).then_some(())
            };
            let other_adds = until("another adds", String::new, other_adds);
            match round % 3 {
                0 => {
                    process.pause().unwrap();
                    other_adds.await;
                    process.resume().unwrap();
                }
                1 => {
                    process.kill().unwrap();
                    other_adds.await;
                    process.start().unwrap();
                }
                _ => {
                    wire.hold();
                    other_adds.await;
                    wire.release().await;
                }
            }
        }
        leader(&all).await;
        let processes: Vec<Process> = all.into_iter().map(|(process, _)| process).collect();
        arena.end(&processes).await
    }

    /// A new set, empty.
    async fn arena(&self, protection: Protection) -> Arena<'_> {
        let namespace = populate(&self.plane, "lockset").await;
        // Without a Lease the policy rejects every write. A process that observes the creation of a Lease would wait for 15 s.
        // A released Lease is free.
        let lease = json!({"metadata": {"name": NAME}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        let lease: Lease = serde_json::from_value(lease).unwrap();
        Api::namespaced(self.plane.admin(), &namespace).create(&PostParams::default(), &lease).await.unwrap();
        Arena::new(&self.plane, &namespace, protection).await
    }
}

impl<'a> Arena<'a> {
    /// A new set in this namespace, empty.
    pub(crate) async fn new(plane: &'a ControlPlane, namespace: &str, protection: Protection) -> Self {
        let sets = Api::<ConfigMap>::namespaced(plane.admin(), namespace);
        let mut set = fenced::fenced(NAME, None);
        if !protection.is_marked() {
            set.metadata.labels = None;
        }
        let create = async || sets.create(&PostParams::default(), &set).await.ok();
        until("the set is created", String::new, create).await;
        Self { plane, namespace: namespace.to_owned(), protection, sets }
    }

    /// Starts a process that adds whenever it leads, in a pod.
    async fn start(&self, pod: &str, stop: Option<Stop>, wire: Option<&Wire>) -> Process {
        let kubeconfig = self.plane.kubeconfig_for_pod(&self.namespace, NAME, pod).await.unwrap();
        let orders = Orders { stop, server: wire.map(Wire::address), ..self.orders(kubeconfig, pod) };
        self.spawn(orders)
    }

    /// Starts a candidate of this name that adds whenever the controller has elected it, as the administrator.
    pub(crate) fn start_candidate(&self, name: &str, version: &str) -> Process {
        self.spawn(Orders { version: Some(version.to_owned()), ..self.orders(self.plane.kubeconfig(), name) })
    }

    fn orders(&self, kubeconfig: PathBuf, pod: &str) -> Orders {
        Orders {
            kubeconfig,
            server: None,
            namespace: self.namespace.clone(),
            pod: pod.to_owned(),
            version: None,
            protection: self.protection,
            stop: None,
        }
    }

    fn spawn(&self, orders: Orders) -> Process {
        let name = format!("{}-{}", self.namespace, orders.pod);
        self.plane.spawn(&name, worker::command(&worker::Orders::AddToSet(orders))).unwrap()
    }

    /// Ends the processes and compares. Fails if two of them ever led at once by their own flags.
    pub(crate) async fn end(&self, processes: &[Process]) -> Outcome {
        for process in processes.iter().filter(|process| process.exit_status().unwrap().is_none()) {
            process.kill().unwrap();
        }
        let all: Vec<Vec<Said>> = processes.iter().map(said).collect();
        assert_one_flag_at_a_time(&all);
        let set = self.sets.get(NAME).await.unwrap().data.unwrap_or_default().remove(SET).unwrap_or_default();
        let tokens: Vec<u64> = set.split_whitespace().map(token).collect();
        let late = tokens.windows(2).filter(|pair| pair[0] > pair[1]).count();
        let terms = tokens.iter().collect::<BTreeSet<_>>().len();
        let set: BTreeSet<&str> = set.split_whitespace().collect();
        let acknowledged: BTreeSet<&str> = all.iter().flatten().filter_map(Said::added).collect();
        let refused = all.iter().flatten().filter(|said| matches!(said, Said::Refused { .. })).count();
        Outcome { acknowledged: acknowledged.len(), lost: acknowledged.difference(&set).count(), refused, late, terms }
    }
}

/// The process that adds now.
async fn leader(all: &[(Process, Wire)]) -> usize {
    let counts = || all.iter().map(|(process, _)| additions(process)).collect::<Vec<_>>();
    let before = counts();
    let adds = async || counts().iter().zip(&before).position(|(now, before)| *now >= before + 5);
    until("a process adds", String::new, adds).await
}

/// How many additions of this process the server has acknowledged.
pub(crate) fn additions(process: &Process) -> usize {
    count(process, is_added)
}

/// The token of the term in which a number was added.
fn token(number: &str) -> u64 {
    number.split('.').next().and_then(|token| token.parse().ok()).unwrap_or_else(|| panic!("no token: {number:?}"))
}

fn is_stop(said: &Said) -> bool {
    matches!(said, Said::Stops {})
}

fn is_added(said: &Said) -> bool {
    said.added().is_some()
}

/// A write has ended, successfully or not.
fn is_over(said: &Said) -> bool {
    matches!(said, Said::Added { .. } | Said::Refused { .. })
}

fn count(process: &Process, which: impl Fn(&Said) -> bool) -> usize {
    said::<Said>(process).iter().filter(|said| which(said)).count()
}

async fn reported(process: &Process, what: &str, times: usize, which: impl Fn(&Said) -> bool) {
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let enough = async || (count(process, &which) >= times).then_some(());
    until(&format!("{what}, {times} times"), log, enough).await;
}

/// Compares each interval in which one process read its flag as true with each interval of another.
fn assert_one_flag_at_a_time(all: &[Vec<Said>]) {
    let mut stretches: Vec<(usize, i64, i64)> = Vec::new();
    for (process, said) in all.iter().enumerate() {
        for said in said {
            if let Said::Led { from_micros, until_micros } = said {
                // Each report of an interval extends the one before.
                stretches.pop_if(|last| (last.0, last.1) == (process, *from_micros));
                stretches.push((process, *from_micros, *until_micros));
            }
        }
    }
    for (one, from, until) in &stretches {
        let other = stretches.iter().find(|(other, begin, end)| other != one && begin <= until && from <= end);
        assert!(other.is_none(), "two flags were true at once: {one} from {from} until {until}, {other:?}");
    }
}
