//! One controller: its election, its requests, and what its watches have shown.

use std::hash::Hash;
use std::time::Duration;

use hustings_core::election::{Action, Config, Decision, Election, EvidenceConfig, Observation, Source, Target};
use hustings_core::model::{CandidateKey, CandidateRecord, LeaseRecord, Moment, Now, Request, WireTime};

use super::ledger::Ledger;
use super::store::{Sent, Store};
use crate::canonical::CanonicalHasher;
use crate::process::{Clock, LEASE, Shown};

/// The rule that a controller follows: the product's, or a mistake that the models must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerRule {
    /// The election as it is.
    Hustings,
    /// A missing Lease is free, whatever was observed before.
    GrantsDeletedAtOnce,
    /// A Lease expires one duration after its `renewTime`, by the controller's own wall clock.
    CountsFromRenewTime,
    /// Its writes of the Lease are not conditional on a version.
    WritesUnconditionally,
    /// It treats a ping as its answer.
    TakesPingForAnswer,
    /// It waits for every answer without a limit.
    WaitsForAnswers,
    /// It decides only after an observation.
    IgnoresDeadlines,
}

/// The configuration of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSeat {
    /// How many parts per million its local clock is too fast.
    pub fast_ppm: i64,
    /// How many ticks its wall clock is ahead of all others.
    pub wall_ahead_ticks: i64,
    /// Its rule.
    pub rule: ControllerRule,
}

/// The state of an action that a decision requires.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RequestState {
    /// The request is on its way.
    Sent,
    /// The answer will never arrive.
    Astray,
    /// The request was answered.
    Answered(Observation),
}

#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may be so or not")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    election: Election,
    seat: ControllerSeat,
    watches_pods: bool,
    clock: Clock,
    /// Whether this controller decides. A standby only observes.
    leads: bool,
    deadline: Option<Moment>,
    /// The actions of the last decision. The next decision follows when all of them are done.
    requests: Vec<(Action, RequestState)>,
    sent_at: Moment,
    lease_shown: Shown,
    candidates_shown: Vec<Shown>,
    ledger: Ledger,
    /// It is frozen. The server still executes its requests.
    pub(super) is_asleep: bool,
    /// Its watches show nothing.
    pub(super) is_silenced: bool,
}

/// The configuration of an election in these models.
pub(super) fn config(watches_pods: bool) -> Config {
    Config {
        evidence: EvidenceConfig { pods: watches_pods, nodes: false },
        settling: Duration::ZERO,
        damping_min: Duration::from_secs(10),
        damping_max: Duration::from_secs(10),
        declined_rest: Duration::from_secs(10),
        requeue: Duration::from_secs(10),
        ignored_after: Duration::from_secs(10),
        // No other client reverts a write here, and the memory of each write would multiply the states.
        settled_after: Duration::ZERO,
        ..Config::default()
    }
}

impl Controller {
    /// A new process, which has listed everything.
    pub(super) fn start(seat: &ControllerSeat, watches_pods: bool, ticks: i64, store: &Store) -> Self {
        let clock = Clock { fast_ppm: seat.fast_ppm, tick_micros: super::TICK_MICROS };
        let mut controller = Self {
            election: Election::new(config(watches_pods), "default", LEASE),
            seat: seat.clone(),
            watches_pods,
            clock,
            leads: false,
            deadline: None,
            requests: Vec::new(),
            sent_at: clock.at(ticks).moment,
            lease_shown: Shown::Nothing,
            candidates_shown: vec![Shown::Nothing; store.seats],
            ledger: Ledger::new(store.seats, store.are_equal),
            is_asleep: false,
            is_silenced: false,
        };
        for observation in controller.news(store) {
            controller.take_note(ticks, observation);
        }
        controller
    }

    pub(super) fn now(&self, ticks: i64) -> Now {
        let now = self.clock.at(ticks);
        let ahead = self.seat.wall_ahead_ticks * self.clock.tick_micros;
        Now { wall: WireTime::from_micros(now.wall.as_micros() + ahead), ..now }
    }

    pub(super) const fn leads(&self) -> bool {
        self.leads
    }

    /// Whether its deadline has come.
    pub(super) fn is_due(&self, ticks: i64) -> bool {
        self.leads
            && self.seat.rule != ControllerRule::IgnoresDeadlines
            && self.requests.is_empty()
            && self.deadline.is_some_and(|deadline| deadline <= self.now(ticks).moment)
    }

