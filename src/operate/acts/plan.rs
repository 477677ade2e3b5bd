//! Plans an act on a Lease: the write, or the reason why the act makes no sense now.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, pin_text};
use hustings_core::election::{Ineligible, Reason, TransferRefusal};
use hustings_core::model::{Annotation, Cause, Hold, LeaseRecord, LeaseWrite, Pin, Purpose, Set, Transfer, WireTime};

use super::assist::{check_assist, check_unassist};
use super::config::{LeaseAct, note_on_end};
use super::requests::refused;
use super::scene::ActScene;
use crate::base::hint::Hinted;
use crate::base::nearest;
use crate::base::terminal::visible;
use crate::operate::assisted::{Assistance, Unassisted};
use crate::predict::forecast::{Forecast, HolderForecast, Objects, forecast};

/// The write of an act.
#[derive(Clone, Debug)]
pub(super) struct ActPlan {
    pub(super) write: Box<LeaseWrite>,
    /// What the controller would do after the write.
    pub(super) forecast: Forecast,
    /// The act as a sentence.
    pub(super) sentence: String,
    /// When the act ends.
    pub(super) until: Option<WireTime>,
    /// The acts that the write replaces.
    pub(super) replaces: Option<String>,
    /// What the Lease then shows of an assisted holder.
    pub(super) assist: Option<Assistance>,
    /// What keeps the act from taking effect.
    pub(super) warnings: Vec<String>,
}

/// Who asks, and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActRequest<'a> {
    pub(super) user: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

impl ActRequest<'_> {
    /// The text of `hustings.io/asked-by`.
    pub(super) fn asked_by(self) -> Option<String> {
        match (self.user, self.reason) {
            (Some(user), Some(reason)) => Some(format!("{user}: {reason}")),
            (user, reason) => user.or(reason).map(str::to_owned),
        }
    }

    /// Sets `hustings.io/asked-by`, or removes the value of an earlier act.
    fn set(asked_by: Option<String>, record: &LeaseRecord) -> Set<String> {
        asked_by.map_or_else(|| Set::remove_if(record.acts.asked_by.is_some()), Set::To)
    }
}

/// Plans the act, at the wall-clock time `wall`.
///
/// # Errors
/// Returns why the act makes no sense now, with a hint about what to do instead.
pub(super) fn plan(
    scene: &ActScene,
    act: &LeaseAct,
    request: ActRequest<'_>,
    wall: WireTime,
) -> Result<ActPlan, Hinted> {
    let (namespace, lease) = scene.key();
    // In the hints, these words stand for the names.
    let named = |hint: &str| {
        let hint = hint.replace("LEASE", &format!("{lease} --namespace NAMESPACE"));
        hint.replace("NAMESPACE", namespace)
    };
    plan_unnamed(scene, act, request, wall).map_err(|why| refused(why.to_string(), named(why.hint())))
}

