//! Writes that another client reverts, such as a tool that restores a manifest, or a second controller.
//!
//! The answer shows such a write, but soon afterwards the same write of the same field is needed again. The first
//! repetition is immediate, since a person may have reverted the write once. Each further one waits twice as long as the
//! one before. A write is settled once it has lasted for a minute, and for as long as the pause before it.

use std::time::Duration;

use super::{Config, NoEffect, Write};
use crate::election::backoff::Backoff;
use crate::election::fingerprint::Fingerprint;
use crate::model::{LeaseRecord, LeaseWrite, Moment, Purpose};

/// A warning names a revert from the second repetition on.
const REPORTED_FROM: u32 = 2;

/// The part of a write that other decisions rely on, and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) struct Part {
    pub(in crate::election) name: &'static str,
    pub(in crate::election) value: Fingerprint,
}

/// The recent writes of one object that an answer showed: for each field, the newest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::election) struct RevertedWrites(Vec<RecentWrite>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RecentWrite {
    write: Write,
    part: Part,
    at: Moment,
    backoff: Backoff,
    is_reported: bool,
}

impl Part {
    /// The name of [the label](Self::label).
    pub(super) const LABEL: &str = "label hustings.io/enrolled";

    /// The label, which every write of a Lease without the label adds.
    pub(in crate::election) fn label() -> Self {
        Self::new(Self::LABEL, &())
    }

    /// The Lease itself.
    pub(in crate::election) fn lease() -> Self {
        Self::new("Lease", &())
    }

    pub(in crate::election) fn new(name: &'static str, value: &impl std::hash::Hash) -> Self {
        Self { name, value: Fingerprint::of(value) }
    }

    /// The parts of this write that change the Lease `record`, apart from the label.
    pub(in crate::election) fn of(write: &LeaseWrite, record: &LeaseRecord) -> Vec<Self> {
        let written = write.applied_to(record, record.resource_version);
        let part = |name, is_changed: bool, value| is_changed.then_some(Self { name, value });
        let holder = Fingerprint::of(&written.holder);
        let holder = part("field spec.holderIdentity", written.holder != record.holder, holder);
        let preferred = Fingerprint::of(&written.preferred_holder);
        let changes_preferred = written.preferred_holder != record.preferred_holder;
        let preferred = part("annotation hustings.io/preferred-holder", changes_preferred, preferred);
        let session = Fingerprint::of(&written.session);
        let session = part("annotation hustings.io/session", written.session != record.session, session);
        let strategy = Fingerprint::of(&written.strategy);
        let strategy = part("annotation hustings.io/strategy", written.strategy != record.strategy, strategy);
        let hold = Fingerprint::of(&(&written.hold, &record.hold));
        let hold = part("annotation hustings.io/hold", written.hold != record.hold, hold);
        // An administrator may ask for one act after the other. Only the removal of the same act is the same write.
        let transfer = Fingerprint::of(&record.acts.transfer);
        let changes_transfer = written.acts.transfer != record.acts.transfer;
        let transfer = part("annotation hustings.io/transfer", changes_transfer, transfer);
        let pin = Fingerprint::of(&record.acts.pin);
        let pin = part("annotation hustings.io/pin", written.acts.pin != record.acts.pin, pin);
        let parts = match write.purpose {
            Purpose::Prefer => [preferred, None, None],
            Purpose::Hold => [hold, strategy, None],
            Purpose::Enrol => [strategy, session, None],
            Purpose::Act => [transfer, hold, pin],
            // Of these, a controller makes only grants and releases.
            Purpose::Grant
            | Purpose::TakeUp
            | Purpose::Claim
            | Purpose::Renew
            | Purpose::HandOver
            | Purpose::Release => [holder, None, None],
        };
        parts.into_iter().flatten().collect()
    }
}

impl RevertedWrites {
    /// The end of the pause before one of `parts` is written again; `None` if there is no pause.
    pub(in crate::election) fn until(&self, write: Write, parts: &[Part], now: Moment) -> Option<Moment> {
        let paused = self.0.iter().filter(|recent| recent.write == write && parts.contains(&recent.part));
        paused.filter_map(|recent| recent.backoff.until(now)).max()
    }

