//! What is stored, and the order in which it changed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer::Refusal;
use super::call::Call;
use super::kind::Kind;

/// How many changes can be resumed from. A real server forgets after five minutes.
const MOST_CHANGES: usize = 10_000;

/// Where the wall clock of the server stands when it starts.
const EPOCH_SECONDS: i64 = 1_750_000_000;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// One version of an object. It never changes.
#[derive(Clone, Debug)]
pub(super) struct Version(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    object: Value,
    bytes: OnceLock<Bytes>,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) key: Key,
    pub(super) before: Option<Version>,
    pub(super) after: Option<Version>,
}

/// All objects.
pub(super) struct Store {
    revision: u64,
    /// The newest change that nobody can resume from any more.
    compacted: u64,
    objects: BTreeMap<Key, Version>,
    changes: VecDeque<Change>,
    uids: u64,
    started: Instant,
    bell: Arc<Notify>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            revision: 1,
            compacted: 0,
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
            uids: 0,
            started: Instant::now(),
            bell: Arc::default(),
        }
    }
}

impl Version {
    pub(super) fn object(&self) -> &Value {
        &self.0.object
    }

    /// The object as it is sent, written out once for everybody.
    pub(super) fn bytes(&self) -> Bytes {
        self.0.bytes.get_or_init(|| Bytes::from(self.0.object.to_string())).clone()
    }
}

impl From<Value> for Version {
    fn from(object: Value) -> Self {
        Self(Arc::new(Inner { object, bytes: OnceLock::new() }))
    }
}

impl Store {
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) const fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Rings after each change.
    pub(super) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    pub(super) fn find(&self, key: &Key) -> Option<&Version> {
        self.objects.get(key)
    }

    pub(super) fn get(&self, call: &Call, name: &str) -> Result<&Version, Refusal> {
        self.objects.get(&call.key(name)).ok_or_else(|| Refusal::not_found(call, name))
    }

    /// The objects that `call` selects.
    pub(super) fn selected(&self, call: &Call) -> impl Iterator<Item = &Version> {
        let first = Key { kind: call.kind, namespace: call.namespace.clone().unwrap_or_default(), name: String::new() };
        let all = self.objects.range((Bound::Included(first), Bound::Unbounded));
        all.take_while(|(key, _)| {
            key.kind == call.kind && call.namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
        })
        .map(|(_, version)| version)
        .filter(|version| call.selector.matches(version.object()))
    }

    pub(super) fn list(&self, call: &Call) -> Value {
        let items: Vec<_> = self.selected(call).map(|version| version.object().clone()).collect();
        json!({
            "kind": format!("{}List", call.kind.name()),
            "apiVersion": call.kind.api_version(),
            "metadata": { "resourceVersion": self.revision.to_string() },
            "items": items,
        })
    }

    /// The changes after `revision`, oldest first.
    pub(super) fn changes_after(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let begin = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(begin..)
    }

    /// Stores a new version of an object, or its deletion.
    pub(super) fn put(&mut self, key: Key, after: Option<Value>) -> Version {
        self.revision += 1;
        let before = self.objects.get(&key).cloned();
        let stored = after.is_some();
        let mut object = after.or_else(|| before.as_ref().map(|before| before.object().clone())).unwrap_or_default();
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let version = Version::from(object);
        if stored {
            self.objects.insert(key.clone(), version.clone());
        } else {
            self.objects.remove(&key);
        }
        // What was deleted is told in its last state, under the revision of the deletion.
        let (before, after) = if stored { (before, Some(version.clone())) } else { (Some(version.clone()), None) };
        self.changes.push_back(Change { revision: self.revision, key, before, after });
        if self.changes.len() > MOST_CHANGES
            && let Some(oldest) = self.changes.pop_front()
        {
            self.compacted = oldest.revision;
        }
        self.bell.notify_waiters();
        version
    }

    pub(super) fn compact(&mut self) {
        self.changes.clear();
        self.compacted = self.revision;
    }

    pub(super) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// The server's wall clock, whole seconds as in `creationTimestamp`.
    pub(super) fn timestamp(&self) -> String {
        let elapsed = i64::try_from(self.started.elapsed().as_secs()).unwrap_or(i64::MAX);
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(EPOCH_SECONDS.saturating_add(elapsed));
        now.to_string()
    }
}

impl Call {
    /// The object of this name that the call is about.
    pub(super) fn key(&self, name: &str) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone().unwrap_or_default(), name: name.to_owned() }
    }
}
