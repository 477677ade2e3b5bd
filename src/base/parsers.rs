//! Parsers for the values of flags. Each returns the final type, or an error with the value and how to correct it.

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use hustings_client::api::names::{is_dns_label, is_dns_subdomain};

use super::duration;

/// A parser that ignores whitespace around the value, such as the newline at the end of a file.
pub(crate) fn value<T: Clone + Send + Sync + 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl TypedValueParser<Value = T> {
    move |text: &str| parse(text.trim())
}

/// A parser for one of a few named values. `kind` is their name in an error, with an article.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    kind: &'static str,
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    OneOf { kind, values, synonyms: &[] }
}

/// A parser for one of these output formats. Some commands name the format for people one way, some the other.
pub(crate) fn output_format<T: Clone + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    OneOf { kind: "an output format", values, synonyms: &["text", "table"] }
}

/// The parser of [`one_of`] and [`output_format`]. Unlike a function, it also lists the values for completion.
#[derive(Clone)]
struct OneOf<T: 'static> {
    kind: &'static str,
    values: &'static [(&'static str, T)],
    /// Words of the same meaning.
    synonyms: &'static [&'static str],
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let Self { kind, values, synonyms } = *self;
        let parse = move |text: &str| {
            let text = text.trim();
            let means = |name| name == text || [name, text].iter().all(|word| synonyms.contains(word));
            let found = values.iter().find(|(name, _)| means(*name));
            found.map(|(_, value)| value.clone()).ok_or_else(|| {
                let mut names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
                let last = names.pop().unwrap_or_default();
                format!("{text:?} is not {kind}: use {} or {last}", names.join(", "))
            })
        };
        parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values.iter().map(|(name, _)| PossibleValue::new(*name))))
    }
}

/// Parses a duration in whole seconds, since a Lease has no fractions of a second.
pub(crate) fn whole_seconds(text: &str) -> Result<u32, String> {
    match duration::parse(text)? {
        duration if duration.subsec_nanos() != 0 => {
            Err(format!("{text:?} is not a whole number of seconds: use a form such as 15s"))
        }
        duration => {
            u32::try_from(duration.as_secs()).map_err(|_| format!("{text:?} is too long: use a form such as 15s"))
        }
    }
}

/// Parses a duration of at most `longest`.
pub(crate) fn at_most(text: &str, longest: Duration) -> Result<Duration, String> {
    match duration::parse(text)? {
        duration if duration <= longest => Ok(duration),
        _ => Err(format!("{text:?} is longer than {longest:?}: use {longest:?} or less")),
    }
}

/// Parses a switch.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" | "on" => Ok(true),
        "false" | "f" | "0" | "no" | "n" | "off" => Ok(false),
        _ => Err(format!("{text:?} is not a switch: use true or false")),
    }
}

/// Parses the name of a namespace, a DNS label.
pub(crate) fn namespace_name(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a valid DNS label: use at most 63 lower-case letters, digits and \"-\""))
    }
}

/// Parses the name of a namespace, or an empty text, which counts as absent.
pub(crate) fn namespace_or_nothing(text: &str) -> Result<String, String> {
    if text.is_empty() { Ok(String::new()) } else { namespace_name(text) }
}

/// Parses the name of an object, a DNS subdomain.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
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
    fn whole_seconds_have_no_fractions() {
        assert_eq!(whole_seconds("1m"), Ok(60));
        assert!(whole_seconds("1500ms").is_err());
    }

    #[test]
    fn a_switch_has_many_words_in_any_case() {
        for text in ["true", "True", "TRUE", "t", "1", "yes", "Y", "on", "ON"] {
            assert_eq!(switch(text), Ok(true), "{text}");
        }
        for text in ["false", "False", "f", "0", "no", "N", "off", "Off"] {
            assert_eq!(switch(text), Ok(false), "{text}");
        }
        for text in ["", "2", "maybe"] {
            assert_eq!(switch(text), Err(format!("{text:?} is not a switch: use true or false")));
        }
        let longest = Duration::from_secs(20);
        assert_eq!((at_most("20s", longest), at_most("0s", longest)), (Ok(longest), Ok(Duration::ZERO)));
        assert_eq!(at_most("21s", longest), Err(r#""21s" is longer than 20s: use 20s or less"#.to_owned()));
    }

    #[test]
    fn names_are_valid_if_kubernetes_accepts_them() {
        for name in ["a", "hustings-controller", "a.b-c.0"] {
            assert_eq!(object_name(name).as_deref(), Ok(name));
        }
        for rejected in ["", "A", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert!(object_name(rejected).is_err(), "{rejected:?}");
        }
        assert_eq!(namespace_name("a-0").as_deref(), Ok("a-0"));
        assert!(namespace_name("a.b").is_err() && namespace_name(&"a".repeat(64)).is_err());
    }
}
