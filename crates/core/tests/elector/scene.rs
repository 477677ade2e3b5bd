//! Several electors, each with its own clock, over one store and a network that delays and loses what it is told to.
//!
//! There is one true time. Nobody but the scene knows it; the electors see their own clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::elector::{
    Action, AttemptId, Config, Decision, Draw, Elector, FailOpen, Leading, Loss, Mode, Note, Observation, Outcome,
    Range, Source, Timing, Withheld,
};
use hustings_core::model::{LeaseWrite, Moment, Now, Purpose, Strategy, WireTime};

use super::store::{Store, describe};

pub(crate) const LEASE: &str = "lease";

/// A hundred years: nothing later ever happens.
const FAR_AWAY_MICROS: i64 = 100 * 365 * 86_400 * 1_000_000;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How long it travels to the server.
    pub(crate) there: Duration,
    /// Whether the server executes it.
    pub(crate) executed: bool,
    /// How long the answer travels back.
    pub(crate) back: Duration,
    /// Whether the answer is lost: the elector is then told that nobody knows.
    pub(crate) answer_lost: bool,
}

impl Fate {
    pub(crate) const AT_ONCE: Self =
        Self { there: Duration::ZERO, executed: true, back: Duration::ZERO, answer_lost: false };
}

/// What the work of an elector does when it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStops {
    After(Duration),
    Never,
}

pub(crate) struct Actor {
    /// Its identity.
    pub(crate) name: String,
    /// What the transcript calls it.
    pub(crate) label: String,
    pub(crate) elector: Elector,
    /// The local clock is `offset + true time * (1 + drift)`.
    pub(crate) offset_micros: i64,
    pub(crate) drift_per_million: i64,
    pub(crate) wall_offset_micros: i64,
    pub(crate) fate: Fate,
    /// The server executes none of its requests to ask a holder.
    pub(crate) may_not_ask: bool,
    pub(crate) watch_delay: Option<Duration>,
    pub(crate) work_stops: WorkStops,
    pub(crate) leading: Option<Leading>,
    /// `spec.binaryVersion` of its candidate, and what it emulates.
    pub(crate) version: String,
    pub(crate) range: Option<Range>,
    pub(crate) frozen_until: i64,
    /// It crashed or has finished.
    pub(crate) crashed: bool,
    /// The mistake of counting validity from the answer, for the negative control.
    pub(crate) counts_from_answer: bool,
    wrongly_valid_until: Moment,
    last_watch_at: i64,
    next_wake: Option<i64>,
}

enum Event {
    Wake(usize),
    Tell(usize, Observation),
    Execute(usize, Action, Fate),
    WatchLease(usize, Observation),
}

pub(crate) struct Scene {
    pub(crate) now_micros: i64,
    pub(crate) store: Store,
    pub(crate) actors: Vec<Actor>,
    pub(crate) transcript: Vec<String>,
    /// Draws jitter and the fates of requests; the constant 0 in data files.
    pub(crate) chance: Box<dyn FnMut() -> u32>,
    /// Overrides an actor's fate for each request.
    pub(crate) fates: Option<Box<dyn FnMut() -> Fate>>,
    /// Every token with which a term began, in the order of their beginnings.
    pub(crate) tokens: Vec<u64>,
    /// By session and start of its range: up to when an elector could call wall-clock instants its own, so far.
    pub(crate) owned: BTreeMap<(String, WireTime), WireTime>,
    /// Actors that were seen to lead at one instant.
    pub(crate) violations: Vec<String>,
    queue: BTreeMap<(i64, u64), Event>,
    sequence: u64,
}

impl Actor {
    pub(crate) fn new(name: &str, config: Config, now_micros: i64) -> Self {
        let mut actor = Self {
            name: name.to_owned(),
            label: name.to_owned(),
            elector: Elector::new(config.clone(), now_of(now_micros, 0)),
            offset_micros: 0,
            drift_per_million: 0,
            wall_offset_micros: 0,
            fate: Fate::AT_ONCE,
            may_not_ask: false,
            watch_delay: Some(Duration::ZERO),
            work_stops: WorkStops::After(Duration::ZERO),
            leading: None,
            version: "1.0".to_owned(),
            range: None,
            frozen_until: 0,
            crashed: false,
            counts_from_answer: false,
            wrongly_valid_until: Moment::default(),
            last_watch_at: 0,
            next_wake: None,
        };
        actor.elector = Elector::new(config, actor.local(now_micros));
        actor
    }

