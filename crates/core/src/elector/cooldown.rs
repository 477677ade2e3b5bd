//! How long an elector stands aside after it resigned a term, for example because its work failed.
//!
//! During the cooldown the elector keeps its candidate, but answers no ping and takes up no grant. So other electors
//! come first, and the holder does not keep changing because work fails again and again. Each resignation doubles the
//! cooldown. A term that lasts longer than the next cooldown resets the count.

use std::time::Duration;

use crate::backoff::doubled;
use crate::model::Moment;

/// The first cooldown: long enough for another elector to take over.
const SHORTEST: Duration = Duration::from_secs(5);

/// The kubelet's longest wait before it restarts a container.
const LONGEST: Duration = Duration::from_mins(5);

/// The resignations of one elector, and the cooldown after the last one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cooldown {
    began_at: Moment,
    in_a_row: u32,
    /// A resignation whose term is not over yet.
    due: Option<Duration>,
    until: Moment,
}

impl Cooldown {
    /// The cooldown of an elector that has not resigned.
    pub const fn new(now: Moment) -> Self {
        Self { began_at: now, in_a_row: 0, due: None, until: now }
    }

    /// A term has begun.
    pub const fn term_began(&mut self, now: Moment) {
        self.began_at = now;
        self.due = None;
    }

    /// Records that the term is resigned. Returns how long the elector will stand aside after it; `None` if the term
    /// was already resigned.
    pub fn resign(&mut self, now: Moment) -> Option<Duration> {
        if self.due.is_some() {
            return None;
        }
        if now.since(self.began_at) > length(self.in_a_row) {
            self.in_a_row = 0;
        }
        self.due = Some(length(self.in_a_row));
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.due
    }

    /// Whether the running term is resigned.
    pub const fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Starts the cooldown after a resigned term, however the term ended.
    pub fn term_over(&mut self, now: Moment) {
        if let Some(cooldown) = self.due.take() {
            self.until = now.after(cooldown);
        }
    }

    /// When the elector campaigns again.
    pub const fn until(&self) -> Moment {
        self.until
    }
}

fn length(in_a_row: u32) -> Duration {
    doubled(SHORTEST, in_a_row, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn each_resignation_doubles_the_cooldown_up_to_five_minutes() {
        let mut cooldown = Cooldown::new(at(0));
        let mut lengths = Vec::new();
        for _ in 0..70 {
            cooldown.term_began(at(0));
            lengths.extend(cooldown.resign(at(1)));
            assert_eq!(cooldown.resign(at(1)), None, "a term is resigned once");
            cooldown.term_over(at(1));
        }
        let seconds: Vec<u64> = lengths.iter().map(Duration::as_secs).take(8).collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!((lengths.len(), lengths.last()), (70, Some(&LONGEST)));
        assert_eq!(cooldown.until(), at(301));
    }

    #[test]
    fn a_term_longer_than_the_next_cooldown_resets_the_count() {
        let mut cooldown = Cooldown::new(at(0));
        for (lasted, expected) in [(1, 5), (1, 10), (20, 20), (41, 5)] {
            cooldown.term_began(at(100));
            assert_eq!(cooldown.resign(at(100 + lasted)), Some(Duration::from_secs(expected)));
            cooldown.term_over(at(100 + lasted));
        }
    }
}
