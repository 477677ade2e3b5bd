//! The log of a test, as text.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;

/// What this thread has logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects what this thread logs, until the guard is dropped.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        // If a test without a subscriber reached a log line first, it would disable the line for all threads.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        let subscriber = subscriber.with_max_level(tracing::Level::DEBUG).with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    /// The text since the last call, without spaces at its ends.
    pub(crate) fn take(&self) -> String {
        let text = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
