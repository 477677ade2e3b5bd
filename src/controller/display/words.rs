//! Words for the states and acts that the core has no sentences for.

use hustings_client::api::MicroTime;
use hustings_core::election::{Event, LeaseVerdict};
use hustings_core::model::{CandidateRecord, Hold, LeaseRecord, WireTime};

use super::timeline::Cause;
use crate::page::ActView;
use crate::terminal::visible;

/// The name of a Lease's state. `hustings status` uses the same names, where it can determine the state.
pub(super) const fn state(verdict: &LeaseVerdict) -> &'static str {
    match verdict {
        LeaseVerdict::Held { taken_up: false, .. } => "granted",
        other => other.as_str(),
    }
}

/// Why no candidate holds the Lease. Empty if one does, or if the reason is unknown.
pub(super) fn vacancy(verdict: &LeaseVerdict) -> String {
    match verdict {
        LeaseVerdict::Unheld { cause, .. } | LeaseVerdict::NoLiveCandidate { cause, .. } => {
            format!("No candidate leads: {}.", Cause::from(*cause))
        }
        LeaseVerdict::Foreign { .. } => {
            "The holder has no admissible candidate, so the controller leaves it alone.".to_owned()
        }
        LeaseVerdict::Reserved { .. } => "The Lease names no holder, but a process may still rely on it.".to_owned(),
        LeaseVerdict::OnHold { hold, .. } => visible(&Event::OnHold(hold.clone()).to_string()),
        LeaseVerdict::Held { .. } | LeaseVerdict::OutOfBounds | LeaseVerdict::Unread => String::new(),
    }
}

/// The acts of administrators that a Lease records and that are in force at `wall`.
pub(super) fn acts_on_lease(record: &LeaseRecord, wall: WireTime) -> impl Iterator<Item = ActView> {
    let asked_by = record.acts.asked_by.as_deref().map(visible);
    let pause = record.pause(wall).map(|pause| match pause {
        Hold::Pause(text) => ("pause", text, record.pause_until()),
        other => ("pause", other.to_string(), None),
    });
    let pin = record.pin(wall).map(|pin| ("pin", pin.candidate.clone(), Some(pin.until)));
    let transfer = record.acts.transfer.as_ref().map(|transfer| ("transfer", transfer.as_str().to_owned(), None));
    [pause, pin, transfer].into_iter().flatten().map(move |(act, text, until)| ActView {
        act,
        text: visible(&text),
        until: until.map(MicroTime),
        asked_by: asked_by.clone(),
    })
}

/// The exclusion of a candidate, if it is in force at `wall`.
pub(super) fn exclusion(record: &CandidateRecord, wall: WireTime) -> Option<ActView> {
    let exclusion = record.acts.exclusion(wall)?;
    let text = if exclusion.reason.is_empty() { String::new() } else { format!(": {}", exclusion.reason) };
    Some(ActView {
        act: "exclude",
        text: visible(&format!("{}{text}", record.name)),
        until: Some(MicroTime(exclusion.until)),
        asked_by: record.acts.asked_by.as_deref().map(visible),
    })
}
