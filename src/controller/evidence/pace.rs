//! Spaces the reads of all Leases evenly, and lets the Leases take turns.
//!
//! Each election asks for a turn and asks again half a second later if it gets none. Leases that wait keep the order in
//! which they first asked. Without that order, holders whose Pods prove nothing could use up the limit for ever, and the
//! Pods of others would never be read.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::time::Instant;

use crate::controller::key::LeaseKey;

/// How many reads are sent in one second, for all Leases together.
pub(super) const READS_PER_SECOND: u32 = 100;

/// How long a read waits for its turn. The next decision about the Lease waits for it.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The time between two reads.
const INTERVAL: Duration = Duration::from_millis(1000 / READS_PER_SECOND as u64);

/// After this time without a question, a Lease loses its place: its holder is no longer silent.
const ABSENT: Duration = Duration::from_secs(2);

/// The pace of reads. Clones share it.
#[derive(Clone)]
pub(super) struct Pace(Arc<Mutex<State>>);

struct State {
    /// The earliest time that no read has taken.
    free_at: Instant,
    /// The Leases that have asked in vain, in order, and when they last asked.
    waiting: IndexMap<LeaseKey, Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { free_at: Instant::now(), waiting: IndexMap::new() })))
    }

    /// Returns when a read for `lease` may be sent, at most [`LONGEST_WAIT`] from now. `None` if others come first: the
    /// Lease then keeps its place if it asks again in time.
    pub(super) fn turn(&self, lease: &LeaseKey) -> Option<Instant> {
        // Nothing that runs under the lock can panic between two of its changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).turn(lease, Instant::now())
    }
}

impl State {
    fn turn(&mut self, lease: &LeaseKey, now: Instant) -> Option<Instant> {
        if self.waiting.first().is_some_and(|(_, asked_at)| now - *asked_at > ABSENT) {
            self.waiting.retain(|_, asked_at| now - *asked_at <= ABSENT);
        }
        let free_at = self.free_at.max(now);
        let ahead = self.waiting.get_index_of(lease).unwrap_or(self.waiting.len());
        let wait = INTERVAL.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX)).saturating_add(free_at - now);
        if wait > LONGEST_WAIT {
            self.waiting.insert(lease.clone(), now);
            return None;
        }
        // Those ahead ask again within that time, so that their turns follow at once.
        self.waiting.shift_remove(lease);
        self.free_at = free_at + INTERVAL;
        Some(free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets as many Leases as given ask every half second, evenly spread, and returns how often each was read within 30 s.
    fn reads_of(leases: u32) -> Vec<u32> {
        let began = Instant::now();
        let mut state = State { free_at: began, waiting: IndexMap::new() };
        let keys: Vec<_> = (0..leases).map(|number| LeaseKey::new("n", &format!("l{number}"))).collect();
        let mut reads = vec![0; keys.len()];
        let mut turns = Vec::new();
        for round in 0..60 {
            for (key, number) in keys.iter().zip(0..) {
                let now = began + LONGEST_WAIT * round + LONGEST_WAIT * number / leases;
                if let Some(turn) = state.turn(key, now) {
                    assert!(turn >= now && turn <= now + LONGEST_WAIT);
                    reads[number as usize] += 1;
                    turns.push(turn);
                }
            }
        }
        assert!(turns.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL), "at most 100 in any second");
        reads
    }

    #[test]
    fn a_crowd_takes_turns_and_uses_the_whole_limit() {
        let reads = reads_of(1000);
        assert!(reads.iter().sum::<u32>() >= 29 * READS_PER_SECOND, "{reads:?}");
        assert!(reads.iter().all(|reads| (2..=4).contains(reads)), "{reads:?}");
    }

    #[test]
    fn a_few_are_read_as_often_as_they_ask() {
        assert_eq!(reads_of(1), [60]);
        assert_eq!(reads_of(50), [60; 50]);
    }

    #[test]
    fn a_lease_that_asks_no_longer_holds_up_no_other() {
        let began = Instant::now();
        let mut state = State { free_at: began, waiting: IndexMap::new() };
        let lease = |number: u32| LeaseKey::new("n", &format!("l{number}"));
        let turns = (0..1000).filter_map(|number| state.turn(&lease(number), began)).count();
        assert_eq!((turns, state.waiting.len()), (51, 949));
        let later = began + ABSENT + INTERVAL;
        assert_eq!(state.turn(&lease(1000), later), Some(later));
        assert!(state.waiting.is_empty());
    }
}
