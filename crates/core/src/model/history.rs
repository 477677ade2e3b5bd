//! The past terms of a Lease, as its annotation `hustings.io/history` records them for people.
//!
//! The process that ends or replaces a term adds it, in a write that it makes anyway. The annotation has one line per
//! term, so `kubectl get lease -o yaml` shows it as a list. A line contains the number of the term
//! (`leaseTransitions`), its holder, its times and how it ended. The newest term comes first. The line of the running
//! term has no end. It may contain why the holder is asked to hand over:
//!
//! ```text
//! 19 web-0 from 2026-11-24T20:10:31.412Z: asked to hand over (transfer)
//! 18 web-2 from 2026-11-24T19:46:07.020Z to 2026-11-24T20:10:31.412Z: handed over (better candidate)
//! 17 web-1 from 2026-11-24T19:40:01.500Z to 2026-11-24T19:45:52.731Z: expired
//! ```
//!
//! The rules that must hold:
//!
//! - No decision depends on it: records that differ only in their history are the same to every state machine.
//! - Every text is accepted. A line that does not parse is reported, and the next write drops it.
//! - The text has at most [`LONGEST`](History::LONGEST) bytes and [`MOST_TERMS`](History::MOST_TERMS) terms.

mod text;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(super) use self::text::short;
use self::text::word;
use super::{Cause, Ending, WireTime};

/// Precedes the cause in the line of a running term whose holder is asked to hand over.
const REQUEST: &str = "asked to hand over (";

/// The past terms of a Lease, newest first. It is the text of the annotation, which is parsed when it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Option<Arc<str>>);

/// The term that runs, or that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunningTerm {
    /// `leaseTransitions` during the term.
    pub number: u32,
    /// The holder, as in [`PastTerm`].
    pub holder: String,
    /// When the term was granted, handed over or claimed, by the clock of the writer. `acquireTime` may be later: it is
    /// not before the end of the former lease, even if evidence ended that lease sooner.
    pub since: WireTime,
    /// Why the holder is asked to hand over, if it is.
    pub request: Option<Cause>,
}

/// A term that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PastTerm {
    /// `leaseTransitions` during the term.
    pub number: u32,
    /// The holder. Long names lack their middle, and white space reads as `_`.
    pub holder: String,
    /// When the term was granted, handed over or claimed, by the clock of the writer.
    pub since: WireTime,
    /// When the holder gave the Lease up, or its last renewal if it did not, by the holder's clock. Never before
    /// `since`.
    pub until: WireTime,
    /// How the term ended.
    pub ending: Ending,
}

/// The hash ignores the history, because it does not affect the state of a Lease. Equal histories have equal hashes, as
/// `Hash` demands.
impl Hash for History {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl History {
    /// The longest text, in bytes.
    pub const LONGEST: usize = 1024;

    /// The largest number of past terms.
    pub const MOST_TERMS: usize = 8;

    /// A history without terms.
    pub const fn new() -> Self {
        Self(None)
    }

    /// Reads the annotation. Keeps at most the first [`LONGEST`](Self::LONGEST) bytes.
    pub fn read(text: &str) -> Self {
        let kept = text.get(..text.floor_char_boundary(Self::LONGEST)).unwrap_or_default();
        Self((!kept.is_empty()).then(|| kept.into()))
    }

    /// The text of the annotation.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The terms, newest first.
    pub fn terms(&self) -> impl Iterator<Item = PastTerm> {
        self.lines().filter_map(|line| PastTerm::parse(line).ok()).take(Self::MOST_TERMS)
    }

    /// The term of this number and holder, if the history names it as the running one.
    pub fn running(&self, number: u32, holder: &str) -> Option<RunningTerm> {
        self.running_of_anybody(number).filter(|running| running.holder == word(holder))
    }

    /// The term of this number, if the history names it as the running one.
    pub(super) fn running_of_anybody(&self, number: u32) -> Option<RunningTerm> {
        let running = RunningTerm::parse(self.lines().next()?).ok()?;
        (running.number == number).then_some(running)
    }

