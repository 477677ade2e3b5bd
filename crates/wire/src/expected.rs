//! Whether a success answers the request that was sent.
//!
//! Not everything that answers 200 is the API server. A login page, a default backend or a cache answers with HTML, with
//! `{"message": …}` or with another object. Read without a check, such an answer is an object whose fields are all
//! empty: a Lease without a holder, or a candidate for another Lease.
//!
//! The rule that must hold: an answer is used only if its kind, apiVersion, name, namespace, uid and resourceVersion are
//! those for which the request asks. Any other answer is a failure with an unknown outcome.

mod shapes;

use std::fmt;

use http::header::ACCEPT;
use http::{Method, Request};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::api::{ObjectParts, names};
use crate::attributes::RequestTarget;
use crate::expected::shapes::{AnswerMetadata, AnswerReport, Event, Head, Sent};

/// The remedy for an answer that is not the API server's.
pub(crate) const NOT_THE_SERVER: &str = "check for a proxy or a login page in between";

/// The groups of the objects that Hustings uses. The kinds of their resources have regular plurals, and the server
/// stores all objects that have a name. Another group, such as that of metrics, may be different.
const GROUPS: [&str; 8] = [
    "",
    "apps",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    names::NATIVE_GROUP,
    "events.k8s.io",
    names::GROUP,
];

/// How much of a text in an answer goes into a message, in characters.
const LONGEST_EXCERPT: usize = 63;

/// An answer with status 200 that does not answer the request.
#[derive(Debug, thiserror::Error)]
#[error("the answer is not {expected}: {received}; {NOT_THE_SERVER}")]
pub struct WrongAnswer {
    expected: String,
    received: String,
}

/// What the answer to a request must be.
#[derive(Debug)]
pub struct Expected {
    form: AnswerForm,
    api_version: String,
    kind: AnswerKind,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    /// The version on which a write is conditional. The write does not lead to an older one.
    version: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    /// One object that the server stores.
    Object,
    /// An object without an identity, such as a review.
    Anonymous,
    /// A list of API groups or of resources.
    Discovery,
    List,
    Watch,
    /// The object that was deleted, or a report of success.
    Deletion,
}

#[derive(Debug)]
enum AnswerKind {
    /// The kind with this name.
    Named(String),
    /// The kind of this resource, such as `leases.coordination.k8s.io`.
    Of { resource: String, group: String },
}

impl Expected {
    /// Returns what the answer to this request must be; `None` if it has no fixed form. `body` is the body of the request,
    /// as far as it is known.
    pub fn of<B>(request: &Request<B>, body: &[u8]) -> Option<Self> {
        let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
        let (method, target) = (request.method(), RequestTarget::read(&path));
        let Some(target) = target else { return Self::of_discovery(method, &path) };
        if !GROUPS.contains(&target.group) || !matches!(target.subresource, None | Some("status")) {
            return None;
        }
        let sent: Sent = serde_json::from_slice(body).unwrap_or_default();
        let form = match (method, target.name) {
            (&Method::GET, _) if is_watch(request) => AnswerForm::Watch,
            (&Method::GET, None) => AnswerForm::List,
            (&Method::GET | &Method::PUT | &Method::PATCH, Some(_)) => AnswerForm::Object,
            (&Method::POST, None) if sent.metadata.is_named() && !is_dry_run(request) => AnswerForm::Object,
            (&Method::POST, None) => AnswerForm::Anonymous,
            (&Method::DELETE, Some(_)) => AnswerForm::Deletion,
            _ => return None,
        };
        let accept = request.headers().get(ACCEPT).map_or("", |accept| accept.to_str().unwrap_or("?"));
        let (api_version, kind) = match accept.split_once(";as=") {
            None if matches!(accept, "" | "*/*" | "application/json") => {
                (api_version(target.group, target.version), AnswerKind::of(&target, &sent))
            }
            Some((_, form)) if form.starts_with("PartialObjectMetadata") => {
                ("meta.k8s.io/v1".to_owned(), AnswerKind::Named("PartialObjectMetadata".to_owned()))
            }
            _ => return None,
        };
        let named = target.name.map(str::to_owned).or(sent.metadata.name).or_else(|| selected_name(request));
        Some(Self {
            form,
            api_version,
            kind,
            namespace: target.namespace.filter(|_| target.resource != "namespaces").map(str::to_owned),
            name: named,
            uid: sent.metadata.uid.or(sent.preconditions.uid),
            version: sent.metadata.resource_version.and_then(|version| version.parse().ok()),
        })
    }

