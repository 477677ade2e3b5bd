//! Every order in which three electors with keys can read, write and be told, explored state by state: whatever their
//! keys, each hand-over goes to a higher key than the one before, so that the Lease never goes in a circle, and the
//! highest has it in the end. A holder that shows no key, or would not hand over, keeps it.
//!
//! One step is the delivery of the newest version to one elector, the execution and answer of one request, or the end of
//! one elector's work. Time passes when nothing is left to happen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_types, reason = "the order in which states are found does not matter, and they have none")]

use std::collections::HashSet;

use hustings_core::elector::{Action, Config, Draw, Elector, FailOpen, Mode, Observation, Outcome, Source, Timing};
use hustings_core::model::{
    LeaseRecord, LeaseWrite, Moment, Now, Purpose, SessionMark, SessionStamp, Strategy, WireTime,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Long enough for every immediate and every delayed retry, and shorter than any lease.
const END_MICROS: i64 = 7_000_000;

/// No set of three needs more: two hand-overs, each asked for by all who are higher, and conflicts with renewals.
const MOST_QUESTIONS: u32 = 12;

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    now_micros: i64,
    lease: LeaseRecord,
    electors: Vec<Elector>,
    /// Which version each has been told of.
    told: Vec<u64>,
    under_way: Vec<Vec<Action>>,
    wake_at: Vec<Option<Moment>>,
    /// Writes that ask a holder, executed or not.
    questions: u32,
}

#[derive(Clone, Copy)]
enum Step {
    Tell(usize),
    Answer(usize, usize),
}

impl World {
    /// Electors with these keys that start now, and the Lease as it stands.
    fn new(keys: [Option<i64>; 3], lease: LeaseRecord) -> Self {
        let mut world = Self {
            now_micros: 0,
            lease,
            electors: Vec::new(),
            told: vec![0; 3],
            under_way: vec![Vec::new(); 3],
            wake_at: vec![None; 3],
            questions: 0,
        };
        for (name, key) in NAMES.into_iter().zip(keys) {
            let config = Config {
                identity: name.to_owned(),
                lease_name: "lease".to_owned(),
                session: format!("s-{name}"),
                mode: Mode::Direct,
                strategy: Strategy::OldestEmulationVersion,
                fallback: true,
                timing: Timing::default(),
                fail_open: FailOpen::Off,
                keeps_on_stop: false,
            };
            let mut elector = Elector::new(config, world.now());
            elector.observe(world.now(), Observation::Key(key));
            world.electors.push(elector);
        }
        world
    }

    fn now(&self) -> Now {
        Now { moment: Moment::from_micros(self.now_micros), wall: WireTime::from_micros(self.now_micros) }
    }

    fn decide(&mut self, who: usize) {
        let now = self.now();
        let decision = self.electors[who].decide(now, Draw(0));
        self.wake_at[who] = decision.deadline;
        self.under_way[who].extend(decision.actions);
    }

    fn steps(&self) -> Vec<Step> {
        let told = (0..3).filter(|who| self.told[*who] < self.lease.resource_version).map(Step::Tell);
        let answered = (0..3).flat_map(|who| (0..self.under_way[who].len()).map(move |index| Step::Answer(who, index)));
        told.chain(answered).collect()
    }

    fn take(&mut self, step: Step) {
        let (who, observation) = match step {
            Step::Tell(who) => {
                self.told[who] = self.lease.resource_version;
                (who, Observation::Lease { record: self.lease.clone(), source: Source::Watch })
            }
            Step::Answer(who, index) => {
                let action = self.under_way[who].remove(index);
                (who, self.execute(action))
            }
        };
        let now = self.now();
        self.electors[who].observe(now, observation);
        self.decide(who);
    }

    fn execute(&mut self, action: Action) -> Observation {
        match action {
            Action::ReadLease(id) => Observation::Lease { record: self.lease.clone(), source: Source::Read(id) },
            Action::WriteLease { attempt, write } => {
                self.questions += u32::from(write.purpose == Purpose::Prefer);
                Observation::LeaseWritten { attempt, outcome: self.write(&write) }
            }
            Action::StopWork => Observation::WorkStopped,
            other => panic!("nobody has a reason for {other:?}"),
        }
    }

    fn write(&mut self, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        if write.resource_version != self.lease.resource_version {
            return Outcome::Conflict;
        }
        self.lease = write.applied_to(&self.lease, self.lease.resource_version + 1);
        Outcome::Landed(self.lease.clone())
    }

