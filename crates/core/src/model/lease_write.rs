//! A write of a Lease as a value: what shall stand in it, and on which version that is conditional.

use super::{LeaseRecord, SessionMark, WireTime};

/// What becomes of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Set<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is given this value.
    To(T),
    /// It is removed.
    Remove,
}

/// Why a Lease is written. Every write of every Lease has one of these purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The controller names the electee of a free Lease.
    Grant,
    /// The controller asks a live holder to hand over, or withdraws that; or an elector of a higher key asks.
    Prefer,
    /// The controller says why the Lease stays without a holder, or what strategy it waits for.
    Hold,
    /// The label, without which the controller's watch does not see the Lease, or the strategy that a Lease lacks.
    Enrol,
    /// An elector begins its term on a grant.
    TakeUp,
    /// An elector begins its term on a free Lease.
    Claim,
    /// The holder renews.
    Renew,
    /// The holder names the preferred holder as its successor.
    HandOver,
    /// The holder gives up without a successor.
    Release,
}

/// One conditional write. Fields that are `Keep` are not sent, so that nobody's else's labels or fields are lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseWrite {
    /// Why it is written.
    pub purpose: Purpose,
    /// The version on which the write is conditional. There is no unconditional write.
    pub resource_version: u64,
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
    /// Annotation `hustings.io/key`.
    pub key: Set<i64>,
    /// Annotation `hustings.io/leaving`, which is set to `"true"` or removed.
    pub leaving: Set<()>,
    /// Annotation `hustings.io/reason`: one sentence for the reader.
    pub reason: Set<String>,
    /// Whether the label `hustings.io/enrolled` is set.
    pub enrol: bool,
}

impl<T> Set<T> {
    /// Removes what stands, if anything does.
    pub const fn remove_if(stands: bool) -> Self {
        if stands { Self::Remove } else { Self::Keep }
    }
}

impl LeaseWrite {
    /// A write with this purpose, on the version that `record` has, which changes nothing yet.
    pub fn new(purpose: Purpose, record: &LeaseRecord) -> Self {
        Self {
            purpose,
            resource_version: record.resource_version,
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
            key: Set::Keep,
            leaving: Set::Keep,
            reason: Set::Keep,
            enrol: !record.enrolled,
        }
    }

    /// The record that stands when this write has succeeded on `record`, with the version that it then has.
    #[must_use]
    pub fn applied_to(&self, record: &LeaseRecord, resource_version: u64) -> LeaseRecord {
        LeaseRecord {
            uid: record.uid.clone(),
            resource_version,
            holder: optional(&self.holder, record.holder.as_ref()).filter(|holder| !holder.is_empty()),
            duration_seconds: optional(&self.duration_seconds, Some(&record.duration_seconds)).unwrap_or(0),
            acquire_time: optional(&self.acquire_time, record.acquire_time.as_ref()),
            renew_time: optional(&self.renew_time, record.renew_time.as_ref()),
            transitions: optional(&self.transitions, Some(&record.transitions)).unwrap_or(0),
            session: optional(&self.session, Some(&record.session)).unwrap_or(SessionMark::Absent),
            token: optional(&self.token, record.token.as_ref()),
            preferred_holder: optional(&self.preferred_holder, record.preferred_holder.as_ref()),
            strategy: optional(&self.strategy, record.strategy.as_ref()),
            hold: optional(&self.hold, record.hold.as_ref()),
            key: optional(&self.key, record.key.as_ref()),
            leaving: optional(&self.leaving, record.leaving.then_some(&())).is_some(),
            enrolled: record.enrolled || self.enrol,
        }
    }

    /// Whether `answer`, with which the server answered this write, shows what the next write rests on. An admission
    /// policy may have changed it on the way.
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
            Self::TakeUp => "take-up",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::HandOver => "hand-over",
            Self::Release => "release",
        }
    }
}

fn optional<T: Clone>(set: &Set<T>, current: Option<&T>) -> Option<T> {
    match set {
        Set::Keep => current.cloned(),
        Set::To(value) => Some(value.clone()),
        Set::Remove => None,
    }
}
