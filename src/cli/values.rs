//! Parses the values of flags one by one, and reports all mistakes at once.

use std::fmt;
use std::time::Duration;

use hustings_client::api::names::{is_dns_label, is_dns_subdomain};

/// Collects the mistakes in the flags of one command line.
#[derive(Debug, Default)]
pub struct Values {
    refused: Vec<String>,
}

/// The error for a command line with mistakes. It lists every flag that is wrong, with the reason.
#[derive(Debug)]
pub struct Refused(Vec<String>);

/// An error with a hint on how to fix it.
#[derive(Debug)]
pub struct Hinted {
    message: String,
    hint: String,
}

impl Values {
    /// Parses the value of `--flag` with `read`. If that fails, it keeps the reason and returns `None`, and
    /// [`Values::accept`] will fail.
    pub fn take<T>(&mut self, flag: &str, text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        match read(text.trim()) {
            Ok(value) => Some(value),
            Err(reason) => {
                self.refuse(flag, &reason);
                None
            }
        }
    }

    /// Adds a mistake in `--flag`.
    pub fn refuse(&mut self, flag: &str, reason: &str) {
        self.refused.push(format!("--{flag}: {reason}"));
    }

    /// Adds a mistake in the positional argument `name`.
    pub fn refuse_operand(&mut self, name: &str, reason: &str) {
        self.refused.push(format!("{name}: {reason}"));
    }

    /// Returns the values, if there was no mistake.
    ///
    /// # Errors
    /// Fails with all mistakes.
    pub fn accept<T: AllSome>(self, values: T) -> Result<T::Output, Refused> {
        match values.all_some() {
            Some(values) if self.refused.is_empty() => Ok(values),
            _ => Err(Refused(self.refused)),
        }
    }
}

/// A tuple of options, all of which must be `Some`.
pub trait AllSome {
    /// The tuple without the options.
    type Output;
    /// The values, if every option is `Some`.
    fn all_some(self) -> Option<Self::Output>;
}

impl<A, B> AllSome for (Option<A>, Option<B>) {
    type Output = (A, B);
    fn all_some(self) -> Option<Self::Output> {
        Some((self.0?, self.1?))
    }
}

impl<A, B, C> AllSome for (Option<A>, Option<B>, Option<C>) {
    type Output = (A, B, C);
    fn all_some(self) -> Option<Self::Output> {
        Some((self.0?, self.1?, self.2?))
    }
}

impl Refused {
    /// The exit code of the process for a wrong command line.
    pub const fn exit_code(&self) -> u8 {
        2
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the command line is invalid")?;
        self.0.iter().try_for_each(|reason| write!(f, "\n  {reason}"))
    }
}

impl std::error::Error for Refused {}

impl Hinted {
    /// An error with this message and this hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// The hint.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// Parses a duration such as `15s`, `5m` or `500ms`. It must not be negative.
pub fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration: use a form such as 15s, 5m or 500ms"))?;
    Duration::try_from(signed).map_err(|_| format!("{text:?} is negative"))
}

/// Parses a duration in whole seconds, since the wire has no fractions.
pub(super) fn whole_seconds(text: &str) -> Result<u32, String> {
    match duration(text)? {
        duration if duration.subsec_nanos() != 0 => Err(format!("{text:?} is not a whole number of seconds")),
        duration => u32::try_from(duration.as_secs()).map_err(|_| format!("{text:?} is too long")),
    }
}

/// Parses a switch.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err(format!("{text:?} is not a switch: use true or false")),
    }
}

/// Parses the name of a namespace, a DNS label.
pub(super) fn namespace_name(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid DNS label: use at most 63 lower-case letters, digits and \"-\""))
    }
}

/// Parses the name of an object, a DNS subdomain.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid DNS subdomain: use lower-case letters, digits, \"-\" and \".\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_people_write_them_and_never_negative() {
        assert_eq!(duration("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(duration("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for refused in ["-1s", "1s ago", "15", "", "soon", "99999999999999999999s"] {
            assert!(duration(refused).is_err(), "{refused:?}");
        }
        assert_eq!(whole_seconds("1m"), Ok(60));
        assert!(whole_seconds("1500ms").is_err());
    }

    #[test]
    fn names_are_valid_if_kubernetes_accepts_them() {
        for name in ["a", "hustings-controller", "a.b-c.0"] {
            assert_eq!(object_name(name).as_deref(), Ok(name));
        }
        for refused in ["", "A", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert!(object_name(refused).is_err(), "{refused:?}");
        }
        assert_eq!(namespace_name("a-0").as_deref(), Ok("a-0"));
        assert!(namespace_name("a.b").is_err() && namespace_name(&"a".repeat(64)).is_err());
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let mut values = Values::default();
        let first = values.take("settling", "-1s", duration);
        let second = values.take("leader-elect", "maybe", switch);
        let refused = values.accept((first, second)).unwrap_err().to_string();
        assert!(refused.contains("--settling: \"-1s\" is negative"), "{refused}");
        assert!(refused.contains("--leader-elect: \"maybe\" is not a switch: use true or false"), "{refused}");
    }
}
