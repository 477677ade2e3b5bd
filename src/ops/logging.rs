//! The log: one line an event on standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
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
    if text.is_empty() {
        return Err("names no level".to_owned());
    }
    let is_word = !text.contains([',', '=', '[']);
    let directives = match text.parse::<LevelFilter>() {
        Ok(level) if level <= LevelFilter::INFO => format!("{level},kube_client=off,kube_runtime=off"),
        // It would be taken for the only part of the program that may log.
        Err(_) if is_word => return Err(format!("{text:?} is no level: it is error, warn, info, debug, trace or off")),
        Ok(_) | Err(_) => text.to_owned(),
    };
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
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
        for good in ["info", "INFO", "trace", "off", "info,hustings=debug", "hustings_client=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "hustings=loud", "inof"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
