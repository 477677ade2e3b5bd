//! Predicts what would happen if the holder died now; without a holder, what happens next. The prediction is the
//! controller's own decision.

use std::time::Duration;

use hustings_core::election::Event;
use hustings_core::model::{ContainerEnd, ContainerRecord, Hold, LeaseRecord, PodRecord};

use super::assisted;
use super::controllers::{may_be_hidden, without};
use super::explanation::Prospect;
use super::scene::{ControllerInstallation, Controllers, HolderPod, LeaseElectionFlags};
use super::situation::{HolderKind, Situation};
use super::words::{duration, list};
use crate::predict::forecast::{Forecast, HolderForecast};
use crate::predict::simulation::MOST_REPLICAS;
use crate::predict::simulation::crash::after_crash;

/// Whether the controllers accept the end of a container as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EvidenceUse {
    On,
    Off,
    /// If this is true.
    If(String),
}

pub(super) fn prospect(situation: &Situation<'_>) -> Prospect {
    let holder = situation.holder().unwrap_or_default();
    match situation.leadership {
        HolderKind::Unknown => Prospect {
            dead: Some(holder.to_owned()),
            sentences: vec![assisted::expiry(situation)],
            ..Prospect::default()
        },
        HolderKind::Assisted => Prospect {
            dead: Some(holder.to_owned()),
            sentences: assisted::death(situation, evidence_use(situation)),
            ..Prospect::default()
        },
        HolderKind::Direct => Prospect {
            dead: Some(holder.to_owned()),
            after_seconds: Some(situation.lease_lasts().as_secs_f64()),
            sentences: vec![format!(
                "Its Lease would expire {} after the last renewal. The first replica that finds it expired would claim \
                 it. No object lists the replicas, so this command cannot name that one.",
                duration(situation.lease_lasts())
            )],
            ..Prospect::default()
        },
        HolderKind::None => next(situation),
        HolderKind::Granted | HolderKind::Candidate(_) | HolderKind::Foreign => death(situation, holder),
    }
}

/// Predicts what happens to a Lease without a holder.
fn next(situation: &Situation<'_>) -> Prospect {
    let forecast = match situation.holder() {
        // The Lease still names the holder that expired.
        Some(_) => &situation.forecast(HolderForecast::Dies { pod: None }),
        None => &situation.present,
    };
    let mut sentences = why_on_hold(situation).into_iter().collect::<Vec<_>>();
    if sentences.is_empty() {
        sentences.extend(pings(forecast, false));
        sentences.push(match &forecast.named {
            Some(name) if forecast.named_after.is_zero() => {
                format!("The controller grants the Lease to {name} at once.")
            }
            Some(name) => {
                format!("The controller grants the Lease to {name} within {}.", duration(forecast.named_after))
            }
            None => "No candidate would get the Lease.".to_owned(),
        });
        sentences.extend(reports(forecast));
        sentences.extend(fallback(situation));
    }
    of(None, forecast, sentences)
}

/// Predicts what happens if the holder dies.
fn death(situation: &Situation<'_>, holder: &str) -> Prospect {
    if let Some(prospect) = death_without_controller(situation, holder) {
        return prospect;
    }
    let uses = evidence_use(situation);
    let pod = match (&situation.scene.pod, &uses) {
        (HolderPod::Read(pod), EvidenceUse::On) => pod.clone(),
        _ => None,
    };
    let forecast = situation.forecast(HolderForecast::Dies { pod: pod.clone() });
    let mut sentences = Vec::new();
    let lasts = duration(situation.lease_lasts());
    let is_proven = pod.is_some() && forecast.doubt.is_none();
    if !is_proven {
        let from = if situation.leadership == HolderKind::Granted { "the grant" } else { "the last renewal" };
        sentences.push(format!("The Lease would expire {lasts} after {from}."));
    }
    if let Some(why) = why_on_hold(situation) {
        sentences.push(why);
    } else {
        sentences.extend(pings(&forecast, true));
        sentences.push(match &forecast.named {
            Some(name) if forecast.named_after.is_zero() => {
                format!("The controller would grant the Lease to {name} at once.")
            }
            Some(name) => {
                format!("Within {}, the controller would grant the Lease to {name}.", duration(forecast.named_after))
            }
            None if situation.row.candidates.len() <= 1 => {
                "There is no other candidate, so nobody would follow.".to_owned()
            }
            None => "No other candidate could follow.".to_owned(),
        });
        sentences.extend(reports(&forecast));
        sentences.extend(evidence(situation, &uses, &forecast));
        sentences.extend(fallback(situation));
    }
    of(Some(holder.to_owned()), &forecast, sentences)
}