    fn of_discovery(method: &Method, path: &str) -> Option<Self> {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let (kind, name) = match parts[..] {
            ["apis"] => ("APIGroupList", None),
            ["apis", group, version] => ("APIResourceList", Some(api_version(group, version))),
            _ => return None,
        };
        (method == Method::GET).then(|| Self {
            form: AnswerForm::Discovery,
            api_version: "v1".to_owned(),
            kind: AnswerKind::Named(kind.to_owned()),
            namespace: None,
            name,
            uid: None,
            version: None,
        })
    }

    /// Whether the answer is a stream of events.
    pub fn is_watch(&self) -> bool {
        self.form == AnswerForm::Watch
    }

    /// Checks the body of a success.
    pub fn check(&self, answer: &[u8]) -> Result<(), WrongAnswer> {
        let head: Head<'_> = self.parse(answer)?;
        match self.form {
            AnswerForm::Deletion if head.kind == "Status" => self.check_report(answer),
            AnswerForm::Object | AnswerForm::Deletion => {
                self.check_kind(&head, "").and_then(|()| self.check_identity(&head))
            }
            AnswerForm::Anonymous => self.check_kind(&head, ""),
            AnswerForm::Discovery => {
                self.check_kind(&head, "")?;
                let is_other = self.name.as_ref().is_some_and(|name| *name != head.group_version);
                if is_other { Err(self.wrong_value("groupVersion", &head.group_version)) } else { Ok(()) }
            }
            AnswerForm::List => {
                self.check_kind(&head, "List")?;
                self.check_version(&head)?;
                head.items.iter().flatten().try_for_each(|item| {
                    // The items of a list may leave out what the list already says.
                    if !item.kind.is_empty() || !item.api_version.is_empty() {
                        self.check_kind(item, "")?;
                    }
                    self.check_identity(item)
                })
            }
            AnswerForm::Watch => Err(self.wrong("it is not a stream of events".to_owned())),
        }
    }

    /// Reads the body of a success that is one object, and checks it.
    pub(crate) fn read_object(&self, answer: &[u8]) -> Result<ObjectParts, WrongAnswer> {
        let object: ObjectParts = self.parse(answer)?;
        let head = Head::of(&object);
        self.check_kind(&head, "")?;
        self.check_identity(&head)?;
        Ok(object)
    }

