//! What the command does now, on a terminal.

use std::io::{IsTerminal as _, Write as _};

/// One line of standard error that changes, if that is a terminal.
pub(super) struct Progress {
    is_on: bool,
}

impl Progress {
    pub(super) fn on_stderr() -> Self {
        Self { is_on: std::io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub(super) fn show(&self, text: &str) {
        if self.is_on {
            // Nobody needs the line if it cannot be written.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

/// Removes the line.
impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}
