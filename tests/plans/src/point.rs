//! Where in an execution something can go wrong, and what.
//!
//! A point is named by what is being done and not by when: the same name means the same in every run of a scenario,
//! however busy the machine is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The verb of a point that is not a request but an event of a watch.
pub const WATCH: &str = "watch";

/// How late a write is executed whose sender has given it up.
pub const LATE: Duration = Duration::from_secs(5);

/// How late an event arrives: longer than a holder takes to poll, shorter than an election window.
pub const DELAY: Duration = Duration::from_secs(4);

/// The `nth` write of this purpose by this process, or the `nth` event of this look that it is told of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Which process.
    pub role: String,
    /// `create`, `patch`, `delete` or `watch`.
    pub verb: String,
    /// The kind of the object.
    pub kind: String,
    /// What for, and on which object where there are several; or what an event shows.
    pub purpose: String,
    /// Counted from 1.
    pub nth: u32,
}

/// What goes wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The process dies before the request is sent.
    CrashBefore,
    /// The process dies when the request has been executed, before it hears of that.
    CrashAfter,
    /// The request is executed, and the connection breaks.
    AnswerLost,
    /// It is answered by 409, and not executed.
    Conflict,
    /// It is answered by 429, and not executed.
    TooMany,
    /// It is answered by 500, and not executed.
    Failed,
    /// It never arrives, and nothing is heard.
    Hang,
    /// It is executed 5 s later, when its sender has long given up.
    Late,
    /// The event never arrives, nor does any that follows, and 4 s later the watch starts anew with a list, as when the
    /// server has compacted its history meanwhile. None leaves out an event in a watch that goes on.
    Dropped,
    /// The event, and all that follows on this watch, arrives 4 s later.
    Delayed,
    /// The event is followed by the version of that object that this watch told of before, as from a server that lags
    /// behind, and 4 s later that one has caught up.
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
    /// What can become of a write.
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

    /// What can become of an event.
    pub const OF_EVENTS: [Self; 3] = [Self::Dropped, Self::Delayed, Self::Stale];

    /// For how long it is at work: what stands before it is over is not the end.
    pub const fn lasts(self) -> Duration {
        match self {
            Self::Hang | Self::Late => LATE,
            Self::Dropped | Self::Delayed | Self::Stale => DELAY,
            // What follows is the process's own doing, and is judged by whether it lasts.
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
    fn a_plan_is_read_as_it_is_written() {
        for text in ["a/patch/Lease/take-up/1/crash-after", "controller-0/watch/LeaseCandidate/added-a/2/stale"] {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        for wrong in ["", "a/patch/Lease/take-up/1", "a/patch/Lease/take-up/x/late", "a/patch/Lease/take-up/1/flood"] {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
