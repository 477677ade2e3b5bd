//! W1: how often somebody writes one object. Nobody writes it without end, whatever the server answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::store::Key;

/// How long writes are counted before that begins anew.
const WINDOW: Duration = Duration::from_secs(10);

/// How many writes of one object somebody sends in that time at the most: some three times what the shortest timing and
/// the worst races take.
const MOST_WRITES: u32 = 100;

/// Who writes which object, or its status.
type Writer = (Arc<str>, Key, bool);

/// The writes of late.
#[derive(Default)]
pub(super) struct Rates {
    began: Option<Instant>,
    /// How many, and when the last one came.
    writes: BTreeMap<Writer, (u32, Instant)>,
    excess: Option<String>,
}

impl Rates {
    /// A write arrives, of whatever outcome. Those that arrive in one instant are one: they were sent one after the other,
    /// and have waited for the end of a partition.
    pub(super) fn count(&mut self, caller: &Arc<str>, key: Key, is_status: bool) {
        let now = Instant::now();
        if self.began.is_none_or(|began| now - began >= WINDOW) {
            self.began = Some(now);
            self.writes.clear();
        }
        let told = format!("{caller} writes {:?} {}{}", key.kind, key.name, if is_status { "/status" } else { "" });
        let (writes, last) = self.writes.entry((Arc::clone(caller), key, is_status)).or_insert((1, now));
        *writes += u32::from(*last != now);
        *last = now;
        if *writes == MOST_WRITES {
            self.excess.get_or_insert(format!("W1: {told} {writes} times within {} s", WINDOW.as_secs()));
        }
    }

    /// Who wrote too often, once.
    pub(super) fn excess(&mut self) -> Option<String> {
        self.excess.take()
    }
}
