//! A small API server: one sequence of versions, conditional writes and merge patches. Every request gets the answer of a
//! real server, as text.

use std::collections::BTreeMap;

use hustings_core::model::WireTime;
use serde_json::{Value, json};

/// The objects by their paths, and everything that has happened to them.
#[derive(Default)]
pub(crate) struct Server {
    objects: BTreeMap<String, Value>,
    revision: u64,
    /// The kind of change, the path and the object after it.
    pub(crate) changes: Vec<(&'static str, String, Value)>,
}

/// A status code and a body.
pub(crate) type Response = (u16, String);

impl Server {
    pub(crate) fn object(&self, path: &str) -> Option<&Value> {
        self.objects.get(path)
    }

    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Carries a request out.
    pub(crate) fn handle(&mut self, method: &str, target: &str, body: &str, wall: WireTime) -> Response {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        if path == "/apis" {
            let groups = ["coordination.k8s.io", "hustings.io"].map(|name| json!({ "name": name, "versions": [] }));
            return (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }).to_string());
        }
        let object = path.strip_suffix("/status").unwrap_or(path);
        match method {
            "GET" if is_collection(path) => (200, self.list(path, query).to_string()),
            "GET" => self.read(path),
            "POST" => self.create(path, body, wall),
            "PATCH" => self.patch(object, &body),
            "DELETE" => self.delete(path, &body),
            _ => failure(405, "MethodNotAllowed", path, "no such method"),
        }
    }

    fn list(&self, path: &str, query: &str) -> Value {
        let lease = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector=spec.leaseName%3D"));
        let of_lease = |object: &&Value| lease.is_none_or(|lease| object["spec"]["leaseName"] == lease);
        let prefix = format!("{path}/");
        let objects = self.objects.iter().filter(|(path, _)| path.starts_with(&prefix)).map(|(_, object)| object);
        let items: Vec<&Value> = objects.filter(of_lease).collect();
        json!({
            "kind": "LeaseCandidateList", "apiVersion": "hustings.io/v1alpha1",
            "metadata": { "resourceVersion": self.revision.max(1).to_string() }, "items": items,
        })
    }

    fn read(&self, path: &str) -> Response {
        self.objects.get(path).map_or_else(|| not_found(path), |object| (200, object.to_string()))
    }

    fn create(&mut self, path: &str, mut object: Value, wall: WireTime) -> Response {
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        if self.objects.contains_key(&path) {
            return failure(409, "AlreadyExists", &path, "it exists");
        }
        object["metadata"]["uid"] = json!(format!("uid-{}", self.revision + 1));
        object["metadata"]["creationTimestamp"] = json!(wall.to_string());
        self.store("ADDED", path, object)
    }

    fn patch(&mut self, path: &str, change: &Value) -> Response {
        let Some(former) = self.objects.get(path) else { return not_found(path) };
        let (metadata, asked) = (&former["metadata"], &change["metadata"]);
        if !asked["uid"].is_null() && asked["uid"] != metadata["uid"] {
            let (code, text) = failure(422, "Invalid", path, "the uid is another one");
            return (code, text.replace(r#""causes":[]"#, r#""causes":[{"field":"metadata.uid"}]"#));
        }
        if !asked["resourceVersion"].is_null() && asked["resourceVersion"] != metadata["resourceVersion"] {
            return failure(409, "Conflict", path, "the object has been modified");
        }
        let mut object = former.clone();
        merge(&mut object, change);
        self.store("MODIFIED", path.to_owned(), object)
    }

    fn delete(&mut self, path: &str, options: &Value) -> Response {
        let Some(former) = self.objects.get(path) else { return not_found(path) };
        let (metadata, asked) = (&former["metadata"], &options["preconditions"]);
        let is_other = |field: &str| !asked[field].is_null() && asked[field] != metadata[field];
        if is_other("uid") || is_other("resourceVersion") {
            return failure(409, "Conflict", path, "a precondition failed");
        }
        let object = self.objects.remove(path).unwrap_or_default();
        self.revision += 1;
        let uid = object["metadata"]["uid"].clone();
        self.changes.push(("DELETED", path.to_owned(), object));
        let details = json!({ "name": name_of(path), "uid": uid });
        (200, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "details": details }).to_string())
    }

    fn store(&mut self, change: &'static str, path: String, mut object: Value) -> Response {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let text = object.to_string();
        self.changes.push((change, path.clone(), object.clone()));
        self.objects.insert(path, object);
        (if change == "ADDED" { 201 } else { 200 }, text)
    }
}

/// A line of a watch.
pub(crate) fn line(type_: &str, object: &Value) -> String {
    json!({ "type": type_, "object": object }).to_string()
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether the path ends with a resource: `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE`.
fn is_collection(path: &str) -> bool {
    path.split('/').count() == 7
}

fn not_found(path: &str) -> Response {
    failure(404, "NotFound", path, "not found")
}

fn failure(code: u16, reason: &str, path: &str, message: &str) -> Response {
    let parts: Vec<&str> = path.split('/').collect();
    let details = json!({ "name": name_of(path), "group": parts[2], "kind": parts.get(6), "causes": [] });
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code,
        "details": details,
    });
    (code, status.to_string())
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return target.clone_from(patch) };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|fields| fields.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}
