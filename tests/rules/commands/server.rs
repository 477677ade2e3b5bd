//! An API server that stores objects, for commands that read them and write a few.
//!
//! Its behaviour is data:
//!
//! - `group: true`: the objects of `group.yaml`.
//! - `objects`: further objects.
//! - `changes`: a merge patch for each of these objects, by name.
//! - `answers`: answers to requests instead of the usual ones. `to` is a regular expression for the method and the path.
//!   `code` and `message` make a failure, `body` is a success, and with `times` only so many requests get the answer.
//!   `then` is a change of the object `of`: a merge patch `patch`, or its deletion.
//! - `silent`: whether the server answers no request.
//! - `denied`: the verbs and resources that access reviews deny, such as `list pods`.
//! - `renewed`: the names of Leases that their holders renew, here with each read.
//! - `live`: the names of Leases that their holders renew by the clock of this machine, here with each read.
//! - `effects`: after the first write to the object `after`, a merge patch `patch` changes the object `of`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::USER_AGENT;
use hustings_controlplane::PATIENCE;
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// The longest body of a request, in bytes.
const LONGEST_BODY: usize = 1 << 20;

const GROUP: &str = include_str!("group.yaml");

#[derive(Default)]
struct Store {
    objects: Vec<Value>,
    behaviour: Value,
    version: u64,
    writes: Vec<String>,
    /// The reads with their selectors, and the access reviews: who may use which verbs on what.
    reads: BTreeMap<String, BTreeSet<String>>,
    /// The programs that have sent requests, as their User-Agent headers name them.
    agents: BTreeSet<String>,
}

type Shared = Arc<Mutex<Store>>;

/// The parameters of a request.
type Parameters = BTreeMap<String, String>;

/// A server with a kubeconfig file.
pub(crate) struct Server {
    store: Shared,
    address: SocketAddr,
    kubeconfig: NamedTempFile,
    runtime: Runtime,
}

impl Server {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let store = Shared::new(Mutex::new(Store { version: 100, ..Store::default() }));
        let router = axum::Router::new().fallback(answer).with_state(Arc::clone(&store));
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        let mut kubeconfig = NamedTempFile::new().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "c", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c", "namespace": "shop" } }],
        });
        kubeconfig.write_all(config.to_string().as_bytes()).unwrap();
        Self { store, address, kubeconfig, runtime }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        self.kubeconfig.path()
    }

    /// Runs a process to its end. It gets the signal as soon as it has printed the text.
    pub(crate) fn wait_for(&self, command: std::process::Command, sent: Option<(Signal, &str)>) -> Output {
        let line = format!("{command:?}");
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = async {
            // A program does not inherit the handler of a signal. It would inherit that `nohup` ignores the signal.
            let _handled = signal(SignalKind::hangup()).unwrap();
            let mut child = command.spawn().unwrap();
            let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().unwrap())).unwrap();
            let unsent = RefCell::new(sent);
            let look = |printed: &[u8]| {
                let due = unsent.borrow_mut().take_if(|(_, text)| String::from_utf8_lossy(printed).contains(*text));
                if let Some((signal, _)) = due {
                    kill_process(pid, signal).unwrap();
                }
            };
            let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
            let (stdout, stderr) = tokio::join!(collect(stdout, look), collect(stderr, look));
            Output { status: child.wait().await.unwrap(), stdout, stderr }
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, run).await });
        ended.unwrap_or_else(|_| panic!("still running: {line}"))
    }

    /// Replaces the objects and the behaviour.
    pub(crate) fn set(&self, behaviour: &Value) {
        let mut store = self.store();
        let group: Vec<Value> = serde_yaml::from_str(GROUP).unwrap();
        store.objects = if behaviour["group"] == true { group } else { Vec::new() };
        store.objects.extend(behaviour["objects"].as_array().into_iter().flatten().cloned());
        store.behaviour = behaviour.clone();
        store.version = 100;
        for (number, object) in store.objects.iter_mut().enumerate() {
            let metadata = object["metadata"].as_object_mut().unwrap();
            let uid = format!("uid-{}", metadata["name"].as_str().unwrap());
            metadata.entry("namespace").or_insert_with(|| json!("shop"));
            metadata.entry("uid").or_insert_with(|| json!(uid));
            metadata.insert("resourceVersion".to_owned(), json!((number + 1).to_string()));
            metadata.retain(|_, value| !value.is_null());
            let name = metadata["name"].as_str().unwrap().to_owned();
            if let Some(change) = behaviour["changes"].get(name) {
                json_patch::merge(object, change);
            }
        }
    }

    /// The writes since the last call.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.store().writes)
    }

    /// The reads and the access reviews since the last call, sorted and without repetition.
    pub(crate) fn take_reads(&self) -> Vec<String> {
        let reads = std::mem::take(&mut self.store().reads);
        let words = |verbs: BTreeSet<String>| verbs.into_iter().collect::<Vec<_>>().join(", ");
        reads
            .into_iter()
            .map(|(read, verbs)| if verbs.is_empty() { read } else { format!("{read}: {}", words(verbs)) })
            .collect()
    }

    /// The programs that have sent requests since the last call.
    pub(crate) fn take_agents(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.store().agents)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }
}