fn of(dead: Option<String>, forecast: &Forecast, sentences: Vec<String>) -> Prospect {
    let after_seconds = forecast.named.as_ref().map(|_| forecast.named_after.as_secs_f64());
    Prospect { dead, successor: forecast.named.clone(), after_seconds, sentences }
}

/// Why the controller would elect nobody, if a hold is in force.
fn why_on_hold(situation: &Situation<'_>) -> Option<String> {
    let hold = situation.hold.clone()?;
    let end = if matches!(hold, Hold::Pause(_)) { situation.record().and_then(LeaseRecord::pause_until) } else { None };
    let until = match end {
        Some(end) if end > situation.wall() => format!(" until {end}"),
        Some(_) => " until a controller runs, or `hustings resume`".to_owned(),
        None => String::new(),
    };
    Some(format!("Hustings elects nobody{until}. {}", Event::OnHold(hold)))
}

fn pings(forecast: &Forecast, waits: bool) -> Option<String> {
    let (first, _) = forecast.pings.first()?;
    let names: Vec<String> =
        forecast.pings.iter().filter(|(at, _)| at == first).map(|(_, name)| name.clone()).collect();
    let (names, after) = (list(&names), duration(*first));
    Some(if waits && first.is_zero() {
        format!("The controller would ask {names} for a sign of life at once.")
    } else if waits {
        format!("In {after}, the controller would ask {names} for a sign of life.")
    } else {
        format!("The controller asks {names} for a sign of life first.")
    })
}

/// The controller's report of the election.
fn reports(forecast: &Forecast) -> Option<String> {
    let is_result = |event: &&Event| matches!(event, Event::Elected { .. } | Event::NoLiveCandidate { .. });
    let event = forecast.events.iter().rev().find(is_result)?;
    Some(match event {
        // The sentence before this one is about the controller.
        Event::Elected { .. } => format!("It would report: {event}"),
        _ => format!("The controller would report: {event}"),
    })
}

/// What happens instead if no controller elects.
fn fallback(situation: &Situation<'_>) -> Option<String> {
    is_without_controller(situation).then(|| format!("That takes a controller. {}", without(situation)))
}

/// Predicts what happens if the holder dies while no controller elects. The electors then decide; during a hold, they
/// elect nobody.
fn death_without_controller(situation: &Situation<'_>, holder: &str) -> Option<Prospect> {
    let scene = situation.scene;
    let is_certain = is_without_controller(situation) && !may_be_hidden(situation);
    let is_simulated = is_certain && scene.candidates.len() <= MOST_REPLICAS;
    let lease = scene.lease.as_ref().filter(|_| is_simulated);
    let (name, after) = after_crash(&scene.name, lease?, &scene.candidates, situation.wall())?;
    let lasts = duration(situation.lease_lasts());
    let sentences = vec![
        format!("The Lease would expire {lasts} after the last renewal."),
        without(situation),
        format!("So {name} would lead after about {}.", duration(after)),
    ];
    Some(Prospect {
        dead: Some(holder.to_owned()),
        successor: Some(name),
        after_seconds: Some(after.as_secs_f64()),
        sentences,
    })
}

pub(super) fn is_without_controller(situation: &Situation<'_>) -> bool {
    match &situation.scene.controllers {
        Controllers::Unknown(_) => false,
        Controllers::Found(found) => !found.iter().any(|controller| elects(situation, controller)),
    }
}

/// Whether this installation may elect here: it runs, as far as known, and its flags include the namespace and the kind of
/// candidates.
fn elects(situation: &Situation<'_>, controller: &ControllerInstallation) -> bool {
    let ControllerInstallation { available, leader, flags, .. } = controller;
    let runs = leader.is_some() || available.is_none_or(|(available, _)| available > 0);
    let elects = |flags: &LeaseElectionFlags| flags.elects_here && (flags.elects_native || !situation.is_native());
    runs && flags.as_ref().is_none_or(elects)
}

