//! A controller with the real election, whose requests take no time.

use hustings_core::election::{Action, Config, Election, Observation};
use hustings_core::model::{CandidateKey, CandidatePatch, Now, Request, WireTime};
use hustings_wire::api::{NativeVersion, ReadCandidate, ReadLease};
use hustings_wire::exchange::{Exchange, Next};
use hustings_wire::failure::reply_of;
use hustings_wire::request::Decoded;

use crate::server::Server;
use crate::world::{CANDIDATES, NAMESPACE};

pub(crate) struct Controller {
    election: Election,
    lease: String,
    /// How many changes its watch has shown.
    shown: usize,
}

impl Controller {
    pub(crate) fn new(lease: &str) -> Self {
        Self { election: Election::new(Config::default(), NAMESPACE, lease), lease: lease.to_owned(), shown: 0 }
    }

    /// Observes all changes, and decides until nothing is left to do. Returns when to decide again.
    pub(crate) fn act(&mut self, server: &mut Server, now: Now) -> i64 {
        loop {
            self.watch(server, now);
            let decision = self.election.decide(now);
            let before = server.revision();
            for action in decision.actions {
                let request = match action {
                    Action::Send { request, .. } => request,
                    Action::PatchStatus { candidate, uid, status } => {
                        let since = [now.wall; 3];
                        let patch = CandidatePatch::Status { status: Box::new(status), since };
                        Request::PatchCandidate { candidate, uid: uid.to_string(), patch }
                    }
                    Action::Event(_) => continue,
                };
                self.carry(server, &request, now);
            }
            if server.revision() == before {
                return decision.deadline.as_micros();
            }
        }
    }

    fn watch(&mut self, server: &Server, now: Now) {
        for (change, path, object) in &server.changes[self.shown..] {
            if let Some(name) = path.strip_prefix(&format!("{CANDIDATES}/")) {
                if *change == "DELETED" {
                    let candidate = CandidateKey::hustings(name);
                    let source = hustings_core::election::Source::Watch;
                    self.election.observe(now, Observation::CandidateMissing { candidate, source });
                } else {
                    let record = ReadCandidate::from_json(object.clone()).record;
                    if record.lease_name == self.lease {
                        self.election.observe_watched_candidate(now, record.into());
                    }
                }
            } else if path.ends_with(&format!("/{}", self.lease)) && *change != "DELETED" {
                self.election.observe_watched_lease(now, ReadLease::from_json(object.clone()).record.into());
            }
        }
        self.shown = server.changes.len();
    }

    fn carry(&mut self, server: &mut Server, request: &Request, now: Now) {
        let (mut exchange, sent) = Exchange::begin(NAMESPACE, request, NativeVersion::default()).unwrap();
        let body = String::from_utf8(sent.body().clone()).unwrap();
        let (code, answer) = server.handle(sent.method().as_str(), &sent.uri().to_string(), &body, now.wall);
        let Next::Answered(answer) = exchange.answered(NAMESPACE, request, code, None, answer.as_bytes()) else {
            return;
        };
        let reply = reply_of(answer.map(|Decoded { object, .. }| object));
        match Observation::of_reply(request, reply, now.moment) {
            Ok(observation) => drop(self.election.observe(now, observation)),
            Err(read) => self.carry(server, &read, now),
        }
    }
}

/// The wall clock of the controller.
pub(crate) const fn wall(micros: i64) -> WireTime {
    WireTime::from_micros(micros)
}
