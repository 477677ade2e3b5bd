//! The timers of the election and of the electors that are running, and when each ends.
//!
//! An observer does not see the timers themselves. It derives them from the objects and from the pure decision. Each
//! duration counts from the observer's own observation, so the real timer may end earlier, but not later.

use std::time::Duration;

use hustings_core::election::{Config, Timer};
use hustings_core::elector;
use hustings_core::model::{Annotation, CandidateState, WireTime};

use super::explanation::ExplainedWait;
use super::prospect::rest;
use super::situation::{HolderKind, Situation};
use super::words::duration;

const CONTROLLER: &str = "controller";
const HOLDER: &str = "holder";
const CANDIDATES: &str = "candidates";

pub(super) fn waits(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    let mut waits = Vec::new();
    match situation.leadership {
        HolderKind::Candidate(_)
        | HolderKind::Foreign
        | HolderKind::Direct
        | HolderKind::Assisted
        | HolderKind::Unknown => {
            waits.extend(of_term(situation));
            waits.extend(of_request(situation));
        }
        HolderKind::Granted => waits.extend(of_grant(situation)),
        HolderKind::None => waits.extend(of_vacancy(situation)),
    }
    waits.extend(of_acts(situation));
    waits.extend(of_candidates(situation));
    waits.extend(next_decision(situation));
    waits
}

fn of_term(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    let lease = duration(situation.lease_lasts());
    let mut waits = vec![within(
        HOLDER,
        elector::Timer::Renewal.as_str(),
        situation.usual_interval(),
        format!(
            "The holder renews the Lease. If no renewal succeeds for its renew deadline, which is shorter than the \
                 lease of {lease}, it stops leading by itself."
        ),
    )];
    let expiry = "The Lease expires unless the holder renews it.".to_owned();
    let of = match situation.leadership {
        HolderKind::Direct | HolderKind::Assisted | HolderKind::Unknown => CANDIDATES,
        _ => CONTROLLER,
    };
    waits.extend(rest(situation).map(|rest| within(of, Timer::Expiry.as_str(), rest, expiry)));
    waits
}

fn of_request(situation: &Situation<'_>) -> Option<ExplainedWait> {
    let preferred = situation.row.preferred.as_ref()?;
    Some(ExplainedWait {
        of: HOLDER,
        timer: elector::Timer::StopGrace.as_str(),
        within_seconds: None,
        until: None,
        meaning: format!(
            "The holder stops its work, and then hands over to {preferred}. An event reports a holder that has not done \
             so after {}.",
            duration(Config::default().ignored_after)
        ),
    })
}

fn of_grant(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    let holder = situation.holder().unwrap_or_default();
    let mut waits = vec![within(
        CONTROLLER,
        Timer::EarlyPings.as_str(),
        Config::default().take_up,
        format!("The controller looks for the next best candidate unless {holder} takes up its grant."),
    )];
    let expiry = "The grant expires unless it is taken up.".to_owned();
    waits.extend(rest(situation).map(|rest| within(CONTROLLER, Timer::Expiry.as_str(), rest, expiry)));
    waits
}

fn of_vacancy(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    if situation.row.candidates.is_empty() || situation.hold.is_some() || situation.is_native() {
        return Vec::new();
    }
    let patience = "Without a controller, the candidates claim the Lease themselves, the best one first.".to_owned();
    vec![within(CANDIDATES, elector::Timer::ControllerWait.as_str(), elector::CONTROLLER_WAIT, patience)]
}

fn of_acts(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    let wall = situation.wall();
    let mut waits = Vec::new();
    let mut end = |until: Option<WireTime>, meaning: String| {
        if let Some(until) = until.filter(|until| *until > wall) {
            waits.push(at(Timer::ActEnd.as_str(), until, meaning));
        }
    };
    if let Some(record) = situation.record() {
        if record.pause(wall).is_some() {
            end(record.pause_until(), "The pause ends, and elections continue.".to_owned());
        }
        if let Some(pin) = record.acts.pin.as_ref().and_then(Annotation::valid) {
            end(Some(pin.until), format!("The pin ends, and {} ranks by merit again.", pin.candidate));
        }
    }
    for candidate in &situation.scene.candidates {
        if let Some(exclusion) = candidate.record.acts.exclude.as_ref().and_then(Annotation::valid) {
            end(Some(exclusion.until), format!("The exclusion of {} ends.", candidate.record.name));
        }
    }
    waits
}

