//! The paths of the product that a world has taken, as shown by the versions of its Leases and candidates.

use hustings_core::model::{CandidateState, Condition, Hold, LeaseRecord, RecordedStatus, SessionMark, SessionStamp};

use super::Mode;
use crate::checker::is_grant;

/// Every path that is counted.
pub const PATHS: [&str; 20] = [
    CREATED_AGAIN,
    GRANT_OF_FREE,
    GRANT_OF_EXPIRED,
    GRANT_AFTER_EVIDENCE,
    GRANT_IN_PLACE,
    TAKE_UP,
    REQUEST,
    HAND_OVER,
    ANNOUNCED_STOP,
    RELEASE,
    LATE_RELEASE,
    NAME_RESTORED,
    CLAIM,
    CLAIM_OF_OWN,
    RECLAIM,
    FALLBACK,
    HOLD,
    MISSED_TAKE_UP,
    DAMPING,
    UNRESPONSIVE,
];

pub(super) const CREATED_AGAIN: &str = "creation of a Lease that was deleted";
const GRANT_OF_FREE: &str = "grant of a free Lease";
const GRANT_OF_EXPIRED: &str = "grant of an expired Lease";
pub(super) const GRANT_AFTER_EVIDENCE: &str = "grant after evidence of the holder's death";
const GRANT_IN_PLACE: &str = "grant in place of one that was left unused";
const TAKE_UP: &str = "take-up";
const REQUEST: &str = "request to hand over";
const HAND_OVER: &str = "hand-over";
const ANNOUNCED_STOP: &str = "announcement of a stop";
const RELEASE: &str = "release";
pub(super) const LATE_RELEASE: &str = "late release by a foreign elector";
const NAME_RESTORED: &str = "name written back after a late release";
const CLAIM: &str = "claim of a free Lease";
const CLAIM_OF_OWN: &str = "claim of what the same process held";
const RECLAIM: &str = "reclaim by a restarted container";
const FALLBACK: &str = "claim without a controller";
const HOLD: &str = "hold";
const MISSED_TAKE_UP: &str = "missed take-up";
const DAMPING: &str = "damping";
const UNRESPONSIVE: &str = "candidate called Unresponsive";

/// The path that a version of a Lease shows, given the version `former` that it replaces.
pub(super) fn of_lease(former: &LeaseRecord, record: &LeaseRecord, mode: Mode) -> Option<&'static str> {
    let is_held = |record: &LeaseRecord| matches!(Hold::read(record.hold.as_deref()), Some(hold) if !is_pause(&hold));
    match (former.session.stamp(), record.session.stamp()) {
        (before, now) if before == now && before.is_some() && former.has_release_form() && record.holder.is_some() => {
            Some(NAME_RESTORED)
        }
        (before, Some(now)) if before != Some(now) => Some(beginning(former, now, mode)),
        (Some(_), None) if is_grant(record) && record.holder == former.preferred_holder => Some(HAND_OVER),
        (Some(_), None) if is_grant(record) => Some(GRANT_OF_EXPIRED),
        (Some(_), None) if record.is_given_up() => Some(RELEASE),
        _ if is_grant(record) && is_grant(former) && record.transitions != former.transitions => Some(GRANT_IN_PLACE),
        _ if is_grant(record) && !is_grant(former) => Some(GRANT_OF_FREE),
        _ if record.preferred_holder.is_some() && record.preferred_holder != former.preferred_holder => Some(REQUEST),
        _ if record.leaving && !former.leaving => Some(ANNOUNCED_STOP),
        _ if is_held(record) && !is_held(former) => Some(HOLD),
        _ => None,
    }
}

/// How a term begins.
fn beginning(former: &LeaseRecord, now: &SessionStamp, mode: Mode) -> &'static str {
    let place = SessionStamp::place(&now.session);
    let is_of_place = |former: &SessionStamp| place.is_some() && SessionStamp::place(&former.session) == place;
    match (&former.session, mode) {
        (SessionMark::Open, _) if is_grant(former) => TAKE_UP,
        (SessionMark::Term(stamp), _) if stamp.session == now.session => CLAIM_OF_OWN,
        (SessionMark::Term(stamp), _) if is_of_place(stamp) => RECLAIM,
        (_, Mode::Coordinated | Mode::Alone) => FALLBACK,
        (_, Mode::Direct | Mode::Preferring) => CLAIM,
    }
}

/// The path that a status shows, given the status `former` that it replaces.
pub(super) fn of_status(former: &RecordedStatus, status: &RecordedStatus) -> Option<&'static str> {
    let is_missed = |status: &RecordedStatus| status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
    let is_damped = |status: &RecordedStatus| status.state == Some(CandidateState::Damped);
    let is_unresponsive = |status: &RecordedStatus| status.state == Some(CandidateState::Unresponsive);
    if is_missed(status) && !is_missed(former) {
        Some(MISSED_TAKE_UP)
    } else if is_damped(status) && !is_damped(former) {
        Some(DAMPING)
    } else if is_unresponsive(status) && !is_unresponsive(former) {
        Some(UNRESPONSIVE)
    } else {
        None
    }
}

fn is_pause(hold: &Hold) -> bool {
    matches!(hold, Hold::Pause(_))
}