    /// The requests on their way.
    pub(super) fn sent(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().enumerate().filter(|(_, (_, state))| *state == RequestState::Sent).map(|(index, _)| index)
    }

    /// Whether it waits for any answer.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether all actions of the last decision are done.
    pub(super) fn is_answered(&self) -> bool {
        !self.requests.is_empty() && self.requests.iter().all(|(_, state)| matches!(state, RequestState::Answered(_)))
    }

    /// Whether it has observed the Lease in a state on which a process may rely.
    pub(super) fn has_seen_held(&self) -> bool {
        self.election.lease().is_some_and(|observed| !observed.record().is_given_up())
    }

    /// Whether its watches show anything now.
    pub(super) fn is_shown_news(&self, store: &Store) -> bool {
        !self.is_asleep && !self.is_silenced && !self.news(store).is_empty()
    }

    /// The observations that its watches have not delivered yet. They do not show a Lease without the label.
    pub(super) fn news(&self, store: &Store) -> Vec<Observation> {
        let source = Source::Watch;
        let mut news = Vec::new();
        match store.lease().cloned().filter(|lease| lease.enrolled) {
            Some(record) if self.lease_shown.is_older_than(record.resource_version) => {
                news.push(Observation::Lease { record, source });
            }
            None if self.lease_shown != Shown::Missing => news.push(Observation::LeaseMissing { source }),
            Some(_) | None => {}
        }
        for (who, shown) in self.candidates_shown.iter().enumerate() {
            match store.candidate(who) {
                Some(record) if shown.is_older_than(record.resource_version) => {
                    news.push(Observation::Candidate { record: record.clone(), source });
                }
                None if matches!(shown, Shown::Version(_)) => {
                    let candidate = CandidateKey::hustings(super::IDENTITIES[who]);
                    news.push(Observation::CandidateMissing { candidate, source });
                }
                Some(_) | None => {}
            }
        }
        news
    }

    /// Observes `news`, and decides if it may. Returns whether the decision grants the Lease to the wrong candidate.
    pub(super) fn observe(&mut self, ticks: i64, news: Vec<Observation>) -> bool {
        for observation in news {
            self.take_note(ticks, observation);
        }
        self.leads && self.requests.is_empty() && self.decide(ticks)
    }

    /// Observes the answers to the requests of the last decision, and decides if it leads. Returns the same as
    /// [`observe`](Self::observe).
    pub(super) fn receive_answers(&mut self, ticks: i64) -> bool {
        let requests = std::mem::take(&mut self.requests);
        let answers = requests.into_iter().filter_map(|(_, state)| match state {
            RequestState::Answered(observation) => Some(observation),
            RequestState::Sent | RequestState::Astray => None,
        });
        self.observe(ticks, answers.collect())
    }

    /// Begins or stops leading.
    pub(super) fn lead(&mut self, ticks: i64, leads: bool) -> bool {
        self.leads = leads;
        self.observe(ticks, Vec::new())
    }

    pub(super) fn decide(&mut self, ticks: i64) -> bool {
        let now = self.now(ticks);
        let decision = self.election.decide(now);
        self.deadline = Some(decision.deadline);
        self.sent_at = now.moment;
        let misgrants = self.ledger.forbids(&decision);
        let Decision { actions, .. } = decision;
        for action in &actions {
            self.ledger.note_action(action, now.moment);
        }
        let is_request = |action: &Action| !matches!(action, Action::Event(_));
        self.requests = actions.into_iter().filter(is_request).map(|action| (action, RequestState::Sent)).collect();
        misgrants
    }

    /// When the requests of the last decision were sent.
    pub(super) const fn sent_at(&self) -> Moment {
        self.sent_at
    }

    /// The request at `index`.
    pub(super) fn request(&self, index: usize) -> Option<Sent> {
        let request = match self.requests[index].0.clone() {
            Action::Send { request, .. } => request,
            Action::PatchStatus { candidate, uid, status } => {
                Request::patch_status(candidate, &*uid, status, [WireTime::default(); 3])
            }
            Action::Event(_) => return None,
        };
        let is_write = matches!(request, Request::WriteLease { .. });
        Some(Sent { request, is_unconditional: is_write && self.seat.rule == ControllerRule::WritesUnconditionally })
    }

    /// Whether evidence has freed the Lease.
    pub(super) fn has_evidence(&self) -> bool {
        self.election.evidence().is_some()
    }

