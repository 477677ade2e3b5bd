//! The acts of administrators in force on a Lease and on its candidates, including those without effect.

use hustings_client::api::{names, pin_text};
use hustings_core::election::{Event, TransferRefusal};
use hustings_core::model::{Annotation, Hold, LeaseRecord, Pod, PodLabel, Transfer};

use super::assisted;
use super::prospect::is_without_controller;
use super::situation::{HolderKind, Situation};

pub(super) fn sentences(situation: &Situation<'_>) -> Vec<String> {
    let wall = situation.wall();
    let mut sentences = Vec::new();
    if let Some(record) = situation.record() {
        sentences.extend(pause(situation, record));
        sentences.extend(transfer(situation, record));
        sentences.extend(pin(situation, record));
        sentences.extend(assisted::act(situation));
        let asked_by = situation.row.asked_by.as_ref().filter(|_| !sentences.is_empty());
        sentences.extend(asked_by.map(|name| format!("The newest of them was requested by {name}.")));
        sentences.extend(record.acts.leader_label.as_deref().map(|label| leader_label(situation, label)));
    }
    for candidate in &situation.scene.candidates {
        let name = &candidate.record.name;
        match &candidate.record.acts.exclude {
            None => {}
            Some(Annotation::Valid(exclusion)) if candidate.record.acts.exclusion(wall).is_none() => {
                sentences.push(format!("The exclusion of {name} has ended: it lasted until {}.", exclusion.until));
            }
            Some(Annotation::Valid(exclusion)) => {
                let by = candidate.record.acts.asked_by.as_ref();
                let by = by.map_or_else(String::new, |by| format!(" (asked by {by})"));
                sentences.push(format!("{name} is excluded until {exclusion}{by}."));
            }
            Some(Annotation::Malformed(malformed)) => sentences.push(format!("{name}: {malformed}")),
        }
    }
    sentences
}

fn pause(situation: &Situation<'_>, record: &LeaseRecord) -> Vec<String> {
    let mut sentences = Vec::new();
    match Hold::read(record.hold.as_deref()) {
        Some(Hold::Pause(text)) => sentences.push(match record.pause_until() {
            Some(until) if !record.pause_has_ended(situation.wall()) => {
                format!("Elections are paused until {until}: {text}. The holder keeps leading.")
            }
            Some(until) if is_without_controller(situation) => format!(
                "The pause should have ended at {until}: {text}. Only a controller removes it. Until one runs, the \
                 candidates keep to it: end it with `hustings resume`."
            ),
            Some(until) => {
                format!("A pause ended at {until}: {text}. The controller removes it with its next decision.")
            }
            None => format!("Elections are paused until `hustings resume`: {text}. The holder keeps leading."),
        }),
        Some(Hold::Disagreement | Hold::ThirdPartyStrategy(_)) | None => {}
    }
    sentences.extend(record.acts.hold_until.as_ref().and_then(Annotation::malformed).map(ToString::to_string));
    sentences
}

fn transfer(situation: &Situation<'_>, record: &LeaseRecord) -> Option<String> {
    let to = record.acts.transfer.as_ref()?;
    let refused = situation.present.events.iter().find(|event| matches!(event, Event::TransferRefused { .. }));
    if let (None, HolderKind::Foreign, Some(holder)) = (refused, situation.leadership, situation.holder()) {
        let why = TransferRefusal::ForeignHolder(holder.into());
        return Some(format!("A transfer waits until the Lease is free: {why}"));
    }
    Some(match (refused, to) {
        (Some(refused), _) => format!("{refused} The controller removes the transfer."),
        (None, Transfer::Any) => {
            "A transfer is in force: the holder hands over to the best other candidate, once.".to_owned()
        }
        (None, Transfer::To(name)) => format!(
            "A transfer to {name} is in force: the holder hands over to it, once, after it has answered a ping."
        ),
    })
}

fn pin(situation: &Situation<'_>, record: &LeaseRecord) -> Option<String> {
    let is_candidate = |name: &str| situation.row.candidates.iter().any(|candidate| candidate.name == name);
    Some(match record.acts.pin.as_ref()? {
        Annotation::Malformed(malformed) => malformed.to_string(),
        Annotation::Valid(pin) if record.pin_has_ended(situation.wall()) => {
            format!("A pin has ended: {}. The controller removes it with its next decision.", pin_text(pin))
        }
        Annotation::Valid(pin) if !is_candidate(&pin.candidate) => {
            format!("A pin has no effect, because the Lease has no candidate {}: {}.", pin.candidate, pin_text(pin))
        }
        Annotation::Valid(pin) => format!("{} ranks first until {}, while it lives.", pin.candidate, pin.until),
    })
}

fn leader_label(situation: &Situation<'_>, label: &Annotation<PodLabel>) -> String {
    if let Annotation::Malformed(malformed) = label {
        return malformed.to_string();
    }
    let Some(label) = situation.election.leader_label() else {
        return format!(
            "The annotation {} has no effect, because the Lease lacks the label {}: {:?}.",
            names::LEADER_LABEL,
            names::ENROLLED_LABEL,
            names::ENROLLED
        );
    };
    let keeps = format!("A controller with the chart's value leaderLabel.enabled keeps the label {label} on");
    match (situation.holder_pod(), situation.unread_pod()) {
        (Some(Pod { name, .. }), _) => format!(
            "{keeps} Pod {name} of the holder, so that a Service can lead there. `kubectl describe lease` shows what keeps \
             the label from there, if anything does."
        ),
        (None, Some(why)) => format!("{keeps} the Pod of the holder, which this command does not know: {why}."),
        (None, None) => {
            format!("{keeps} the Pod of the leader. Now no Pod has it: the Lease has no leader whose Pod is known.")
        }
    }
}
