//! The transcript: what the requests of the controllers and the processes of the candidates do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hustings_core::election::{Event, Observation};
use hustings_core::model::{
    CandidateKind, CandidatePatch, LeaseRecord, LeaseWrite, Object, Outcome, Purpose, Reply, Request, WireTime,
};
use hustings_lab::{Entry, News, Who};

use super::pods::describe_evidence;
use super::{World, describe};

/// What is shown on one line for all candidates of a decision, in this order.
const GROUPS: [&str; 5] = ["read", "ping", "status", "ack", "native ack"];

/// The transcript so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    text: String,
    /// The names on each line that is not complete, with the time of that line.
    groups: BTreeMap<&'static str, Vec<String>>,
    at_micros: i64,
    is_second: bool,
    /// How many decisions there were until the last entry.
    decisions: usize,
    /// The reads after conflicts. They are not shown.
    read_again: Vec<Request>,
    /// The events of successful writes, which are shown beside the writes.
    published: Vec<Event>,
}

impl World {
    pub(crate) fn take_log(&mut self) -> String {
        self.flush();
        std::mem::take(&mut self.log.text)
    }

    pub(crate) fn say(&mut self, text: &str) {
        let millis = (self.log.at_micros - self.start_micros) / 1000;
        let who = if self.log.is_second { "second: " } else { "" };
        writeln!(self.log.text, "{:>4}.{:03}  {who}{text}", millis / 1000, millis % 1000).unwrap();
    }

    fn flush(&mut self) {
        for group in GROUPS {
            let Some(mut names) = self.log.groups.remove(group) else { continue };
            let what = group.trim_start_matches("native ");
            if what == "ack" {
                names.sort();
            }
            let count = if what == "ack" { String::new() } else { format!(", {} in all", names.len()) };
            match names.as_slice() {
                [first, .., last] if names.len() > 8 => self.say(&format!("{what}: {first} to {last}{count}")),
                names => self.say(&format!("{what}: {}", names.join(", "))),
            }
        }
    }

    fn group(&mut self, what: &'static str, name: String) {
        let is_ack = what.ends_with("ack");
        if self.log.groups.keys().any(|group| group.ends_with("ack") != is_ack) {
            self.flush();
        }
        self.log.groups.entry(what).or_default().push(name);
    }