    pub(crate) fn with_clock(
        mut self,
        offset_micros: i64,
        drift_per_million: i64,
        wall_offset_micros: i64,
        now: i64,
    ) -> Self {
        self.offset_micros = offset_micros;
        self.drift_per_million = drift_per_million;
        self.wall_offset_micros = wall_offset_micros;
        self.elector = Elector::new(self.elector.config().clone(), self.local(now));
        self
    }

    pub(crate) fn local(&self, true_micros: i64) -> Now {
        let local = self.offset_micros + true_micros + true_micros * self.drift_per_million / 1_000_000;
        now_of(local, self.wall_offset_micros - self.offset_micros)
    }

    /// The first true time at which the local clock shows `moment`.
    fn true_micros(&self, moment: Moment) -> i64 {
        let local = i128::from(moment.as_micros()) - i128::from(self.offset_micros);
        let micros = local * 1_000_000 / i128::from(1_000_000 + self.drift_per_million) - 1;
        let mut micros = i64::try_from(micros).unwrap_or(FAR_AWAY_MICROS).min(FAR_AWAY_MICROS);
        while self.local(micros).moment < moment && micros < FAR_AWAY_MICROS {
            micros += 1;
        }
        micros
    }

    /// What `is_leader()` reads.
    pub(crate) fn reads_leading(&self, true_micros: i64) -> bool {
        let now = self.local(true_micros).moment;
        if self.crashed {
            return false;
        }
        if self.counts_from_answer {
            return now < self.wrongly_valid_until;
        }
        self.leading.is_some_and(|leading| now < leading.valid_until)
    }
}

fn now_of(local_micros: i64, wall_offset_micros: i64) -> Now {
    Now {
        moment: Moment::from_micros(local_micros),
        wall: WireTime::from_micros(1_000_000_000_000_000 + local_micros + wall_offset_micros),
    }
}

