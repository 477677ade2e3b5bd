//! The acts of administrators in force on a Lease and on its candidates, including those without effect.

use hustings_client::api::{names, pin_text, read_leader_label};
use hustings_core::model::{Annotation, Hold, LeaseRecord, PodLabel, Transfer, WireTime};

use super::assisted;
use super::situation::Situation;

pub(super) fn sentences(situation: &Situation<'_>) -> Vec<String> {
    let wall = situation.wall();
    let mut sentences = Vec::new();
    if let Some(record) = situation.record() {
        sentences.extend(pause(record, wall));
        sentences.extend(transfer(record));
        sentences.extend(pin(situation, record));
        sentences.extend(assisted::act(situation));
        sentences.extend(record.acts.leader_label.as_deref().map(leader_label));
        sentences
            .extend(record.acts.asked_by.as_ref().map(|name| format!("The newest of them was requested by {name}.")));
    }
    for candidate in &situation.scene.candidates {
        let name = &candidate.record.name;
        match &candidate.record.acts.exclude {
            None => {}
            Some(Annotation::Valid(exclusion)) if exclusion.until <= wall => {
                sentences.push(format!("The exclusion of {name} has ended: it lasted until {}.", exclusion.until));
            }
            Some(Annotation::Valid(exclusion)) => {
                let by = candidate.record.acts.asked_by.as_ref();
                let by = by.map_or_else(String::new, |by| format!(" (asked by {by})"));
                sentences.push(format!("{name} is excluded until {exclusion}{by}."));
            }
            Some(Annotation::Malformed(text)) => {
                sentences.push(malformed(names::EXCLUDE, text, &format!(" on the candidate {name}")));
            }
        }
    }
    sentences
}

fn pause(record: &LeaseRecord, wall: WireTime) -> Vec<String> {
    let mut sentences = Vec::new();
    match Hold::read(record.hold.as_deref()) {
        Some(Hold::Pause(text)) => sentences.push(match record.pause_until() {
            Some(until) if until <= wall => {
                format!("A pause ended at {until}: {text}. The controller removes it with its next decision.")
            }
            Some(until) => format!("Elections are paused until {until}: {text}. The holder keeps leading."),
            None => format!("Elections are paused until `hustings resume`: {text}. The holder keeps leading."),
        }),
        Some(Hold::Disagreement | Hold::ThirdPartyStrategy(_)) | None => {}
    }
    if let Some(text) = record.acts.hold_until.as_ref().and_then(Annotation::malformed) {
        sentences.push(malformed(names::HOLD_UNTIL, text, ""));
    }
    sentences
}

fn transfer(record: &LeaseRecord) -> Option<String> {
    Some(match record.acts.transfer.as_ref()? {
        Transfer::Any => "A transfer is in force: the holder hands over to the best other candidate, once.".to_owned(),
        Transfer::To(name) => {
            format!(
                "A transfer to {name} is in force: the holder hands over to it, once, after it has answered a ping."
            )
        }
    })
}

fn pin(situation: &Situation<'_>, record: &LeaseRecord) -> Option<String> {
    let is_candidate = |name: &str| situation.row.candidates.iter().any(|candidate| candidate.name == name);
    Some(match record.acts.pin.as_ref()? {
        Annotation::Malformed(text) => malformed(names::PIN, text, ""),
        Annotation::Valid(pin) if pin.until <= situation.wall() => {
            format!("A pin has ended: {}. The controller removes it with its next decision.", pin_text(pin))
        }
        Annotation::Valid(pin) if !is_candidate(&pin.candidate) => {
            format!("A pin has no effect, because the Lease has no candidate {}: {}.", pin.candidate, pin_text(pin))
        }
        Annotation::Valid(pin) => format!("{} ranks first until {}, while it lives.", pin.candidate, pin.until),
    })
}

fn leader_label(label: &Annotation<PodLabel>) -> String {
    let annotation = names::LEADER_LABEL;
    match label {
        Annotation::Malformed(text) => {
            let why = read_leader_label(text).err().unwrap_or_else(|| "it is too long".to_owned());
            format!(
                "The annotation {annotation} has no effect, because its text {text:?} is not a label for it: {why}."
            )
        }
        Annotation::Valid(label) => format!(
            "A controller with the chart's value leaderLabel.enabled keeps the label {label} on the Pod of the holder, so \
             that a Service can lead there. `kubectl describe lease` shows what keeps the label from there, if anything does."
        ),
    }
}

fn malformed(annotation: &str, text: &str, place: &str) -> String {
    format!("The annotation {annotation}{place} has no effect, because {text:?} does not parse.")
}
