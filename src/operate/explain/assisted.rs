//! What to say of an assisted Lease: its holder knows nothing of Hustings.

use hustings_client::api::names;
use hustings_core::election::release_of_assisted;

use super::prospect::{EvidenceUse, is_without_controller};
use super::situation::Situation;
use crate::operate::status::AssistanceState;

pub(super) fn who_holds(situation: &Situation<'_>) -> String {
    let release = release_of_assisted(situation.hold.as_ref());
    let assists =
        format!("It knows nothing of Hustings, as electors of client-go do. A controller assists it. {release}");
    match situation.assistance() {
        Some(found) if found.state == AssistanceState::Identified => format!("{assists} Now {}.", found.reason),
        Some(found) => format!("{assists} Now nothing could prove its death: {}.", found.reason),
        None => assists,
    }
}

/// What happens if the holder dies.
pub(super) fn death(situation: &Situation<'_>, uses: EvidenceUse, lasts: &str) -> Vec<String> {
    let expires = |why: &str| {
        vec![format!(
            "{why} Its Lease would expire {lasts} after the last renewal. Another replica of its own kind could then take it."
        )]
    };
    let Some(found) = situation.assistance() else { return expires("") };
    if found.state != AssistanceState::Identified {
        return expires("No controller could prove its death.");
    }
    if situation.hold.is_some() {
        return expires(release_of_assisted(situation.hold.as_ref()));
    }
    if is_without_controller(situation) {
        return expires("No controller runs here now.");
    }
    let condition = match uses {
        EvidenceUse::Off => {
            return expires("No controller here uses evidence, which is the chart's value evidence.pods.");
        }
        EvidenceUse::Unknown => "If a controller here uses evidence, it",
        EvidenceUse::On => "The controller",
    };
    vec![
        format!(
            "{condition} would release the Lease once the kubelet reports the end of the container, usually within a \
             second. The next attempt of another replica, or of a new process of the same Pod, would take it. With the \
             default timing of client-go, that is 2 to 4.4 s later."
        ),
        format!(
            "The loss of its node and the forced deletion of its Pod prove nothing. The Lease would then expire {lasts} \
             after the last renewal."
        ),
    ]
}

/// The annotation, and why it has no effect.
pub(super) fn act(situation: &Situation<'_>) -> Option<String> {
    let found = situation.row.assist.as_ref()?;
    Some(match found.state {
        AssistanceState::NoEffect => format!("The annotation {} has no effect: {}.", names::ASSIST, found.reason),
        _ => "Its holder is assisted.".to_owned(),
    })
}
