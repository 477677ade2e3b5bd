//! Reads the arguments of a directive.

use std::time::Duration;

use datadriven::TestCase;
use hustings_lab::{Lab, Process, Replica, Who, micros};

pub(super) fn text(case: &mut TestCase, key: &str) -> Option<String> {
    case.try_take_arg(key).unwrap()
}

pub(super) fn strategy(case: &mut TestCase) -> Option<String> {
    case.try_take_args::<String>("strategy").unwrap().map(|parts| parts.join("/"))
}

pub(super) fn duration(case: &mut TestCase, key: &str) -> Option<Duration> {
    text(case, key).map(|text| parse(&text))
}

pub(super) fn parse(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(millis.parse().unwrap()),
        None => match (text.strip_suffix('h'), text.strip_suffix('m')) {
            (Some(hours), _) => Duration::from_hours(hours.parse().unwrap()),
            (None, Some(minutes)) => Duration::from_mins(minutes.parse().unwrap()),
            (None, None) => Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap()),
        },
    }
}

/// The error of a wall clock, in microseconds.
pub(super) fn wall_offset(case: &mut TestCase) -> i64 {
    let Some(wall) = text(case, "wall") else { return 0 };
    let (sign, wall) = wall.strip_prefix('-').map_or((1, &*wall), |wall| (-1, wall));
    sign * micros(parse(wall))
}

/// The process of this name. If several electors have the name, it is the newest one, because it has replaced the
/// others.
pub(super) fn who(lab: &Lab, case: &mut TestCase) -> Who {
    let name = text(case, "name").unwrap();
    let replica = lab.replicas.iter().rposition(|replica| replica.process.name == name).map(Who::Replica);
    let controller = || lab.controllers.iter().rposition(|controller| controller.process.name == name);
    let native = || lab.natives.iter().rposition(|native| native.process.name == name);
    let other = || controller().map(Who::Controller).or_else(|| native().map(Who::Native));
    replica.or_else(other).unwrap_or_else(|| panic!("no process {name:?}"))
}

pub(super) fn process<'a>(lab: &'a mut Lab, case: &mut TestCase) -> &'a mut Process {
    let who = who(lab, case);
    lab.process(who)
}

pub(super) fn index(lab: &Lab, case: &mut TestCase) -> usize {
    match who(lab, case) {
        Who::Replica(index) => index,
        Who::Controller(_) | Who::Native(_) | Who::Bare(_) => panic!("only an elector can do that"),
    }
}

pub(super) fn replica<'a>(lab: &'a mut Lab, case: &mut TestCase) -> &'a mut Replica {
    let index = index(lab, case);
    &mut lab.replicas[index]
}