    /// The lines that do not parse.
    pub fn malformed(&self) -> impl Iterator<Item = &str> {
        let is_running = |index, line| index == 0 && RunningTerm::parse(line).is_ok();
        let lines = self.lines().enumerate();
        lines
            .filter(move |(index, line)| PastTerm::parse(line).is_err() && !is_running(*index, line))
            .map(|(_, line)| line)
    }

    /// The newest term, if it has this number.
    pub fn newest(&self, number: u32) -> Option<PastTerm> {
        self.terms().next().filter(|term| term.number == number)
    }

    /// This history after `term` has ended. The oldest terms are dropped.
    #[must_use]
    pub fn with(&self, term: &PastTerm) -> Self {
        self.beginning_with(&term.to_string())
    }

    /// This history while `term` runs.
    #[must_use]
    pub fn with_running(&self, term: &RunningTerm) -> Self {
        self.beginning_with(&term.to_string())
    }

    /// This history while no term runs.
    #[must_use]
    pub fn without_running(&self) -> Self {
        self.beginning_with("")
    }

    /// A history with the line `first`, followed by as many of the past terms as there is room for.
    fn beginning_with(&self, first: &str) -> Self {
        let mut text = first.to_owned();
        let room = Self::MOST_TERMS - usize::from(PastTerm::parse(first).is_ok());
        for line in self.terms().take(room).map(|term| term.to_string()) {
            if text.len() + 1 + line.len() > Self::LONGEST {
                break;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&line);
        }
        Self::read(&text)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.as_str().lines().filter(|line| !line.is_empty())
    }
}

impl RunningTerm {
    /// A term whose name and time are shortened to the form that a line can hold.
    pub fn new(number: u32, holder: &str, since: WireTime, request: Option<Cause>) -> Self {
        Self { number, holder: word(holder), since: whole_millis(since), request }
    }

    fn parse(line: &str) -> Result<Self, ()> {
        let (number, holder, rest) = start(line)?;
        let (since, request) = match rest.split_once(": ") {
            Some((since, request)) => {
                let cause = request.strip_prefix(REQUEST).and_then(|cause| cause.strip_suffix(')')).ok_or(())?;
                (since, Cause::read(cause))
            }
            None => (rest, None),
        };
        Ok(Self::new(number, holder, since.parse()?, request))
    }
}

impl PastTerm {
    /// A term whose name and times are shortened to the form that a line can hold.
    pub fn new(number: u32, holder: &str, (since, until): (WireTime, WireTime), ending: Ending) -> Self {
        let since = whole_millis(since);
        let ending = match ending {
            Ending::Other(text) => Ending::read(&text),
            known => known,
        };
        Self { number, holder: word(holder), since, until: whole_millis(until).max(since), ending }
    }

    fn parse(line: &str) -> Result<Self, ()> {
        let (number, holder, rest) = start(line)?;
        let (since, rest) = rest.split_once(" to ").ok_or(())?;
        let (until, ending) = rest.split_once(": ").ok_or(())?;
        Ok(Self::new(number, holder, (since.parse()?, until.parse()?), Ending::read(ending)))
    }
}

/// The number and the holder of the term that a line describes, and the rest of the line.
fn start(line: &str) -> Result<(u32, &str, &str), ()> {
    let (number, rest) = line.split_once(' ').ok_or(())?;
    let (holder, rest) = rest.split_once(" from ").ok_or(())?;
    Ok((number.parse().map_err(drop)?, holder, rest))
}

impl fmt::Display for RunningTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, holder, since, request } = self;
        write!(f, "{number} {holder} from {since:.3}")?;
        match request {
            Some(request) => write!(f, ": {REQUEST}{request})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PastTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, holder, since, until, ending } = self;
        write!(f, "{number} {holder} from {since:.3} to {until:.3}: {ending}")
    }
}

/// The time in whole milliseconds, and not before the Unix epoch, because no clock shows an earlier time.
fn whole_millis(time: WireTime) -> WireTime {
    WireTime::from_micros(time.as_micros().max(0) / 1_000 * 1_000)
}

#[cfg(test)]
mod tests;
