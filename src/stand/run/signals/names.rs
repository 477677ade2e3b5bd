//! Signals by name and by number, as images and container runtimes write them (`STOPSIGNAL SIGRTMIN+3`).

use std::ops::RangeInclusive;

use rustix::process::Signal;

/// The signals with names, without `SIG`.
const NAMES: [(&str, Signal); 34] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("IOT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CHLD", Signal::CHILD),
    ("CLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("POLL", Signal::IO),
    ("PWR", Signal::POWER),
    ("SYS", Signal::SYS),
    ("STKFLT", Signal::STKFLT),
];

/// The real-time signals as container runtimes and systemd number them. The C library keeps two more for itself.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// The signals that suspend or continue a process, that report on its children, or that nothing but a fault sends. None of
/// them can be a stop signal.
const NEVER_STOP: [Signal; 11] = [
    Signal::STOP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::CONT,
    Signal::CHILD,
    Signal::ILL,
    Signal::FPE,
    Signal::SEGV,
    Signal::BUS,
    Signal::PIPE,
];

/// The stop signals of the wrapper besides TERM and INT, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopSignals(pub(super) Vec<i32>);

impl StopSignals {
    /// Parses a list, separated by commas.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut numbers = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let number = number(name)?;
            if number == Signal::KILL.as_raw() {
                return Err(format!("{name:?} cannot be handled: no program receives it"));
            }
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Ok(Self(numbers))
    }
}

/// Parses the signal that stops the command.
pub fn stop_signal(text: &str) -> Result<Signal, String> {
    Signal::from_named_raw(number(text)?)
        .ok_or_else(|| format!("{text:?} is a real-time signal, which the wrapper cannot send: use another signal"))
}

/// The name of a signal.
pub(in crate::stand::run) fn name(signal: Signal) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == signal).map_or("another", |(name, _)| name)
}

/// The number of a stop signal, in any of its forms.
fn number(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let offset = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u8>().ok().map(i32::from) };
    let number = if let Some(rest) = name.strip_prefix("RTMIN") {
        (!rest.starts_with('-')).then(|| offset(rest.trim_start_matches('+'))).flatten().map(|n| REAL_TIME.start() + n)
    } else if let Some(rest) = name.strip_prefix("RTMAX") {
        (!rest.starts_with('+')).then(|| offset(rest.trim_start_matches('-'))).flatten().map(|n| REAL_TIME.end() - n)
    } else if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.parse().ok()
    } else {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| signal.as_raw())
    };
    let named = number.and_then(Signal::from_named_raw);
    if named.is_some_and(|signal| NEVER_STOP.contains(&signal)) {
        return Err(format!("{text:?} is not a stop signal: a process gets it for other reasons"));
    }
    number
        .filter(|number| named.is_some() || REAL_TIME.contains(number))
        .ok_or_else(|| format!("{text:?} is not a signal: use a name such as TERM, SIGQUIT or RTMIN+3, or a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_in_any_case_with_or_without_sig_and_a_number() {
        for (texts, expected) in [
            (&["QUIT", "quit", "SIGQUIT", "3"][..], 3),
            (&["USR1", "SIGUSR1", "10"], Signal::USR1.as_raw()),
            (&["WINCH", "sigwinch", "28"], Signal::WINCH.as_raw()),
            (&["RTMIN+3", "SIGRTMIN+3", "sigrtmin+3", "RTMAX-27", "37"], 37),
            (&["RTMIN", "34", "SIGRTMAX-30"], 34),
            (&["RTMAX", "64", "RTMIN+30"], 64),
            (&["HUP", "SIGHUP", "1"], 1),
            (&["PWR", "SIGPWR"], Signal::POWER.as_raw()),
        ] {
            for text in texts {
                assert_eq!(StopSignals::read(text), Ok(StopSignals(vec![expected])), "{text}");
                assert_eq!(stop_signal(text).is_ok(), expected < 32, "{text}");
            }
        }
        for text in ["", "TERM2", "SIG", "0", "-1", "32", "33", "65", "RTMIN-1", "RTMAX+1", "RTMIN+31", "RTMIN+x", "1x"]
        {
            assert!(text.is_empty() || StopSignals::read(text).unwrap_err().contains("is not a signal"), "{text}");
            assert!(stop_signal(text).unwrap_err().contains("is not a signal"), "{text}");
        }
        for text in ["STOP", "19", "CONT", "SIGCHLD", "TSTP", "SEGV"] {
            assert!(StopSignals::read(text).unwrap_err().contains("is not a stop signal"), "{text}");
        }
        assert_eq!(StopSignals::read("QUIT, 3,RTMIN+3,"), Ok(StopSignals(vec![3, 37])));
        assert!(StopSignals::read("KILL").unwrap_err().contains("cannot be handled"));
        assert_eq!((stop_signal("KILL"), name(Signal::ABORT)), (Ok(Signal::KILL), "ABRT"));
    }
}