fn plan_unnamed(scene: &ActScene, act: &LeaseAct, request: ActRequest<'_>, wall: WireTime) -> Result<ActPlan, Hinted> {
    let record = &scene.lease.record;
    let blank = LeaseWrite { enrol: Set::Keep, ..LeaseWrite::new(Purpose::Act, record) };
    let named = |reason: Option<&str>| ActRequest { reason, ..request }.asked_by();
    let mut write = LeaseWrite { asked_by: ActRequest::set(named(request.reason), record), ..blank };
    let mut until = None;
    let sentence = match act {
        LeaseAct::Pause(end) => {
            until = end.map(|end| end.at(wall)).transpose()?;
            check_pause(scene, until)?;
            let text = pause_text(request)?;
            write.hold = Set::To(text.clone());
            write.hold_until = until.map_or_else(|| Set::remove_if(record.acts.hold_until.is_some()), Set::To);
            // The hold itself contains the reason.
            write.asked_by = ActRequest::set(named(None), record);
            format!("elections are paused{}: {text}", until_text(until))
        }
        LeaseAct::Resume => {
            check_resume(record)?;
            (write.hold, write.hold_until) = (Set::Remove, Set::remove_if(record.acts.hold_until.is_some()));
            "elections continue".to_owned()
        }
        LeaseAct::Transfer(to) if scene.is_direct() => {
            let to = check_direct_transfer(scene, to)?;
            let history = record.history_with_request(&record.history, Some(Cause::Transfer));
            write = LeaseWrite {
                purpose: Purpose::Prefer,
                preferred_holder: Set::To(to.to_owned()),
                history: Set::To(history),
                ..write
            };
            format!("the holder is asked to hand over to {to}")
        }
        LeaseAct::Transfer(to) => {
            check_has_candidates(scene, "transfer")?;
            if let Transfer::To(name) = to {
                find(scene, name)?;
            }
            write.transfer = Set::To(to.clone());
            match to {
                Transfer::Any => "the holder is asked to hand over to the best other candidate".to_owned(),
                Transfer::To(name) => format!("the holder is asked to hand over to {name}"),
            }
        }
        LeaseAct::Pin { candidate, end } => {
            check_has_candidates(scene, "pin")?;
            check_pin(find(scene, candidate)?, wall)?;
            let end = end.at(wall)?;
            until = Some(end);
            write.pin = Set::To(Pin { candidate: candidate.clone(), until: end });
            format!("{candidate} ranks first{}", until_text(until))
        }
        LeaseAct::Unpin => {
            if record.acts.pin.is_none() {
                return Err(refused("the Lease has no pin", "`hustings status LEASE` shows the acts in force"));
            }
            write.pin = Set::Remove;
            "candidates rank by merit again".to_owned()
        }
        LeaseAct::Assist(options) => {
            check_assist(scene)?;
            write.assist = Set::To(options.clone());
            write.enrol = if record.enrolled { Set::Keep } else { Set::To(()) };
            "its holder is assisted".to_owned()
        }
        LeaseAct::Unassist => {
            check_unassist(record)?;
            write.assist = Set::Remove;
            write.enrol = Set::remove_if(record.enrolled && scene.candidates.is_empty());
            "its holder is no longer assisted".to_owned()
        }
    };
    let after = write.applied_to(record, record.resource_version.saturating_add(1));
    let key = scene.key();
    let candidates = scene.candidates.iter().map(|candidate| &candidate.record).collect();
    // A Lease that is not enrolled yet has the same holder: nothing can ask a foreign one to hand over.
    let found = LeaseRecord { enrolled: true, ..after.clone() };
    let objects = Objects { key, lease: Some(&found), candidates, unchanged_for: Duration::ZERO };
    let forecast = forecast(objects, HolderForecast::Lives, wall);
    if let (LeaseAct::Transfer(to), Some(why)) = (act, forecast.refusal()) {
        return Err(refusal(to, why));
    }
    let warnings = pin_warning(act, &forecast).into_iter().collect();
    let assist = Assistance::of(key, &after, &scene.candidates, &scene.own_leases);
    let replaces = replaced(record, act);
    Ok(ActPlan { write: Box::new(write), forecast, sentence, until, replaces, assist, warnings })
}

/// Why the pinned candidate would not get the Lease.
fn pin_warning(act: &LeaseAct, forecast: &Forecast) -> Option<String> {
    let LeaseAct::Pin { candidate, .. } = act else { return None };
    let verdict = forecast.verdicts.iter().find(|verdict| *verdict.candidate.name == **candidate)?;
    let has_no_effect = matches!(
        verdict.reason,
        Reason::OnHold(_) | Reason::HolderLeftAlone(_) | Reason::RanksLast | Reason::Ineligible(_)
    );
    has_no_effect.then(|| format!("the Lease does not move to it now: {}", visible(&verdict.reason.to_string())))
}

/// Describes the acts in force on a Lease. The command prints them if another administrator was faster.
pub(super) fn standing(record: &LeaseRecord) -> String {
    let acts = [pause(record), transfer(record), pin(record), assist(record), asked_by(record)];
    let acts: Vec<_> = acts.into_iter().flatten().collect();
    if acts.is_empty() { "no act".to_owned() } else { acts.join(", ") }
}

