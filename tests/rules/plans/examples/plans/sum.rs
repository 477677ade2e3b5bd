//! The results of many plans: a line for each, and a table of all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hustings_plans::campaign::{Report, Sheet};
use hustings_plans::point::Plan;
use hustings_plans::scenario::Scenario;
use serde_json::{Value, json};

/// The result of one plan.
pub(crate) struct Entry {
    pub(crate) scenario: Scenario,
    pub(crate) plan: Plan,
    reached: bool,
    replaced: bool,
    /// Runs that were repeated because the machine stalled.
    void: u64,
    took_millis: u64,
    failures: Vec<String>,
}

/// The results of all plans.
#[derive(Default)]
pub(crate) struct Sum {
    rows: BTreeMap<Scenario, Row>,
    /// The scenario, the plan and the failures of each.
    pub(crate) failed: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Row {
    plans: u64,
    not_reached: u64,
    replaced: u64,
    void: u64,
    failed: u64,
    longest_millis: u64,
}

impl Entry {
    pub(crate) fn new(report: &Report, void: usize) -> Self {
        Self {
            scenario: report.scenario,
            plan: report.plan.clone(),
            reached: report.reached,
            replaced: report.replaced > 0,
            void: void as u64,
            took_millis: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
            failures: report.failures.clone(),
        }
    }

    pub(crate) fn line(&self) -> Value {
        json!({
            "scenario": self.scenario.as_str(), "plan": self.plan.to_string(), "reached": self.reached,
            "replaced": self.replaced, "void": self.void, "took_millis": self.took_millis, "failures": self.failures,
        })
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let failures = line["failures"].as_array()?.iter();
        Some(Self {
            scenario: line["scenario"].as_str()?.parse().ok()?,
            plan: line["plan"].as_str()?.parse().ok()?,
            reached: line["reached"].as_bool()?,
            replaced: line["replaced"].as_bool()?,
            void: line["void"].as_u64()?,
            took_millis: line["took_millis"].as_u64()?,
            failures: failures.filter_map(|failure| Some(failure.as_str()?.to_owned())).collect(),
        })
    }
}

impl Sum {
    pub(crate) fn add(&mut self, entry: &Entry) {
        let failed = !entry.failures.is_empty();
        let row = self.rows.entry(entry.scenario).or_default();
        row.plans += 1;
        row.not_reached += u64::from(!entry.reached);
        row.replaced += u64::from(entry.replaced);
        row.void += entry.void;
        row.failed += u64::from(failed);
        row.longest_millis = row.longest_millis.max(entry.took_millis);
        if failed {
            self.failed.push(format!("{} {}: {}", entry.scenario.as_str(), entry.plan, entry.failures.join("; ")));
        }
    }

    pub(crate) fn print(&self, sheets: &[Sheet], took: Duration) {
        println!(
            "{:<18} {:>7} {:>7} {:>7} {:>12} {:>9} {:>6} {:>9} {:>7}",
            "scenario", "writes", "events", "plans", "not reached", "replaced", "void", "longest", "failed"
        );
        let mut all = (0, 0, Row::default());
        for sheet in sheets {
            let row = self.rows.get(&sheet.scenario).copied().unwrap_or_default();
            let (writes, events) = (sheet.writes(), sheet.points.len() - sheet.writes());
            print_row(sheet.scenario.as_str(), writes, events, row);
            all = (all.0 + writes, all.1 + events, all.2.and(row));
        }
        print_row("all", all.0, all.1, all.2);
        let purposes: BTreeSet<_> = sheets.iter().flat_map(|sheet| &sheet.deeds).collect();
        println!("purposes of writes covered: {}; took {} s", purposes.len(), took.as_secs());
        self.failed.iter().for_each(|failure| println!("FAILED {failure}"));
    }
}

impl Row {
    fn and(self, other: Self) -> Self {
        Self {
            plans: self.plans + other.plans,
            not_reached: self.not_reached + other.not_reached,
            replaced: self.replaced + other.replaced,
            void: self.void + other.void,
            failed: self.failed + other.failed,
            longest_millis: self.longest_millis.max(other.longest_millis),
        }
    }
}

fn print_row(name: &str, writes: usize, events: usize, row: Row) {
    let Row { plans, not_reached, replaced, void, failed, longest_millis } = row;
    let longest = longest_millis / 1_000;
    println!(
        "{name:<18} {writes:>7} {events:>7} {plans:>7} {not_reached:>12} {replaced:>9} {void:>6} {longest:>7} s {failed:>7}"
    );
}
