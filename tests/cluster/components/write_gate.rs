//! `examples/write_gate.rs`: all replicas reconcile and one writes, whatever happens to the Lease.

use std::process::Command;

use hustings_controlplane::{Process, shared};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::example::example;
use crate::replica::until;

const LEASE: &str = "example-write-gate";

struct Stage {
    namespace: String,
    leases: Api<Lease>,
    config_maps: Api<ConfigMap>,
    replicas: Vec<(&'static str, Process)>,
}

/// The numbers that must grow from term to term.
#[derive(Debug, PartialEq, PartialOrd)]
struct Term {
    transitions: i32,
    acquired: Timestamp,
}

#[tokio::test]
async fn one_replica_writes_and_the_writes_of_the_others_are_rejected() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("write-gate").await.unwrap();
    let kubeconfig = plane.kubeconfig_in(&namespace).unwrap();
    let example = example("write_gate");
    let start = |name: &'static str| {
        let mut command = Command::new(&example);
        command.arg(name).env("KUBECONFIG", &kubeconfig).env("RUST_LOG", "info");
        (name, plane.spawn(&format!("{namespace}-{name}"), command).unwrap())
    };
    let mut stage = Stage {
        leases: Api::namespaced(plane.admin(), &namespace),
        config_maps: Api::namespaced(plane.admin(), &namespace),
        replicas: ["first", "second", "third"].map(start).into(),
        namespace,
    };
    let params = PatchParams::default();

    let (_, first) = stage.is_written_by_one("at-the-start").await;

    let bogus = json!({"spec": {"holderIdentity": "bogus"}});
    stage.leases.patch(LEASE, &params, &Patch::Merge(bogus)).await.unwrap();
    stage.terms_are_lost(1).await;
    let (_, second) = stage.is_written_by_one("after-a-bogus-holder").await;
    assert_grows(&first, &second);

    stage.leases.delete(LEASE, &DeleteParams::default()).await.unwrap();
    stage.terms_are_lost(2).await;
    let (leader, third) = stage.is_written_by_one("after-the-deletion").await;
    // A new Lease counts its transitions from 0 again.
    assert!(third.acquired > second.acquired, "{second:?} {third:?}");

    let index = stage.replicas.iter().position(|(name, _)| *name == leader).unwrap();
    let (_, process) = stage.replicas.remove(index);
    assert_eq!(process.stop().await.unwrap().code(), Some(0));
    let (successor, fourth) = stage.is_written_by_one("after-the-leader").await;
    assert_ne!(successor, leader);
    assert_grows(&third, &fourth);
}

fn assert_grows(before: &Term, after: &Term) {
    assert!(after.transitions > before.transitions && after.acquired > before.acquired, "{before:?} {after:?}");
}

impl Stage {
    /// Creates a ConfigMap. Waits until one replica has written it and all earlier ones, and every other replica has logged
    /// that the gate rejected it. Returns the writer, which is the holder, and its term.
    async fn is_written_by_one(&self, name: &str) -> (String, Term) {
        let config_map = json!({"metadata": {"name": name, "labels": {"example.com/managed": "true"}}});
        self.config_maps.create(&PostParams::default(), &serde_json::from_value(config_map).unwrap()).await.unwrap();
        let writer = until(&format!("{name} is written"), || self.logs(), async || self.writer(name).await).await;
        let spec = self.leases.get(LEASE).await.unwrap().spec.unwrap();
        assert_eq!(spec.holder_identity.as_ref(), Some(&writer), "{}", self.logs());

        let refusal = format!("{name} is left to the leader");
        let reason = format!("not the leader of Lease {}/{LEASE}: the write was not sent", self.namespace);
        for (replica, process) in self.replicas.iter().filter(|(replica, _)| *replica != writer) {
            let logged = async || log(process).contains(&refusal).then_some(());
            until(&format!("{replica} may not write {name}"), || self.logs(), logged).await;
            assert!(log(process).lines().filter(|line| line.contains(&refusal)).all(|line| line.contains(&reason)));
        }
        let written = format!("{name} is written");
        // It logs that when the answer arrives.
        let logged = async || self.logs().contains(&written).then_some(());
        until(&format!("{writer} logs that {written}"), || self.logs(), logged).await;
        let writers = self.logs().matches(&written).count();
        assert!(writers == 1, "{writers} replicas have written {name}:\n{}", self.logs());
        for former in self.config_maps.list(&ListParams::default()).await.unwrap() {
            let name = former.name_any();
            let caught_up = async || self.writer(&name).await.filter(|found| *found == writer);
            until(&format!("{writer} has caught up with {name}"), || self.logs(), caught_up).await;
        }
        (writer, Term { transitions: spec.lease_transitions.unwrap(), acquired: spec.acquire_time.unwrap().0 })
    }

    /// Waits until this many terms were lost. A holder may write until it observes the loss: no other replica can.
    async fn terms_are_lost(&self, times: usize) {
        let lost = async || (self.logs().matches("term lost").count() == times).then_some(());
        until("the term is lost", || self.logs(), lost).await;
    }

    async fn writer(&self, name: &str) -> Option<String> {
        self.config_maps.get(name).await.unwrap().annotations().get("example.com/leader").cloned()
    }

    fn logs(&self) -> String {
        self.replicas.iter().map(|(name, process)| format!("{name}:\n{}\n", log(process))).collect::<Vec<_>>().concat()
    }
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap()
}
