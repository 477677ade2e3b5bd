//! What to say of an assisted Lease: its holder knows nothing of Hustings.

use hustings_client::api::names;

use super::prospect::{EvidenceUse, is_without_controller};
use super::situation::Situation;
use crate::operate::status::AssistanceState;

pub(super) fn who_holds(situation: &Situation<'_>) -> String {
    let assists = "It knows nothing of Hustings, as electors of client-go do. A controller assists it: once the holder is \
                   proven dead, the controller releases the Lease.";
    match situation.assistance() {
        Some(found) if found.state == AssistanceState::Identified => format!("{assists} Now {}.", found.reason),
        Some(found) => format!("{assists} Now nothing could prove its death: {}.", found.reason),
        None => assists.to_owned(),
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
        return expires("Elections are paused, so no controller releases the Lease.");
    }
    if is_without_controller(situation) {
        return expires("No controller runs here now.");
    }
    let condition = match uses {
        EvidenceUse::Off => {
            let of_pods = found.options.namespace_of_pods(&situation.scene.namespace);
            return expires(&format!(
                "No controller here uses evidence of Pods in namespace {of_pods}: see the chart's values evidence.pods and \
                 watchNamespaces."
            ));
        }
        EvidenceUse::If(condition) => format!("If {condition}, the controller"),
        EvidenceUse::On => "The controller".to_owned(),
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
        _ if !situation.row.candidates.is_empty() => {
            format!("Whether the annotation {} has an effect is unknown: {}.", names::ASSIST, found.reason)
        }
        _ => "Its holder is assisted.".to_owned(),
    })
}
