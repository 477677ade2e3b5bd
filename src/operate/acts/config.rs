//! The configuration of the commands: which act, and how to report it.

use std::time::Duration;

use hustings_core::assist::AssistOptions;
use hustings_core::model::{Transfer, WireTime};

use super::requests::refused;
use crate::base::hint::Hinted;
use crate::base::output::Output;

/// The configuration of a command: one act, and how to report it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The act.
    pub act: Act,
    /// Why, in the administrator's words.
    pub reason: Option<String>,
    /// Whether to write nothing and only print what the controller would do.
    pub dry_run: bool,
    /// How long to wait for the act to take effect; `None` to return at once.
    pub wait: Option<Duration>,
    /// The output format.
    pub output: Output,
}

/// An act of an administrator.
#[derive(Clone, Debug)]
pub enum Act {
    /// An act on a Lease.
    Lease {
        /// Its name.
        lease: String,
        /// The act.
        act: LeaseAct,
    },
    /// Excludes candidates until the end, or includes them again.
    Candidates {
        /// Which candidates.
        targets: Targets,
        /// When the exclusion ends; `None` to include the candidates.
        end: Option<ActExpiry>,
    },
}

/// An act on a Lease.
#[derive(Clone, Debug)]
pub enum LeaseAct {
    /// Pauses the elections.
    Pause(Option<ActExpiry>),
    /// Ends the pause.
    Resume,
    /// Moves the Lease to another candidate, once.
    Transfer(Transfer),
    /// Ranks a candidate first.
    Pin {
        /// Its name.
        candidate: String,
        /// When the pin ends.
        end: ActExpiry,
    },
    /// Ends the pin.
    Unpin,
    /// Assists its holder, which knows nothing of Hustings.
    Assist(AssistOptions),
    /// Ends the assistance.
    Unassist,
}

/// When an act ends.
#[derive(Clone, Copy, Debug)]
pub enum ActExpiry {
    /// After this duration.
    After(Duration),
    /// At this time.
    At(WireTime),
}

/// Which candidates an act concerns.
#[derive(Clone, Debug)]
pub struct Targets {
    /// Candidates by name.
    pub names: Vec<String>,
    /// All candidates whose Pods run on this node.
    pub node: Option<String>,
    /// Whether to look for the Pods of the node in all namespaces.
    pub all_namespaces: bool,
}

impl ActExpiry {
    /// The time at which the act ends, by the wall clock `now`.
    pub(super) fn at(self, now: WireTime) -> Result<WireTime, Hinted> {
        match self {
            Self::After(Duration::ZERO) => Err(refused("--for 0s ends at once", "use a duration such as 30m")),
            Self::After(duration) => Ok(now.after(duration)),
            Self::At(time) if time <= now => {
                Err(refused(format!("--until {time} has passed: it is {now}"), "use a later time, or --for 30m"))
            }
            Self::At(time) => Ok(time),
        }
    }
}

/// What to add to an end in a report, because a longer `--for` has been cut.
pub(super) fn note_on_end(until: WireTime) -> &'static str {
    if until == WireTime::MAX { " (the latest possible end)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::requests::REFUSED;
    use super::*;

    #[test]
    fn an_end_that_has_passed_is_refused() {
        let now = WireTime::from_micros(1_000_000);
        assert_eq!(ActExpiry::After(Duration::from_secs(1)).at(now).unwrap(), WireTime::from_micros(2_000_000));
        assert_eq!(ActExpiry::At(WireTime::from_micros(1_000_001)).at(now).unwrap(), WireTime::from_micros(1_000_001));
        let latest = ActExpiry::After(Duration::from_hours(u64::from(u32::MAX))).at(now).unwrap();
        assert_eq!((note_on_end(latest), note_on_end(now)), (" (the latest possible end)", ""));
        for end in [ActExpiry::After(Duration::ZERO), ActExpiry::At(now)] {
            assert_eq!(end.at(now).unwrap_err().exit_code(), Some(REFUSED));
        }
    }
}