pub(crate) fn config(name: &str, session: &str, mode: Mode, timing: Timing) -> Config {
    Config {
        identity: name.to_owned(),
        lease_name: LEASE.to_owned(),
        session: session.to_owned(),
        mode,
        strategy: Strategy::OldestEmulationVersion,
        fallback: true,
        timing,
        fail_open: FailOpen::Off,
        keeps_on_stop: false,
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            now_micros: 0,
            store: Store::default(),
            actors: Vec::new(),
            transcript: Vec::new(),
            chance: Box::new(|| 0),
            fates: None,
            tokens: Vec::new(),
            owned: BTreeMap::new(),
            violations: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub(crate) fn add(&mut self, actor: Actor) {
        self.actors.push(actor);
        self.begin(self.actors.len() - 1);
    }

    /// The first decision, and what the watches show first.
    fn begin(&mut self, index: usize) {
        self.push(self.now_micros, Event::Wake(index));
        self.watch_speaks(index);
        self.candidate_watch_speaks(index);
    }

    /// A process is started anew in the place of one that has crashed. What was on its way to that one is lost.
    pub(crate) fn replace(&mut self, index: usize, actor: Actor) {
        self.queue.retain(|_, event| match event {
            Event::Wake(to) | Event::Tell(to, _) | Event::WatchLease(to, _) => *to != index,
            Event::Execute(..) => true,
        });
        self.actors[index] = actor;
        self.begin(index);
    }

    /// Tells an actor something at this instant.
    pub(crate) fn tell(&mut self, index: usize, observation: Observation) {
        self.push(self.now_micros, Event::Tell(index, observation));
    }

    /// The Lease was changed by somebody else: the watches speak.
    pub(crate) fn lease_changed(&mut self) {
        for index in 0..self.actors.len() {
            self.watch_speaks(index);
        }
    }

    /// The watch of one actor delivers what stands now.
    pub(crate) fn watch_speaks(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        let Some(delay) = actor.watch_delay else { return };
        // One watch never reorders.
        let at = (self.now_micros + micros(delay)).max(actor.last_watch_at);
        actor.last_watch_at = at;
        let observation = match &self.store.lease {
            Some(record) => Observation::Lease { record: record.clone(), source: Source::Watch },
            None => Observation::LeaseMissing { source: Source::Watch },
        };
        self.push(at, Event::WatchLease(index, observation));
    }

    pub(crate) fn candidate_changed(&mut self, name: &str) {
        for index in 0..self.actors.len() {
            if self.actors[index].name == name {
                self.candidate_watch_speaks(index);
            }
        }
    }

    fn candidate_watch_speaks(&mut self, index: usize) {
        let actor = &self.actors[index];
        let Some(delay) = actor.watch_delay else { return };
        if actor.elector.config().mode == Mode::Direct {
            return;
        }
        let source = Source::Watch;
        let observation = match self.store.candidates.get(&actor.name) {
            Some(record) => Observation::Candidate { record: record.clone(), source },
            None => Observation::CandidateMissing { source },
        };
        self.push(self.now_micros + micros(delay), Event::Tell(index, observation));
    }

    /// Lets everything happen that happens until `micros`, and no more than `most_events` events.
    pub(crate) fn run_until(&mut self, until_micros: i64, most_events: usize) {
        for _ in 0..most_events {
            let Some((&(at, _), _)) = self.queue.first_key_value() else { break };
            if at > until_micros {
                break;
            }
            let ((at, _), event) = self.queue.pop_first().unwrap();
            self.now_micros = self.now_micros.max(at);
            self.note_ranges();
            self.happen(event);
            self.note_ranges();
            let leaders: Vec<&str> = self
                .actors
                .iter()
                .filter(|actor| actor.reads_leading(self.now_micros))
                .map(|actor| actor.label.as_str())
                .collect();
            if leaders.len() > 1 {
                self.violations.push(format!("{} {}", seconds(self.now_micros), leaders.join(" and ")));
            }
        }
        let is_drained = self.queue.first_key_value().is_none_or(|(&(at, _), _)| at > until_micros);
        assert!(
            is_drained,
            "more than {most_events} events: somebody does not rest: {:#?}",
            &self.transcript[self.transcript.len().saturating_sub(30)..]
        );
        self.now_micros = self.now_micros.max(until_micros);
    }

    /// Wall-clock instants that two processes could call their own, at whatever time each of them was asked.
    pub(crate) fn overlaps(&self) -> Vec<String> {
        let ranges: Vec<_> = self.owned.iter().map(|((session, start), until)| (session, start, until)).collect();
        let pairs =
            ranges.iter().enumerate().flat_map(|(index, one)| ranges[index + 1..].iter().map(move |two| (one, two)));
        let overlapping = pairs.filter(|(one, two)| one.0 != two.0 && one.1 < two.2 && two.1 < one.2);
        overlapping.map(|pair| format!("{pair:?}")).collect()
    }

    /// What each process would answer now if it was asked for all instants that its clock has shown.
    fn note_ranges(&mut self) {
        for actor in self.actors.iter().filter(|actor| !actor.crashed && self.now_micros >= actor.frozen_until) {
            let Some(Range { start, end, .. }) = actor.range else { continue };
            let until = end.min(actor.local(self.now_micros).wall);
            if until > start {
                let owned = self.owned.entry((actor.elector.config().session.clone(), start)).or_insert(until);
                *owned = until.max(*owned);
            }
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.transcript.push(format!("{} {text}", seconds(self.now_micros)));
    }

    fn push(&mut self, at: i64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    fn happen(&mut self, event: Event) {
        let index = match &event {
            Event::Wake(index) | Event::Tell(index, _) | Event::WatchLease(index, _) => *index,
            Event::Execute(index, action, fate) => {
                let (index, action, fate) = (*index, action.clone(), *fate);
                return self.execute(index, &action, fate);
            }
        };
        let actor = &mut self.actors[index];
        if actor.crashed {
            return;
        }
        if self.now_micros < actor.frozen_until {
            let at = actor.frozen_until;
            return self.push(at, event);
        }
        let now = actor.local(self.now_micros);
        match event {
            Event::Wake(_) => {
                if actor.next_wake.is_some_and(|at| at > self.now_micros) {
                    return; // an older deadline, which a later decision has replaced
                }
            }
            Event::Tell(_, observation) | Event::WatchLease(_, observation) => actor.elector.observe(now, observation),
            Event::Execute(..) => unreachable!("handled above"),
        }
        self.decide(index);
    }

    fn decide(&mut self, index: usize) {
        let draw = Draw((self.chance)());
        let actor = &mut self.actors[index];
        let now = actor.local(self.now_micros);
        let decision = actor.elector.decide(now, draw);
        let again = actor.elector.decide(now, draw);
        assert_eq!(again.actions, [], "a decision is not repeated");
        assert_eq!(again.leading, decision.leading);
        assert!(decision.deadline.is_none_or(|deadline| deadline > now.moment), "a deadline lies ahead");
        let Decision { actions, leading, range, deadline, notes, finished } = decision;
        actor.range = range;
        let before = std::mem::replace(&mut actor.leading, leading);
        if leading.map(|leading| leading.valid_until) != before.map(|leading| leading.valid_until) {
            actor.wrongly_valid_until = match (leading, before) {
                (Some(_), _) => now.moment.after(actor.elector.config().timing.renew_deadline),
                (None, Some(before)) if now.moment >= before.valid_until => actor.wrongly_valid_until,
                (None, _) => now.moment,
            };
        }
        let name = actor.label.clone();
        if let Some(deadline) = deadline {
            let at = actor.true_micros(deadline).max(self.now_micros);
            actor.next_wake = Some(at);
            self.push(at, Event::Wake(index));
        } else {
            actor.next_wake = None;
        }
        for note in notes {
            if let Note::Began { token, .. } = note {
                self.tokens.push(token);
            } else {
                self.say(&format!("{name}: {}", describe_note(&note)));
            }
        }
        match (before, leading) {
            (None, Some(Leading { number, token, valid_until })) => {
                self.say(&format!(
                    "{name} LEADS term {number} token {token} until {}",
                    seconds(valid_until.as_micros())
                ));
            }
            (Some(_), None) => self.say(&format!("{name} leads no more")),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for action in actions {
            self.act(index, action);
        }
        if finished {
            self.say(&format!("{name} has finished"));
            self.actors[index].crashed = true;
        }
    }

    fn act(&mut self, index: usize, action: Action) {
        let name = self.actors[index].label.clone();
        match action {
            Action::StopWork => {
                self.say(&format!("{name} asks its work to stop"));
                if let WorkStops::After(delay) = self.actors[index].work_stops {
                    self.push(self.now_micros + micros(delay), Event::Tell(index, Observation::WorkStopped));
                }
            }
            Action::AbortWork => self.say(&format!("{name} drops its work")),
            request => {
                let fate = self.fates.as_mut().map_or(self.actors[index].fate, |fates| fates());
                if fate != Fate::AT_ONCE {
                    self.say(&format!("{name} sends {}", describe_action(&request)));
                }
                self.push(self.now_micros + micros(fate.there), Event::Execute(index, request, fate));
            }
        }
    }

    fn execute(&mut self, index: usize, action: &Action, fate: Fate) {
        let Actor { name, label, may_not_ask, .. } = &self.actors[index];
        let (name, label, may_not_ask) = (name.clone(), label.clone(), *may_not_ask);
        if !fate.executed {
            self.say(&format!("{label}'s {} is lost", describe_action(action)));
            return self.answer(index, unknown(action), fate);
        }
        let store = &mut self.store;
        let mut lease_changed = false;
        let mut candidate_changed = false;
        let (observation, result) = match action {
            Action::ReadLease(id) => {
                let source = Source::Read(*id);
                match &store.lease {
                    Some(record) => (Observation::Lease { record: record.clone(), source }, describe(record)),
                    None => (Observation::LeaseMissing { source }, "missing".to_owned()),
                }
            }
            Action::CreateLease(attempt) => {
                let outcome = store.create_lease();
                lease_changed = true;
                let result = describe_outcome(&outcome, describe);
                (Observation::LeaseWritten { attempt: *attempt, outcome }, result)
            }
            Action::WriteLease { attempt, write } => {
                let outcome = match write.purpose {
                    Purpose::Prefer if may_not_ask => Outcome::Refused,
                    _ => store.write_lease(write),
                };
                lease_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |lease| match write.purpose {
                    Purpose::Renew => {
                        format!("v{}{}", lease.resource_version, if lease.leaving { " leaving" } else { "" })
                    }
                    _ => describe(lease),
                });
                (Observation::LeaseWritten { attempt: *attempt, outcome }, result)
            }
            Action::ReadCandidate(id) => {
                let source = Source::Read(*id);
                match store.candidates.get(&name) {
                    Some(record) => (Observation::Candidate { record: record.clone(), source }, "found".to_owned()),
                    None => (Observation::CandidateMissing { source }, "missing".to_owned()),
                }
            }
            Action::ListCandidates(attempt) => {
                let records = store.list_candidates(LEASE);
                let result = records.as_ref().map_or("no such kind".to_owned(), |records| {
                    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
                    names.join(", ")
                });
                (Observation::Candidates { attempt: *attempt, records }, result)
            }
            Action::CreateCandidate { attempt, renew_time } => {
                let Actor { version, elector, .. } = &self.actors[index];
                let strategy = elector.config().strategy.as_str();
                let outcome = store.create_candidate(&name, LEASE, version, strategy, *renew_time);
                candidate_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |_| "done".to_owned());
                (Observation::CandidateWritten { attempt: *attempt, outcome }, result)
            }
            Action::RenewCandidate { attempt, uid, renew_time, .. } => {
                let outcome = store.edit_candidate(&name, Some(uid), |candidate| {
                    candidate.renew_time = Some(*renew_time);
                });
                candidate_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |_| "done".to_owned());
                (Observation::CandidateWritten { attempt: *attempt, outcome }, result)
            }
            Action::DeleteCandidate { attempt, .. } => {
                store.candidates.remove(&name);
                candidate_changed = true;
                (Observation::CandidateWritten { attempt: *attempt, outcome: Outcome::Missing }, "done".to_owned())
            }
            Action::StopWork | Action::AbortWork => unreachable!("no requests"),
        };
        let lost = if fate.answer_lost { ", and the answer is lost" } else { "" };
        self.say(&format!("{label} {}: {result}{lost}", describe_action(action)));
        self.answer(index, if fate.answer_lost { unknown(action) } else { observation }, fate);
        if lease_changed {
            self.lease_changed();
        }
        if candidate_changed {
            self.candidate_changed(&name);
        }
    }

    fn answer(&mut self, index: usize, observation: Observation, fate: Fate) {
        self.push(self.now_micros + micros(fate.back), Event::Tell(index, observation));
    }
}

fn unknown(action: &Action) -> Observation {
    match action {
        Action::ReadLease(id) | Action::ReadCandidate(id) | Action::ListCandidates(id) => Observation::ReadFailed(*id),
        Action::CreateLease(attempt) | Action::WriteLease { attempt, .. } => {
            Observation::LeaseWritten { attempt: *attempt, outcome: Outcome::Unknown }
        }
        Action::CreateCandidate { attempt, .. }
        | Action::RenewCandidate { attempt, .. }
        | Action::DeleteCandidate { attempt, .. } => {
            Observation::CandidateWritten { attempt: *attempt, outcome: Outcome::Unknown }
        }
        Action::StopWork | Action::AbortWork => Observation::WorkStopped,
    }
}

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
        Action::StopWork => "stop work".to_owned(),
        Action::AbortWork => "abort work".to_owned(),
    }
}

