//! What transcripts call what an elector does and what becomes of it.

use hustings_core::elector::{Action, AttemptId, Loss, Note, Outcome, Withheld};
use hustings_core::model::LeaseWrite;

pub(super) fn describe_action(action: &Action) -> String {
    match action {
        Action::ReadLease(AttemptId(_)) => "read".to_owned(),
        Action::CreateLease(_) => "create".to_owned(),
        Action::WriteLease { write, .. } => describe_write(write),
        Action::ReadCandidate(_) => "read candidate".to_owned(),
        Action::ListCandidates(_) => "list candidates".to_owned(),
        Action::CreateCandidate { .. } => "create candidate".to_owned(),
        Action::RenewCandidate { refresh: true, .. } => "refresh candidate".to_owned(),
        Action::RenewCandidate { .. } => "renew candidate".to_owned(),
        Action::DeleteCandidate { .. } => "delete candidate".to_owned(),
        Action::StopWork => "stop work".to_owned(),
        Action::AbortWork => "abort work".to_owned(),
    }
}

fn describe_write(write: &LeaseWrite) -> String {
    format!("{} on v{}", write.purpose.as_str(), write.resource_version)
}

pub(super) fn describe_outcome<Record>(outcome: &Outcome<Record>, describe: impl FnOnce(&Record) -> String) -> String {
    match outcome {
        Outcome::Landed(record) => describe(record),
        Outcome::Conflict => "conflict".to_owned(),
        Outcome::Missing => "missing".to_owned(),
        Outcome::Deleted => "deleted".to_owned(),
        Outcome::Refused => "refused".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
}

pub(super) fn describe_note(note: &Note) -> String {
    match note {
        Note::Began { .. } => "began".to_owned(),
        Note::Lost(Loss::NotRenewed) => "the term is lost, not renewed in time".to_owned(),
        Note::Lost(Loss::LeaseMissing) => "the term is lost, no Lease".to_owned(),
        Note::Lost(Loss::NotMine { holder }) => {
            format!("the term is lost, not its own any more but naming {}", holder.as_deref().unwrap_or("nobody"))
        }
        Note::HandOverAsked { to } => format!("asked to hand over to {to}"),
        Note::Resigned { rest } => format!("resigns, and will stand aside for {} s", rest.as_secs()),
        Note::Asked { holder } => format!("asks {holder} to hand over"),
        Note::GaveUp => "the term is given up".to_owned(),
        Note::LeftToRunOut => "the Lease is left to run out, as asked".to_owned(),
        Note::GiveUpAbandoned => "the Lease is left to run out".to_owned(),
        Note::WorkDidNotStop => "the work has not stopped in time".to_owned(),
        Note::NamesakeHolds { session } => format!("another process of this name holds it, session {session:?}"),
        Note::Reclaims { session } => format!("it takes back what it held before, session {session:?}"),
        Note::LandedTooLate => "the write has landed too late".to_owned(),
        Note::Conflict => "conflict".to_owned(),
        Note::Refused => "refused".to_owned(),
        Note::OutcomeUnknown => "outcome unknown".to_owned(),
        Note::NotKept => "the write of the Lease was not kept".to_owned(),
        Note::CandidateNotKept => "the write of the candidate was not kept".to_owned(),
        Note::NoController => "nobody elects: it is for the candidates to do".to_owned(),
        Note::NoCandidates => "there are no candidates here".to_owned(),
        Note::Withheld(withheld) => match withheld {
            Withheld::TurnedOff => "nobody elects, and it does not either".to_owned(),
            Withheld::NoList => "nobody elects, and the candidates cannot be listed".to_owned(),
            Withheld::Hold(hold) => format!("nobody is to lead: {hold}"),
            Withheld::ThirdPartyStrategy(strategy) => format!("nobody elects by {strategy}"),
            Withheld::Disagreement => "the candidates disagree".to_owned(),
            Withheld::Inadmissible(inadmissible) => format!("its candidate is not admissible: {inadmissible}"),
        },
        Note::OwnerDropped => "its owner seems to be unknown to the API server, and is not named any more".to_owned(),
        Note::CandidateOfAnotherLease { lease_name } => format!("the candidate stands for {lease_name}"),
    }
}