/// The act of the same kind, which the write replaces. Acts of other kinds stay in force.
fn replaced(record: &LeaseRecord, act: &LeaseAct) -> Option<String> {
    let former = match act {
        LeaseAct::Pause(_) => pause(record),
        LeaseAct::Transfer(_) => transfer(record),
        LeaseAct::Pin { .. } => pin(record),
        LeaseAct::Assist(_) => assist(record),
        LeaseAct::Resume | LeaseAct::Unpin | LeaseAct::Unassist => None,
    };
    former.map(|former| [Some(former), asked_by(record)].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn asked_by(record: &LeaseRecord) -> Option<String> {
    record.acts.asked_by.as_ref().map(|name| format!("asked by {}", visible(name)))
}

fn pause(record: &LeaseRecord) -> Option<String> {
    record.hold.as_ref().map(|hold| format!("hold {hold:?}{}", until_text(record.pause_until())))
}

fn transfer(record: &LeaseRecord) -> Option<String> {
    record.acts.transfer.as_ref().map(|to| format!("transfer to {}", visible(to.as_str())))
}

fn pin(record: &LeaseRecord) -> Option<String> {
    record.acts.pin.as_ref().map(|pin| match pin {
        Annotation::Valid(pin) => format!("pin to {}", visible(&pin_text(pin))),
        Annotation::Malformed(malformed) => format!("pin {:?}", malformed.text),
    })
}

fn assist(record: &LeaseRecord) -> Option<String> {
    record.acts.assist.as_ref().map(|assist| match assist {
        Annotation::Valid(options) => format!("assist {:?}", options.to_string()),
        Annotation::Malformed(malformed) => format!("assist {:?}, which does not parse", malformed.text),
    })
}

fn until_text(until: Option<WireTime>) -> String {
    until.map_or_else(String::new, |until| format!(" until {until}{}", note_on_end(until)))
}

fn pause_text(request: ActRequest<'_>) -> Result<String, Hinted> {
    let text = match request {
        ActRequest { reason: Some(reason), .. } => reason.to_owned(),
        ActRequest { user: Some(user), .. } => format!("paused by {user}"),
        ActRequest { .. } => "paused".to_owned(),
    };
    match Hold::read(Some(&text)) {
        Some(Hold::Pause(_)) => Ok(text),
        _ => Err(refused(format!("--reason {text:?} is reserved for the controller"), "use another reason")),
    }
}

fn check_pause(scene: &ActScene, until: Option<WireTime>) -> Result<(), Hinted> {
    let record = &scene.lease.record;
    let unassisted = Unassisted::of(scene.key(), record, &scene.candidates, &scene.own_leases);
    if let Some(why @ Unassisted::OwnLease) = unassisted {
        return Err(refused(
            format!("{why}: without a leader, they elect nobody"),
            "pause the Leases that they elect, which `hustings status` shows",
        ));
    }
    if scene.is_direct() && until.is_some() {
        return Err(refused(
            "the replicas elect among themselves (direct mode), so no controller can end the pause",
            "pause without --for and --until, and end it with `hustings resume`",
        ));
    }
    if scene.candidates.is_empty() && record.token.is_none() && !record.enrolled {
        return Err(refused(
            "the Lease is not part of any Hustings election, so a pause would have no effect",
            "`hustings status` shows the Leases that are",
        ));
    }
    Ok(())
}

fn check_resume(record: &LeaseRecord) -> Result<(), Hinted> {
    match Hold::read(record.hold.as_deref()) {
        Some(Hold::Pause(_)) => Ok(()),
        None => {
            Err(refused("the elections of the Lease are not paused", "`hustings status LEASE` shows the acts in force"))
        }
        Some(hold) => Err(refused(
            format!("no administrator paused the Lease: the controller wrote {:?}", hold.to_string()),
            "`hustings status LEASE` shows what the candidates ask for",
        )),
    }
}

fn check_has_candidates(scene: &ActScene, act: &str) -> Result<(), Hinted> {
    if !scene.candidates.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("the Lease has no candidates, so no controller carries out a {act}"),
        if scene.is_direct() {
            "in direct mode, use `hustings transfer LEASE --to NAME`, or give one replica a higher key"
        } else {
            "`hustings status` shows the Leases with candidates"
        },
    ))
}