fn describe_write(write: &LeaseWrite) -> String {
    format!("{} on v{}", write.purpose.as_str(), write.resource_version)
}

fn describe_outcome<Record>(outcome: &Outcome<Record>, describe: impl FnOnce(&Record) -> String) -> String {
    match outcome {
        Outcome::Landed(record) => describe(record),
        Outcome::Conflict => "conflict".to_owned(),
        Outcome::Missing => "missing".to_owned(),
        Outcome::Refused => "refused".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
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
        Note::NoController => "nobody elects: it is for the candidates to do".to_owned(),
        Note::NoCandidates => "there are no candidates here".to_owned(),
        Note::Withheld(withheld) => match withheld {
            Withheld::TurnedOff => "nobody elects, and it does not either".to_owned(),
            Withheld::NoList => "nobody elects, and the candidates cannot be listed".to_owned(),
            Withheld::Hold(hold) => format!("nobody is to lead: {hold}"),
            Withheld::ThirdPartyStrategy(strategy) => format!("nobody elects by {strategy}"),
            Withheld::Disagreement => "the candidates disagree".to_owned(),
        },
        Note::CandidateOfAnotherLease { lease_name } => format!("the candidate stands for {lease_name}"),
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

pub(crate) fn seconds(micros: i64) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1000)
}
