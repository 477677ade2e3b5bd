//! The stored objects, and the order of their changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answer::Refusal;
use super::cache::Cache;
use super::call::Call;
use super::kind::Kind;
use super::policy::Policy;
use super::rates::Rates;
use super::refusals::Refusals;

/// How long watches can resume from a change: the shortest time for which the cache of a real API server keeps changes.
const REMEMBERS_FOR: Duration = Duration::from_secs(75);

/// The server's wall clock at its start.
const EPOCH_SECONDS: i64 = 1_750_000_000;

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// One version of an object, which never changes.
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
    /// The version that it replaced.
    pub(super) former: Option<Version>,
    /// The former version, for a watch that selected it and does not select the new one.
    pub(super) before: Option<Version>,
    pub(super) after: Option<Version>,
    at: Instant,
    caller: Arc<str>,
}

/// One change, as outside observers get it.
#[derive(Clone, Debug)]
pub struct News {
    /// The revision of the change.
    pub revision: u64,
    /// The time of the change.
    pub at: Instant,
    /// The caller that made it.
    pub caller: Arc<str>,
    /// The kind of the object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    after: Option<Version>,
}

/// What a watch listens to: a kind, and perhaps one name.
type Topic = (Kind, Option<String>);

/// All objects.
pub(super) struct Store {
    revision: u64,
    /// The newest change from which no watch can resume any more.
    compacted: u64,
    objects: BTreeMap<Key, Version>,
    changes: VecDeque<Change>,
    uids: u64,
    started: Instant,
    caller: Arc<str>,
    bell: Arc<Notify>,
    bells: BTreeMap<Topic, Arc<Notify>>,
    pub(super) policy: Option<Policy>,
    pub(super) rates: Rates,
    pub(super) refusals: Refusals,
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
            caller: Arc::default(),
            bell: Arc::default(),
            bells: BTreeMap::new(),
            policy: None,
            rates: Rates::default(),
            refusals: Refusals::default(),
        }
    }
}

impl Version {
    pub(super) fn object(&self) -> &Value {
        &self.0.object
    }

    /// The object as it is sent, serialised once for all receivers.
    pub(super) fn bytes(&self) -> Bytes {
        self.0.bytes.get_or_init(|| Bytes::from(serde_json::to_vec(&self.0.object).unwrap_or_default())).clone()
    }
}

impl Change {
    pub(super) const fn at(&self) -> Instant {
        self.at
    }

    pub(super) fn news(&self) -> News {
        News {
            revision: self.revision,
            at: self.at,
            caller: Arc::clone(&self.caller),
            kind: self.key.kind,
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            after: self.after.clone(),
        }
    }
}

