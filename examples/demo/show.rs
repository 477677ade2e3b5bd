//! The output: the events and a table at the end, or the same as lines of JSON.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use serde_json::json;

use crate::live::Live;
use crate::observer::Observer;

/// Prints the timeline, and collects the rows of the table.
pub(crate) struct Show {
    json: bool,
    colour: bool,
    started: Instant,
    steps: Vec<Step>,
    live: Live,
}

struct Step {
    what: &'static str,
    outcome: String,
    without_leader: Option<Duration>,
}

impl Show {
    pub(crate) fn new(json: bool) -> Self {
        let colour =
            std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, colour, started: Instant::now(), steps: Vec::new(), live: Live::default() }
    }

    /// Draws a live timeline below the story, on a terminal and unless the output is JSON.
    pub(crate) fn follow(&self, observer: &Observer) {
        if !self.json {
            self.live.follow(observer);
        }
    }

    /// The heading of a step.
    pub(crate) fn scene(&self, title: &str) {
        if self.json {
            self.live.line(&json!({"elapsedMs": self.elapsed_ms(), "event": "scene", "title": title}));
        } else {
            self.live.line(&format_args!("\n{}", self.styled("1", title)));
        }
    }

    /// One event of the timeline, which happened now.
    pub(crate) fn event(&self, actor: &str, what: &str) {
        self.event_at(Instant::now(), actor, what);
    }

    /// One event of the timeline.
    pub(crate) fn event_at(&self, at: Instant, actor: &str, what: &str) {
        let elapsed = at.duration_since(self.started);
        if self.json {
            self.live
                .line(&json!({"elapsedMs": elapsed.as_millis(), "event": "happened", "actor": actor, "what": what}));
        } else {
            self.live.line(&format_args!("{:>9.3} s  {actor:<14} {what}", elapsed.as_secs_f64()));
        }
    }

    /// A step that both observers agree on.
    pub(crate) fn observed(&mut self, what: &'static str, outcome: String, without_leader: Option<Duration>) {
        if self.json {
            self.live.line(&json!({
                "elapsedMs": self.elapsed_ms(), "event": "observed", "step": what, "outcome": outcome,
                "withoutLeaderMs": without_leader.map(|gap| gap.as_secs_f64() * 1000.0),
            }));
        } else {
            let elapsed = self.started.elapsed().as_secs_f64();
            self.live.line(&format_args!("{elapsed:>9.3} s  {} {outcome}", self.styled("32", "observed      ")));
        }
        self.steps.push(Step { what, outcome, without_leader });
    }

    /// The table at the end.
    pub(crate) fn table(&self, verdict: &str) {
        if self.json {
            let steps = self.steps.len();
            self.live
                .line(&json!({"elapsedMs": self.elapsed_ms(), "event": "end", "steps": steps, "verdict": verdict}));
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(["step", "observed", "without a leader"]);
        for step in &self.steps {
            let gap = step.without_leader.map_or_else(|| "-".to_owned(), |gap| format!("{:.3} s", gap.as_secs_f64()));
            table.add_row([step.what.to_owned(), step.outcome.clone(), gap]);
        }
        self.live.line(&format_args!("\n{table}\n{}", self.styled("1", verdict)));
    }

    fn elapsed_ms(&self) -> u128 {
        self.started.elapsed().as_millis()
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
