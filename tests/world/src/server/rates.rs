//! W1: how often a caller writes one object. The number of writes is bounded, whatever the server answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::store::Key;

/// How long writes are counted before the count starts again.
const WINDOW: Duration = Duration::from_secs(10);

/// The most writes of one object by one caller in that time: about three times what the shortest timing and the worst
/// races need.
const MOST_WRITES: u32 = 100;

/// A caller, the object that it writes, and whether it writes the status.
type Writer = (Arc<str>, Key, bool);

/// The recent writes.
#[derive(Default)]
pub(super) struct Rates {
    began: Option<Instant>,
    /// Their number, and the arrival of the last one.
    writes: BTreeMap<Writer, (u32, Instant)>,
    excess: Option<String>,
}

impl Rates {
    /// Counts a write that arrives, whatever its outcome. Writes that arrive at the same instant count as one: the
    /// caller sent them one after the other, and they waited for the end of a partition.
    pub(super) fn count(&mut self, caller: &Arc<str>, key: Key, is_status: bool) {
        let now = Instant::now();
        if self.began.is_none_or(|began| now - began >= WINDOW) {
            self.began = Some(now);
            self.writes.clear();
        }
        let writer = (Arc::clone(caller), key, is_status);
        let Some((count, last)) = self.writes.get_mut(&writer) else {
            self.writes.insert(writer, (1, now));
            return;
        };
        *count += u32::from(*last != now);
        *last = now;
        if *count == MOST_WRITES {
            let (key, status) = (&writer.1, if is_status { "/status" } else { "" });
            let write = format!("{caller} writes {:?} {}{status}", key.kind, key.name);
            self.excess.get_or_insert(format!("W1: {write} {count} times within {} s", WINDOW.as_secs()));
        }
    }

    /// A caller that wrote too often. Returns each one once.
    pub(super) fn excess(&mut self) -> Option<String> {
        self.excess.take()
    }
}
