//! The decision of an elector: actions, the next deadline, the term and its range, all as values.

use super::{AttemptId, Note, Timer};
use crate::model::{Moment, Request, WireTime};

/// An output of the elector. The caller may send a request at once, later or never. It must give up a request without
/// an answer at the request timeout, counted from the decision. It reports the result as an
/// [`Observation`](super::Observation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send this request to the store.
    Send {
        /// The number under which the result is reported.
        attempt: AttemptId,
        /// The request.
        request: Request,
    },
    /// Ask the work of the term to stop, and report when it has ended.
    StopWork,
    /// The work has used up its grace: abort it, and still report when it has ended.
    AbortWork,
}

/// A running term. A reader must read `valid_until` first, and then compare it with the local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leading {
    /// `leaseTransitions` with which the term began.
    pub number: u32,
    /// Grows with every term of the Lease.
    pub token: u64,
    /// The term is over from this moment on, unless a renewal has succeeded.
    pub valid_until: Moment,
}

/// The range of the last term of an elector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first instant.
    pub start: WireTime,
    /// The first instant after the range, unless the term continues. An instant that the process's own clock has not
    /// shown yet does not belong to the range either.
    pub end: WireTime,
    /// Until when the range continues after its end, while no other elector is known to have taken over. `None` if that
    /// is not allowed.
    pub fails_open_until: Option<WireTime>,
}

/// A decision of an elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The actions to perform, in this order. **`leading` comes first**: it must be in force before any action begins.
    pub actions: Vec<Action>,
    /// The running term, if there is one.
    pub leading: Option<Leading>,
    /// The wall-clock time that the last term owns, whether or not it still runs.
    pub range: Option<Range>,
    /// The latest time of the next decision, even without an observation.
    pub deadline: Option<Moment>,
    /// The timer that expires at the deadline.
    pub timer: Option<Timer>,
    /// Notes for the log or for events.
    pub notes: Vec<Note>,
    /// After [`Observation::Stop`](super::Observation::Stop): nothing is left to do.
    pub finished: bool,
}
