//! The log: one line per event on standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For collectors: one JSON object per line.
    Json,
}

impl LogFormat {
    /// Parses `--log-format`.
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is not a log format: use text or json")),
        }
    }
}

/// Parses `--log-level`: a bare level, or directives of tracing's [`EnvFilter`].
///
/// A bare level up to `info` also turns off the logs of the kube crates. Hustings reports the same failures itself, with
/// more context.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    if text.is_empty() {
        return Err("is empty: use error, warn, info, debug, trace or off".to_owned());
    }
    let is_word = !text.contains([',', '=', '[']);
    let directives = match text.parse::<LevelFilter>() {
        Ok(level) if level <= LevelFilter::INFO => format!("{level},kube_client=off,kube_runtime=off"),
        // EnvFilter would parse the word as a target, and log nothing but that target.
        Err(_) if is_word => {
            return Err(format!("{text:?} is not a level: use error, warn, info, debug, trace or off"));
        }
        Ok(_) | Err(_) => text.to_owned(),
    };
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

/// Installs the log. If the process already has one, it stays.
pub fn install(format: LogFormat, filter: EnvFilter) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE)
        // A closed terminal or pipe must not cause a panic, and there is nowhere to report it.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // It fails only if a log is already installed, as in tests that run several controllers in one process.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_parsed_and_nonsense_is_rejected() {
        for good in ["info", "INFO", "trace", "off", "info,hustings=debug", "hustings_client=debug"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["", "hustings=loud", "inof"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