fn check_direct_transfer<'a>(scene: &ActScene, to: &'a Transfer) -> Result<&'a str, Hinted> {
    let record = &scene.lease.record;
    let Transfer::To(name) = to else {
        return Err(refused(
            "in direct mode there is no list of replicas to choose from",
            "name the replica with --to",
        ));
    };
    if record.holder.as_ref() == Some(name) {
        return Err(refused(format!("{name} holds the Lease"), "choose another replica"));
    }
    // While it lasts, no replica claims the Lease, should this one not take it up.
    if record.is_paused() {
        return Err(refused("the elections of the Lease are paused", "run `hustings resume LEASE` first"));
    }
    if record.session.stamp().is_none() {
        return Err(refused("the Lease has no holder that can hand over", "wait until a replica holds it"));
    }
    if record.key.is_some() {
        return Err(refused(
            "the replicas have preference keys, so the one with the highest key would take the Lease back at once",
            "change the keys",
        ));
    }
    Ok(name)
}

fn find<'a>(scene: &'a ActScene, name: &str) -> Result<&'a ReadCandidate, Hinted> {
    if let Some(candidate) = scene.candidate(name) {
        return Ok(candidate);
    }
    let own = scene.candidates.iter().map(|candidate| candidate.record.name.as_str());
    let hint = nearest::hint(name, "candidates of this Lease", own);
    Err(match scene.elsewhere.iter().find(|candidate| candidate.record.name == name) {
        Some(other) => refused(format!("{name:?} is a candidate of the Lease {:?}", other.record.lease_name), hint),
        None => refused(format!("the Lease has no candidate {name:?}"), hint),
    })
}

fn check_pin(candidate: &ReadCandidate, wall: WireTime) -> Result<(), Hinted> {
    let record = &candidate.record;
    if let Err(why) = record.standing() {
        return Err(refused(
            format!("{} is not admissible: {why}", record.name),
            "correct the spec of the candidate first",
        ));
    }
    if let Some(exclusion) = record.acts.exclusion(wall) {
        return Err(refused(
            format!("{} is excluded until {}", record.name, visible(&exclusion.to_string())),
            format!("run `hustings include {} --namespace NAMESPACE` first", record.name),
        ));
    }
    Ok(())
}

/// The error for a transfer that the controller would refuse, with a hint about what to do instead.
fn refusal(to: &Transfer, why: &TransferRefusal) -> Hinted {
    let name = match to {
        Transfer::Any => "another candidate",
        Transfer::To(name) => name,
    };
    let pin = format!("`hustings pin LEASE --to {name} --for 1h` moves the Lease and keeps it there");
    let hint = match why {
        TransferRefusal::NoOther => {
            "`hustings status LEASE` shows why; `hustings pin LEASE --to CANDIDATE --for 1h` moves the \
             Lease to one that lives, but ranks below the holder"
                .to_owned()
        }
        TransferRefusal::Holds => "there is nothing to do".to_owned(),
        TransferRefusal::Outranked(_) | TransferRefusal::Ineligible(Ineligible::Outranked(_)) => pin,
        TransferRefusal::Ineligible(Ineligible::Damped | Ineligible::Forfeited) => {
            "wait until that has passed: `hustings explain LEASE` shows when".to_owned()
        }
        TransferRefusal::Ineligible(Ineligible::HolderPinned) => "run `hustings unpin LEASE` first".to_owned(),
        TransferRefusal::Ineligible(Ineligible::Excluded(_)) => {
            format!("run `hustings include {name} --namespace NAMESPACE` first")
        }
        TransferRefusal::OnHold(Hold::Pause(_)) => "run `hustings resume LEASE` first".to_owned(),
        _ => "`hustings status LEASE` shows why each candidate does not lead".to_owned(),
    };
    let why = visible(&why.to_string());
    refused(format!("the controller would not transfer the Lease to {name}: {why}"), hint)
}

#[cfg(test)]
mod tests {
    use hustings_client::api::ReadLease;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_acts_that_stand_on_a_lease_are_named() {
        let annotations = json!({
            "hustings.io/hold": "works", "hustings.io/hold-until": "2026-01-01T01:00:00Z",
            "hustings.io/pin": "noon", "hustings.io/asked-by": "bob",
        });
        let lease = ReadLease::from_json(json!({ "metadata": { "name": "l", "annotations": annotations } }));
        let expected = "hold \"works\" until 2026-01-01T01:00:00Z, pin \"noon\", asked by bob";
        assert_eq!(standing(&lease.record), expected);
        assert_eq!(standing(&LeaseRecord::default()), "no act");
    }
}
