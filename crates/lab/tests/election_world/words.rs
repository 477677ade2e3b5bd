//! Parses the words of the commands: arguments with a value, durations, and names.

use std::time::Duration;

use datadriven::TestCase;
use hustings_core::election::Config;

pub(crate) fn word(case: &mut TestCase, key: &str) -> Option<String> {
    case.args.remove(key).and_then(|values| values.into_iter().next())
}

pub(crate) fn number<T: std::str::FromStr>(case: &mut TestCase, key: &str) -> Result<Option<T>, String>
where
    T::Err: std::fmt::Display,
{
    word(case, key).map(|value| value.parse().map_err(text)).transpose()
}

/// The strategy with this name. A name other than those of Hustings means `example.com/NAME`.
pub(crate) fn strategy(name: &str) -> String {
    match name {
        "OldestEmulationVersion" => name.to_owned(),
        "NewestEmulationVersion" => format!("hustings.io/{name}"),
        _ => format!("example.com/{name}"),
    }
}

/// The one argument that has no value.
pub(crate) fn name(case: &mut TestCase) -> Result<String, String> {
    let name = case.args.iter().find(|(_, values)| values.is_empty()).map(|(name, _)| name.clone()).ok_or("no name")?;
    case.args.remove(&name);
    Ok(name)
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (text.strip_suffix('s').ok_or("durations end in s or ms")?, 1000),
    };
    let number: u64 = number.parse().map_err(self::text)?;
    Ok(Duration::from_millis(number * unit))
}

pub(crate) fn signed_seconds(text: &str) -> Result<i64, String> {
    text.strip_suffix('s').ok_or("durations end in s")?.parse().map_err(self::text)
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The configuration of a controller.
pub(crate) fn config(case: &mut TestCase) -> Result<Config, String> {
    let mut config = Config::default();
    for (name, field) in
        [("settling", &mut config.settling), ("window", &mut config.window), ("validity", &mut config.validity)]
    {
        if let Some(value) = word(case, name) {
            *field = seconds(&value)?;
        }
    }
    if let Some(evidence) = word(case, "evidence") {
        (config.evidence.pods, config.evidence.nodes) = (true, evidence == "nodes");
    }
    Ok(config)
}