    /// Records that an answer shows these parts of a write.
    pub(super) fn note(&mut self, write: Write, parts: Vec<Part>, now: Moment, config: &Config) {
        self.forget_settled(now, config);
        for part in parts {
            let is_same_field = |recent: &&mut RecentWrite| recent.write == write && recent.part.name == part.name;
            match self.0.iter_mut().find(is_same_field) {
                Some(recent) if recent.part == part => {
                    recent.at = now;
                    recent.backoff.fail_up_to(longest_pause(write, config), now, config);
                }
                // The former value was replaced by this one, and not by another client.
                Some(recent) => *recent = RecentWrite::new(write, part, now),
                None => self.0.push(RecentWrite::new(write, part, now)),
            }
        }
    }

    /// Records that a version no longer shows this part of a write, although nothing else has replaced the write.
    pub(in crate::election) fn note_revert(&mut self, write: Write, part: Part, now: Moment, config: &Config) {
        self.note(write, vec![part], now, config);
    }

    pub(in crate::election) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets these writes, because what they were for has happened.
    pub(super) fn forget(&mut self, write: Write) {
        self.0.retain(|recent| recent.write != write);
    }

    /// Forgets the writes that have lasted.
    pub(in crate::election) fn forget_settled(&mut self, now: Moment, config: &Config) {
        let least = config.settled_after;
        self.0.retain(|recent| now < recent.at.after(least) || !recent.backoff.is_settled(least, now));
    }

    /// Returns the reverted writes that were not reported yet. They count as reported from now on.
    pub(super) fn report(&mut self) -> impl Iterator<Item = (Write, NoEffect)> {
        let unreported =
            |recent: &mut RecentWrite| recent.is_reverted() && !std::mem::replace(&mut recent.is_reported, true);
        self.0.iter_mut().filter_map(move |recent| unreported(recent).then(|| recent.described()))
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = (Write, NoEffect)> {
        self.0.iter().filter(|recent| recent.is_reverted()).map(RecentWrite::described)
    }
}

impl RecentWrite {
    fn new(write: Write, part: Part, at: Moment) -> Self {
        Self { write, part, at, backoff: Backoff::default(), is_reported: false }
    }

    const fn is_reverted(&self) -> bool {
        self.backoff.failures() >= REPORTED_FROM
    }

    const fn described(&self) -> (Write, NoEffect) {
        (self.write, NoEffect::Reverted(self.part.name))
    }
}

/// The longest pause. Without a creation, a grant or a ping nobody leads. For every other write, the present state of the
/// object does no more harm after half an hour than after half a minute.
const fn longest_pause(write: Write, config: &Config) -> Duration {
    match write {
        Write::Create | Write::Grant | Write::Ping => config.ineffective_pause,
        Write::Enrol | Write::Prefer | Write::Hold | Write::Act | Write::Status | Write::Delete => config.validity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Moment {
        Moment::from_micros(millis * 1_000)
    }

    #[test]
    fn only_the_same_value_soon_after_counts_as_reverted() {
        let (config, label) = (Config::default(), || vec![Part::label()]);
        let mut writes = RevertedWrites::default();
        let pause = |writes: &RevertedWrites, part: &[Part], now| {
            Some(writes.until(Write::Enrol, part, at(now))?.since(at(now)).as_millis())
        };
        writes.note(Write::Enrol, label(), at(0), &config);
        assert_eq!(pause(&writes, &label(), 0), None);
        writes.note(Write::Enrol, vec![Part::new("x", &1)], at(1), &config);
        writes.note(Write::Enrol, vec![Part::new("x", &2)], at(2), &config);
        assert_eq!(writes.writes().count(), 0, "these are different values");
        writes.note(Write::Enrol, vec![Part::new("x", &1)], at(3), &config);
        assert_eq!(pause(&writes, &[Part::new("x", &1)], 3), None, "this write itself replaced it");
        writes.note(Write::Enrol, label(), at(10), &config);
        assert_eq!((pause(&writes, &label(), 10), writes.report().count()), (Some(500), 0), "perhaps a person");
        writes.note(Write::Enrol, label(), at(600), &config);
        assert_eq!((pause(&writes, &label(), 600), writes.report().count()), (Some(1_000), 1));
        assert_eq!((writes.report().count(), writes.writes().count()), (0, 1));
        writes.note(Write::Enrol, label(), at(61_599), &config);
        assert_eq!(pause(&writes, &label(), 61_599), Some(2_000), "it lasted for less than a minute after the pause");
        writes.note(Write::Enrol, label(), at(123_599), &config);
        assert_eq!((pause(&writes, &label(), 123_599), writes.writes().count()), (None, 0));
    }
}
