//! The API server's audit log, which names the sender of each request. Tests use it to measure the cost of Hustings and
//! to check its RBAC roles.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The audit policy: level Metadata for all requests, and no entry when a request arrives. So there is one entry per
/// request, and two per watch.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "rules": [{"level": "Metadata"}]
}"#;

/// The name of the log of an API server.
pub(crate) fn log(server: &str) -> String {
    format!("{server}-audit.log")
}

/// A request to the API server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditEvent {
    /// `ResponseComplete`; a watch also has an entry with `ResponseStarted`.
    pub stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, ...
    pub verb: String,
    /// The sender.
    pub user: AuditUser,
    /// The user agent.
    #[serde(default)]
    pub user_agent: String,
    /// The path with its query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// The object; `None` for a path like `/readyz`.
    pub object_ref: Option<AuditObject>,
    /// The answer.
    pub response_status: Option<AuditStatus>,
    /// When the request was received, in RFC 3339.
    pub request_received_timestamp: String,
}

/// The sender of a request.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct AuditUser {
    /// Such as `system:serviceaccount:NAMESPACE:NAME`; empty if the request ended before the server knew the sender.
    #[serde(default)]
    pub username: String,
    /// More about the sender, such as `authentication.kubernetes.io/pod-name`, the pod to which its token is bound.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object of a request. Fields that do not apply are empty: a list has no name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct AuditObject {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The plural of the kind.
    pub resource: String,
    /// Such as `status`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The answer to a request.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct AuditStatus {
    /// The HTTP status.
    pub code: u16,
}

/// The entries of a log. Ignores an incomplete last line, because the server may be writing it.
pub(crate) fn parse(log: &str) -> serde_json::Result<Vec<AuditEvent>> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().map(serde_json::from_str).collect()
}
