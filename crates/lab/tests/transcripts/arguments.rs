//! Reads the arguments of a command.

use std::time::Duration;

use datadriven::TestCase;
use hustings_core::model::Strategy;
use hustings_lab::{Lab, Process, Replica, Who};

pub(crate) fn text(case: &mut TestCase, key: &str) -> Option<String> {
    case.try_take_arg(key).unwrap()
}

pub(crate) fn number<T: std::str::FromStr>(case: &mut TestCase, key: &str) -> Option<T>
where
    T::Err: std::error::Error,
{
    text(case, key).map(|value| value.parse().unwrap())
}

pub(crate) fn flag(case: &mut TestCase, name: &str) -> bool {
    case.take_flag(name).unwrap()
}

/// The argument that has no value and is no flag.
pub(crate) fn optional_name(case: &mut TestCase) -> Option<String> {
    let name = case.args.iter().find(|(_, values)| values.is_empty()).map(|(name, _)| name.clone())?;
    case.args.remove(&name);
    Some(name)
}

pub(crate) fn name(case: &mut TestCase) -> String {
    optional_name(case).expect("a name")
}

/// A strategy: one of Hustings, `(PREFIX,NAME)`, or a name, which means `example.com/NAME`.
pub(crate) fn strategy(case: &mut TestCase) -> Option<String> {
    let parts = case.try_take_args::<String>("strategy").unwrap();
    parts.map(|parts| parts.join("/")).map(|name| {
        let short = |strategy: &Strategy| strategy.as_str().rsplit('/').next() == Some(&name);
        match Strategy::OURS.iter().find(|strategy| short(strategy)) {
            Some(ours) => ours.as_str().to_owned(),
            None if name.contains('/') => name,
            None => format!("example.com/{name}"),
        }
    })
}

/// The microseconds of a duration, which may be negative; `None` if the text is no duration.
pub(crate) fn parse_micros(text: &str) -> Option<i64> {
    let units = [("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];
    let (number, unit) = units.into_iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    Some(number.parse::<i64>().ok()? * unit)
}

pub(crate) fn parse(text: &str) -> Duration {
    Duration::from_micros(parse_micros(text).and_then(|micros| micros.try_into().ok()).expect("a duration"))
}

pub(crate) fn duration(case: &mut TestCase, key: &str) -> Option<Duration> {
    text(case, key).map(|text| parse(&text))
}

/// An argument that is a duration, perhaps a negative one, in microseconds.
pub(crate) fn signed_micros(case: &mut TestCase, key: &str) -> Option<i64> {
    text(case, key).map(|text| parse_micros(&text).expect("a duration"))
}

pub(crate) fn who(lab: &Lab, case: &mut TestCase) -> Who {
    let name = name(case);
    lab.find(&name).unwrap_or_else(|| panic!("no process {name:?}"))
}

pub(crate) fn process<'a>(lab: &'a mut Lab, case: &mut TestCase) -> &'a mut Process {
    let who = who(lab, case);
    lab.process(who)
}

pub(crate) fn index(lab: &Lab, case: &mut TestCase) -> usize {
    match who(lab, case) {
        Who::Replica(index) => index,
        Who::Controller(_) | Who::Native(_) | Who::Bare(_) => panic!("only an elector can do that"),
    }
}

pub(crate) fn replica<'a>(lab: &'a mut Lab, case: &mut TestCase) -> &'a mut Replica {
    let index = index(lab, case);
    &mut lab.replicas[index]
}
