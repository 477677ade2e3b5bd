//! The record of one run of a scenario: its writes, its faults, and its story in words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::point::{Fault, Plan, Point, WATCH};

/// How many repetitions of one point get a fault. Renewals and events repeat as long as a run lasts.
const MOST_WRITES: u32 = 3;
const MOST_RENEWALS: u32 = 2;
const MOST_EVENTS: u32 = 2;

/// How many lines of the story are kept.
const MOST_LINES: usize = 2_000;

/// One write: the class of its process, its verb, the object's kind, and its purpose.
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
    /// An empty ledger of a run with the fault of `plan`.
    pub fn new(plan: Option<Plan>) -> Self {
        Self { began: Instant::now(), book: Mutex::new(Book { plan, ..Book::default() }) }
    }

    /// From now on the ledger counts, and faults happen.
    pub fn begin_counting(&self) {
        self.book().counts = true;
        self.note("-- the act begins");
    }

    /// Notes a write by `role`, and returns its fault.
    pub fn note_write(&self, role: &str, verb: &str, kind: &str, (purpose, name): (&str, &str)) -> Option<Fault> {
        let deed = (class(role).to_owned(), verb.to_owned(), kind.to_owned(), purpose.to_owned());
        self.book().deeds.insert(deed);
        let most = if purpose == "renewal" { MOST_RENEWALS } else { MOST_WRITES };
        self.count(role, verb, kind, name, most)
    }

    /// Notes a watch event for `role`, and returns its fault.
    pub fn note_event(&self, role: &str, kind: &str, shown: &str) -> Option<Fault> {
        self.count(role, WATCH, kind, shown, MOST_EVENTS)
    }

    /// Writes a line of the story.
    pub fn note(&self, line: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let story = &mut self.book().story;
        if story.len() < MOST_LINES {
            story.push(format!("{at:8.3} {line}"));
        }
    }

    /// An invariant is broken.
    pub fn violate(&self, violation: String) {
        if !self.book().violations.contains(&violation) {
            self.note(&format!("VIOLATION {violation}"));
            self.book().violations.push(violation);
        }
    }

    /// Something immediate took this long, although no planned fault slowed it down.
    pub fn note_stall(&self, lasted: Duration) {
        let stalled = &mut self.book().stalled;
        *stalled = lasted.max(*stalled);
    }

    /// The longest stall of the machine or the server.
    pub fn stalled(&self) -> Duration {
        self.book().stalled
    }

    /// When the planned fault happened.
    pub fn fired(&self) -> Option<Instant> {
        self.book().fired
    }

    /// The points where a fault could have happened, in the order of their first occurrence.
    pub fn points(&self) -> Vec<Point> {
        self.book().points.clone()
    }

    /// The writes.
    pub fn deeds(&self) -> BTreeSet<Deed> {
        self.book().deeds.clone()
    }

    /// The violated invariants.
    pub fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    /// The story.
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
        self.note(&format!("FAULT {} at {point}", fault.as_str()));
        Some(fault)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The class of a process.
fn class(role: &str) -> &str {
    if role.starts_with("controller") { "controller" } else { "elector" }
}
