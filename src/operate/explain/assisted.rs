//! What to say of an assisted Lease: its holder knows nothing of Hustings.

use hustings_client::api::names;
use hustings_core::election::release_of_assisted;
use hustings_lab::client_go::{LONGEST_RETRY, RETRY_PERIOD};

use super::prospect::{EvidenceUse, is_without_controller};
use super::situation::Situation;
use super::words::duration;
use crate::operate::status::AssistanceState;
use crate::predict::client_go::{ASSISTED_CRASH_COSTS, REPORTED_WITHIN, crash_costs};

pub(super) fn who_holds(situation: &Situation<'_>) -> String {
    let release = release_of_assisted(situation.hold.as_ref());
    let assists =
        format!("It knows nothing of Hustings, as electors of client-go do. A controller assists it. {release}");
    match situation.assistance() {
        Some(found) if found.state == AssistanceState::Identified => format!("{assists} Now {}.", found.reason),
        Some(found) if found.state == AssistanceState::Unknown => {
            format!("{assists} Whether anything could prove its death now is unknown: {}.", found.reason)
        }
        Some(found) => format!("{assists} Now nothing could prove its death: {}.", found.reason),
        None => assists,
    }
}

/// What happens if the holder of an assisted Lease dies.
pub(super) fn death(situation: &Situation<'_>, uses: EvidenceUse) -> Vec<String> {
    let expires = |why: &str| vec![why.to_owned(), expiry(situation)];
    let found = match situation.assistance() {
        Some(found) if found.state == AssistanceState::Identified => found,
        Some(found) if found.state == AssistanceState::Unknown => {
            return expires("Whether a controller could prove its death is unknown. If none could:");
        }
        _ => return expires("No controller could prove its death."),
    };
    if situation.hold.is_some() {
        return expires(release_of_assisted(situation.hold.as_ref()));
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
            "{condition} would release the Lease once the kubelet reports the end of the container, usually within {}. The \
             next attempt of another replica, or of a new process of the same Pod, would take it. With the default timing \
             of client-go, each tries every {} to {}, so a crash usually costs about {}.",
            duration(REPORTED_WITHIN),
            duration(RETRY_PERIOD),
            duration(LONGEST_RETRY),
            duration(ASSISTED_CRASH_COSTS)
        ),
        format!(
            "The loss of its node and the forced deletion of its Pod prove nothing. The Lease would then expire {} after \
             the last renewal.",
            duration(situation.lease_lasts())
        ),
    ]
}

/// What happens if the holder dies, an elector of client-go or another one that Hustings knows nothing of, and its Lease
/// has to expire.
pub(super) fn expiry(situation: &Situation<'_>) -> String {
    let cost = situation.record().and_then(crash_costs).map_or_else(String::new, |cost| {
        format!(" With the default timing of client-go, a crash usually costs about {}.", duration(cost))
    });
    format!(
        "Its Lease would expire {} after the last renewal. Another replica of its own kind could then take it.{cost}",
        duration(situation.lease_lasts())
    )
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
