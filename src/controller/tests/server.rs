//! An API server that stores objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::ELECTION_CONTROLLER;
use crate::base::cluster::testing::{Sent, failure, list, silent_cluster};

/// A server that stores objects by path. Watches report nothing.
#[derive(Default)]
pub(super) struct Server {
    pub(super) objects: BTreeMap<String, Value>,
    version: u64,
    /// The writes of objects: whether each passed the gate, and its path.
    pub(super) writes: Vec<(bool, String)>,
    /// The names of objects in reviews of permissions.
    pub(super) named_reviews: Vec<String>,
    /// The paths of lists.
    pub(super) lists: BTreeSet<String>,
    /// The events.
    pub(super) events: Vec<Value>,
    /// How many permissions were reviewed.
    pub(super) reviews: usize,
    /// Requests whose paths begin with this get no answer.
    pub(super) silent: Option<&'static str>,
    /// Requests whose paths begin with this are forbidden.
    pub(super) forbidden: Option<&'static str>,
    /// Everything in these namespaces is forbidden, as after the deletion of a namespace with its Role.
    pub(super) gone: Vec<&'static str>,
    /// Requests whose paths begin with this panic in the task that sends them.
    pub(super) panicking: Option<&'static str>,
}

pub(super) type Shared = Arc<Mutex<Server>>;

impl Server {
    pub(super) fn put(&mut self, path: &str, mut object: Value) -> (u16, Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object["metadata"]["uid"] = json!("u");
        let parts: Vec<&str> = path.split('/').collect();
        object["apiVersion"] = json!(format!("{}/{}", parts[2], parts[3]));
        object["kind"] = json!(if parts[6] == "leases" { "Lease" } else { "LeaseCandidate" });
        object["metadata"]["namespace"] = json!(parts[5]);
        object["metadata"]["name"] = json!(parts[7]);
        self.objects.insert(path.to_owned(), object.clone());
        (200, object)
    }

    fn answer(&mut self, sent: &Sent, is_gated: bool) -> Option<(u16, Value)> {
        let (path, query) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
        if query.contains("watch=true") || self.silent.is_some_and(|silent| path.starts_with(silent)) {
            return None;
        }
        let is_gone = |namespace: &&str| format!("{path}/").contains(&format!("/namespaces/{namespace}/"));
        if self.gone.iter().any(is_gone) {
            return Some(failure(403));
        }
        if self.forbidden.is_some_and(|forbidden| path.starts_with(forbidden)) {
            return Some(failure(403));
        }
        let name = sent.body["metadata"]["name"].as_str().unwrap_or_default();
        Some(match sent.method.as_str() {
            "GET" if path.ends_with("/v1alpha2") => {
                let kind = json!({ "name": "leasecandidates", "namespaced": true, "kind": "LeaseCandidate",
                    "singularName": "", "verbs": [] });
                let version = "coordination.k8s.io/v1alpha2";
                (200, json!({ "kind": "APIResourceList", "groupVersion": version, "resources": [kind] }))
            }
            "GET" if is_namespace(path) => (200, json!({ "metadata": { "name": path.rsplit('/').next() } })),
            "GET" => match self.objects.get(path) {
                Some(object) => (200, object.clone()),
                None if path.ends_with("/leases") || path.ends_with("/leasecandidates") => {
                    self.lists.insert(path.to_owned());
                    let (group, kind) = path.rsplit_once('/').unwrap();
                    let is_listed = |path: &str| path.starts_with(group) && path.contains(kind);
                    let items = self.objects.iter().filter(|(path, _)| is_listed(path));
                    list(&items.map(|(_, object)| object.clone()).collect::<Vec<_>>())
                }
                None => missing(path),
            },
            "POST" if path.ends_with("reviews") => {
                self.reviews += 1;
                let attributes = &sent.body["spec"]["resourceAttributes"];
                self.named_reviews.extend(attributes["name"].as_str().map(str::to_owned));
                let mut review = sent.body.clone();
                let is_gone = attributes["namespace"].as_str().is_some_and(|namespace| self.gone.contains(&namespace));
                review["status"] = json!({ "allowed": !is_gone });
                (201, review)
            }
            "POST" if path.ends_with("events") => {
                self.events.push(sent.body.clone());
                (201, sent.body.clone())
            }
            "POST" => {
                self.writes.push((is_gated, format!("{path}/{name}")));
                self.put(&format!("{path}/{name}"), sent.body.clone())
            }
            _ => {
                self.writes.push((is_gated, path.to_owned()));
                let path = path.trim_end_matches("/status");
                let Some(mut object) = self.objects.get(path).cloned() else { return Some(missing(path)) };
                let expected = &sent.body["metadata"]["resourceVersion"];
                if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
                    return Some(failure(409));
                }
                json_patch::merge(&mut object, &sent.body);
                let answer = self.put(path, object.clone());
                // Only a later read shows the candidate's answer.
                if let Some(ping_time) = sent.body["spec"].get("pingTime") {
                    object["spec"]["renewTime"] = ping_time.clone();
                    self.put(path, object);
                }
                answer
            }
        })
    }
}

fn is_namespace(path: &str) -> bool {
    path.strip_prefix("/api/v1/namespaces/").is_some_and(|rest| !rest.contains('/'))
}

fn missing(path: &str) -> (u16, Value) {
    let mut missing = failure(404);
    let name = path.rsplit('/').next();
    missing.1["details"] = json!({ "name": name, "kind": "leases", "group": "coordination.k8s.io" });
    missing
}

pub(super) fn client(server: &Shared, is_gated: bool) -> kube::Client {
    let server = Arc::clone(server);
    let answer = move |sent: &Sent| {
        let panicking = server.lock().unwrap().panicking;
        assert!(!panicking.is_some_and(|panicking| sent.path.starts_with(panicking)), "planned");
        server.lock().unwrap().answer(sent, is_gated)
    };
    silent_cluster(answer).leases
}

/// A server with one candidate for the Lease `web`, and the Lease of Kubernetes' election controller.
pub(super) fn server() -> Shared {
    let (server, spec) = (Shared::default(), json!({ "holderIdentity": "apiserver-1", "leaseDurationSeconds": 15 }));
    let elector =
        json!({ "metadata": { "namespace": "kube-system", "name": "leader-election-controller" }, "spec": spec });
    server.lock().unwrap().put(ELECTION_CONTROLLER, elector);
    add_candidate(&server, "n", "web");
    server
}

/// Adds the candidate `a` for this Lease. It answers each ping.
pub(super) fn add_candidate(server: &Shared, namespace: &str, lease: &str) {
    let candidate = json!({ "metadata": { "namespace": namespace, "name": "a" },
        "spec": { "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" } });
    server.lock().unwrap().put(&candidate_of(namespace), candidate);
}

pub(super) fn candidate_of(namespace: &str) -> String {
    format!("/apis/hustings.io/v1alpha1/namespaces/{namespace}/leasecandidates/a")
}
