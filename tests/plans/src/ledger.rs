//! What was done in one run of a scenario, what goes wrong in it, and the story of it in words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::point::{Fault, Plan, Point, WATCH};

/// How often the same is worth a fault. Renewals and events repeat for as long as a run lasts.
const MOST_WRITES: u32 = 3;
const MOST_RENEWALS: u32 = 2;
const MOST_EVENTS: u32 = 2;

/// How many lines of the story are kept.
const MOST_LINES: usize = 2_000;

/// What kind of process did what to what, and what for: `(class, verb, kind, purpose)`.
pub type Deed = (String, String, String, String);

/// The ledger of one run.
pub struct Ledger {
    began: Instant,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    plan: Option<Plan>,
    /// Counting has begun.
    counts: bool,
    fired: Option<Instant>,
    done: BTreeMap<Point, u32>,
    points: Vec<Point>,
    deeds: BTreeSet<Deed>,
    violations: Vec<String>,
    stalled: Duration,
    story: Vec<String>,
}

impl Ledger {
    /// An empty ledger of a run in which `plan` goes wrong.
    pub fn new(plan: Option<Plan>) -> Self {
        Self { began: Instant::now(), book: Mutex::new(Book { plan, ..Book::default() }) }
    }

    /// From here on things are counted, and go wrong.
    pub fn begin_counting(&self) {
        self.book().counts = true;
        self.tell("-- the act begins");
    }

    /// Notes a write by `role`; says what goes wrong with it.
    pub fn note_write(&self, role: &str, verb: &str, kind: &str, (purpose, name): (&str, &str)) -> Option<Fault> {
        let deed = (class(role).to_owned(), verb.to_owned(), kind.to_owned(), purpose.to_owned());
        self.book().deeds.insert(deed);
        let most = if purpose == "renewal" { MOST_RENEWALS } else { MOST_WRITES };
        self.count(role, verb, kind, name, most)
    }

    /// Notes an event that `role` is told of; says what goes wrong with it.
    pub fn note_event(&self, role: &str, kind: &str, shown: &str) -> Option<Fault> {
        self.count(role, WATCH, kind, shown, MOST_EVENTS)
    }

    /// Writes a line of the story.
    pub fn tell(&self, line: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let story = &mut self.book().story;
        if story.len() < MOST_LINES {
            story.push(format!("{at:8.3} {line}"));
        }
    }

    /// An invariant is broken.
    pub fn violate(&self, violation: String) {
        if !self.book().violations.contains(&violation) {
            self.tell(&format!("VIOLATION {violation}"));
            self.book().violations.push(violation);
        }
    }

    /// Something that is done at once has taken so long, though nothing that was planned slowed it down.
    pub fn note_stall(&self, lasted: Duration) {
        let stalled = &mut self.book().stalled;
        *stalled = lasted.max(*stalled);
    }

    /// How long the machine, or the server, stood still at the longest.
    pub fn stalled(&self) -> Duration {
        self.book().stalled
    }

    /// When what was planned went wrong.
    pub fn fired(&self) -> Option<Instant> {
        self.book().fired
    }

    /// Where something could have gone wrong, in the order in which it first happened.
    pub fn points(&self) -> Vec<Point> {
        self.book().points.clone()
    }

    /// What was done.
    pub fn deeds(&self) -> BTreeSet<Deed> {
        self.book().deeds.clone()
    }

    /// What was broken.
    pub fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    /// What happened.
    pub fn story(&self) -> Vec<String> {
        self.book().story.clone()
    }

    fn count(&self, role: &str, verb: &str, kind: &str, purpose: &str, most: u32) -> Option<Fault> {
        let mut book = self.book();
        if !book.counts {
            return None;
        }
        let [role, verb, kind, purpose] = [role, verb, kind, purpose].map(str::to_owned);
        let mut point = Point { role, verb, kind, purpose, nth: 0 };
        let done = book.done.entry(point.clone()).or_default();
        *done += 1;
        point.nth = *done;
        if point.nth <= most {
            book.points.push(point.clone());
        }
        let fault = book.plan.as_ref().filter(|plan| plan.point == point).map(|plan| plan.fault)?;
        book.fired = Some(Instant::now());
        drop(book);
        self.tell(&format!("FAULT {} at {point}", fault.as_str()));
        Some(fault)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What kind of process it is.
fn class(role: &str) -> &str {
    if role.starts_with("controller") { "controller" } else { "elector" }
}
