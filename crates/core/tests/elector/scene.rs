//! Several electors, each with its own clock, over one store and a network that delays and loses what it is told to.
//!
//! There is one true time. Nobody but the scene knows it; the electors see their own clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::elector::{
    Action, Config, Decision, Draw, FailOpen, Leading, Mode, Note, Observation, Range, Source, Timing,
};
use hustings_core::model::{Strategy, WireTime};

use super::store::Store;

mod actor;
mod server;
mod words;

pub(crate) use actor::{Actor, Fate, WorkStops};
use words::{describe_action, describe_note};

pub(crate) const LEASE: &str = "lease";

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
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

pub(crate) fn seconds(micros: i64) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1000)
}
