//! Watches: the changes since a version, as a stream that may end but never reports anything false.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::BoxError;

use super::call::{Call, Watching};
use super::kind::Kind;
use super::selector::Selector;
use super::store::{Change, Store, Version};
use super::{AnswerBody, Server};

/// How long a watch without a timeout lasts. A real server draws this from 30 to 60 minutes.
const LASTS: Duration = Duration::from_mins(30);

/// How often a watch that asked for bookmarks gets one.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);

/// One open watch.
struct Watch {
    server: Server,
    kind: Kind,
    namespace: Option<String>,
    selector: Selector,
    /// All changes up to this revision have been sent.
    sent_until: u64,
    /// The initial state is complete once all changes up to this revision have been sent.
    complete_at: Option<u64>,
    bell: Arc<Notify>,
    bookmark_at: Option<Instant>,
    end: Instant,
    has_ended: bool,
}

/// Opens a watch. `store` belongs to `server`.
pub(super) fn open(server: Server, store: &mut Store, call: &Call, watching: Watching) -> Response<AnswerBody> {
    let mut first = Vec::new();
    let mut has_ended = false;
    let mut complete_at = None;
    let sent_until = match call.resource_version {
        // A watch does not wait for a version that this instance does not have yet: newer changes arrive eventually.
        Some(version) if version > 0 => {
            if version < server.cache.oldest(store) {
                write_expired(&mut first);
                has_ended = true;
            }
            version
        }
        // From any version, or from the newest: the known state comes first, as additions.
        wanted => {
            let revision = server.cache.revision(store, call.kind);
            for version in store.selected_at(call, revision) {
                write_event(&mut first, "ADDED", &version.bytes());
            }
            let is_complete = wanted.is_some() || revision >= store.revision();
            match watching.initial_events {
                true if is_complete => write_complete(&mut first, call.kind, revision),
                true => complete_at = Some(store.revision()),
                false => {}
            }
            revision
        }
    };
    let now = Instant::now();
    let watch = Watch {
        server,
        kind: call.kind,
        namespace: call.namespace.clone(),
        selector: call.selector.clone(),
        sent_until,
        complete_at,
        bell: store.bell_of(call.kind, call.selector.name()),
        bookmark_at: watching.bookmarks.then(|| now + BOOKMARK_PERIOD),
        end: now + watching.timeout_seconds.map_or(LASTS, Duration::from_secs),
        has_ended,
    };
    let events = stream::unfold((watch, first), |(mut watch, first)| async move {
        let bytes = if first.is_empty() { watch.next().await? } else { Bytes::from(first) };
        Some((Ok::<_, BoxError>(Frame::data(bytes)), (watch, Vec::new())))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    response
}

impl Watch {
    /// The next events to send, perhaps several at once.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.has_ended {
                return None;
            }
            let bell = Arc::clone(&self.bell);
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            let (bytes, rest_at) = self.due_events();
            if !bytes.is_empty() {
                return Some(Bytes::from(bytes));
            }
            let until = rest_at.unwrap_or(self.end).min(self.bookmark_at.unwrap_or(self.end)).min(self.end);
            tokio::select! {
                biased;
                () = rung => {}
                () = tokio::time::sleep_until(until) => {
                    let now = Instant::now();
                    self.has_ended = now >= self.end;
                    if self.bookmark_at.is_some_and(|at| now >= at.min(self.end)) {
                        self.bookmark_at = Some(now + BOOKMARK_PERIOD);
                        return Some(self.bookmark());
                    }
                }
            }
        }
    }

    /// The events that can be sent now, and when the next ones can be.
    fn due_events(&mut self) -> (Vec<u8>, Option<Instant>) {
        let server = self.server.clone();
        let store = server.store();
        let mut bytes = Vec::new();
        if self.sent_until < server.cache.oldest(&store) {
            self.has_ended = true;
            write_expired(&mut bytes);
            return (bytes, None);
        }
        let known = server.cache.revision(&store, self.kind);
        let mut rest_at = None;
        for change in store.changes_after(self.sent_until) {
            if change.revision > known {
                rest_at = Some(change.at() + server.cache.lag(self.kind));
                break;
            }
            self.write(change, &mut bytes);
        }
        self.sent_until = self.sent_until.max(known);
        if self.complete_at.is_some_and(|revision| revision <= known) {
            self.complete_at = None;
            write_complete(&mut bytes, self.kind, self.sent_until);
        }
        (bytes, rest_at)
    }

    fn write(&self, change: &Change, bytes: &mut Vec<u8>) {
        let is_near = self.namespace.as_ref().is_none_or(|namespace| *namespace == change.key.namespace);
        let is_named = self.selector.name().is_none_or(|name| name == change.key.name);
        if change.key.kind != self.kind || !is_near || !is_named {
            return;
        }
        let selected = |version: &&Version| self.selector.matches(version.object());
        let before = change.before.as_ref().filter(selected);
        match (before, change.after.as_ref().filter(selected)) {
            (None, None) => {}
            (None, Some(after)) => write_event(bytes, "ADDED", &after.bytes()),
            (Some(_), Some(after)) => write_event(bytes, "MODIFIED", &after.bytes()),
            (Some(before), None) => {
                // An object that leaves the selection is reported with its last selected state and the revision at
                // which it left.
                let mut last = before.object().clone();
                last["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                write_event(bytes, "DELETED", last.to_string().as_bytes());
            }
        }
    }

    fn bookmark(&self) -> Bytes {
        let mut bytes = Vec::new();
        write_bookmark(&mut bytes, self.kind, self.sent_until, None);
        Bytes::from(bytes)
    }
}

fn write_complete(bytes: &mut Vec<u8>, kind: Kind, revision: u64) {
    write_bookmark(bytes, kind, revision, Some(json!({ "k8s.io/initial-events-end": "true" })));
}

fn write_bookmark(bytes: &mut Vec<u8>, kind: Kind, revision: u64, annotations: Option<Value>) {
    let mut object = json!({
        "kind": kind.name(), "apiVersion": kind.api_version(),
        "metadata": { "resourceVersion": revision.to_string(), "creationTimestamp": Value::Null },
    });
    if let Some(annotations) = annotations {
        object["metadata"]["annotations"] = annotations;
    }
    write_event(bytes, "BOOKMARK", object.to_string().as_bytes());
}

fn write_expired(bytes: &mut Vec<u8>) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    write_event(bytes, "ERROR", status.to_string().as_bytes());
}

fn write_event(bytes: &mut Vec<u8>, event: &str, object: &[u8]) {
    bytes.extend_from_slice(b"{\"type\":\"");
    bytes.extend_from_slice(event.as_bytes());
    bytes.extend_from_slice(b"\",\"object\":");
    bytes.extend_from_slice(object);
    bytes.extend_from_slice(b"}\n");
}
