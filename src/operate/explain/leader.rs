//! Which candidate leads, since when, and why.

use std::time::Duration;

use hustings_core::model::CandidateKind;

use super::assisted;
use super::situation::{HolderKind, Situation};
use super::words::duration;
use crate::operate::status::LeaseState;
use crate::predict::order::place;

pub(super) fn sentences(situation: &Situation<'_>) -> Vec<String> {
    let mut sentences = vec![who_leads(situation)];
    sentences.extend(heartbeat(situation));
    sentences.extend(leaving(situation));
    if let Some(reason) = &situation.row.reason {
        sentences.push(format!("The last election, as the controller recorded it: {reason}"));
    }
    sentences.extend(rank(situation));
    sentences
}

fn who_leads(situation: &Situation<'_>) -> String {
    let row = &situation.row;
    let holder = row.holder.as_deref().unwrap_or_default();
    let (leads, holds) =
        (with_term(situation, "leads", "has led"), with_term(situation, "holds the Lease", "has held the Lease"));
    match situation.leadership {
        HolderKind::Candidate(CandidateKind::Hustings) => format!("{leads}."),
        HolderKind::Candidate(CandidateKind::Native) => format!(
            "{leads}. It is a candidate of coordination.k8s.io: a component of Kubernetes, or another \
             program that uses client-go."
        ),
        HolderKind::Granted => format!(
            "Nobody leads right now: the Lease was granted to {holder}, which has not taken it up yet. A grant is \
             only the right to take the Lease up."
        ),
        HolderKind::Foreign => format!(
            "{holds}, but it has no admissible candidate. It may be a replica that uses client-go \
             alone. The controller leaves it alone until it releases the Lease or the Lease expires."
        ),
        HolderKind::Direct => format!(
            "{leads}. Its replicas elect among themselves (direct mode), without candidates and without a \
             controller.{}",
            row.key.map_or_else(String::new, |key| format!(
                " Its preference key is {key}: a replica with a higher key asks it to hand over."
            ))
        ),
        HolderKind::Assisted => format!("{holds}. {}", assisted::who_holds(situation)),
        HolderKind::Unknown => format!(
            "{holds}. It has neither a candidate nor a token, so an elector of another kind holds \
             it, such as client-go. Hustings takes no part in this election."
        ),
        HolderKind::None => nobody_leads(situation),
    }
}

fn nobody_leads(situation: &Situation<'_>) -> String {
    let count = situation.row.candidates.len();
    match situation.row.state {
        LeaseState::Missing => format!(
            "Nobody leads: the Lease does not exist. It has {count} candidate{}. The controller creates it.",
            if count == 1 { "" } else { "s" }
        ),
        LeaseState::Expired => {
            format!("Nobody leads: the last holder, {}, stopped renewing.", situation.holder().unwrap_or_default())
        }
        LeaseState::NoCandidate => {
            "Nobody leads, and the controller found no candidate that is admissible and live.".to_owned()
        }
        LeaseState::Hold => {
            format!("Nobody leads, on purpose: {}.", situation.row.hold.as_deref().unwrap_or_default())
        }
        LeaseState::Unheld | LeaseState::Held | LeaseState::Granted if count == 0 => {
            "Nobody leads: the Lease has neither a holder nor a candidate.".to_owned()
        }
        LeaseState::Unheld | LeaseState::Held | LeaseState::Granted => {
            "Nobody leads: the Lease has no holder.".to_owned()
        }
    }
}

/// The holder, what it does, and its term. Uses `perfect` if the beginning is known, otherwise `present`.
fn with_term(situation: &Situation<'_>, present: &str, perfect: &str) -> String {
    let row = &situation.row;
    let holder = row.holder.as_deref().unwrap_or_default();
    let doing = match row.since {
        Some(since) => format!("{holder} {perfect} since {}, by its own clock", since.0),
        None => format!("{holder} {present}"),
    };
    match row.token {
        Some(token) => format!("{doing}: term {}, token {token}", row.term),
        None => doing,
    }
}

/// Whether the observer has seen the holder renew.
fn heartbeat(situation: &Situation<'_>) -> Option<String> {
    if matches!(situation.leadership, HolderKind::None | HolderKind::Granted) {
        return None;
    }
    let scene = situation.scene;
    let usual = situation.usual_interval();
    Some(if scene.has_renewed {
        "It renewed the Lease while this command watched, so it lives.".to_owned()
    } else if scene.watched_for == Duration::ZERO {
        "Whether it still renews is unknown: one read cannot show that.".to_owned()
    } else if scene.watched_for < usual {
        format!(
            "It has not renewed the Lease in the {} for which this command watched. It usually renews every {}.",
            duration(scene.watched_for),
            duration(usual)
        )
    } else {
        format!(
            "It has not renewed the Lease in the {} for which this command watched, although it usually renews every \
             {}: it may be dead or cut off.",
            duration(scene.watched_for),
            duration(usual)
        )
    })
}

fn leaving(situation: &Situation<'_>) -> Option<String> {
    let record = situation.record()?;
    if matches!(situation.leadership, HolderKind::None | HolderKind::Granted) {
        return None;
    }
    let leaving = record
        .leaving_holder()
        .map(|_| "It has announced that it is about to stop. It leads until it can hand over.".to_owned());
    let preferred = situation.row.preferred.as_ref().map(|preferred| {
        format!("It is asked to hand over to {preferred}, which it does as soon as its work has stopped.")
    });
    match (leaving, preferred) {
        (Some(leaving), Some(preferred)) => Some(format!("{leaving} {preferred}")),
        (leaving, preferred) => leaving.or(preferred),
    }
}

fn rank(situation: &Situation<'_>) -> Option<String> {
    let holder = situation.holding_candidate().filter(|_| situation.leadership != HolderKind::None)?;
    place(&holder.key(), &situation.election, situation.scene.now)
}