    /// Checks one line of a watch.
    pub fn check_event(&self, line: &[u8]) -> Result<(), WrongAnswer> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let Event::<Head<'_>> { type_, object } = self.parse(line)?;
        self.check_event_head(&type_, &object)
    }

    /// Reads one line of a watch that is not empty, and checks it. Returns the type of the event and its object.
    pub(crate) fn read_event(&self, line: &[u8]) -> Result<(String, ObjectParts), WrongAnswer> {
        let Event::<ObjectParts> { type_, object } = self.parse(line)?;
        self.check_event_head(&type_, &Head::of(&object))?;
        Ok((type_.into_owned(), object))
    }

    fn check_event_head(&self, type_: &str, object: &Head<'_>) -> Result<(), WrongAnswer> {
        match type_ {
            "ADDED" | "MODIFIED" | "DELETED" => self.check_kind(object, "").and_then(|()| self.check_identity(object)),
            "BOOKMARK" => self.check_kind(object, "").and_then(|()| self.check_version(object)),
            "ERROR" if object.kind == "Status" => Ok(()),
            _ => Err(self.wrong_value("type", type_)),
        }
    }

    /// The error for an answer with this content.
    pub fn wrong(&self, received: String) -> WrongAnswer {
        WrongAnswer { expected: self.to_string(), received }
    }

    fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a [u8]) -> Result<T, WrongAnswer> {
        // The error of the parser may quote the answer.
        serde_json::from_slice(answer).map_err(|_| self.wrong("it is not the JSON of such an object".to_owned()))
    }

    fn check_kind(&self, head: &Head<'_>, suffix: &str) -> Result<(), WrongAnswer> {
        if !head.kind.strip_suffix(suffix).is_some_and(|kind| self.kind.is(kind)) {
            return Err(self.wrong_value("kind", &head.kind));
        }
        // The server leaves it out in some lists of resources.
        let may_be_missing = self.form == AnswerForm::Discovery && head.api_version.is_empty();
        if head.api_version != self.api_version && !may_be_missing {
            return Err(self.wrong_value("apiVersion", &head.api_version));
        }
        Ok(())
    }

    fn check_identity(&self, head: &Head<'_>) -> Result<(), WrongAnswer> {
        let AnswerMetadata { name, namespace, uid, .. } = &head.metadata;
        if name.is_empty() || self.name.as_ref().is_some_and(|expected| name != expected) {
            return Err(self.wrong_value("name", name));
        }
        if self.namespace.as_ref().is_some_and(|expected| namespace != expected) {
            return Err(self.wrong_value("namespace", namespace));
        }
        if uid.is_empty() || self.uid.as_ref().is_some_and(|expected| uid != expected) {
            return Err(self.wrong_value("uid", uid));
        }
        self.check_version(head)
    }

    fn check_version(&self, head: &Head<'_>) -> Result<(), WrongAnswer> {
        let version = head.metadata.resource_version.parse().unwrap_or(0);
        if version == 0 || version < self.version.unwrap_or(0) {
            return Err(self.wrong_value("resourceVersion", &head.metadata.resource_version));
        }
        Ok(())
    }

    /// Checks a Status that reports a deletion.
    fn check_report(&self, answer: &[u8]) -> Result<(), WrongAnswer> {
        let AnswerReport { status, details } = self.parse(answer)?;
        if status != "Success" {
            return Err(self.wrong_value("status", &status));
        }
        if self.name.as_ref().is_some_and(|name| details.name != *name) {
            return Err(self.wrong_value("name", &details.name));
        }
        if self.uid.as_ref().is_some_and(|uid| !details.uid.is_empty() && details.uid != *uid) {
            return Err(self.wrong_value("uid", &details.uid));
        }
        Ok(())
    }

    fn wrong_value(&self, field: &str, value: &str) -> WrongAnswer {
        let excerpt: String = value.chars().take(LONGEST_EXCERPT).collect();
        self.wrong(if value.is_empty() { format!("it has no {field}") } else { format!("its {field} is {excerpt:?}") })
    }
}

/// For messages: what the answer should have been.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            AnswerForm::List => f.write_str("a list of ")?,
            AnswerForm::Watch => f.write_str("a watch of ")?,
            AnswerForm::Deletion => f.write_str("the deletion of ")?,
            AnswerForm::Object | AnswerForm::Anonymous | AnswerForm::Discovery => {}
        }
        match &self.kind {
            AnswerKind::Named(kind) => f.write_str(kind)?,
            AnswerKind::Of { resource, group } if group.is_empty() => f.write_str(resource)?,
            AnswerKind::Of { resource, group } => write!(f, "{resource}.{group}")?,
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

impl AnswerKind {
    fn of(target: &RequestTarget<'_>, sent: &Sent) -> Self {
        match &*sent.kind {
            "" | "DeleteOptions" => Self::Of { resource: target.resource.to_owned(), group: target.group.to_owned() },
            kind => Self::Named(kind.to_owned()),
        }
    }

    fn is(&self, kind: &str) -> bool {
        match self {
            Self::Named(name) => kind == name,
            Self::Of { resource, .. } => is_plural(resource, kind),
        }
    }
}

/// Whether `resource` is the plural of `kind`.
fn is_plural(resource: &str, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let stem = resource.strip_suffix('s').unwrap_or_default();
    let is_regular = match (kind.strip_suffix('y'), kind.ends_with('s')) {
        (Some(start), _) => stem.strip_suffix("ie") == Some(start),
        (None, true) => stem.strip_suffix('e') == Some(&kind) || resource == kind,
        (None, false) => stem == kind,
    };
    is_regular && !kind.is_empty()
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Whether the request begins a watch.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// The name that the field selector of a list or a watch contains.
fn selected_name<B>(request: &Request<B>) -> Option<String> {
    let fields = request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix("fieldSelector="))?;
    let fields = percent_decode_str(fields).decode_utf8_lossy();
    fields.split(',').find_map(|field| field.strip_prefix("metadata.name=")).map(str::to_owned)
}

/// Whether the server does not store what it is sent. The answer then has no resourceVersion.
fn is_dry_run<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("dryRun="))
}
