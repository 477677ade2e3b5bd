//! The log: one line per event on standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

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
    /// A bare level up to `info` also turns off the logs of the kube crates. Hustings reports the same failures itself,
    /// with more context.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty: use error, warn, info, debug, trace or off".to_owned());
        }
        // EnvFilter panics on some other characters.
        if !text.is_ascii() {
            return Err(format!("{text:?} has characters other than ASCII: use a form such as info,hustings=debug"));
        }
        let is_word = !text.contains([',', '=', '[']);
        let directives = match text.parse::<LevelFilter>() {
            Ok(level) if level <= LevelFilter::INFO => format!("{level},kube_client=off,kube_runtime=off"),
            // EnvFilter would parse the word as a target, and log only that target.
            Err(_) if is_word => {
                return Err(format!("{text:?} is not a level: use error, warn, info, debug, trace or off"));
            }
            Ok(_) | Err(_) => text.to_owned(),
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
    /// Installs the log, unless the process already has one.
    pub fn install(self) {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(self.level.0))
            .with_writer(std::io::stderr)
            // A closed terminal or pipe must not cause a panic, and there is no place to report it.
            .log_internal_errors(false)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
        // This fails only if a log is already installed, as in tests that run several controllers in one process.
        let _ = match self.format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().flatten_event(true).try_init(),
        };
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
            ["error", "info", "debug", "trace", "info,kube=debug"].map(quiet),
            [true, true, false, false, false]
        );
        for bad in ["", "hustings=loud", "inof", "\t-\u{fffd}="] {
            assert!(LogLevel::read(bad).is_err(), "{bad}");
        }
    }
}
