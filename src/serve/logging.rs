//! The log: one line per event on standard error, as text or JSON.
//!
//! No part of a process waits for the reader of standard error: log lines and panics pass a queue, and an error with
//! which a process ends is written within a bound.

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;
use std::sync::{OnceLock, mpsc};
use std::thread;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub use self::queue::dropped_lines;
use self::queue::{FLUSH_LIMIT, LogQueue};

/// The log of a process.
#[derive(Clone, Debug)]
pub struct ProcessLog {
    /// The format of its lines.
    pub format: LogFormat,
    /// Which events it contains.
    pub level: LogLevel,
}

/// A log level, or directives per module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel(String);

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors: one JSON object per line.
    Json,
}

impl LogFormat {
    /// Every format, with its name.
    pub const NAMES: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];

    /// The name of the format, as in [`LogFormat::NAMES`].
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl LogLevel {
    /// Parses a bare level, or directives of tracing's [`EnvFilter`].
    ///
    /// A bare level up to `info`, also among directives, turns off the logs of the kube crates, unless a directive names
    /// them. Hustings reports the same failures itself, with more context, and without whole objects.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty: use error, warn, info, debug, trace or off".to_owned());
        }
        // EnvFilter panics on some other characters.
        if !text.is_ascii() {
            return Err(format!("{text:?} has characters other than ASCII: use a form such as info,hustings=debug"));
        }
        let is_word = !text.contains([',', '=', '[']);
        // EnvFilter would parse the word as a target, and log only that target.
        if is_word && text.parse::<LevelFilter>().is_err() {
            return Err(format!("{text:?} is not a level: use error, warn, info, debug, trace or off"));
        }
        let is_quiet = |directive: &str| directive.parse().is_ok_and(|level: LevelFilter| level <= LevelFilter::INFO);
        let directives = if text.split(',').any(is_quiet) && !text.contains("kube") {
            format!("{text},kube_client=off,kube_runtime=off")
        } else {
            text.to_owned()
        };
        EnvFilter::try_new(&directives)
            .map_err(|error| format!("{text:?} is not valid: {error}: use a form such as info,hustings=debug"))?;
        Ok(Self(directives))
    }

    /// The directives, which [`LogLevel::read`] parses as the same level.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ProcessLog {
    /// Installs the log, unless the process already has one. The caller keeps the result until the process ends: when it
    /// is dropped, it waits until the last lines are written, for a second at most.
    pub fn install(self) -> InstalledLog {
        let Ok(queue) = LogQueue::of_process(report_loss) else {
            // There is no thread to spare. A log that may block is better than none.
            self.subscribe(std::io::stderr);
            return InstalledLog(None);
        };
        let writer = queue.clone();
        if self.subscribe(move || writer.clone()) {
            // A process installs one log.
            let _ = INSTALLED.set(queue.clone());
        }
        InstalledLog(Some(queue))
    }

    /// Returns false if a log is already installed, as in tests that run several controllers in one process.
    fn subscribe<W: std::io::Write>(self, writer: impl Fn() -> W + Send + Sync + 'static) -> bool {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(self.level.0))
            .with_writer(writer)
            // A closed terminal or pipe must not cause a panic, and there is no place to report it.
            .log_internal_errors(false)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
        match self.format {
            LogFormat::Text => builder.try_init().is_ok(),
            LogFormat::Json => builder.json().flatten_event(true).try_init().is_ok(),
        }
    }
}

/// The queue of the installed log.
static INSTALLED: OnceLock<LogQueue> = OnceLock::new();

/// The log of this process, once it is installed.
#[must_use = "the last lines are written when this value is dropped"]
pub struct InstalledLog(Option<LogQueue>);

impl Drop for InstalledLog {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.flush(FLUSH_LIMIT);
        }
    }
}

/// Prints the error with which this process ends to standard error. Waits a second at most: if nobody reads it, the exit
/// code alone reports the failure.
pub fn print_last(error: String) {
    let (written, is_written) = mpsc::sync_channel(1);
    let print = move || {
        let _ = writeln!(std::io::stderr(), "{error}");
        let _ = written.send(());
    };
    if thread::Builder::new().spawn(print).is_ok() {
        let _ = is_written.recv_timeout(FLUSH_LIMIT);
    }
}

fn report_loss(lines: u64) {
    tracing::warn!(lines, "log lines were lost: nobody read standard error, or writing to it failed");
}

/// Reports a panic with which this process ends. The hook of the standard library would wait for the reader of standard
/// error; this one waits a second at most.
pub fn report_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let thread = thread.name().unwrap_or("<unnamed>");
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| format!("\n{backtrace}"));
    let backtrace = backtrace.unwrap_or_default();
    match INSTALLED.get() {
        Some(queue) if tracing::enabled!(tracing::Level::ERROR) => {
            tracing::error!(thread, "{panic}{backtrace}");
            queue.flush(FLUSH_LIMIT);
        }
        // A panic is a bug, which no level of the log hides.
        _ => print_last(format!("thread {thread} {panic}{backtrace}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_parsed_and_nonsense_is_rejected() {
        for good in ["info", "INFO", "trace", "off", "info,hustings=debug", "hustings_client=debug"] {
            let level = LogLevel::read(good).unwrap();
            assert_eq!(LogLevel::read(level.as_str()), Ok(level), "{good}");
        }
        let quiet = |level: &str| LogLevel::read(level).unwrap().as_str().contains("kube_client=off");
        assert_eq!(
            ["error", "info", "info,hustings=debug", "debug", "trace", "info,kube=debug"].map(quiet),
            [true, true, true, false, false, false]
        );
        for bad in ["", "hustings=loud", "inof", "\t-\u{fffd}="] {
            assert!(LogLevel::read(bad).is_err(), "{bad}");
        }
    }
}
