//! The text of transcripts: news, requests, replies, notes and Leases on one line each.

use std::fmt::Write as _;

use hustings_core::elector::{EditedField, Leading, Loss, Note, Withheld};
use hustings_core::model::{
    CandidatePatch, LeaseRecord, LeaseWrite, NativeFields, Object, Outcome, Purpose, Reply, Request, SessionMark,
};
use hustings_lab::{Entry, Lab, News, Who, seconds};

/// The line of an entry; `None` for what every elector does all the time, unless the transcript `shows_routine`.
pub(super) fn line(lab: &mut Lab, entry: &Entry, shows_routine: bool) -> Option<String> {
    let Entry { at_micros, who, news } = entry;
    let label = lab.process(*who).label.clone();
    let text = match news {
        News::Leads(Leading { number, token, valid_until }) => {
            let until = seconds(valid_until.as_micros());
            format!("{label} LEADS term {number} token {token} until {until}")
        }
        News::Follows => format!("{label} leads no more"),
        News::Ended => format!("{label} has finished"),
        News::Report(report) => format!("{label} event {}: {report}", report.as_str()),
        News::Note(Note::Began { .. }) => return None,
        News::Note(note) => format!("{label}: {}", describe_note(note)),
        News::StopsWork => format!("{label} asks its work to stop"),
        News::DropsWork => format!("{label} drops its work"),
        News::Sent(request) => format!("{label} sends {}", describe_request(*who, request)),
        News::Lost(request) => format!("{label}'s {} is lost", describe_request(*who, request)),
        News::Shown(observations) => format!("{label} {observations:?}"),
        News::Forged404(request) => format!("{label} {}: a proxy answers 404", describe_request(*who, request)),
        News::Answered { request, reply, is_lost, .. } => {
            if !shows_routine && !is_lost && is_routine(*who, request, reply) {
                return None;
            }
            let lost = if *is_lost { ", and the answer is lost" } else { "" };
            let reply = describe_reply(*who, request, reply);
            format!("{label} {}: {reply}{lost}", describe_request(*who, request))
        }
        News::Does("renews", Some(lease)) => {
            if !shows_routine {
                return None;
            }
            format!("{label} renews: v{}", lease.resource_version)
        }
        News::Does(does, Some(lease)) => format!("{label} {does}: {}", describe(lease)),
        News::Does(does, None) => format!("{label} {does}"),
    };
    Some(format!("{} {text}", seconds(*at_micros)))
}

/// Whether an elector does this every few seconds in any script.
fn is_routine(who: Who, request: &Request, reply: &Reply) -> bool {
    let is_routine = match request {
        Request::WriteLease { write, .. } if write.purpose == Purpose::Renew => {
            matches!(reply, Outcome::Landed(Object::Lease(LeaseRecord { leaving: false, .. })))
        }
        Request::ReadLease { .. } | Request::ReadCandidate { .. } => true,
        _ => false,
    };
    is_routine && matches!(who, Who::Replica(_))
}

fn describe_write(write: &LeaseWrite) -> String {
    format!("{} on v{}", write.purpose.as_str(), write.resource_version)
}

fn describe_reply(who: Who, request: &Request, reply: &Reply) -> String {
    match (who, request, reply) {
        (Who::Replica(_), Request::WriteLease { write, .. }, Outcome::Landed(Object::Lease(lease)))
            if write.purpose == Purpose::Renew =>
        {
            format!("v{}{}", lease.resource_version, if lease.leaving { " leaving" } else { "" })
        }
        (Who::Replica(_), Request::ReadCandidate { .. }, Outcome::Landed(_)) => "found".to_owned(),
        (Who::Replica(_), Request::ListCandidates { .. }, Outcome::Missing) => "no such kind".to_owned(),
        (Who::Replica(_), Request::DeleteCandidate { .. }, Outcome::Deleted) => "done".to_owned(),
        (_, _, reply) => describe_answer(reply),
    }
}

fn describe_answer(reply: &Reply) -> String {
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

/// A request. Those of an elector for a candidate concern its own.
fn describe_request(who: Who, request: &Request) -> String {
    let is_own = matches!(who, Who::Replica(_));
    let (what, name) = match request {
        Request::ReadLease { .. } => return "read".to_owned(),
        Request::CreateLease { .. } => return "create".to_owned(),
        Request::WriteLease { write, .. } => return describe_write(write),
        Request::ListCandidates { .. } => return "list candidates".to_owned(),
        Request::ReadCandidate { candidate } => ("read candidate", candidate.to_string()),
        Request::CreateCandidate { nomination, .. } => ("create candidate", nomination.name.clone()),
        Request::DeleteCandidate { candidate, .. } => ("delete candidate", candidate.to_string()),
        Request::PatchCandidate { candidate, patch, .. } => {
            let what = match patch {
                CandidatePatch::Ping(_) if is_own => "ping the candidate of the other Lease",
                CandidatePatch::Ping(_) => "ping",
                CandidatePatch::Renew(_) => "renew candidate",
                CandidatePatch::Refresh { .. } => "refresh candidate",
                CandidatePatch::Status { status, .. } => {
                    let state = status.state.map_or("none", |state| state.as_str());
                    return format!("status {candidate} {state}");
                }
            };
            (what, candidate.to_string())
        }
    };
    if is_own { what.to_owned() } else { format!("{what} {name}") }
}

fn describe_note(note: &Note) -> String {
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
pub(super) fn describe(lease: &LeaseRecord) -> String {
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