fn evidence_use(situation: &Situation<'_>) -> EvidenceUse {
    let unknown = || EvidenceUse::If("the controllers use evidence".to_owned());
    let Controllers::Found(found) = &situation.scene.controllers else { return unknown() };
    let elects = |controller: &&ControllerInstallation| elects(situation, controller);
    let flags = || found.iter().filter(elects).map(|controller| controller.flags.as_ref());
    let selectors = || {
        let uses_evidence = flags().flatten().filter(|flags| flags.evidence);
        uses_evidence.map(|flags| flags.pod_selector.as_ref())
    };
    if selectors().any(|selector| selector.is_none()) {
        EvidenceUse::On
    } else if let Some(selector) = selectors().flatten().next() {
        EvidenceUse::If(format!("its Pod has the labels {selector}"))
    } else if flags().any(|flags| flags.is_none()) {
        unknown()
    } else {
        EvidenceUse::Off
    }
}

/// What the Pod of the holder proves now, and what it would prove once its container has ended.
fn evidence(situation: &Situation<'_>, uses: &EvidenceUse, forecast: &Forecast) -> Option<String> {
    let expiry = situation.lease_lasts();
    let begin = match uses {
        EvidenceUse::Off => return None,
        EvidenceUse::On => "The Pod of the holder".to_owned(),
        EvidenceUse::If(condition) => format!("If {condition}, the Pod of the holder"),
    };
    let pod = match &situation.scene.pod {
        HolderPod::Unnamed => {
            return (*uses == EvidenceUse::On)
                .then(|| "Its session names no container, so no Pod can prove its death sooner.".to_owned());
        }
        HolderPod::Unread(reason) => {
            return Some(format!("{begin} may prove its death sooner, but what it shows is unknown: {reason}."));
        }
        HolderPod::Read(pod) => pod,
    };
    let read = situation.forecast(HolderForecast::Dies { pod: Some(pod.clone().unwrap_or_default()) });
    let doubt = match (pod, read.doubt) {
        (None, _) => "the Pod is gone, and its processes may still run".to_owned(),
        (Some(_), Some(doubt)) => doubt.to_string(),
        (Some(_), None) if read.named_after < expiry => {
            let when = soon(read.named_after);
            return Some(format!(
                "{begin} proves its death, so the Lease does not have to expire: the controller would grant it {when}."
            ));
        }
        (Some(_), None) => return None,
    };
    let now = format!("{begin} proves nothing now: {doubt}.");
    let terminated = pod.as_ref().and_then(|pod| terminated(situation, pod));
    let sooner = terminated.map(|pod| situation.forecast(HolderForecast::Dies { pod: Some(pod) }));
    let sooner =
        sooner.filter(|sooner| sooner.named.is_some() && sooner.named_after < forecast.named_after.max(expiry));
    Some(match sooner {
        Some(sooner) => format!(
            "{now} Once the kubelet reports the end of its container, the Lease does not have to expire: the controller \
             would grant it {}.",
            soon(sooner.named_after)
        ),
        None => now,
    })
}

fn soon(after: Duration) -> String {
    if after.is_zero() { "at once".to_owned() } else { format!("within {}", duration(after)) }
}

/// The Pod as it would be after the end of the holder's container.
fn terminated(situation: &Situation<'_>, pod: &PodRecord) -> Option<PodRecord> {
    let record = situation.record()?;
    let (_, container) = record.session.pod_and_container()?;
    let finished_at = record.renew_time.max(Some(situation.wall()))?;
    let end = ContainerEnd::at(finished_at, "Error");
    Some(PodRecord { containers: [ContainerRecord::ended(container, [end])].into(), ..pod.clone() })
}

/// How much longer the holder may rely on the Lease, unless it renews.
pub(super) fn rest(situation: &Situation<'_>) -> Option<Duration> {
    let observed = situation.scene.observed.as_ref()?;
    Some(observed.changed_at().after(situation.lease_lasts()).since(situation.scene.now.moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prospect_with_a_successor_has_a_time() {
        for (named, after_seconds) in [(Some("b".to_owned()), Some(15.0)), (None, None)] {
            let forecast = Forecast { named, named_after: Duration::from_secs(15), ..Forecast::default() };
            assert_eq!(of(None, &forecast, Vec::new()).after_seconds, after_seconds);
        }
    }
}
