//! The timeline on a terminal: who has led in the last seconds, drawn in place below the lines of the story.
//!
//! Only a terminal gets it. Every other line first clears it, so that the story stays readable above.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::observer::{Facts, Observer};

/// How often it is drawn.
const PERIOD: Duration = Duration::from_millis(250);

/// How long each of its columns lasts.
const COLUMN: SignedDuration = SignedDuration::from_secs(1);

/// How many columns it has. A narrow terminal has room for them and for the leader.
const COLUMNS: i32 = 50;

/// Standard output with the timeline as its last line, if it is a terminal.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<Mutex<Option<String>>>);

impl Live {
    /// Draws the timeline of these facts until the program ends.
    pub(crate) fn follow(&self, observer: &Observer) {
        if !std::io::stdout().is_terminal() {
            return;
        }
        let (live, observer) = (self.clone(), observer.clone());
        tokio::spawn(async move {
            loop {
                live.draw(timeline(&observer.facts(), Timestamp::now()));
                tokio::time::sleep(PERIOD).await;
            }
        });
    }

    /// Prints a line above the timeline. If standard output is closed, the demo ends, and with it every process that it
    /// started.
    pub(crate) fn line(&self, line: &dyn Display) {
        let drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (clear, again) = drawn.as_ref().map_or(("", ""), |timeline| ("\r\x1b[K", timeline));
        let mut stdout = std::io::stdout();
        if write!(stdout, "{clear}{line}\n{again}").and_then(|()| stdout.flush()).is_err() {
            std::process::exit(1);
        }
    }

    fn draw(&self, timeline: String) {
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = std::io::stdout();
        if write!(stdout, "\r\x1b[K{timeline}").and_then(|()| stdout.flush()).is_err() {
            std::process::exit(1);
        }
        *drawn = Some(timeline);
    }
}

/// A letter for each second of a term, and a dot for each without a leader. The newest is on the right.
fn timeline(facts: &Facts, now: Timestamp) -> String {
    let leads_at = |at: Timestamp| {
        facts
            .terms
            .iter()
            .find(|term| term.from <= at && term.until.is_none_or(|until| at < until))
            .map(|term| &*term.name)
    };
    let columns = (0..COLUMNS).rev().map(|column| {
        let at = now.checked_sub(COLUMN * column).unwrap_or(now);
        leads_at(at).and_then(|name| name.chars().next()).unwrap_or('.')
    });
    let columns: String = columns.collect();
    format!("  {columns}  {}", leads_at(now).map_or_else(|| "nobody leads".to_owned(), |name| format!("{name} leads")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2026-01-02T03:{:02}:{:02}Z", second / 60, second % 60).parse().unwrap()
    }

    #[test]
    fn each_second_is_the_letter_of_its_leader_or_a_dot() {
        let line = |second, event| format!(r#"{{"time":"{}","event":"{event}"}}"#, at(second));
        let facts = Facts::after(&[
            ("ant", line(5, "started")),
            ("ant", line(10, "leading")),
            ("ant", line(13, "stopped")),
            ("bee", line(15, "leading")),
            ("ant", line(16, "observed")),
            ("bee", line(20, "stopped")),
        ]);
        let frame = |dots, seconds, leader| format!("  {}{seconds}  {leader}", ".".repeat(dots));
        assert_eq!(timeline(&facts, at(9)), frame(50, "", "nobody leads"));
        assert_eq!(timeline(&facts, at(12)), frame(47, "aaa", "ant leads"));
        assert_eq!(timeline(&facts, at(13)), frame(46, "aaa.", "nobody leads"));
        assert_eq!(timeline(&facts, at(17)), frame(42, "aaa..bbb", "bee leads"));
        assert_eq!(timeline(&facts, at(20)), frame(39, "aaa..bbbbb.", "nobody leads"));
        let last = format!("  bbbbb{}  nobody leads", ".".repeat(45));
        assert_eq!(timeline(&facts, at(64)), last, "what is older has left on the left");
    }
}