    /// Shows an entry. `before` is the Lease before it.
    pub(super) fn show(&mut self, entry: Entry, before: Option<&LeaseRecord>) {
        let Entry { at_micros, who, news } = entry;
        let is_second = matches!(who, Who::Controller(index) if self.lab.controllers[index].process.name == "second");
        let is_request = matches!(news, News::Answered { .. } | News::Report(_));
        let is_ack = matches!(news, News::Does("answers", _));
        let is_same =
            (at_micros, is_second, self.decisions()) == (self.log.at_micros, self.log.is_second, self.log.decisions);
        let after_acks = self.log.groups.keys().any(|group| group.ends_with("ack"));
        if !(is_ack || is_same && is_request) || is_ack != after_acks {
            self.flush();
        }
        (self.log.at_micros, self.log.is_second, self.log.decisions) = (at_micros, is_second, self.decisions());
        match news {
            News::Report(event) => {
                if let Some(index) = self.log.published.iter().position(|published| *published == event) {
                    self.log.published.remove(index);
                } else {
                    self.say(&format!("event {}: {event}", event.as_str()));
                }
            }
            News::Shown(observations) => {
                if let Who::Controller(index) = who
                    && self.lab.controllers[index].leads
                {
                    self.show_evidence(index, &observations);
                }
            }
            News::Answered { request, reply, report, .. } => {
                let Who::Controller(index) = who else { return };
                self.show_request(index, &request, &reply, report.as_ref(), before);
            }
            News::Does(does, Some(lease)) => {
                if let Some(process) = self.does(who, does, &lease, before) {
                    self.say(&process);
                }
            }
            News::Does(does, None) => {
                let name = self.lab.process(who).name.clone();
                match does {
                    "answers" => {
                        self.answered.insert(name.clone(), at_micros);
                        self.group(if matches!(who, Who::Native(_)) { "native ack" } else { "ack" }, name);
                    }
                    "exits" => self.say(&format!("{name} exits")),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Records until when a process relies on the Lease that it has written. Returns what it did, unless it renewed.
    fn does(&mut self, who: Who, does: &str, lease: &LeaseRecord, before: Option<&LeaseRecord>) -> Option<String> {
        let name = self.lab.process(who).name.clone();
        let is_its_own = |lease: &LeaseRecord| lease.holder.as_deref() == Some(&*name);
        if is_its_own(lease) {
            self.relied_until = self.lab.now_micros + i64::from(lease.duration_seconds) * 1_000_000;
        } else if before.is_none_or(|before| is_its_own(before) || before.session.stamp().is_none()) {
            // A late release changes nothing about a holder of Hustings. A holder of client-go has to prevent it:
            // nobody can tell it from that holder's own release.
            self.relied_until = self.lab.now_micros;
        }
        match does {
            "renews" => None,
            "hands over" => Some(format!("{name} hands over to {}", lease.holder.as_deref().unwrap_or_default())),
            does => Some(format!("{name} {does}")),
        }
    }

    fn show_evidence(&mut self, index: usize, observations: &[Observation]) {
        if let Some(shown) = observations.first().and_then(describe_evidence) {
            self.say(&format!("watch {shown}"));
        }
        if let Some(doubt) = self.lab.controllers[index].election.doubt() {
            self.say(&format!("no evidence: {doubt}"));
        }
    }

    fn show_request(
        &mut self,
        index: usize,
        request: &Request,
        reply: &Reply,
        event: Option<&Event>,
        before: Option<&LeaseRecord>,
    ) {
        if let Some(index) = self.log.read_again.iter().position(|read| read == request) {
            self.log.read_again.remove(index);
            return;
        }
        let is_read = matches!(request, Request::ReadLease { .. } | Request::ReadCandidate { .. });
        let is_status = matches!(request, Request::PatchCandidate { patch: CandidatePatch::Status { .. }, .. });
        if matches!(reply, Outcome::Conflict | Outcome::Missing) && !is_read && !is_status {
            self.log.read_again.push(request.read_back());
        }
        if matches!(reply, Outcome::Landed(_)) {
            self.log.published.extend(event.cloned());
        }
        if *reply == Outcome::Unknown {
            let object = match (request.candidate(), is_status) {
                (None, _) => "Lease".to_owned(),
                (Some(candidate), true) => format!("Status({:?})", candidate.to_string()),
                (Some(candidate), false) => format!("Candidate({:?})", candidate.to_string()),
            };
            return self.say(&format!("a request about {object} fails"));
        }
        if let Request::DeleteCandidate { candidate, resource_version, .. } = request {
            assert!(resource_version.is_some(), "{candidate} is deleted only as it was seen");
        }
        let is_reverted = |what: &str| self.lab.server.faults.reverted.contains(what);
        match request {
            Request::ReadLease { .. } => {
                let found = match reply {
                    Outcome::Landed(Object::Lease(lease)) => describe(lease),
                    _ => "missing".to_owned(),
                };
                self.say(&format!("read the Lease: {found}"));
            }
            Request::ReadCandidate { candidate } => self.group("read", candidate.to_string()),
            Request::CreateLease { .. } if matches!(reply, Outcome::Landed(_)) => {
                self.lease_writes += 1;
                let is_deleted = is_reverted("create");
                self.say("create the Lease");
                if is_deleted {
                    self.say("the Lease is deleted");
                }
            }
            Request::CreateLease { .. } => self.say("create the Lease: it exists"),
            Request::WriteLease { write, .. } => self.show_write(index, write, reply, event, before),
            Request::PatchCandidate { candidate, .. } if *reply == Outcome::Refused => {
                self.say(&format!("the ping of {candidate} fails"));
            }
            Request::PatchCandidate { candidate, patch, .. } => {
                let is_ping = matches!(patch, CandidatePatch::Ping(_));
                let what = if is_ping { "ping" } else { "status" };
                if is_reverted(what) {
                    return self.say(&format!("{what}: {candidate}: no effect"));
                }
                // After the end of wire time there is no later ping.
                let is_last = matches!(patch, CandidatePatch::Ping(WireTime::MAX));
                match (patch, reply) {
                    (CandidatePatch::Ping(ping_time), Outcome::Landed(Object::Candidate(record)))
                        if candidate.kind == CandidateKind::Native
                            && record.renew_time >= Some(*ping_time)
                            && !is_last =>
                    {
                        self.say(&format!("withdraw the ping: {candidate}"));
                    }
                    (CandidatePatch::Status { .. }, Outcome::Conflict) => {
                        self.say(&format!("status of {candidate}: conflict"));
                    }
                    (CandidatePatch::Status { status, .. }, _) => {
                        self.status_patches += 1;
                        let state = status.state.map_or("-", |state| state.as_str());
                        self.group("status", format!("{candidate} {state}"));
                    }
                    _ => {
                        self.pings += 1;
                        self.group("ping", candidate.to_string());
                    }
                }
            }
            Request::DeleteCandidate { candidate, .. } if is_reverted("delete") => {
                self.say(&format!("delete {candidate}: no effect"));
            }
            Request::DeleteCandidate { candidate, .. } if *reply == Outcome::Deleted => {
                self.say(&format!("delete {candidate}"));
            }
            Request::DeleteCandidate { .. } => {}
            other => panic!("a controller has no reason for {other:?}"),
        }
    }

    fn show_write(
        &mut self,
        index: usize,
        write: &LeaseWrite,
        reply: &Reply,
        event: Option<&Event>,
        before: Option<&LeaseRecord>,
    ) {
        let purpose = write.purpose.as_str();
        let (Outcome::Landed(Object::Lease(written)), Some(before)) = (reply, before) else {
            return self.say(&format!("{purpose}: conflict"));
        };
        self.check_write(index, write, before);
        self.lease_writes += 1;
        let former = LeaseRecord { resource_version: written.resource_version, ..before.clone() };
        if *written == former {
            return self.say(&format!("{purpose}: no effect"));
        }
        if write.purpose == Purpose::Grant {
            assert!(
                written.renew_time > before.renew_time,
                "a grant does not move the renewTime on\n{}",
                self.log.text
            );
        }
        let event = event.map_or(String::new(), |event| format!(" [{event}]"));
        self.say(&format!("{purpose}: {}{event}", describe(written)));
    }
}
