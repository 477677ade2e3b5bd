//! Spaces the reads of all Leases evenly and lets the Leases take turns.
//!
//! Each election asks for a turn, and asks again half a second later if it gets none. Waiting Leases keep the order in
//! which they first asked. Without that order, holders whose Pods prove nothing could use up the limit for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use tokio::time::Instant;

use crate::controller::key::LeaseKey;

/// The most reads in one second, for all Leases together.
pub(super) const READS_PER_SECOND: u32 = 100;

/// How long a read waits for its turn. The next decision about the Lease waits for it.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The time between two reads.
const INTERVAL: Duration = Duration::from_millis(1000 / READS_PER_SECOND as u64);

/// A Lease that has not asked for this long loses its place, since its holder is no longer silent.
const ABSENT: Duration = Duration::from_secs(2);

/// The pace of reads. Clones share it.
#[derive(Clone)]
pub(super) struct Pace(Arc<Mutex<PaceState>>);

struct PaceState {
    /// The earliest time at which the next read may be sent.
    free_at: Instant,
    /// The Leases that wait for a turn, in the order in which they first asked, and when each last asked.
    waiting: IndexMap<LeaseKey, Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(PaceState { free_at: Instant::now(), waiting: IndexMap::new() })))
    }

    /// Returns when a read for `lease` may be sent, at most [`LONGEST_WAIT`] from now. Returns `None` if others come
    /// first. The Lease then keeps its place, provided that it asks again in time.
    pub(super) fn turn(&self, lease: &LeaseKey) -> Option<Instant> {
        // A poisoned lock is safe to use, since no code under it can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).turn(lease, Instant::now())
    }
}

impl PaceState {
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
        // The Leases ahead ask again within that time and get the turns after this one.
        self.waiting.shift_remove(lease);
        self.free_at = free_at + INTERVAL;
        Some(free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets this many Leases ask every half second, evenly spread. Returns how many reads each Lease got within 30 s.
    fn reads_of(leases: u32) -> Vec<u32> {
        let began = Instant::now();
        let mut state = PaceState { free_at: began, waiting: IndexMap::new() };
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
    fn many_leases_take_turns_and_use_the_whole_limit() {
        let reads = reads_of(1000);
        assert!(reads.iter().sum::<u32>() >= 29 * READS_PER_SECOND, "{reads:?}");
        assert!(reads.iter().all(|reads| (2..=4).contains(reads)), "{reads:?}");
    }

    #[test]
    fn a_few_leases_are_read_as_often_as_they_ask() {
        assert_eq!(reads_of(1), [60]);
        assert_eq!(reads_of(50), [60; 50]);
    }

    #[test]
    fn a_lease_that_no_longer_asks_does_not_delay_others() {
        let began = Instant::now();
        let mut state = PaceState { free_at: began, waiting: IndexMap::new() };
        let lease = |number: u32| LeaseKey::new("n", &format!("l{number}"));
        let turns = (0..1000).filter_map(|number| state.turn(&lease(number), began)).count();
        assert_eq!((turns, state.waiting.len()), (51, 949));
        assert_eq!(state.turn(&lease(999), began + ABSENT / 2), None);
        let later = began + ABSENT + INTERVAL;
        assert_eq!(state.turn(&lease(1000), later), Some(later));
        assert_eq!(state.waiting.len(), 1, "the one that asked again keeps its place");
    }
}
