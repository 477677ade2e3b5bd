//! One side of the comparison: sends a step, and converts the answer into a form that both sides share.
//!
//! Versions and uids differ from server to server, so each is replaced by the number of its first appearance.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{AsyncBufReadExt, StreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::conformance::requests::{Kind, Stated, Step};

/// How long a server may take to answer.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Side {
    client: Client,
    namespace: String,
    symbols: HashMap<String, usize>,
    /// A version from before the first write.
    beginning: Option<String>,
    /// Versions and uids of objects by kind and name, oldest first.
    seen: HashMap<(u8, &'static str), Vec<(String, String)>>,
}

impl Side {
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        let (symbols, seen) = (HashMap::new(), HashMap::new());
        Self { client, namespace: namespace.to_owned(), symbols, beginning: None, seen }
    }

    /// Sends the step and returns the answer as text.
    pub(crate) async fn take(&mut self, step: &Step) -> Result<String> {
        if self.beginning.is_none() {
            let (_, list) = self.send("GET", &self.path(Kind::Lease, None), None, "").await?;
            self.beginning = list["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        }
        Ok(match step {
            Step::Get { kind, name, query } => {
                let path = format!("{}?{query}", self.path(*kind, Some(name)));
                let answer = self.send("GET", &path, None, "").await?;
                self.render(*kind, name, answer)
            }
            Step::List { kind, query } => {
                let path = format!("{}?{query}", self.path(*kind, None));
                let (code, list) = self.send("GET", &path, None, "").await?;
                let mut text = format!("{code} {}", list["reason"]);
                for item in list["items"].as_array().into_iter().flatten() {
                    let item = self.normal(item);
                    let _ = write!(text, "\n    {item}");
                }
                text
            }
            Step::Create { kind, name, object, dry_run } => {
                let mut object = named(*kind, name, object);
                object["metadata"]["name"] = json!(name);
                let path = self.path(*kind, None) + if *dry_run { "?dryRun=All" } else { "" };
                let answer = self.send("POST", &path, Some(&object), "application/json").await?;
                if *dry_run {
                    // Its uid is used only once.
                    return Ok(format!("{} {}", answer.0, answer.1["reason"]));
                }
                self.render(*kind, name, answer)
            }
            Step::Patch { kind, name, status, patch: sent, version, uid } => {
                let path = self.path(*kind, Some(name)) + if *status { "/status" } else { "" };
                let mut sent = sent.clone();
                self.state(*kind, name, *version, *uid, &mut sent["metadata"]);
                let answer = self.send("PATCH", &path, Some(&sent), "application/merge-patch+json").await?;
                self.render(*kind, name, answer)
            }
            Step::Put { kind, name, object, version, uid } => {
                let mut object = named(*kind, name, object);
                self.state(*kind, name, *version, *uid, &mut object["metadata"]);
                let path = self.path(*kind, Some(name));
                let answer = self.send("PUT", &path, Some(&object), "application/json").await?;
                self.render(*kind, name, answer)
            }
            Step::Delete { kind, name, version, uid } => {
                let mut preconditions = Value::Null;
                self.state(*kind, name, *version, *uid, &mut preconditions);
                let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions });
                let path = self.path(*kind, Some(name));
                let (code, answer) = self.send("DELETE", &path, Some(&options), "application/json").await?;
                format!("{code} {} {}", answer["status"], answer["reason"])
            }
            Step::Watch { kind, query } => self.watch(*kind, query).await?,
        })
    }

    fn path(&self, kind: Kind, name: Option<&str>) -> String {
        let (group, plural) = match kind {
            Kind::Lease => ("coordination.k8s.io/v1", "leases"),
            Kind::Candidate => ("hustings.io/v1alpha1", "leasecandidates"),
        };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("/apis/{group}/namespaces/{}/{plural}{name}", self.namespace)
    }

    /// Adds the version and the uid of the object, current or stale.
    fn state(&self, kind: Kind, name: &'static str, version: Stated, uid: Stated, metadata: &mut Value) {
        let seen = self.seen.get(&(kind as u8, name)).map(Vec::as_slice).unwrap_or_default();
        let (stale, stale_uid) = ("1".to_owned(), "00000000-0000-0000-0000-000000000000".to_owned());
        let (right, right_uid) = seen.last().cloned().unwrap_or_else(|| (stale.clone(), stale_uid.clone()));
        for (field, stated, right, stale) in
            [("resourceVersion", version, right, stale), ("uid", uid, right_uid, stale_uid)]
        {
            match stated {
                Stated::Nothing => {}
                Stated::Right => metadata[field] = json!(right),
                Stated::Stale => metadata[field] = json!(stale),
            }
        }
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>, content: &str) -> Result<(u16, Value)> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path);
        if !content.is_empty() {
            request = request.header("Content-Type", content);
        }
        let response = self.client.send(request.body(body.into())?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    fn render(&mut self, kind: Kind, name: &'static str, (code, object): (u16, Value)) -> String {
        if code >= 300 {
            return format!("{code} {}", object["reason"]);
        }
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let seen = self.seen.entry((kind as u8, name)).or_default();
        if seen.last().is_none_or(|(version, _)| *version != text("resourceVersion")) {
            seen.push((text("resourceVersion"), text("uid")));
        }
        format!("{code} {}", self.normal(&object))
    }

    /// The object without what differs from server to server.
    fn normal(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            // The items of a list have none.
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["managedFields", "creationTimestamp", "namespace"] {
                metadata.remove(field);
            }
            for field in ["uid", "resourceVersion"] {
                if let Some(Value::String(text)) = metadata.get(field) {
                    let next = self.symbols.len();
                    let symbol = *self.symbols.entry(text.clone()).or_insert(next);
                    metadata.insert(field.to_owned(), json!(symbol));
                }
            }
        }
        object
    }

    async fn watch(&mut self, kind: Kind, query: &str) -> Result<String> {
        let beginning = self.beginning.clone().unwrap_or_default();
        let path = format!("{}?watch=true&resourceVersion={beginning}{query}", self.path(kind, None));
        let request = Request::get(path).body(Vec::new())?;
        let mut lines = self.client.request_stream(request).await?.lines();
        let mut text = String::new();
        loop {
            let line = tokio::time::timeout(LIMIT, lines.next()).await?.context("the watch ended early")??;
            let event: Value = serde_json::from_str(&line)?;
            let is_last = event["object"]["metadata"]["name"] == json!("zz-last");
            let object = self.normal(&event["object"]);
            let _ = write!(text, "\n    {} {object}", event["type"]);
            if is_last || event["type"] == json!("ERROR") {
                return Ok(text);
            }
        }
    }
}

fn named(kind: Kind, name: &str, object: &Value) -> Value {
    let mut object = object.clone();
    let (api_version, kind) = match kind {
        Kind::Lease => ("coordination.k8s.io/v1", "Lease"),
        Kind::Candidate => ("hustings.io/v1alpha1", "LeaseCandidate"),
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    object
}