impl News {
    /// The object after the change; `None` if it is gone.
    pub fn object(&self) -> Option<&Value> {
        self.after.as_ref().map(Version::object)
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

    /// Sets the caller of the next changes.
    pub(super) fn set_caller(&mut self, caller: &Arc<str>) {
        if !Arc::ptr_eq(&self.caller, caller) {
            self.caller = Arc::clone(caller);
        }
    }

    /// Notifies after each change.
    pub(super) fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Notifies after each change of this kind, or of the object with this name.
    pub(super) fn bell_of(&mut self, kind: Kind, name: Option<&str>) -> Arc<Notify> {
        Arc::clone(self.bells.entry((kind, name.map(str::to_owned))).or_default())
    }

    /// The newest revision at this time. Revisions that were compacted since are not available.
    pub(super) fn revision_at(&self, at: Instant) -> u64 {
        let later = self.changes.partition_point(|change| change.at <= at);
        later.checked_sub(1).and_then(|last| self.changes.get(last)).map_or(self.compacted, |last| last.revision)
    }

    pub(super) fn find(&self, key: &Key) -> Option<&Version> {
        self.objects.get(key)
    }

    pub(super) fn get(&self, call: &Call, name: &str) -> Result<&Version, Refusal> {
        self.objects.get(&call.key(name)).ok_or_else(|| Refusal::not_found(call, name))
    }

    /// The answer to a read of one object. A read that names a version is served from `cache`.
    pub(super) fn read(&self, call: &Call, name: &str, cache: &Cache) -> Result<&Version, Refusal> {
        let key = call.key(name);
        let revision = self.revision_for(call, cache)?;
        // The version of the object before its first later change.
        let later = self.changes_after(revision).find(|change| change.key == key);
        let version = later.map_or_else(|| self.objects.get(&key), |change| change.former.as_ref());
        version.ok_or_else(|| Refusal::not_found(call, name))
    }

    /// The revision of which a read or a list returns the state. A real server waits for a version that it does not
    /// have yet, and then rejects the request; this one rejects it at once.
    fn revision_for(&self, call: &Call, cache: &Cache) -> Result<u64, Refusal> {
        let Some(wanted) = call.resource_version else { return Ok(self.revision) };
        let known = cache.revision(self, call.kind);
        if wanted > known { Err(Refusal::too_large(wanted, known)) } else { Ok(known) }
    }

    /// The objects that `call` selects, as of `revision`.
    pub(super) fn selected_at(&self, call: &Call, revision: u64) -> Vec<&Version> {
        if revision >= self.revision {
            return self.selected(call).map(|(_, version)| version).collect();
        }
        let mut objects: BTreeMap<&Key, &Version> = self.selected(call).collect();
        for change in self.changes_after(revision).filter(|change| call.is_about(&change.key)) {
            objects.remove(&change.key);
        }
        let mut seen = BTreeSet::new();
        for change in self.changes_after(revision).filter(|change| call.is_about(&change.key)) {
            if let (true, Some(former)) = (seen.insert(&change.key), &change.former)
                && call.selector.matches(former.object())
            {
                objects.insert(&change.key, former);
            }
        }
        objects.into_values().collect()
    }

    fn selected(&self, call: &Call) -> impl Iterator<Item = (&Key, &Version)> {
        let first = Key { kind: call.kind, namespace: call.namespace.clone().unwrap_or_default(), name: String::new() };
        let all = self.objects.range((Bound::Included(first), Bound::Unbounded));
        all.take_while(|(key, _)| call.is_about(key)).filter(|(_, version)| call.selector.matches(version.object()))
    }

    /// The answer to a list. A list that names a version is served from `cache`.
    pub(super) fn list(&self, call: &Call, cache: &Cache) -> Result<Bytes, Refusal> {
        let revision = self.revision_for(call, cache)?;
        let (name, version) = (call.kind.name(), call.kind.api_version());
        let mut list = format!(
            r#"{{"kind":"{name}List","apiVersion":"{version}","metadata":{{"resourceVersion":"{revision}"}},"items":["#
        )
        .into_bytes();
        for (index, item) in self.selected_at(call, revision).into_iter().enumerate() {
            if index > 0 {
                list.push(b',');
            }
            list.extend_from_slice(&item.bytes());
        }
        list.extend_from_slice(b"]}");
        Ok(Bytes::from(list))
    }

    /// The changes after `revision`, oldest first.
    pub(super) fn changes_after(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let begin = self.changes.partition_point(|change| change.revision <= revision);
        self.changes.range(begin..)
    }

    /// Stores a new version of an object, or its deletion.
    pub(super) fn put(&mut self, key: Key, after: Option<Value>) -> Version {
        self.revision += 1;
        let former = self.objects.get(&key).cloned();
        let stored = after.is_some();
        let mut object = after.or_else(|| former.as_ref().map(|before| before.object().clone())).unwrap_or_default();
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let version = Version::from(object);
        if stored {
            self.objects.insert(key.clone(), version.clone());
        } else {
            self.objects.remove(&key);
        }
        // A deletion event has the last state, with the revision of the deletion.
        let (before, after) =
            if stored { (former.clone(), Some(version.clone())) } else { (Some(version.clone()), None) };
        self.ring(&key);
        let (revision, at, caller) = (self.revision, Instant::now(), Arc::clone(&self.caller));
        self.changes.push_back(Change { revision, key, former, before, after, at, caller });
        while let Some(oldest) = self.changes.pop_front_if(|oldest| at - oldest.at > REMEMBERS_FOR) {
            self.compacted = oldest.revision;
        }
        version
    }

    fn ring(&self, key: &Key) {
        if matches!(key.kind, Kind::Lease | Kind::LeaseCandidate) {
            self.bell.notify_waiters();
        }
        for name in [None, Some(key.name.clone())] {
            if let Some(bell) = self.bells.get(&(key.kind, name)) {
                bell.notify_waiters();
            }
        }
    }

    pub(super) fn compact(&mut self) {
        self.changes.clear();
        self.compacted = self.revision;
    }

    pub(super) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// The server's wall clock, in whole seconds as in `creationTimestamp`.
    pub(super) fn timestamp(&self) -> String {
        let elapsed = i64::try_from(self.started.elapsed().as_secs()).unwrap_or(i64::MAX);
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(EPOCH_SECONDS.saturating_add(elapsed));
        now.to_string()
    }
}

impl Call {
    /// Whether the call concerns the kind and the namespace of this object.
    pub(super) fn is_about(&self, key: &Key) -> bool {
        key.kind == self.kind && self.namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace)
    }

    /// The key of the object with this name that the call concerns.
    pub(super) fn key(&self, name: &str) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone().unwrap_or_default(), name: name.to_owned() }
    }
}
