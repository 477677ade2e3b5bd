//! Writes that succeed without effect, because an admission policy drops them or another client reverts them.
//!
//! Immediate retries could continue forever. So the controller repeats such a write after a pause, and doubles the pause
//! each time. It reports the first such write of each kind.
//!
//! - Dropped: the answer to a write shows the object after the write, but not the write. Only an answer that shows the
//!   write resets the pause.
//! - [Reverted](reverted): the answer shows the write, but the same write is soon needed again.

mod reverted;

use std::collections::BTreeMap;
use std::time::Duration;

pub(super) use self::reverted::{Part, RevertedWrites};
use super::Config;
use super::backoff::Backoff;
use crate::model::{LeaseRecord, LeaseWrite, Moment, Purpose, Set};

/// A kind of write by a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Write {
    /// Creates the Lease.
    Create,
    /// Labels the Lease, and names its strategy.
    Enrol,
    /// Names the electee of a free Lease.
    Grant,
    /// Asks the holder to hand over, or withdraws the request.
    Prefer,
    /// Records why the Lease has no holder.
    Hold,
    /// Removes an act of an administrator from the Lease.
    Act,
    /// Pings a candidate.
    Ping,
    /// Records a candidate's status.
    Status,
    /// Deletes a candidate.
    Delete,
}

/// Why a write has no effect, and which part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoEffect {
    /// The answer to the write does not show this part.
    Dropped(&'static str),
    /// Another client reverts this part soon after each write.
    Reverted(&'static str),
}

/// The writes of one object that have no effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct IneffectiveWrites {
    /// The kinds of writes whose last answer did not show the write.
    dropped: BTreeMap<Write, DroppedWrite>,
    reverted: RevertedWrites,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct DroppedWrite {
    backoff: Backoff,
    /// The part that the last answer did not show.
    part: &'static str,
    is_reported: bool,
}

impl Write {
    /// The kind as a log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Enrol => "enrol",
            Self::Grant => "grant",
            Self::Prefer => "prefer",
            Self::Hold => "hold",
            Self::Act => "act",
            Self::Ping => "ping",
            Self::Status => "status",
            Self::Delete => "delete",
        }
    }

    /// The kind of a controller's write of a Lease.
    pub(super) const fn of(purpose: Purpose) -> Self {
        match purpose {
            Purpose::Prefer => Self::Prefer,
            Purpose::Hold => Self::Hold,
            Purpose::Enrol => Self::Enrol,
            Purpose::Act => Self::Act,
            // Of these, a controller makes only grants and releases, both of which change the holder.
            Purpose::Grant
            | Purpose::TakeUp
            | Purpose::Claim
            | Purpose::Renew
            | Purpose::HandOver
            | Purpose::Release => Self::Grant,
        }
    }

    /// The longest pause. It is short for the writes that an election waits for, so that the election soon continues
    /// once its writes have an effect again.
    fn longest_pause(self, config: &Config) -> Duration {
        match self {
            Self::Create | Self::Grant | Self::Prefer | Self::Hold | Self::Ping => config.ineffective_pause,
            Self::Enrol | Self::Act | Self::Status | Self::Delete => config.validity,
        }
    }
}

impl IneffectiveWrites {
    /// The end of the pause before these parts of `write` are written again; `None` if there is no pause.
    pub(super) fn until(&self, write: Write, parts: &[Part], now: Moment) -> Option<Moment> {
        let dropped = self.dropped.get(&write).and_then(|entry| entry.backoff.until(now));
        dropped.max(self.reverted.until(write, parts, now))
    }

    /// Records the answer to `write`. `lost` is the part that the answer does not show; `None` if it shows the write.
    pub(super) fn note(&mut self, write: Write, lost: Option<&'static str>, now: Moment, config: &Config) {
        let Some(part) = lost else {
            self.dropped.remove(&write);
            return;
        };
        let entry = self.dropped.entry(write).or_default();
        entry.part = part;
        entry.backoff.fail_up_to(write.longest_pause(config), now, config);
    }

    /// Like [`note`](Self::note). If the answer shows the write, the same write may soon be needed again.
    pub(super) fn note_parts(
        &mut self,
        write: Write,
        parts: Vec<Part>,
        lost: Option<&'static str>,
        now: Moment,
        config: &Config,
    ) {
        self.note(write, lost, now, config);
        if lost.is_none() {
            self.reverted.note(write, parts, now, config);
        }
    }

