//! How far the worlds have come, on stderr: a bar on a terminal, else a line now and then.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_mins(1);

const STYLE: &str = "{wide_bar} {pos} of {len} worlds, {eta} left, {msg}";

/// How far the worlds have come.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// When the next line is due, where there is no terminal.
    next_line: Option<Instant>,
}

impl Progress {
    /// None of so many worlds has been run.
    pub(crate) fn new(worlds: usize) -> Self {
        // It shows itself on a terminal only.
        let bar = ProgressBar::new(worlds as u64);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        let next_line = (!std::io::stderr().is_terminal()).then(|| Instant::now() + LINE_EVERY);
        Self { bar, next_line }
    }

    /// One more has been run, with which what came of all is `brief`.
    pub(crate) fn advance(&mut self, brief: &str) {
        self.bar.set_message(brief.to_owned());
        self.bar.inc(1);
        if let Some(due) = &mut self.next_line
            && Instant::now() >= *due
        {
            *due = Instant::now() + LINE_EVERY;
            let left = self.bar.eta().as_secs();
            eprintln!("{} of {} worlds, {left} s left, {brief}", self.bar.position(), self.bar.length().unwrap_or(0));
        }
    }

    /// Writes something else, with the bar out of the way.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish();
    }
}
