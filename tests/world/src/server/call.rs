//! A parsed request.

use http::{HeaderMap, Method, Uri, header};
use serde_json::Value;

use super::answer::Refusal;
use super::kind::Kind;
use super::selector::Selector;

/// A request for one kind of object.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    /// The request concerns only the status.
    pub(super) is_status: bool,
    pub(super) watch: Option<Watching>,
    pub(super) selector: Selector,
    pub(super) resource_version: Option<u64>,
    pub(super) dry_run: bool,
    pub(super) body: Value,
}

/// The options of a watch.
#[derive(Clone, Copy, Default)]
pub(super) struct Watching {
    pub(super) bookmarks: bool,
    /// The present state comes first, as additions, followed by a bookmark that marks its end.
    pub(super) initial_events: bool,
    pub(super) timeout_seconds: Option<u64>,
}

impl Call {
    pub(super) fn parse(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<Self, Refusal> {
        let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match path.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Refusal::unknown_path()),
        };
        let (namespace, plural, name, subresource) = match *rest {
            ["namespaces", namespace, plural] => (Some(namespace), plural, None, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name), None),
            ["namespaces", namespace, plural, name, subresource] => {
                (Some(namespace), plural, Some(name), Some(subresource))
            }
            [plural] => (None, plural, None, None),
            _ => return Err(Refusal::unknown_path()),
        };
        let kind = Kind::find(group, version, plural).ok_or_else(Refusal::unknown_path)?;
        let is_status = match subresource {
            None => false,
            Some("status") if kind == Kind::LeaseCandidate => true,
            Some(_) => return Err(Refusal::unknown_path()),
        };
        if method == Method::PATCH && content_type(headers) != "application/merge-patch+json" {
            return Err(Refusal::unsupported_patch());
        }
        let body = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| Refusal::bad_request(error.to_string()))?
        };
        let mut call = Self {
            method: method.clone(),
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            is_status,
            watch: None,
            selector: Selector::default(),
            resource_version: None,
            dry_run: false,
            body,
        };
        let mut watching = Watching::default();
        for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match &*key {
                "watch" if matches!(&*value, "true" | "1") => call.watch = Some(watching),
                "labelSelector" => call.selector.add_labels(&value)?,
                "fieldSelector" => call.selector.add_fields(kind, &value)?,
                "resourceVersion" if !value.is_empty() => {
                    let version = value.parse().map_err(|_| {
                        Refusal::bad_request(format!(
                            "resourceVersion: Invalid value: {value:?}: invalid resource version"
                        ))
                    })?;
                    call.resource_version = Some(version);
                }
                "allowWatchBookmarks" => watching.bookmarks = value == "true",
                "sendInitialEvents" => watching.initial_events = value == "true",
                "timeoutSeconds" => watching.timeout_seconds = value.parse().ok(),
                "dryRun" => call.dry_run = true,
                _ => {}
            }
        }
        call.watch = call.watch.map(|_| watching);
        Ok(call)
    }
}

impl Call {
    /// The name of the object to change; `None` if the request creates an object and only its body names it.
    pub(super) fn written(&self) -> Option<&str> {
        let is_write = self.method != Method::GET && self.kind != Kind::AccessReview;
        is_write.then(|| self.name.as_deref().or(self.body["metadata"]["name"].as_str()).unwrap_or_default())
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}