/// Reads a pipe to its end. `look` gets everything so far after each part.
async fn collect(mut pipe: impl AsyncRead + Unpin, look: impl Fn(&[u8])) -> Vec<u8> {
    let mut all = Vec::new();
    while pipe.read_buf(&mut all).await.unwrap() > 0 {
        look(&all);
    }
    all
}

async fn answer(State(store): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LONGEST_BODY).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let Query(query) = Query::try_from_uri(&head.uri).unwrap();
    if store.lock().unwrap().behaviour["silent"] == true {
        return std::future::pending().await;
    }
    let mut store = store.lock().unwrap();
    store.agents.insert(head.headers[USER_AGENT].to_str().unwrap().to_owned());
    let (code, body) = store.answer(head.method.as_str(), head.uri.path(), &query, &body);
    (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
}

impl Store {
    fn answer(&mut self, method: &str, path: &str, query: &Parameters, body: &Value) -> (u16, Value) {
        let request = format!("{method} {path}");
        if method == "GET" {
            let query: Vec<_> = query.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            self.reads.entry(request.clone() + &query.concat()).or_default();
        }
        if let Some(answer) = self.special(&request) {
            return answer;
        }
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        // The core group has no name.
        let (group_version, rest) = match parts[..] {
            ["api", version, ref rest @ ..] => (version.to_owned(), rest),
            ["apis", group, version, ref rest @ ..] => (format!("{group}/{version}"), rest),
            ["apis"] => return (200, groups()),
            ["version"] => return (200, json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.1" })),
            _ => return failure(404, "no such path"),
        };
        let (namespace, rest) = match *rest {
            ["namespaces", namespace, ref rest @ ..] => (Some(namespace), rest),
            _ => (None, rest),
        };
        match (method, rest) {
            ("POST", [kind]) if kind.ends_with("reviews") => self.review(kind, body),
            ("GET", [plural]) => self.list(&group_version, plural, namespace, query),
            ("GET", [plural, name]) => match self.find(&group_version, plural, namespace, name) {
                Some(at) => (200, self.read(at)),
                None => failure(404, &format!("{plural} {name:?} not found")),
            },
            ("PATCH", [plural, name]) => match self.find(&group_version, plural, namespace, name) {
                Some(at) => self.patch(at, &request, body),
                None => failure(404, &format!("{plural} {name:?} not found")),
            },
            _ => failure(404, "no such path"),
        }
    }

    fn special(&mut self, request: &str) -> Option<(u16, Value)> {
        let answers = self.behaviour["answers"].as_array_mut()?;
        let fits = |answer: &&mut Value| {
            answer["times"] != 0 && Regex::new(answer["to"].as_str().unwrap()).unwrap().is_match(request)
        };
        let answer = answers.iter_mut().find(fits)?;
        if let Some(times) = answer["times"].as_u64() {
            answer["times"] = json!(times - 1);
        }
        let answer = answer.clone();
        if answer["then"].is_object() {
            self.change(&answer["then"]);
        }
        let code = u16::try_from(answer["code"].as_u64().unwrap_or(200)).unwrap();
        Some(answer.get("body").map_or_else(
            || failure(code, answer["message"].as_str().unwrap_or("refused by the test")),
            |body| (code, body.clone()),
        ))
    }

    fn review(&mut self, kind: &str, body: &Value) -> (u16, Value) {
        let mut review = body.clone();
        let attributes = &body["spec"]["resourceAttributes"];
        let [verb, resource] = ["verb", "resource"].map(|name| attributes[name].as_str().unwrap_or_default());
        if attributes.is_object() {
            let word = |name| attributes[name].as_str().filter(|word| !word.is_empty()).unwrap_or("-");
            let of = ["group", "resource", "subresource", "name", "namespace"].map(word);
            let user = body["spec"]["user"].as_str().unwrap_or("user");
            let review = format!("may {user} on {}", of.join(" "));
            self.reads.entry(review).or_default().insert(verb.to_owned());
        }
        let denied = self.behaviour["denied"].as_array();
        let is_denied = denied.is_some_and(|denied| denied.contains(&json!(format!("{verb} {resource}"))));
        review["status"] = match kind {
            "selfsubjectreviews" => json!({ "userInfo": { "username": "ada" } }),
            _ => json!({ "allowed": !is_denied }),
        };
        (201, review)
    }

    fn list(&mut self, group_version: &str, plural: &str, namespace: Option<&str>, query: &Parameters) -> (u16, Value) {
        let fits: Vec<_> = (0..self.objects.len())
            .filter(|&at| is_of(&self.objects[at], group_version, plural, namespace))
            .filter(|&at| query.iter().all(|(name, selector)| selects(name, selector, &self.objects[at])))
            .collect();
        let items: Vec<_> = fits.into_iter().map(|at| self.read(at)).collect();
        let metadata = json!({ "resourceVersion": self.version.to_string() });
        let kind = kind_of_list(plural);
        (200, json!({ "kind": kind, "apiVersion": group_version, "metadata": metadata, "items": items }))
    }

    fn find(&self, group_version: &str, plural: &str, namespace: Option<&str>, name: &str) -> Option<usize> {
        self.objects
            .iter()
            .position(|object| is_of(object, group_version, plural, namespace) && object["metadata"]["name"] == name)
    }

    /// Reads an object. A holder may have renewed it just before.
    fn read(&mut self, at: usize) -> Value {
        let name = &self.objects[at]["metadata"]["name"];
        let is_named = |list: &str| self.behaviour[list].as_array().is_some_and(|names| names.contains(name));
        let (is_renewed, is_live) = (is_named("renewed"), is_named("live"));
        if is_renewed || is_live {
            self.version += 1;
            let now = if is_live { jiff::Timestamp::now() } else { "2025-01-02T03:04:05Z".parse().unwrap() };
            let micros = if is_live { 0 } else { i64::try_from(self.version).unwrap() };
            let time = now + jiff::SignedDuration::from_micros(micros);
            self.objects[at]["spec"]["renewTime"] = json!(format!("{time:.6}"));
            self.objects[at]["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
        self.objects[at].clone()
    }

    fn patch(&mut self, at: usize, request: &str, body: &Value) -> (u16, Value) {
        let expected = &body["metadata"]["resourceVersion"];
        if !expected.is_null() && *expected != self.objects[at]["metadata"]["resourceVersion"] {
            return failure(409, "the object has been modified");
        }
        self.writes.push(format!("{request}\n{body:#}"));
        self.apply(at, body);
        let written = self.objects[at].clone();
        if let Some(effects) = self.behaviour["effects"].as_array_mut() {
            let fits = |effect: &Value| effect["after"] == written["metadata"]["name"];
            if let Some(found) = effects.iter().position(fits) {
                let effect = effects.remove(found);
                self.change(&effect);
            }
        }
        (200, written)
    }

    /// Applies a patch to the object `of`, or deletes it if there is no patch.
    fn change(&mut self, change: &Value) {
        let at = self.objects.iter().position(|object| object["metadata"]["name"] == change["of"]).unwrap();
        match change.get("patch") {
            Some(patch) => self.apply(at, patch),
            None => drop(self.objects.remove(at)),
        }
    }

    fn apply(&mut self, at: usize, patch: &Value) {
        json_patch::merge(&mut self.objects[at], patch);
        self.version += 1;
        self.objects[at]["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }
}

fn groups() -> Value {
    let group =
        |name: &str| json!({ "name": name, "versions": [{ "groupVersion": format!("{name}/v1"), "version": "v1" }] });
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group("coordination.k8s.io"), group("hustings.io")] })
}

fn kind_of_list(plural: &str) -> &'static str {
    match plural {
        "leases" => "LeaseList",
        "leasecandidates" => "LeaseCandidateList",
        "pods" => "PodList",
        "nodes" => "NodeList",
        "events" => "EventList",
        "namespaces" => "NamespaceList",
        "deployments" => "DeploymentList",
        "customresourcedefinitions" => "CustomResourceDefinitionList",
        other => panic!("{other}"),
    }
}

fn is_of(object: &Value, group_version: &str, plural: &str, namespace: Option<&str>) -> bool {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    object["apiVersion"] == group_version
        && format!("{kind}s") == plural
        && namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
}

/// Whether an object has the fields or labels that a parameter of a list selects.
fn selects(name: &str, selector: &str, object: &Value) -> bool {
    let value = |path: &str| match name {
        "labelSelector" => object["metadata"]["labels"][path].as_str(),
        _ => object.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str),
    };
    let mut terms =
        selector.split(',').filter(|term| !term.is_empty() && matches!(name, "labelSelector" | "fieldSelector"));
    terms.all(|term| match term.split_once("!=") {
        Some((path, unwanted)) => value(path).unwrap_or_default() != unwanted,
        None => match term.split_once('=') {
            Some((path, wanted)) => value(path).unwrap_or_default() == wanted.trim_start_matches('='),
            None => value(term).is_some(),
        },
    })
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "" };
    (
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code }),
    )
}