    /// Records that the answer shows a creation. Its deletion may already have been noted.
    pub(super) fn note_created(&mut self, now: Moment, config: &Config) {
        if !self.dropped.contains_key(&Write::Create) {
            self.reverted.note(Write::Create, vec![Part::lease()], now, config);
        }
    }

    /// Like [`note_parts`](Self::note_parts), for the answer to a write of the Lease.
    pub(super) fn note_lease(
        &mut self,
        (write, mut parts): (&LeaseWrite, Vec<Part>),
        answer: &LeaseRecord,
        now: Moment,
        config: &Config,
    ) {
        // Every write of a Lease without the label adds the label. A lost label is no reason to repeat any other write.
        let label = (!answer.enrolled).then_some(Part::LABEL);
        let lost = lost(answer, write);
        match Write::of(write.purpose) {
            Write::Enrol => {
                if write.enrol == Set::To(()) {
                    parts.push(Part::label());
                }
                self.note_parts(Write::Enrol, parts, label.or(lost), now, config);
            }
            other => {
                if write.enrol == Set::To(()) {
                    self.note_parts(Write::Enrol, vec![Part::label()], label, now, config);
                }
                self.note_parts(other, parts, lost, now, config);
            }
        }
    }

    /// Records that a version no longer shows this part of a write.
    pub(super) fn note_revert(&mut self, write: Write, part: Part, now: Moment, config: &Config) {
        self.reverted.note_revert(write, part, now, config);
    }

    /// Records that a write of this kind has done what it was for. If it is needed again, that is no revert.
    pub(super) fn conclude(&mut self, write: Write) {
        self.reverted.forget(write);
    }

    /// Forgets each write that has lasted, and each dropped one whose pause ended at least as long ago as its longest
    /// pause lasts.
    pub(super) fn forget_unneeded(&mut self, now: Moment, config: &Config) {
        self.dropped.retain(|write, entry| !entry.backoff.is_over_for(write.longest_pause(config), now));
        self.reverted.forget_settled(now, config);
    }

    /// Returns the writes that were not reported yet. They count as reported from now on.
    pub(super) fn report(&mut self) -> impl Iterator<Item = (Write, NoEffect)> {
        let unreported = |entry: &mut DroppedWrite| !std::mem::replace(&mut entry.is_reported, true);
        let dropped = self.dropped.iter_mut();
        let dropped = dropped
            .filter_map(move |(write, entry)| unreported(entry).then_some((*write, NoEffect::Dropped(entry.part))));
        dropped.chain(self.reverted.report())
    }

    /// All writes without effect.
    pub(super) fn writes(&self) -> impl Iterator<Item = (Write, NoEffect)> {
        let dropped = self.dropped.iter().map(|(write, entry)| (*write, NoEffect::Dropped(entry.part)));
        dropped.chain(self.reverted.writes())
    }
}

