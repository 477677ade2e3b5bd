//! The text of transcripts: actions, requests, replies, notes and Leases on one line each.

use std::fmt::Write as _;

use hustings_core::elector::{Action, AttemptId, EditedField, Loss, Note, Withheld};
use hustings_core::model::{
    CandidatePatch, LeaseRecord, LeaseWrite, NativeFields, Object, Outcome, Purpose, Reply, Request, SessionMark,
};

pub(crate) fn describe_action(action: &Action) -> String {
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
        Action::PingNamesake { .. } => "ping the candidate of the other Lease".to_owned(),
        Action::StopWork => "stop work".to_owned(),
        Action::AbortWork => "abort work".to_owned(),
    }
}

fn describe_write(write: &LeaseWrite) -> String {
    format!("{} on v{}", write.purpose.as_str(), write.resource_version)
}

/// The reply to an elector's action.
pub(crate) fn describe_reply(action: &Action, reply: &Reply) -> String {
    match (action, reply) {
        (Action::WriteLease { write, .. }, Outcome::Landed(Object::Lease(lease)))
            if write.purpose == Purpose::Renew =>
        {
            format!("v{}{}", lease.resource_version, if lease.leaving { " leaving" } else { "" })
        }
        (Action::ReadCandidate(_), Outcome::Landed(_)) => "found".to_owned(),
        (Action::ListCandidates(_), Outcome::Missing) => "no such kind".to_owned(),
        (Action::DeleteCandidate { .. }, Outcome::Deleted) => "done".to_owned(),
        (_, reply) => describe_answer(reply),
    }
}

/// The reply to a request of a controller.
pub(crate) fn describe_answer(reply: &Reply) -> String {
    match reply {
        Outcome::Landed(Object::Lease(lease)) => describe(lease),
        Outcome::Landed(Object::Candidate(_)) => "done".to_owned(),
        Outcome::Landed(Object::Candidates(candidates)) => {
            let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
            names.join(", ")
        }
        Outcome::Conflict => "conflict".to_owned(),
        Outcome::Missing => "missing".to_owned(),
        Outcome::Deleted => "deleted".to_owned(),
        Outcome::Refused => "refused".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
}

/// A request of a controller.
pub(crate) fn describe_request(request: &Request) -> String {
    match request {
        Request::ReadLease { .. } => "read".to_owned(),
        Request::CreateLease { .. } => "create".to_owned(),
        Request::WriteLease { write, .. } => describe_write(write),
        Request::ReadCandidate { candidate: name } => format!("read candidate {name}"),
        Request::ListCandidates { .. } => "list candidates".to_owned(),
        Request::CreateCandidate { nomination, .. } => format!("create candidate {}", nomination.name),
        Request::PatchCandidate { candidate: name, patch, .. } => match patch {
            CandidatePatch::Ping(_) => format!("ping {name}"),
            CandidatePatch::Renew(_) => format!("renew candidate {name}"),
            CandidatePatch::Refresh { .. } => format!("refresh candidate {name}"),
            CandidatePatch::Status { status, .. } => {
                format!("status {name} {}", status.state.map_or("none", |state| state.as_str()))
            }
        },
        Request::DeleteCandidate { candidate: name, .. } => format!("delete candidate {name}"),
    }
}

pub(crate) fn describe_note(note: &Note) -> String {
    match note {
        Note::Began { .. } => "began".to_owned(),
        Note::Lost(Loss::NotRenewed) => "the term is lost, not renewed in time".to_owned(),
        Note::Lost(Loss::LeaseMissing) => "the term is lost, no Lease".to_owned(),
        Note::Lost(Loss::NotMine { holder }) => {
            format!("the term is lost, not its own any more but naming {}", holder.as_deref().unwrap_or("nobody"))
        }
        Note::HandOverAsked { to } => format!("asked to hand over to {to}"),
        Note::Resigned { cooldown } => format!("resigns, and will stand aside for {} s", cooldown.as_secs()),
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
        Note::WriteReverted => "the write of the Lease was not kept".to_owned(),
        Note::CandidateDeleted => "the candidate is deleted again and again".to_owned(),
        Note::CandidateWriteReverted => "the write of the candidate was not kept".to_owned(),
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
        Note::NamesakeAsked { lease_name } => format!("the candidate stands for {lease_name}; does its process live?"),
        Note::NamesakeReplaced { lease_name } => format!("no process answers for the candidate of {lease_name}"),
        Note::CandidateEdited { fields, again_and_again } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|EditedField { field, found, own }| format!("{field} was {found:?} instead of {own:?}"))
                .collect();
            let again = if *again_and_again { ", again and again" } else { "" };
            format!("the candidate was edited: {}{again}", fields.join(", "))
        }
        Note::Emptied => "client-go has emptied the Lease".to_owned(),
    }
}

/// A Lease on one line, without the fields that are absent.
pub(crate) fn describe(lease: &LeaseRecord) -> String {
    let mut text = format!("v{} ", lease.resource_version);
    match (&lease.holder, lease.is_open()) {
        (Some(holder), _) => _ = write!(text, "{holder}"),
        (None, _) => text.push_str("nobody"),
    }
    _ = write!(text, " {}s n={}", lease.duration_seconds, lease.transitions);
    if lease.session != SessionMark::Absent {
        _ = write!(text, " session={}", lease.session);
    }
    if let Some(token) = lease.token {
        _ = write!(text, " token={token}");
    }
    if let Some(key) = lease.key {
        _ = write!(text, " key={key}");
    }
    if let Some(preferred) = &lease.preferred_holder {
        _ = write!(text, " preferred={preferred}");
    }
    if lease.native.preferred_holder != lease.preferred_holder && lease.native != NativeFields::default() {
        _ = write!(text, " native-preferred={}", lease.native.preferred_holder.as_deref().unwrap_or("nobody"));
    }
    if lease.leaving {
        text.push_str(" leaving");
    }
    if let Some(hold) = &lease.hold {
        _ = write!(text, " hold={hold}");
    }
    text
}
