//! The points of a run where a fault can happen, and the faults.
//!
//! A point is named by its action and not by its time. So a name means the same in every run of a scenario, however busy
//! the machine is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The verb of a point that is not a request but an event of a watch.
pub const WATCH: &str = "watch";

/// How late a write is executed after its sender has given it up.
pub const LATE: Duration = Duration::from_secs(5);

/// How late an event arrives: longer than a holder takes to poll, shorter than an election window.
pub const DELAY: Duration = Duration::from_secs(4);

/// The `nth` write of this purpose by this process, or the `nth` watch event of this form that it receives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Which process.
    pub role: String,
    /// `create`, `patch`, `delete` or `watch`.
    pub verb: String,
    /// The kind of the object.
    pub kind: String,
    /// The purpose, with the object if there are several; or the change that an event shows.
    pub purpose: String,
    /// Counted from 1.
    pub nth: u32,
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process dies before the request is sent.
    CrashBefore,
    /// The process dies after the request was executed, before the answer arrives.
    CrashAfter,
    /// The request is executed, and the connection breaks.
    AnswerLost,
    /// It is answered by 409, and not executed.
    Conflict,
    /// It is answered by 429, and not executed.
    TooMany,
    /// It is answered by 500, and not executed.
    Failed,
    /// It never arrives, and there is no answer.
    Hang,
    /// It is executed 5 s later, when its sender has long given up.
    Late,
    /// The event never arrives, nor does any that follows. 4 s later the watch starts again with a list, as after a
    /// compaction. No API server omits an event from a watch that continues.
    Dropped,
    /// The event, and all that follows on this watch, arrives 4 s later.
    Delayed,
    /// The event is followed by the former version of that object, as from a server that lags behind. 4 s later that server
    /// has caught up.
    Stale,
}

/// One fault at one point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// Where.
    pub point: Point,
    /// What.
    pub fault: Fault,
}

impl Point {
    /// The faults that can happen here.
    pub fn faults(&self) -> &'static [Fault] {
        if self.verb == WATCH { &Fault::OF_EVENTS } else { &Fault::OF_WRITES }
    }
}

impl Fault {
    /// The faults of a write.
    pub const OF_WRITES: [Self; 8] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::AnswerLost,
        Self::Conflict,
        Self::TooMany,
        Self::Failed,
        Self::Hang,
        Self::Late,
    ];

    /// The faults of an event.
    pub const OF_EVENTS: [Self; 3] = [Self::Dropped, Self::Delayed, Self::Stale];

    /// How long the fault lasts: no earlier state is the end.
    pub const fn lasts(self) -> Duration {
        match self {
            Self::Hang | Self::Late => LATE,
            Self::Dropped | Self::Delayed | Self::Stale => DELAY,
            // Everything after that is the process's own work. It must last to be the end.
            Self::CrashBefore | Self::CrashAfter | Self::AnswerLost | Self::Conflict | Self::TooMany | Self::Failed => {
                Duration::ZERO
            }
        }
    }

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::AnswerLost => "answer-lost",
            Self::Conflict => "conflict",
            Self::TooMany => "429",
            Self::Failed => "500",
            Self::Hang => "hang",
            Self::Late => "late",
            Self::Dropped => "dropped",
            Self::Delayed => "delayed",
            Self::Stale => "stale",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, verb, kind, purpose, nth } = self;
        write!(f, "{role}/{verb}/{kind}/{purpose}/{nth}")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.point, self.fault.as_str())
    }
}

impl FromStr for Plan {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [role, verb, kind, purpose, nth, fault] = parts[..] else {
            bail!("a plan is ROLE/VERB/KIND/PURPOSE/NTH/FAULT, and {text:?} is not");
        };
        let all = Fault::OF_WRITES.into_iter().chain(Fault::OF_EVENTS);
        let fault = all.clone().find(|known| known.as_str() == fault).with_context(|| {
            let names: Vec<_> = all.map(Fault::as_str).collect();
            format!("there is no fault {fault}: there are {}", names.join(", "))
        })?;
        let nth = nth.parse().with_context(|| format!("{nth} is no number"))?;
        let [role, verb, kind, purpose] = [role, verb, kind, purpose].map(str::to_owned);
        Ok(Self { point: Point { role, verb, kind, purpose, nth }, fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_parses_as_it_prints() {
        for text in ["a/patch/Lease/take-up/1/crash-after", "controller-0/watch/LeaseCandidate/added-a/2/stale"] {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        for wrong in ["", "a/patch/Lease/take-up/1", "a/patch/Lease/take-up/x/late", "a/patch/Lease/take-up/1/flood"] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