/// The first part of a write that decisions depend on and that its answer does not show. Other parts do not count: a
/// policy that changes only a duration, for example, is no reason to repeat the write.
fn lost(answer: &LeaseRecord, write: &LeaseWrite) -> Option<&'static str> {
    let reads_hold = matches!(write.purpose, Purpose::Hold | Purpose::Enrol | Purpose::Act);
    let written = write.applied_to(answer, answer.resource_version);
    let lost = [
        ("field spec.holderIdentity", written.holder != answer.holder),
        ("annotation hustings.io/preferred-holder", written.preferred_holder != answer.preferred_holder),
        ("annotation hustings.io/session", written.session != answer.session),
        ("annotation hustings.io/hold", reads_hold && written.hold != answer.hold),
        ("annotation hustings.io/transfer", written.acts.transfer != answer.acts.transfer),
        ("annotation hustings.io/strategy", reads_hold && written.strategy != answer.strategy),
    ];
    lost.into_iter().find_map(|(name, is_lost)| is_lost.then_some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SessionMark, Transfer};

    const LOST: Option<&str> = Some("it");

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_pauses_double_up_to_a_limit_until_an_answer_shows_the_write() {
        let (mut ineffective, config) = (IneffectiveWrites::default(), Config::default());
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            ineffective.note(Write::Grant, LOST, now, &config);
            let until = ineffective.until(Write::Grant, &[], now).unwrap();
            pauses.push(until.since(now).as_millis());
            now = until;
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(ineffective.until(Write::Prefer, &[], now), None, "each kind has pauses of its own");
        ineffective.note(Write::Grant, None, now, &config);
        ineffective.note(Write::Grant, LOST, now, &config);
        assert_eq!(ineffective.until(Write::Grant, &[], now).unwrap().since(now).as_millis(), 500);
    }

    #[test]
    fn a_write_is_reported_once_until_it_has_an_effect_or_is_no_longer_needed() {
        let (mut ineffective, config) = (IneffectiveWrites::default(), Config::default());
        ineffective.note(Write::Ping, LOST, at(0), &config);
        assert_eq!(ineffective.report().collect::<Vec<_>>(), [(Write::Ping, NoEffect::Dropped("it"))]);
        ineffective.note(Write::Ping, LOST, at(1), &config);
        assert_eq!(ineffective.report().count(), 0);
        ineffective.forget_unneeded(at(31), &config);
        assert_eq!(ineffective.writes().count(), 1, "its pause ended 29 s ago");
        ineffective.forget_unneeded(at(32), &config);
        assert_eq!(ineffective.writes().count(), 0);
    }

    #[test]
    fn each_field_that_a_decision_reads_is_named_if_it_is_lost() {
        let record = LeaseRecord::as_created();
        let act = || LeaseWrite::new(Purpose::Act, &record);
        let text = || Set::To("x".to_owned());
        for (write, name) in [
            (LeaseWrite { preferred_holder: text(), ..act() }, "annotation hustings.io/preferred-holder"),
            (LeaseWrite { hold: text(), ..act() }, "annotation hustings.io/hold"),
            (LeaseWrite { transfer: Set::To(Transfer::Any), ..act() }, "annotation hustings.io/transfer"),
            (LeaseWrite { strategy: text(), ..act() }, "annotation hustings.io/strategy"),
        ] {
            assert_eq!(lost(&record, &write), Some(name));
            assert_eq!(lost(&write.applied_to(&record, 2), &write), None);
        }
        let config = Config::default();
        let long = [Write::Enrol, Write::Act, Write::Status, Write::Delete];
        let short = [Write::Create, Write::Grant, Write::Prefer, Write::Hold, Write::Ping];
        assert_eq!(long.map(|write| write.longest_pause(&config)), [config.validity; 4]);
        assert_eq!(short.map(|write| write.longest_pause(&config)), [config.ineffective_pause; 5]);
    }

    #[test]
    fn a_lost_label_counts_against_enrolling_and_against_no_other_write() {
        let (config, now) = (Config::default(), at(0));
        for enrolled in [false, true] {
            let record = LeaseRecord { enrolled, ..LeaseRecord::as_created() };
            let mut ineffective = IneffectiveWrites::default();
            if enrolled {
                ineffective.note(Write::Enrol, LOST, now, &config);
            }
            let write = LeaseWrite { holder: Set::To("a".to_owned()), ..LeaseWrite::new(Purpose::Grant, &record) };
            let answer = LeaseRecord { enrolled, ..write.applied_to(&record, 2) };
            ineffective.note_lease((&write, Part::of(&write, &record)), &answer, now, &config);
            let lost = if enrolled { "it" } else { "label hustings.io/enrolled" };
            assert_eq!(ineffective.writes().collect::<Vec<_>>(), [(Write::Enrol, NoEffect::Dropped(lost))]);
        }
    }

    #[test]
    fn a_policy_may_change_fields_that_no_decision_reads() {
        let record = LeaseRecord::as_created();
        let write = LeaseWrite {
            holder: Set::To("a".to_owned()),
            duration_seconds: Set::To(5),
            session: Set::To(SessionMark::Open),
            strategy: Set::To("x".to_owned()),
            hold: Set::Remove,
            ..LeaseWrite::new(Purpose::Grant, &record)
        };
        let granted = write.applied_to(&record, 2);
        let lost = |answer: LeaseRecord| lost(&answer, &write);
        assert_eq!(lost(LeaseRecord { duration_seconds: 30, strategy: None, ..granted.clone() }), None);
        assert_eq!(lost(LeaseRecord { hold: Some("disagreement".to_owned()), ..granted.clone() }), None);
        assert_eq!(lost(LeaseRecord { holder: None, ..granted.clone() }), Some("field spec.holderIdentity"));
        let unmarked = LeaseRecord { session: SessionMark::Absent, ..granted };
        assert_eq!(lost(unmarked), Some("annotation hustings.io/session"));
    }
}
