//! A write of a Lease as a value: the new content, and the version on which the write is conditional.

use super::{History, LeaseActs, LeaseRecord, NativeFields, Pin, SessionMark, Transfer, WireTime};
use crate::assist::AssistOptions;

/// The change of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Set<T> {
    /// The field keeps its value.
    #[default]
    Keep,
    /// The field gets this value.
    To(T),
    /// The field is removed.
    Remove,
}

/// The purpose of a write of a Lease. Every write has one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The controller names the electee of a free Lease.
    Grant,
    /// The controller asks a live holder to hand over, or withdraws that request; or an elector with a higher key asks.
    Prefer,
    /// The controller records why the Lease has no holder, or which strategy it waits for.
    Hold,
    /// Adds the label, without which the controller's watch does not show the Lease, or a strategy that the Lease
    /// lacks.
    Enrol,
    /// Begins, ends or removes an act of an administrator.
    Act,
    /// An elector begins its term on a grant.
    TakeUp,
    /// An elector begins its term on a free Lease.
    Claim,
    /// The holder renews.
    Renew,
    /// The holder names the preferred holder as its successor.
    HandOver,
    /// The holder gives the Lease up without a successor, or the controller does for a dead holder that knows nothing of
    /// Hustings.
    Release,
}

/// One conditional write. Fields that are `Keep` are not sent, so the write keeps the labels and fields of other
/// writers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// The purpose.
    pub purpose: Purpose,
    /// The version on which the write is conditional. There is no unconditional write.
    pub resource_version: u64,
    /// The strategy in that version. Native copies of some fields depend on it.
    pub former_strategy: Option<String>,
    /// Whether that version has no holder. On the server, its holder may be null.
    pub was_empty: bool,
    /// `spec.holderIdentity`; `Remove` writes the empty string, never null.
    pub holder: Set<String>,
    /// `spec.leaseDurationSeconds`.
    pub duration_seconds: Set<u32>,
    /// `spec.acquireTime`.
    pub acquire_time: Set<WireTime>,
    /// `spec.renewTime`.
    pub renew_time: Set<WireTime>,
    /// `spec.leaseTransitions`.
    pub transitions: Set<u32>,
    /// Annotation `hustings.io/session`.
    pub session: Set<SessionMark>,
    /// Annotation `hustings.io/token`.
    pub token: Set<u64>,
    /// Annotation `hustings.io/preferred-holder` and its native copy.
    pub preferred_holder: Set<String>,
    /// Annotation `hustings.io/strategy` and its native copy.
    pub strategy: Set<String>,
    /// Annotation `hustings.io/hold`.
    pub hold: Set<String>,
    /// Annotation `hustings.io/hold-until`.
    pub hold_until: Set<WireTime>,
    /// Annotation `hustings.io/transfer`.
    pub transfer: Set<Transfer>,
    /// Annotation `hustings.io/pin`.
    pub pin: Set<Pin>,
    /// Annotation `hustings.io/assist`.
    pub assist: Set<AssistOptions>,
    /// Annotation `hustings.io/asked-by`.
    pub asked_by: Set<String>,
    /// Annotation `hustings.io/key`.
    pub key: Set<i64>,
    /// Annotation `hustings.io/leaving`, which is set to `"true"` or removed.
    pub leaving: Set<()>,
    /// Annotation `hustings.io/reason`: one sentence for a person.
    pub reason: Set<String>,
    /// Annotation `hustings.io/history`, which is removed if it is empty.
    pub history: Set<History>,
    /// Label `hustings.io/enrolled`, which is set to `"true"` or removed.
    pub enrol: Set<()>,
}

impl<T> Set<T> {
    /// Removes the field if it `exists`.
    pub const fn remove_if(exists: bool) -> Self {
        if exists { Self::Remove } else { Self::Keep }
    }

