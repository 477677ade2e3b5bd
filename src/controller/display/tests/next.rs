//! Tests of the candidate that the page shows as the next in line.

use hustings_core::model::CandidateState;

use super::*;

/// What the page names as the next in line, and whether it is known to live. The Lease has this holder. The better
/// candidate has this recorded status, and a verdict that is `Unresponsive`.
fn next_of(holder: &str, recorded: &Value, decided: bool) -> Option<(String, bool)> {
    let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(EPOCH) };
    let (mut election, mut display) = (Election::new(Config::default(), "n", "l"), Display::new());
    let all = [candidate("better", "1.30.0", recorded), candidate("worse", "1.31.0", &json!({}))];
    for candidate in all.into_iter().chain([candidate("holder", "1.32.0", &json!({}))]) {
        let record = ReadCandidate::from_json(candidate).record;
        election.observe(now, Observation::Candidate { record, source: Source::Watch });
    }
    let session = if holder.is_empty() { "open" } else { "s/1/15" };
    let annotations = json!({ "hustings.io/session": session, "hustings.io/strategy": "OldestEmulationVersion" });
    let lease = ReadLease::from_json(json!({
        "metadata": { "namespace": "n", "name": "l", "uid": "u", "resourceVersion": "7",
            "labels": { "hustings.io/enrolled": "true" }, "annotations": annotations },
        "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7 },
    }));
    election.observe(now, Observation::Lease { record: lease.record, source: Source::Watch });
    let mut decision = election.clone().decide(now);
    for verdict in &mut decision.candidates {
        let is_better = *verdict.candidate.name == *"better";
        verdict.responsive = Some(!is_better);
        if is_better {
            verdict.state = CandidateState::Unresponsive;
        }
    }
    display.judge(now, &decision, if decided { Origin::Decision } else { Origin::Copy });
    let view = display.view(&LeaseKey::new("n", "l"), now, &election, &Stores::default()).unwrap();
    view.next.map(|next| (next.name, next.live))
}

#[test]
fn the_leading_controller_goes_by_its_verdicts_and_a_standby_by_the_recorded_states() {
    let standby = json!({ "state": "Standby" });
    let (better, worse) = (Some(("better".to_owned(), false)), Some(("worse".to_owned(), true)));
    for holder in ["holder", ""] {
        assert_eq!(next_of(holder, &standby, true), worse, "holder {holder:?}");
        assert_eq!(next_of(holder, &standby, false), better, "holder {holder:?}");
        assert_eq!(next_of(holder, &json!({}), false), worse, "holder {holder:?}: no state is recorded");
    }
}
