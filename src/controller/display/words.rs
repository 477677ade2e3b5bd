//! Words for the states and acts that the core has no sentences for.

use hustings_client::api::MicroTime;
use hustings_core::election::{Event, LeaseVerdict, Reason, release_of_assisted};
use hustings_core::model::{CandidateRecord, Hold, LeaseRecord, WireTime};

use crate::base::terminal::visible;
use crate::serve::page::ActView;

/// The name of a Lease's state. `hustings status` uses the same names, where it can determine the state.
pub(super) const fn state(verdict: &LeaseVerdict) -> &'static str {
    match verdict {
        LeaseVerdict::Held { taken_up: false, .. } => "granted",
        other => other.as_str(),
    }
}

/// Why no candidate holds the Lease. Empty if one does, or if the reason is unknown.
pub(super) fn vacancy(verdict: &LeaseVerdict) -> String {
    match verdict {
        LeaseVerdict::Unheld { cause, .. } | LeaseVerdict::NoLiveCandidate { cause, .. } => {
            format!("No candidate leads: {cause}.")
        }
        LeaseVerdict::Assisted { hold, .. } => {
            format!("The holder knows nothing of Hustings. {}", release_of_assisted(hold.as_ref()))
        }
        LeaseVerdict::Foreign { .. } => Reason::ForeignHolder.to_string(),
        LeaseVerdict::Reserved { .. } => Reason::Reserved.to_string(),
        LeaseVerdict::OnHold { hold, .. } => visible(&Event::OnHold(hold.clone()).to_string()),
        LeaseVerdict::Held { .. } | LeaseVerdict::OutOfBounds | LeaseVerdict::Unread => String::new(),
    }
}

/// The acts of administrators that a Lease records and that are in force at `wall`.
pub(super) fn acts_on_lease(record: &LeaseRecord, wall: WireTime) -> impl Iterator<Item = ActView> {
    let asked_by = record.acts.asked_by.as_deref().map(visible);
    let pause = record.pause(wall).map(|pause| match pause {
        Hold::Pause(text) => ("pause", text, record.pause_until()),
        other => ("pause", other.to_string(), None),
    });
    let pin = record.pin(wall).map(|pin| ("pin", pin.candidate.clone(), Some(pin.until)));
    let transfer = record.acts.transfer.as_ref().map(|transfer| ("transfer", transfer.as_str().to_owned(), None));
    [pause, pin, transfer].into_iter().flatten().map(move |(act, text, until)| ActView {
        act,
        text: visible(&text),
        until: until.map(MicroTime),
        asked_by: asked_by.clone(),
    })
}

/// The exclusion of a candidate, if it is in force at `wall`.
pub(super) fn exclusion(record: &CandidateRecord, wall: WireTime) -> Option<ActView> {
    let exclusion = record.acts.exclusion(wall)?;
    let text = if exclusion.reason.is_empty() { String::new() } else { format!(": {}", exclusion.reason) };
    Some(ActView {
        act: "exclude",
        text: visible(&format!("{}{text}", record.name)),
        until: Some(MicroTime(exclusion.until)),
        asked_by: record.acts.asked_by.as_deref().map(visible),
    })
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{
        Annotation, CandidateActs, Cause, Ending, Exclusion, LeaseActs, Moment, Pin, Transfer, Unheld,
    };

    use super::*;

    const NOW: WireTime = WireTime::from_micros(1_000_000);

    #[test]
    fn a_vacancy_is_shown_with_its_cause() {
        let since = Moment::from_micros(0);
        let (cause, hold) = (Unheld::Ended(Ending::Released(Cause::Unknown)), Hold::Pause("works".to_owned()));
        let no_candidate = "No candidate leads: the holder released the Lease.";
        for (verdict, expected) in [
            (LeaseVerdict::Unheld { since, cause: cause.clone() }, no_candidate),
            (LeaseVerdict::NoLiveCandidate { since, cause }, no_candidate),
            (LeaseVerdict::Reserved { until: since }, "The Lease names no holder, but a process may still rely on it."),
            (
                LeaseVerdict::OnHold { since, hold },
                "Elections are paused: works. To resume, remove the annotation hustings.io/hold.",
            ),
            (LeaseVerdict::Unread, ""),
        ] {
            assert_eq!(vacancy(&verdict), expected);
        }
    }

    #[test]
    fn acts_are_shown_with_their_kind_and_their_end() {
        let transfer = Some(Transfer::To("web-1".to_owned()));
        let acts = LeaseActs { transfer, asked_by: Some("kim".to_owned()), ..LeaseActs::default() };
        let record = LeaseRecord { acts, ..LeaseRecord::default() };
        let shown: Vec<_> = acts_on_lease(&record, NOW).collect();
        assert_eq!((shown.len(), shown[0].act, &*shown[0].text, shown[0].until), (1, "transfer", "web-1", None));
        assert_eq!(shown[0].asked_by.as_deref(), Some("kim"));

        let until = NOW.after(std::time::Duration::from_secs(1));
        let pin = Some(Annotation::Valid(Pin { candidate: "web-1".to_owned(), until }));
        let record = LeaseRecord { acts: LeaseActs { pin, ..LeaseActs::default() }, ..LeaseRecord::default() };
        let shown: Vec<_> = acts_on_lease(&record, NOW).map(|act| (act.act, act.text, act.until)).collect();
        assert_eq!(shown, [("pin", "web-1".to_owned(), Some(MicroTime(until)))]);

        for (reason, expected) in [("drain", "web-0: drain"), ("", "web-0")] {
            let exclude = Some(Annotation::Valid(Exclusion { until, reason: reason.to_owned() }));
            let acts = CandidateActs { exclude, ..CandidateActs::default() };
            let record = CandidateRecord { name: "web-0".to_owned(), acts, ..CandidateRecord::default() };
            let shown = exclusion(&record, NOW).unwrap();
            assert_eq!((shown.act, &*shown.text, shown.until), ("exclude", expected, Some(MicroTime(until))));
            assert!(exclusion(&record, until).is_none());
        }
    }
}
