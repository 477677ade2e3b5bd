//! A model of kube-apiserver, in this process: a `tower` service under kube's client.
//!
//! It implements what an election depends on: one sequence of resourceVersions over all objects, conditional writes,
//! merge patches, preconditions, watches that resume or expire, bookmarks and selectors. It drops the fields that a
//! stock server drops, sets defaults and validates. It has no authentication, no paging, no managed fields and no other
//! patch type. It answers every access review with "allowed".

mod answer;
pub mod cache;
mod call;
mod kind;
mod lease;
mod metadata;
mod policy;
mod rates;
mod refusals;
mod schema;
mod selector;
mod store;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::BoxError;

use crate::kubelet::Kubelet;
use answer::Refusal;
use cache::Cache;
use call::Call;
pub use kind::Kind;
pub use policy::Policy;
pub use refusals::REFUSALS;
pub use store::News;
use store::{Key, Store};

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// The default name of the caller: a person at the command line.
pub const PERSON: &str = "person";

/// The name of the caller that writes Pods.
const KUBELET: &str = "kubelet";

/// The server. Clones are the same server with the same caller.
#[derive(Clone)]
pub struct Server {
    store: Arc<Mutex<Store>>,
    caller: Arc<str>,
    cache: Cache,
    kubelet: Kubelet,
}

impl Default for Server {
    fn default() -> Self {
        Self { store: Arc::default(), caller: PERSON.into(), cache: Cache::default(), kubelet: Kubelet::default() }
    }
}

impl Server {
    /// A client of this server, without faults.
    pub fn client(&self, namespace: &str) -> kube::Client {
        kube::Client::new(self.clone(), namespace)
    }

    /// The same server, for requests of `caller` through the instance with this `cache`.
    #[must_use]
    pub fn reached_by(&self, caller: &str, cache: Cache) -> Self {
        Self { caller: caller.into(), cache, ..self.clone() }
    }

    /// The same server, for requests of the same caller through another instance.
    #[must_use]
    pub fn through(&self, cache: Cache) -> Self {
        Self { cache, ..self.clone() }
    }

    /// The changes after `revision`, oldest first.
    pub fn news(&self, revision: u64) -> Vec<News> {
        self.store().changes_after(revision).map(store::Change::news).collect()
    }

    /// Notifies after each change of a Lease or a candidate.
    pub fn bell(&self) -> Arc<Notify> {
        self.store().bell()
    }

    /// The newest resourceVersion.
    pub fn revision(&self) -> u64 {
        self.store().revision()
    }

    /// Forgets all changes up to now, so that older watches cannot resume and have to list again.
    pub fn compact(&self) {
        self.store().compact();
    }

    /// Sets the field whose writes an admission policy reverts from now on, if any.
    pub fn set_policy(&self, policy: Option<Policy>) {
        self.store().policy = policy;
    }

    /// How many times the server rejected a late write, or a policy reverted one.
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        self.store().refusals.counts()
    }

    /// The kubelets, which report the ends of containers.
    pub fn kubelet(&self) -> &Kubelet {
        &self.kubelet
    }

    /// W1: a caller that has written an object too often. Returns each one once.
    pub fn excess(&self) -> Option<String> {
        self.store().rates.excess()
    }

    /// Executes one request, at a single instant.
    pub fn execute(
        &self,
        method: &Method,
        uri: &http::Uri,
        headers: &http::HeaderMap,
        body: &[u8],
    ) -> Response<AnswerBody> {
        let answer = Call::parse(method, uri, headers, body).and_then(|call| self.carry_out(&call));
        answer.unwrap_or_else(Refusal::response)
    }

    /// Stores a version of a Pod, or deletes it, as its kubelet does.
    pub fn put_pod(&self, namespace: &str, name: &str, pod: Option<Value>) {
        let key = Key { kind: Kind::Pod, namespace: namespace.to_owned(), name: name.to_owned() };
        let mut store = self.store();
        store.set_caller(&KUBELET.into());
        store.put(key, pod);
    }

    fn carry_out(&self, call: &Call) -> Result<Response<AnswerBody>, Refusal> {
        let mut store = self.store();
        store.set_caller(&self.caller);
        if let Some(name) = call.written() {
            store.rates.count(&self.caller, call.key(name), call.is_status);
        }
        match (call.method.as_str(), &call.name) {
            ("POST", None) if call.kind == Kind::AccessReview => {
                let mut review = call.body.clone();
                review["status"] = json!({ "allowed": true });
                Ok(respond(StatusCode::CREATED, &review))
            }
            ("GET", None) => Ok(match call.watch {
                Some(watching) => watch::open(self.clone(), &mut store, call, watching),
                None => bytes(StatusCode::OK, store.list(call, &self.cache)?),
            }),
            ("GET", Some(name)) => Ok(bytes(StatusCode::OK, store.read(call, name, &self.cache)?.bytes())),
            ("POST", None) => Ok(bytes(StatusCode::CREATED, write::create(&mut store, call)?.bytes())),
            ("PUT", Some(name)) => {
                let (code, version) = write::update(&mut store, call, name)?;
                Ok(bytes(code, version.bytes()))
            }
            ("PATCH", Some(name)) => {
                let patched = write::patch(&mut store, call, name);
                if patched.as_ref().is_err_and(Refusal::is_conflict) {
                    store.refusals.count_conflict(call);
                }
                Ok(bytes(StatusCode::OK, patched?.bytes()))
            }
            ("DELETE", Some(name)) => Ok(respond(StatusCode::OK, &write::delete(&mut store, call, name)?)),
            _ => Err(Refusal::method_not_allowed(call)),
        }
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl tower::Service<Request<Body>> for Server {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap_or_default();
            Ok(server.execute(&parts.method, &parts.uri, &parts.headers, &body))
        }
        .boxed()
    }
}

fn respond(code: StatusCode, object: &Value) -> Response<AnswerBody> {
    bytes(code, Bytes::from(object.to_string()))
}

fn bytes(code: StatusCode, body: Bytes) -> Response<AnswerBody> {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response
}