    /// The field after this change, if it was `current` before.
    pub fn applied_to<Field: Clone + From<T>>(&self, current: Option<&Field>) -> Option<Field>
    where
        T: Clone,
    {
        match self {
            Self::Keep => current.cloned(),
            Self::To(value) => Some(value.clone().into()),
            Self::Remove => None,
        }
    }
}

impl LeaseWrite {
    /// A write with this purpose, conditional on the version of `record`, that changes nothing yet.
    pub fn new(purpose: Purpose, record: &LeaseRecord) -> Self {
        Self {
            purpose,
            resource_version: record.resource_version,
            former_strategy: record.strategy.clone(),
            was_empty: record.holder.is_none(),
            holder: Set::Keep,
            duration_seconds: Set::Keep,
            acquire_time: Set::Keep,
            renew_time: Set::Keep,
            transitions: Set::Keep,
            session: Set::Keep,
            token: Set::Keep,
            preferred_holder: Set::Keep,
            strategy: Set::Keep,
            hold: Set::Keep,
            hold_until: Set::Keep,
            transfer: Set::Keep,
            pin: Set::Keep,
            assist: Set::Keep,
            asked_by: Set::Keep,
            key: Set::Keep,
            leaving: Set::Keep,
            reason: Set::Keep,
            history: Set::Keep,
            enrol: if record.enrolled { Set::Keep } else { Set::To(()) },
        }
    }

    /// The record after this write has succeeded on `record`, with the version that it then has.
    #[must_use]
    pub fn applied_to(&self, record: &LeaseRecord, resource_version: u64) -> LeaseRecord {
        LeaseRecord {
            uid: record.uid.clone(),
            resource_version,
            holder: self.holder.applied_to(record.holder.as_ref()).filter(|holder| !holder.is_empty()),
            duration_seconds: self.duration_seconds.applied_to(Some(&record.duration_seconds)).unwrap_or(0),
            acquire_time: self.acquire_time.applied_to(record.acquire_time.as_ref()),
            renew_time: self.renew_time.applied_to(record.renew_time.as_ref()),
            transitions: self.transitions.applied_to(Some(&record.transitions)).unwrap_or(0),
            session: self.session.applied_to(Some(&record.session)).unwrap_or(SessionMark::Absent),
            unparsed: record.unparsed,
            token: self.token.applied_to(record.token.as_ref()),
            preferred_holder: self.preferred_holder.applied_to(record.preferred_holder.as_ref()),
            strategy: self.strategy.applied_to(record.strategy.as_ref()),
            hold: self.hold.applied_to(record.hold.as_ref()),
            acts: LeaseActs {
                hold_until: self.hold_until.applied_to(record.acts.hold_until.as_ref()),
                transfer: self.transfer.applied_to(record.acts.transfer.as_ref()),
                pin: self.pin.applied_to(record.acts.pin.as_ref()),
                assist: self.assist.applied_to(record.acts.assist.as_ref()),
                leader_label: record.acts.leader_label.clone(),
                asked_by: self.asked_by.applied_to(record.acts.asked_by.as_ref()),
            },
            key: self.key.applied_to(record.key.as_ref()),
            leaving: self.leaving.applied_to(record.leaving.then_some(&())).is_some(),
            history: self.history.applied_to(Some(&record.history)).unwrap_or_default(),
            enrolled: self.enrol.applied_to(record.enrolled.then_some(&())).is_some(),
            native: record.native.clone(),
        }
    }

    /// The native fields after this write has succeeded on `record`, on a server that keeps them.
    pub fn native_fields_after(&self, record: &LeaseRecord) -> NativeFields {
        NativeFields {
            strategy: self.strategy.applied_to(record.native.strategy.as_ref()),
            preferred_holder: self.preferred_holder.applied_to(record.native.preferred_holder.as_ref()),
        }
    }

