//! A watch of one object, without its I/O: when to begin it, and what its lines mean.
//!
//! A watch may lag behind, and may die silently; its listener polls when it has been silent. It ends after a minute, so
//! that an overloaded API server loses its watches soon. It has no memory: each begins with the present object, so that
//! none needs to resume where another one ended.

use std::time::Duration;

use http::Request;
use hustings_core::elector::NoteSeverity;
use hustings_core::model::Moment;
use kube_core::{Resource, Status};
use serde::Deserialize;

use crate::api::ObjectParts;
use crate::driver::Line;
use crate::expected::Expected;
use crate::failure::{CANDIDATES, LOG_INTERVAL, NO_CRD, lacks_right, not_allowed};

/// How long a single watch request may last.
pub const LONGEST_WATCH_SECONDS: u32 = 60;

/// How long a watch may be under way, even if the server does not end it. No connection is silent for longer either.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(65);

/// The minimum time between the beginnings of two watches.
pub const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The shortest pause after a failure.
pub const SHORTEST_PAUSE: Duration = Duration::from_millis(800);

/// The longest pause after a failure. A candidate that does not observe a ping during a pause loses the election, and
/// the elector does not poll while its other watch reports events.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The time without a failure that resets the pauses.
pub const QUIET: Duration = Duration::from_mins(2);

/// The annotation of the bookmark that ends the present state.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The longest event of a watch, in bytes. The API server stores no object of this size.
pub const LONGEST_EVENT: usize = 16 << 20;

/// A watch of the object of kind `K` with one name. `Id` names a request under way.
#[derive(Debug)]
pub struct Watch<Id> {
    path: String,
    namespace: String,
    name: String,
    resource: String,
    /// Whether the server sends the present state with a bookmark at its end. Servers without the feature gate
    /// WatchList do not.
    streams_state: bool,
    under_way: Option<UnderWay<Id>>,
    /// When the next watch may begin.
    due: Moment,
    pause: Duration,
    failed_at: Option<Moment>,
    last_failure: Option<(String, Moment)>,
}

#[derive(Debug)]
struct UnderWay<Id> {
    id: Id,
    begun: Moment,
    expected: Expected,
    /// Whether it has shown the object.
    shown: bool,
}

/// What a line of a watch shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<K> {
    /// This version.
    Object(K),
    /// The object is missing. This is a hint, which a read must confirm.
    Missing,
    /// Nothing new.
    Nothing,
    /// The watch has ended, for the reason in the line for the log.
    Ended(Line),
}

/// An event that reports an error.
#[derive(Default, Deserialize)]
struct ErrorEvent {
    object: Status,
}

impl<Id: Copy + PartialEq> Watch<Id> {
    /// A watch that begins now.
    pub fn new<K: Resource<DynamicType = ()>>(namespace: &str, name: &str, now: Moment) -> Self {
        Self {
            path: K::url_path(&(), Some(namespace)),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            resource: format!("{}.{}", K::plural(&()), K::group(&())),
            streams_state: true,
            under_way: None,
            due: now,
            pause: SHORTEST_PAUSE,
            failed_at: None,
            last_failure: None,
        }
    }

    /// The request under way.
    pub fn id(&self) -> Option<Id> {
        self.under_way.as_ref().map(|under_way| under_way.id)
    }

    /// When something is due: the beginning of a watch, or the end of a silent one.
    pub fn deadline(&self) -> Moment {
        self.under_way.as_ref().map_or(self.due, |under_way| under_way.begun.after(LONGEST_SILENCE))
    }

    /// Begins a watch if it is due. Returns its request, and until when it may be under way.
    pub fn begin(&mut self, now: Moment, id: Id) -> Option<(Request<Vec<u8>>, Moment)> {
        if self.under_way.is_some() || now < self.due {
            return None;
        }
        let state = if self.streams_state {
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        } else {
            ""
        };
        // Names of objects need no escape.
        let uri = format!(
            "{}?watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={LONGEST_WATCH_SECONDS}{state}",
            self.path, self.name
        );
        let request = Request::get(uri).body(Vec::new()).ok()?;
        let expected = Expected::of(&request, b"")?;
        self.under_way = Some(UnderWay { id, begun: now, expected, shown: false });
        self.due = now.after(SHORTEST_WATCH);
        Some((request, now.after(LONGEST_SILENCE)))
    }

