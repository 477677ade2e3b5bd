//! The controllers that elect in this namespace.

use hustings_core::elector::CONTROLLER_WAIT;
use hustings_core::model::CandidateKind;

use super::scene::{ControllerInstallation, Controllers};
use super::situation::{HolderKind, Situation};
use super::words::duration;

/// Who elects without a controller.
pub(super) fn without(situation: &Situation<'_>) -> String {
    if situation.is_native() {
        return "Without one that elects candidates of coordination.k8s.io (native.enabled), Kubernetes' own controller \
                elects these, if the feature gate CoordinatedLeaderElection is on."
            .to_owned();
    }
    let wait = duration(CONTROLLER_WAIT);
    format!(
        "Without a controller, the candidates elect among themselves: {wait} after the Lease has become free, the best \
         one claims it, and each further one half a second later."
    )
}

pub(super) fn sentences(situation: &Situation<'_>) -> Vec<String> {
    if matches!(situation.leadership, HolderKind::Direct | HolderKind::Unknown) {
        return Vec::new();
    }
    let mut sentences = match &situation.scene.controllers {
        Controllers::Unknown(reason) => vec![format!("Whether a controller runs is unknown: {reason}.")],
        Controllers::Found(found) if found.is_empty() => {
            let hidden = if may_be_hidden(situation) {
                ", but one has written the statuses of these candidates: one with --leader-elect=false, or under \
                 another Lease, is not visible here"
            } else {
                ""
            };
            vec![format!("No controller was found{hidden}. {}", without(situation))]
        }
        Controllers::Found(found) => found.iter().map(|controller| describe(situation, controller)).collect(),
    };
    let is_seen = has_status(situation) || situation.record().is_some_and(|record| record.strategy.is_some());
    if !is_seen && !situation.row.candidates.is_empty() {
        sentences.push("No controller has written anything on this Lease or on its candidates.".to_owned());
    }
    sentences
}

/// Whether a controller has written the status of a candidate.
fn has_status(situation: &Situation<'_>) -> bool {
    situation.row.candidates.iter().any(|candidate| candidate.state.is_some())
}

/// Whether a controller may run that was not found.
pub(super) fn may_be_hidden(situation: &Situation<'_>) -> bool {
    matches!(&situation.scene.controllers, Controllers::Found(found) if found.is_empty()) && has_status(situation)
}

fn describe(situation: &Situation<'_>, controller: &ControllerInstallation) -> String {
    let ControllerInstallation { place, available, leader, flags } = controller;
    let mut text = match (available, leader) {
        (Some((0, replicas)), Some(leader)) => {
            format!("{place}: 0 of {replicas} controllers are available, but {leader} elects.")
        }
        (Some((0, _)), None) => format!("{place}: none of its controllers is available. {}", without(situation)),
        (Some((available, replicas)), _) => format!("{place}: {available} of {replicas} controllers are available."),
        (None, _) => format!("{place}."),
    };
    if let Some(flags) = flags {
        if !flags.elects_here {
            text.push_str(" They do not elect in this namespace: --watch-namespaces names others.");
        }
        let has_natives =
            situation.scene.candidates.iter().any(|candidate| candidate.record.kind == CandidateKind::Native);
        if has_natives && !flags.elects_native {
            text.push_str(" They do not elect candidates of coordination.k8s.io: --native is off.");
        }
    }
    text
}