fn of_candidates(situation: &Situation<'_>) -> Vec<ExplainedWait> {
    let wall = situation.wall();
    let is_damped = |state: Option<CandidateState>| state == Some(CandidateState::Damped);
    let mut waits = Vec::new();
    for candidate in &situation.scene.candidates {
        let record = &candidate.record;
        if let Some(until) = record.status.damped_until.filter(|until| is_damped(record.status.state) && *until > wall)
        {
            waits.push(at(
                Timer::DampingEnd.as_str(),
                until,
                format!("The damping of {} ends, and it ranks by merit again.", record.name),
            ));
        }
    }
    waits
}

/// The next deadline of the election.
fn next_decision(situation: &Situation<'_>) -> Option<ExplainedWait> {
    let is_elected = matches!(
        situation.leadership,
        HolderKind::Candidate(_) | HolderKind::Foreign | HolderKind::Granted | HolderKind::None
    );
    if situation.leadership == HolderKind::None && situation.hold.is_some() {
        return None;
    }
    let (after, timer) = situation.present.first_deadline.filter(|_| is_elected)?;
    let after = after.min(Config::default().requeue);
    // Without pings there is no election to close.
    let is_window = matches!(timer, Timer::PingWindow | Timer::ElectionWindow);
    let timer = if is_window && situation.present.pings.is_empty() { Timer::Requeue } else { timer };
    Some(within(CONTROLLER, timer.as_str(), after, meaning(timer)?.to_owned()))
}

/// What the controller does when this timer ends; `None` if another wait covers it, or if it concerns no election.
const fn meaning(timer: Timer) -> Option<&'static str> {
    Some(match timer {
        Timer::Requeue => "The controller decides again by then, even if it observes nothing.",
        Timer::PingWindow | Timer::ElectionWindow => {
            "The controller closes the election: later answers to its pings do not count."
        }
        Timer::Settling => "The controller waits for candidates that start at the same time.",
        Timer::RepeatedPing => "The controller pings the preferred holder again.",
        Timer::IgnoredRequest => "An event reports that the holder ignores the request to hand over.",
        Timer::UnlabelledLease => "The controller reads the Lease again, because the Lease has no label.",
        Timer::Validity => "The controller pings a candidate without an owner.",
        Timer::Retry => "The controller repeats a request that failed.",
        Timer::Expiry | Timer::EarlyPings | Timer::DampingEnd | Timer::ActEnd | Timer::StatusRest => return None,
    })
}

fn within(of: &'static str, timer: &'static str, duration: Duration, meaning: String) -> ExplainedWait {
    // Round to milliseconds: more digits would be noise.
    let millis = u32::try_from(duration.as_millis()).unwrap_or(u32::MAX);
    ExplainedWait { of, timer, within_seconds: Some(f64::from(millis) / 1000.0), until: None, meaning }
}

fn at(timer: &'static str, until: WireTime, meaning: String) -> ExplainedWait {
    ExplainedWait { of: CONTROLLER, timer, within_seconds: None, until: Some(until.to_string()), meaning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_of_an_election_has_its_own_meaning() {
        for (timer, expected) in [
            (Timer::Settling, "waits for candidates that start at the same time."),
            (Timer::RepeatedPing, "pings the preferred holder again."),
            (Timer::IgnoredRequest, "An event reports that the holder ignores the request to hand over."),
            (Timer::UnlabelledLease, "reads the Lease again, because the Lease has no label."),
            (Timer::Validity, "pings a candidate without an owner."),
            (Timer::Retry, "repeats a request that failed."),
            (Timer::Requeue, "decides again by then, even if it observes nothing."),
            (Timer::PingWindow, "closes the election: later answers to its pings do not count."),
            (Timer::ElectionWindow, "closes the election: later answers to its pings do not count."),
        ] {
            let meaning = meaning(timer).unwrap();
            assert_eq!(meaning.strip_prefix("The controller ").unwrap_or(meaning), expected);
        }
        for timer in [Timer::Expiry, Timer::EarlyPings, Timer::DampingEnd, Timer::ActEnd, Timer::StatusRest] {
            assert_eq!(meaning(timer), None, "{timer:?}");
        }
    }
}