    /// Reads a line of the watch under way.
    pub fn line<K: From<ObjectParts>>(&mut self, now: Moment, chance: f64, line: &[u8]) -> Shown<K> {
        let Some(under_way) = &mut self.under_way else { return Shown::Nothing };
        if line.trim_ascii().is_empty() {
            return Shown::Nothing;
        }
        let (type_, object) = match under_way.expected.read_event(line) {
            Ok(event) => event,
            Err(wrong) => return Shown::Ended(self.failed(now, chance, wrong.to_string())),
        };
        match &*type_ {
            "ADDED" | "MODIFIED" => {
                under_way.shown = true;
                Shown::Object(object.into())
            }
            "DELETED" => {
                under_way.shown = true;
                Shown::Missing
            }
            "BOOKMARK" if !under_way.shown && ends_state(&object) => {
                under_way.shown = true;
                Shown::Missing
            }
            "ERROR" => {
                let ErrorEvent { object } = serde_json::from_slice(line).unwrap_or_default();
                Shown::Ended(self.refused(now, chance, &object))
            }
            _ => Shown::Nothing,
        }
    }

    /// Records that the server has ended the watch, as it does after a minute.
    pub fn ended(&mut self) {
        self.under_way = None;
    }

    /// Records that the server answered with this Status. Returns the line for the log.
    pub fn refused(&mut self, now: Moment, chance: f64, status: &Status) -> Line {
        if self.streams_state && matches!(status.code, 400 | 422) {
            self.under_way = None;
            self.streams_state = false;
            self.due = now;
            let text = "the server does not stream the present state: watching without it";
            return Line::new(NoteSeverity::Debug, "watch-restarted", text).with("resource", &*self.resource);
        }
        let reason = reason_of(status, "watch", &self.resource, Some(&self.namespace));
        self.failed(now, chance, reason)
    }

    /// Records that the watch has failed: it begins again after a pause. `chance` is uniformly random from 0 to 1, so
    /// that replicas do not return together. Returns the line for the log.
    pub fn failed(&mut self, now: Moment, chance: f64, reason: String) -> Line {
        self.under_way = None;
        if self.failed_at.is_none_or(|failed_at| now.since(failed_at) > QUIET) {
            self.pause = SHORTEST_PAUSE;
        }
        self.failed_at = Some(now);
        self.due = self.due.max(now.after(self.pause.mul_f64(0.8 + 0.2 * chance.clamp(0.0, 1.0))));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let is_same = |last: &str| without_digits(last).eq(without_digits(&reason));
        let is_known =
            self.last_failure.as_ref().is_some_and(|(last, at)| is_same(last) && now < at.after(LOG_INTERVAL));
        let severity = if is_known { NoteSeverity::Debug } else { NoteSeverity::Warning };
        let line = Line::new(severity, "watch-failed", "watch failed, trying again")
            .with("resource", &*self.resource)
            .with("what", format!("{}/{}", self.namespace, self.name))
            .with("reason", &*reason);
        if !is_known {
            self.last_failure = Some((reason, now));
        }
        line
    }
}

/// A reason without what may differ each time: that of a broken connection may name its port, which is always another one.
pub fn without_digits(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(|byte| !byte.is_ascii_digit())
}

/// Why a server refuses a watch or its list, and the remedy.
pub fn reason_of(status: &Status, verb: &str, resource: &str, namespace: Option<&str>) -> String {
    if lacks_right(status) {
        not_allowed(verb, resource, namespace)
    } else if status.code == 404 && resource == CANDIDATES {
        NO_CRD.to_owned()
    } else {
        // The whole Status would take three lines, of which only one matters.
        format!("{} ({})", status.message, status.code)
    }
}

/// Whether a bookmark is the one after the present state.
fn ends_state(ObjectParts { metadata, .. }: &ObjectParts) -> bool {
    metadata.annotations.as_ref().and_then(|all| all.get(INITIAL_EVENTS_END)).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests;
