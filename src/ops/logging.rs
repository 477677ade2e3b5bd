//! The log: one line an event on standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors: one object a line.
    Json,
}

impl LogFormat {
    /// Reads `--log-format`.
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is neither text nor json")),
        }
    }
}

/// Reads `--log-level`. A bare level leaves out what kube logs of its own accord about failures that are reported here
/// with more to go by.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    let text = match text {
        "error" | "warn" | "info" => format!("{text},kube_client=off,kube_runtime=off"),
        _ => text.to_owned(),
    };
    if text.is_empty() {
        return Err("names no level".to_owned());
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())
}

/// Starts the log. A process that already has one keeps it.
pub fn install(format: LogFormat, filter: EnvFilter) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        // A terminal that is gone, or a pipe that nobody reads, is no reason to panic, and there is nowhere to say so.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // It fails only where a log has been started before, as in tests that run several controllers in one process.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_read_and_nonsense_is_not() {
        for good in ["info", "trace", "info,hustings=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "hustings=loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