    /// Whether `answer`, the server's answer to this write, shows the native fields that the write set; `None` if it
    /// set none. A Lease without a strategy has no native preferred holder.
    ///
    /// The preferred holder counts first: a server that drops both fields keeps a strategy that was there before.
    pub fn native_fields_kept_in(&self, answer: &LeaseRecord) -> Option<bool> {
        match (&self.strategy, &self.preferred_holder) {
            (_, Set::To(preferred)) if answer.strategy.is_some() => {
                Some(answer.native.preferred_holder.as_ref() == Some(preferred))
            }
            (Set::To(strategy), _) => Some(answer.native.strategy.as_ref() == Some(strategy)),
            _ => None,
        }
    }

    /// Whether `answer`, the server's answer to this write, shows the fields that the next write depends on. An
    /// admission policy may have changed them.
    pub fn is_kept_in(&self, answer: &LeaseRecord) -> bool {
        let written = self.applied_to(answer, answer.resource_version);
        written.holder == answer.holder
            && written.duration_seconds == answer.duration_seconds
            && written.renew_time == answer.renew_time
            && written.session == answer.session
            && written.preferred_holder == answer.preferred_holder
    }
}

impl Purpose {
    /// The purpose as a metric label or a log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Prefer => "prefer",
            Self::Hold => "hold",
            Self::Enrol => "enrol",
            Self::Act => "act",
            Self::TakeUp => "take-up",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::HandOver => "hand-over",
            Self::Release => "release",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> LeaseRecord {
        LeaseRecord {
            duration_seconds: 15,
            transitions: 3,
            preferred_holder: Some("b".to_owned()),
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn a_removed_field_reads_as_if_it_had_never_been_set() {
        let write = LeaseWrite {
            holder: Set::To(String::new()),
            duration_seconds: Set::Remove,
            transitions: Set::Remove,
            preferred_holder: Set::Remove,
            ..LeaseWrite::new(Purpose::Act, &record())
        };
        assert_eq!(
            write.applied_to(&record(), 7),
            LeaseRecord { resource_version: 7, enrolled: true, ..Default::default() }
        );
    }

    #[test]
    fn a_lease_without_a_strategy_keeps_no_native_preferred_holder() {
        let preferred =
            LeaseWrite { preferred_holder: Set::To("a".to_owned()), ..LeaseWrite::new(Purpose::Prefer, &record()) };
        let native = NativeFields { preferred_holder: Some("a".to_owned()), ..NativeFields::default() };
        let with_strategy = LeaseRecord { strategy: Some("s".to_owned()), ..record() };
        for (answer, is_kept) in [
            (record(), None),
            (with_strategy.clone(), Some(false)),
            (LeaseRecord { native, ..with_strategy }, Some(true)),
        ] {
            assert_eq!(preferred.native_fields_kept_in(&answer), is_kept);
        }
    }

    #[test]
    fn an_answer_keeps_a_write_if_it_shows_each_field_that_the_next_write_depends_on() {
        let write = LeaseWrite {
            holder: Set::To("a".to_owned()),
            duration_seconds: Set::To(20),
            renew_time: Set::To(WireTime::from_micros(1)),
            session: Set::To(SessionMark::Open),
            preferred_holder: Set::Remove,
            ..LeaseWrite::new(Purpose::Grant, &record())
        };
        let kept = write.applied_to(&record(), 7);
        assert!(write.is_kept_in(&LeaseRecord { hold: Some("x".to_owned()), ..kept.clone() }));
        let former = record();
        for (answer, lost) in [
            (LeaseRecord { holder: former.holder, ..kept.clone() }, "holder"),
            (LeaseRecord { duration_seconds: former.duration_seconds, ..kept.clone() }, "duration"),
            (LeaseRecord { renew_time: former.renew_time, ..kept.clone() }, "renew time"),
            (LeaseRecord { session: former.session, ..kept.clone() }, "session"),
            (LeaseRecord { preferred_holder: former.preferred_holder, ..kept }, "preferred holder"),
        ] {
            assert!(!write.is_kept_in(&answer), "{lost}");
        }
    }
}
