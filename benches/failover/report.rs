//! The report: each measurement, its number of samples, and whether it meets its target.

use std::fmt;

use hustings_client::Moment;
use serde_json::{Value, json};

/// Everything that was measured.
pub(crate) struct Report {
    leases: usize,
    spread_ms: u64,
    rounds: usize,
    load_at_start: String,
    rows: Vec<Row>,
}

/// One measurement.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

/// Its target.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    None,
    /// At most this for 95 of 100 samples.
    P95(f64),
    /// At most this for every sample.
    Max(f64),
}

struct Row {
    measure: Measure,
    samples: Vec<f64>,
}

impl Report {
    pub(crate) fn new(leases: usize, spread_ms: u64, rounds: usize) -> Self {
        Self { leases, spread_ms, rounds, load_at_start: load(), rows: Vec::new() }
    }

    /// Adds samples to the earlier ones.
    pub(crate) fn add(&mut self, measure: Measure, samples: impl IntoIterator<Item = f64>) {
        let index = self.rows.iter().position(|row| row.measure.what == measure.what).unwrap_or_else(|| {
            self.rows.push(Row { measure, samples: Vec::new() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        row.samples.extend(samples);
        row.samples.sort_by(f64::total_cmp);
        eprintln!("  {}", row.line());
    }

    /// The report for programs.
    pub(crate) fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "what": row.measure.what, "unit": row.measure.unit, "samples": row.samples.len(),
                "p50": row.quantile(50), "p95": row.quantile(95), "max": row.quantile(100),
                "target": row.target(), "reached": row.reached(),
            })
        });
        json!({
            "leases": self.leases, "spreadMs": self.spread_ms, "rounds": self.rounds, "optimized": !cfg!(debug_assertions),
            "loadAtStart": self.load_at_start, "loadAtEnd": load(), "measured": rows.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | p50 | p95 | max | samples | target | reached |")?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "{}", row.line())?;
        }
        let build = if cfg!(debug_assertions) { "not optimized" } else { "optimized" };
        let (leases, rounds, start, end) = (self.leases, self.rounds, &self.load_at_start, load());
        let spread = self.spread_ms;
        writeln!(
            f,
            "\n{leases} Leases within {spread} ms, {rounds} rounds, {build}; load {start} before and {end} after"
        )
    }
}

impl Row {
    /// The smallest sample that `percent` of all samples do not exceed.
    fn quantile(&self, percent: usize) -> Option<f64> {
        let rank = (self.samples.len() * percent).div_ceil(100);
        self.samples.get(rank.saturating_sub(1)).copied()
    }

    fn target(&self) -> Option<String> {
        let unit = self.measure.unit;
        match self.measure.target {
            Target::None => None,
            Target::P95(most) => Some(format!("p95 ≤ {most} {unit}")),
            Target::Max(most) => Some(format!("≤ {most} {unit}")),
        }
    }

    fn reached(&self) -> Option<bool> {
        match self.measure.target {
            Target::None => None,
            Target::P95(most) => Some(self.quantile(95)? <= most),
            Target::Max(most) => Some(self.quantile(100)? <= most),
        }
    }

    fn line(&self) -> String {
        let shown = |percent| self.quantile(percent).map_or_else(|| "-".to_owned(), rounded);
        let target = self.target().unwrap_or_else(|| "-".to_owned());
        let reached = self.reached().map_or("-", |reached| if reached { "yes" } else { "**no**" });
        let Measure { what, unit, .. } = self.measure;
        let (p50, p95, max, samples) = (shown(50), shown(95), shown(100), self.samples.len());
        format!("| {what}, {unit} | {p50} | {p95} | {max} | {samples} | {target} | {reached} |")
    }
}

/// Milliseconds from one moment to another; negative if they are the other way round.
pub(crate) fn milliseconds(from: Moment, to: Moment) -> f64 {
    to.since(from).as_secs_f64() * 1000.0 - from.since(to).as_secs_f64() * 1000.0
}

/// How busy this machine has been for the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn rounded(number: f64) -> String {
    if number.abs() < 10.0 && number.fract() != 0.0 { format!("{number:.2}") } else { format!("{number:.1}") }
}
