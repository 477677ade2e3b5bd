//! The results of many worlds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hustings_world::reach::{SHORTEST_CAMPAIGN, wanted};
use hustings_world::world::{Mode, Report, Setup};
use serde_json::{Value, json};

/// The row that sums up all modes.
const TOGETHER: &str = "together";

/// The result of one world.
pub(crate) struct Entry {
    pub(crate) seed: u64,
    pub(crate) mode: String,
    lease_seconds: f64,
    cpu_seconds: f64,
    versions: u64,
    changes: u64,
    judged: u64,
    faults: BTreeMap<String, u64>,
    disturbances: BTreeMap<String, u64>,
    paths: BTreeMap<String, u64>,
    violations: Vec<String>,
    /// A digest of all events, for comparing two runs of a seed.
    digest: u64,
}

/// The results of all worlds.
#[derive(Default)]
pub(crate) struct Sum {
    worlds: u64,
    /// One row for each mode, and one for their sum.
    rows: BTreeMap<String, Row>,
    faults: BTreeMap<String, u64>,
    disturbances: BTreeMap<String, u64>,
    paths: BTreeMap<String, u64>,
    /// Worlds that broke an invariant.
    pub(crate) failed: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    lease_seconds: f64,
    cpu_seconds: f64,
    versions: u64,
    changes: u64,
    judged: u64,
    faults: u64,
}

impl Entry {
    pub(crate) fn new(setup: &Setup, report: &Report, took: Duration) -> Self {
        let counts =
            |counts: &BTreeMap<&str, u64>| counts.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        Self {
            seed: setup.seed,
            mode: setup.mode.as_str().to_owned(),
            lease_seconds: report.lease_time.as_secs_f64(),
            cpu_seconds: took.as_secs_f64(),
            versions: report.versions,
            changes: report.changes_of_holder,
            judged: report.judged_grants,
            faults: counts(&report.faults),
            disturbances: counts(&report.disturbances),
            paths: counts(&report.paths),
            violations: report.violations.clone(),
            digest: report.digest,
        }
    }

    pub(crate) fn line(&self) -> Value {
        json!({
            "seed": self.seed, "mode": self.mode, "lease_seconds": self.lease_seconds, "cpu_seconds": self.cpu_seconds,
            "versions": self.versions, "changes": self.changes, "judged": self.judged, "faults": self.faults,
            "disturbances": self.disturbances, "paths": self.paths, "violations": self.violations, "digest": self.digest,
        })
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let counts = |field: &str| -> Option<BTreeMap<String, u64>> {
            let counts = line[field].as_object()?.iter();
            Some(counts.filter_map(|(what, count)| Some((what.clone(), count.as_u64()?))).collect())
        };
        let violations = line["violations"].as_array()?.iter();
        Some(Self {
            seed: line["seed"].as_u64()?,
            mode: line["mode"].as_str()?.to_owned(),
            lease_seconds: line["lease_seconds"].as_f64()?,
            cpu_seconds: line["cpu_seconds"].as_f64()?,
            versions: line["versions"].as_u64()?,
            changes: line["changes"].as_u64()?,
            judged: line["judged"].as_u64()?,
            faults: counts("faults")?,
            disturbances: counts("disturbances")?,
            paths: counts("paths")?,
            violations: violations.filter_map(|violation| Some(violation.as_str()?.to_owned())).collect(),
            digest: line["digest"].as_u64()?,
        })
    }
}

impl Sum {
    pub(crate) fn add(&mut self, entry: Entry) {
        self.worlds += 1;
        for row in [entry.mode.clone(), TOGETHER.to_owned()] {
            let row = self.rows.entry(row).or_default();
            row.lease_seconds += entry.lease_seconds;
            row.cpu_seconds += entry.cpu_seconds;
            row.versions += entry.versions;
            row.changes += entry.changes;
            row.judged += entry.judged;
            row.faults += entry.faults.values().sum::<u64>();
        }
        let Self { faults, disturbances, paths, .. } = self;
        for (sums, counts) in [(faults, entry.faults), (disturbances, entry.disturbances), (paths, entry.paths)] {
            for (what, count) in counts {
                *sums.entry(what).or_default() += count;
            }
        }
        if !entry.violations.is_empty() {
            self.failed.push(format!("{} {}", entry.seed, entry.mode));
        }
    }

    /// What a campaign of every mode should have reached and has not; empty if the campaign was too short to reach
    /// everything.
    pub(crate) fn never_reached(&self) -> Vec<&'static str> {
        let seconds = |mode: &str| self.rows.get(mode).map_or(0.0, |row| row.lease_seconds);
        let has_every_mode = Mode::ALL.iter().all(|mode| seconds(mode.as_str()) > 0.0);
        if !has_every_mode || seconds(TOGETHER) < SHORTEST_CAMPAIGN.as_secs_f64() {
            return Vec::new();
        }
        let counts = [&self.faults, &self.disturbances, &self.paths];
        wanted().into_iter().filter(|what| counts.iter().all(|counts| !counts.contains_key(*what))).collect()
    }

    /// A summary in a few words.
    pub(crate) fn brief(&self) -> String {
        let all = self.rows.get(TOGETHER).copied().unwrap_or_default();
        let (hours, changes) = (all.lease_seconds / 3600.0, all.changes);
        format!("{hours:.0} Lease-hours, {changes} changes of holder, {} violations", self.failed.len())
    }
}

impl fmt::Display for Sum {
    #[expect(clippy::cast_precision_loss, reason = "rates that are shown")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "worlds             {}", self.worlds)?;
        writeln!(
            f,
            "                 Lease-hours  per core-hour  faults/h  changes  changes/h    versions         judged"
        )?;
        for (mode, row) in &self.rows {
            let hours = row.lease_seconds / 3600.0;
            writeln!(
                f,
                "  {mode:12} {hours:14.1} {:14.0} {:9.1} {:8} {:10.1} {:11} {:14}",
                row.lease_seconds / row.cpu_seconds.max(f64::EPSILON),
                row.faults as f64 / hours,
                row.changes,
                row.changes as f64 / hours,
                row.versions,
                row.judged,
            )?;
        }
        let hours = self.rows.get(TOGETHER).map_or(0.0, |row| row.lease_seconds) / 3600.0;
        let per_thousand_hours = |count: u64| count as f64 / hours.max(f64::EPSILON) * 1000.0;
        let columns = "per 1,000 Lease-hours";
        for (title, counts) in [("faults", &self.faults), ("disturbances", &self.disturbances), ("paths", &self.paths)]
        {
            writeln!(f, "{title:18} {} {columns:>22}", counts.values().sum::<u64>())?;
            for (what, count) in counts {
                writeln!(f, "  {count:10} {:12.1} {what}", per_thousand_hours(*count))?;
            }
        }
        writeln!(f, "never reached      {:?}", self.never_reached())?;
        writeln!(f, "violations         {} {:?}", self.failed.len(), self.failed)
    }
}
