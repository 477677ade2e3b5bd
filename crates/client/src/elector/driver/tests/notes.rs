//! What the driver logs about its elector.

use std::time::Duration;

use hustings_core::elector::{EditedField, Loss, Note, Withheld};
use hustings_core::model::{Hold, Inadmissible};
use hustings_wire::driver::Line;

use crate::testing::Log;

#[test]
fn each_note_is_logged_with_its_level_and_its_remedy() {
    let (log, _guard) = Log::begin();
    let name = || "b".to_owned();
    let withheld = |why: &str| format!("WARN the Lease is free, and no replica is elected why={why:?}");
    for (note, line) in [
        (Note::Began { number: 2, token: 7 }, "INFO term began number=2 token=7"),
        (Note::Lost(Loss::NotRenewed), "WARN term lost: no renewal succeeded in time"),
        (Note::Lost(Loss::LeaseMissing), "WARN term lost: the Lease is missing"),
        (
            Note::Lost(Loss::NotMine { holder: Some(name()) }),
            r#"WARN term lost: the Lease belongs to another term holder="b""#,
        ),
        (Note::HandOverAsked { to: name() }, r#"INFO handing over to the preferred holder to="b""#),
        (
            Note::Resigned { cooldown: Duration::from_secs(5) },
            "WARN giving the term up: it was resigned rest_seconds=5",
        ),
        (Note::Asked { holder: name() }, r#"INFO asking the holder to hand over: its key is lower holder="b""#),
        (Note::GaveUp, "INFO gave the Lease up"),
        (Note::LeftToRunOut, "INFO stopping: letting the Lease expire, as configured"),
        (Note::GiveUpAbandoned, "WARN could not give the Lease up in time: it expires"),
        (Note::WorkDidNotStop, "ERROR the work did not stop within its grace: the Lease expires"),
        (
            Note::NamesakeHolds { session: name() },
            r#"WARN another process holds the Lease under this identity session="b""#,
        ),
        (
            Note::Reclaims { session: name() },
            r#"INFO reclaiming the Lease of this container's previous process session="b""#,
        ),
        (Note::LandedTooLate, "WARN a take-up or claim of the Lease succeeded too late to lead"),
        (Note::Conflict, "DEBUG another writer wrote the Lease first"),
        (Note::Refused, "DEBUG the server refused a write of the Lease"),
        (Note::OutcomeUnknown, "DEBUG a write of the Lease has an unknown outcome"),
        (
            Note::WriteReverted,
            "WARN the server accepts writes of the Lease but does not keep their content: check for an admission policy \
             or webhook that changes spec or the annotations hustings.io/* of Leases",
        ),
        (
            Note::CandidateWriteReverted,
            "WARN the server accepts writes of the candidate but does not keep its renewTime: check for an admission \
             policy or webhook that changes LeaseCandidates",
        ),
        (
            Note::CandidateDeleted,
            "WARN another client deletes the candidate soon after each creation: check for a tool that deletes the \
             LeaseCandidates that its manifests do not contain",
        ),
        (Note::NoController, "INFO no controller elects: the candidates elect among themselves"),
        (
            Note::NoCandidates,
            "WARN the cluster has no LeaseCandidates: the Lease is claimed without an order among the replicas",
        ),
        (
            Note::Withheld(Withheld::TurnedOff),
            &withheld("no controller elects, and this elector is configured to wait for one"),
        ),
        (Note::Withheld(Withheld::NoList), &withheld("no controller elects, and the candidates cannot be listed")),
        (Note::Withheld(Withheld::Hold(Hold::Pause("works".to_owned()))), &withheld("the Lease is on hold: works")),
        (
            Note::Withheld(Withheld::Inadmissible(Inadmissible::Priority(-1))),
            &withheld(
                "no controller elects, and this candidate is not admissible: priority -1 is negative: use 0 or more.",
            ),
        ),
        (
            Note::OwnerDropped,
            "WARN the candidate was deleted soon after its owner was set: the API server does not know the pod by this \
             UID (POD_UID), as with static pods; creating the candidate without an owner",
        ),
        (
            Note::CandidateOfAnotherLease { lease_name: name() },
            "ERROR the candidate of this name stands for another Lease, and its process lives or it has an owner: give each \
             elector an identity of its own (--identity) lease_name=\"b\"",
        ),
        (
            Note::NamesakeAsked { lease_name: name() },
            "WARN the candidate of this name stands for another Lease: it is replaced unless its process answers a ping \
             lease_name=\"b\"",
        ),
        (
            Note::NamesakeReplaced { lease_name: name() },
            "WARN replacing the candidate of this name that stands for another Lease: no process has answered for it \
             lease_name=\"b\"",
        ),
        (
            Note::CandidateEdited {
                fields: vec![EditedField {
                    field: "spec.binaryVersion",
                    found: "1.0".to_owned(),
                    own: "1.1".to_owned(),
                }],
                again_and_again: false,
            },
            "WARN another client has changed the candidate: writing its own value again field=\"spec.binaryVersion\" \
             found=\"1.0\" own=\"1.1\"",
        ),
        (
            Note::CandidateEdited { fields: Vec::new(), again_and_again: true },
            "WARN another client changes the candidate again and again: look for a file that is applied repeatedly, or \
             another process of this identity; the next changes are not logged",
        ),
        (
            Note::Emptied,
            "WARN a replica with client-go has emptied the Lease, which it lost before: writing the holder back",
        ),
    ] {
        Line::of_note(&note).iter().for_each(super::super::log);
        assert_eq!(log.take(), line, "{note:?}");
    }
}