    /// The outcome of the request at `index`.
    pub(super) fn answer(&mut self, index: usize, observation: Observation) {
        self.requests[index].1 = RequestState::Answered(observation);
    }

    /// The request at `index` goes astray: it may still succeed, but its answer never arrives.
    pub(super) fn lose(&mut self, index: usize) {
        self.requests[index].1 = RequestState::Astray;
    }

    /// Lets requests without an answer fail after a tick.
    pub(super) fn time_out(&mut self) {
        if self.seat.rule == ControllerRule::WaitsForAnswers {
            return;
        }
        for (action, state) in &mut self.requests {
            if *state == RequestState::Astray {
                let target = target_of(action);
                *state = RequestState::Answered(Observation::Failed { target });
            }
        }
    }

    pub(super) fn hash_into(&self, name: &str, hasher: &mut CanonicalHasher, ticks: i64) {
        // With a tick of 1, the hasher keeps planned moments that have passed, too.
        let hasher = hasher.of(name, self.now(ticks).moment.as_micros(), 1);
        hasher.spell_without(&config(self.watches_pods), &self.election);
        (self.leads, self.deadline, &self.requests, self.sent_at).hash(hasher);
        (self.lease_shown, &self.candidates_shown, &self.ledger, self.is_asleep, self.is_silenced).hash(hasher);
    }

    fn take_note(&mut self, ticks: i64, observation: Observation) {
        let now = self.now(ticks);
        match &observation {
            Observation::Lease { record, .. } if record.enrolled => {
                self.lease_shown = self.lease_shown.newest(record.resource_version);
            }
            Observation::Lease { .. } | Observation::LeaseMissing { .. } => self.lease_shown = Shown::Missing,
            Observation::Candidate { record, .. } => {
                let shown = &mut self.candidates_shown[super::index_of(&record.name)];
                *shown = shown.newest(record.resource_version);
            }
            Observation::CandidateMissing { candidate, .. } => {
                self.candidates_shown[super::index_of(&candidate.name)] = Shown::Missing;
            }
            Observation::Pod { .. } | Observation::Node { .. } | Observation::Failed { .. } => {}
        }
        self.ledger.note(&observation, now.moment);
        let seen = if self.seat.rule == ControllerRule::CountsFromRenewTime {
            as_of_renew_time(now, &observation)
        } else {
            now
        };
        let is_live_miss = matches!(observation, Observation::LeaseMissing { source: Source::Read { .. } });
        if self.seat.rule == ControllerRule::GrantsDeletedAtOnce && is_live_miss {
            self.forget();
        }
        let imagined = imagined_answer(&observation).filter(|_| self.seat.rule == ControllerRule::TakesPingForAnswer);
        self.election.observe(seen, observation);
        if let Some(imagined) = imagined {
            self.election.observe(now, imagined);
        }
    }

    /// Forgets everything, and lists the candidates again.
    fn forget(&mut self) {
        self.election = Election::new(config(self.watches_pods), "default", LEASE);
        self.candidates_shown.fill(Shown::Nothing);
    }
}

fn target_of(action: &Action) -> Target {
    match action {
        Action::PatchStatus { candidate, .. } => Target::Status(candidate.clone()),
        action => candidate_of(action).cloned().map_or(Target::Lease, Target::Candidate),
    }
}

fn candidate_of(action: &Action) -> Option<&CandidateKey> {
    match action {
        Action::Send { request, .. } => request.candidate(),
        Action::PatchStatus { candidate, .. } => Some(candidate),
        Action::Event(_) => None,
    }
}

/// `now`, moved back to the instant of the renew time by the wall clock.
fn as_of_renew_time(now: Now, observation: &Observation) -> Now {
    let Observation::Lease { record: LeaseRecord { renew_time: Some(renew_time), .. }, .. } = observation else {
        return now;
    };
    let age = (now.wall.as_micros() - renew_time.as_micros()).max(0);
    Now { moment: Moment::from_micros(now.moment.as_micros() - age), ..now }
}

/// The version that would follow if the candidate answered the ping.
fn imagined_answer(observation: &Observation) -> Option<Observation> {
    let Observation::Candidate { record, source: Source::Written { .. } } = observation else { return None };
    let renew_time = Some(record.ping_time?.later_than(record.renew_time));
    let record = CandidateRecord { renew_time, resource_version: record.resource_version + 1, ..record.clone() };
    Some(Observation::Candidate { record, source: Source::Watch })
}
