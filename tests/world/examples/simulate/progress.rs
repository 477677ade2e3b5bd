//! The progress of a campaign, on stderr: a bar on a terminal, otherwise a line every minute.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_mins(1);

const STYLE: &str = "{wide_bar} {pos} of {len} worlds, {eta} left, {msg}";

/// The progress.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// When the next line is due, without a terminal.
    next_line: Option<Instant>,
}

impl Progress {
    /// Begins with none of the worlds run.
    pub(crate) fn new(worlds: usize) -> Self {
        // The bar is visible on a terminal only.
        let bar = ProgressBar::new(worlds as u64);
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style);
        }
        let next_line = (!std::io::stderr().is_terminal()).then(|| Instant::now() + LINE_EVERY);
        Self { bar, next_line }
    }

    /// One more world has been run; `brief` summarises the results so far.
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

    /// Prints something else without disturbing the bar.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish();
    }
}