    /// Lets the next deadline come; false if that lies beyond the end.
    fn wait(&mut self) -> bool {
        let next = self.wake_at.iter().flatten().min().unwrap().as_micros();
        if next > END_MICROS {
            return false;
        }
        self.now_micros = next;
        for who in 0..3 {
            if self.wake_at[who].is_some_and(|at| at.as_micros() <= next) {
                self.decide(who);
            }
        }
        true
    }
}

/// Explores everything that can follow, and returns whoever can have the Lease in the end.
fn explore(world: World, key_of: impl Fn(&str) -> Option<i64>) -> (HashSet<String>, usize) {
    let mut ends = HashSet::new();
    let mut seen = HashSet::new();
    let mut left = vec![world];
    while let Some(world) = left.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        assert!(world.questions <= MOST_QUESTIONS, "{} questions", world.questions);
        let steps = world.steps();
        if steps.is_empty() {
            let mut later = world.clone();
            if later.wait() {
                left.push(later);
            } else {
                assert!(!world.lease.is_open(), "nobody takes up: {:?}", world.lease);
                ends.insert(world.lease.holder.clone().unwrap());
            }
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            let (from, to) = (world.lease.holder.clone().unwrap(), next.lease.holder.clone().unwrap());
            assert!(from == to || key_of(&to) > key_of(&from), "the Lease goes from {from} to {to}");
            left.push(next);
        }
    }
    (ends, seen.len())
}

/// `a` leads, and the others start.
fn led_by_the_first(keys: [Option<i64>; 3]) -> World {
    let open = LeaseRecord { resource_version: 1, session: SessionMark::Open, ..LeaseRecord::default() };
    let mut world = World::new(keys, open);
    world.decide(0);
    while let Some(step) = world.steps().into_iter().find(|step| matches!(step, Step::Tell(0) | Step::Answer(0, _))) {
        world.take(step);
    }
    assert_eq!((world.lease.holder.as_deref(), world.lease.key), (Some("a"), keys[0]));
    world.decide(1);
    world.decide(2);
    world
}

fn keys() -> impl Iterator<Item = [Option<i64>; 3]> {
    let some = [None, Some(1), Some(2), Some(3)];
    // The second and the third are alike but for their names: one order of them is enough.
    some.into_iter().flat_map(move |a| {
        some.into_iter().flat_map(move |b| some.into_iter().filter(move |c| b <= *c).map(move |c| [a, b, c]))
    })
}

#[test]
fn no_three_keys_pass_the_lease_in_a_circle_and_the_highest_has_it_in_the_end() {
    let mut states = 0;
    for keys in keys() {
        let key_of = |name: &str| NAMES.iter().position(|of| *of == name).and_then(|who| keys[who]);
        let (ends, seen) = explore(led_by_the_first(keys), key_of);
        states += seen;
        let highest = keys.into_iter().max().unwrap();
        for end in &ends {
            let is_right = if keys[0].is_none() { end == "a" } else { key_of(end) == highest };
            assert!(is_right, "{end} has it in the end with {keys:?}");
        }
        // Equals do not take from each other: a highest that holds keeps it.
        assert!(keys[0] != highest || ends == HashSet::from(["a".to_owned()]), "{ends:?} with {keys:?}");
    }
    println!("{states} states");
}

/// client-go keeps the annotations of whoever held before: at its worst it looks like a holder of a low key, is asked
/// once by one, and keeps the Lease.
#[test]
fn a_holder_that_knows_nothing_of_keys_keeps_the_lease_and_is_asked_once_at_the_most() {
    let stale = SessionMark::Term(SessionStamp { session: "s-z".to_owned(), term: 1, seconds: 15 });
    for (session, most_questions) in [(SessionMark::Absent, 0), (stale, 3)] {
        let lease = LeaseRecord {
            resource_version: 1,
            holder: Some("client-go".to_owned()),
            duration_seconds: 15,
            session,
            key: Some(0),
            ..LeaseRecord::default()
        };
        let mut world = World::new([Some(1), Some(2), Some(2)], lease);
        (0..3).for_each(|who| world.decide(who));
        let (ends, _) = explore(world.clone(), |_| None);
        assert_eq!(ends, HashSet::from(["client-go".to_owned()]));
        while let Some(step) = world.steps().first().copied() {
            world.take(step);
        }
        assert!(world.questions <= most_questions, "{} questions", world.questions);
        assert_eq!(world.lease.resource_version, 1 + u64::from(most_questions > 0), "one write stands");
    }
}
