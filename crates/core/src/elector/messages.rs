//! The inputs and outputs of an elector, as values.

use std::time::Duration;

use super::timers::Timer;
pub use crate::model::Outcome;
use crate::model::{CandidateRecord, Cause, Hold, Inadmissible, LeaseRecord, Moment, Request, WireTime};

/// Identifies one request of one elector. The caller reports the result, or the lack of one, under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// An input of the elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A version of the Lease.
    Lease {
        /// Its content.
        record: LeaseRecord,
        /// How it became known.
        source: Source,
    },
    /// There is no such Lease. From a watch this is a hint: the elector then reads the Lease.
    LeaseMissing {
        /// How it became known.
        source: Source,
    },
    /// The outcome of a creation or a write of the Lease.
    LeaseWritten {
        /// The request.
        attempt: AttemptId,
        /// Its outcome.
        outcome: Outcome<LeaseRecord>,
    },
    /// A version of this elector's own candidate.
    Candidate {
        /// Its content.
        record: CandidateRecord,
        /// How it became known.
        source: Source,
    },
    /// This elector's candidate does not exist.
    CandidateMissing {
        /// How it became known.
        source: Source,
    },
    /// The outcome of a write of the candidate.
    CandidateWritten {
        /// The request.
        attempt: AttemptId,
        /// Its outcome.
        outcome: Outcome<CandidateRecord>,
    },
    /// The candidates of this Lease, in answer to a list.
    Candidates {
        /// The request.
        attempt: AttemptId,
        /// Their content; `None` if the cluster does not know the kind LeaseCandidate.
        records: Option<Vec<CandidateRecord>>,
    },
    /// A read or a list got no usable answer.
    ReadFailed(AttemptId),
    /// This elector's preference (direct mode only). The elector asks a holder with a lower preference to hand over.
    /// While it is `None`, the elector never asks.
    Key(Option<i64>),
    /// The work of the last term has ended. The caller must answer every [`Action::StopWork`] with this, at once if
    /// there is no work.
    WorkStopped,
    /// The running term is no longer wanted: the elector gives it up, stands aside for a while, and campaigns again.
    /// Without a term, this has no effect.
    Resign,
    /// The process is about to end, for this reason: the elector gives up gracefully, and does not campaign again. The
    /// history of the Lease keeps the reason.
    Stop(Cause),
}

/// How a version became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From a watch or a list, which may lag behind.
    Watch,
    /// From the live read with this number.
    Read(AttemptId),
}

/// An output of the elector. The caller may send a request at once, later or never. It must give up a request without
/// an answer at the request timeout, counted from the decision. It reports the result as an [`Observation`].
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
    /// After [`Observation::Stop`]: nothing is left to do.
    pub finished: bool,
}

/// Information for a person.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A term has begun.
    Began {
        /// Its number.
        number: u32,
        /// Its token.
        token: u64,
    },
    /// The term ended, but the elector did not give it up.
    Lost(Loss),
    /// The work is being stopped, because the Lease names a preferred holder.
    HandOverAsked {
        /// The preferred holder.
        to: String,
    },
    /// The work is being stopped, because the term is no longer wanted.
    Resigned {
        /// How long the elector stands aside after the term.
        cooldown: Duration,
    },
    /// This elector, whose key is higher, asks the holder to hand over.
    Asked {
        /// The holder.
        holder: String,
    },
    /// The term was given up, or nothing was left to give up.
    GaveUp,
    /// The elector stops and lets the Lease expire, as configured.
    LeftToRunOut,
    /// The elector could not give the term up in time. The Lease expires.
    GiveUpAbandoned,
    /// The work has used up its grace. The Lease expires. The elector begins no term before the work has ended.
    WorkDidNotStop,
    /// The Lease names this identity under another instance's session: another process has the same name.
    NamesakeHolds {
        /// The other instance's session, as written.
        session: String,
    },
    /// The Lease names this identity under a session of the same place, whose process is dead. The elector claims it at
    /// once.
    Reclaims {
        /// The session of the dead process.
        session: String,
    },
    /// A take-up or claim succeeded, but its validity was over before the elector observed that.
    LandedTooLate,
    /// Another writer wrote the Lease first.
    Conflict,
    /// The server refused a write of the Lease.
    Refused,
    /// It is unknown whether a write of the Lease took effect.
    OutcomeUnknown,
    /// The server accepted a write of the Lease, but answered with a version that does not show it.
    WriteReverted,
    /// The same as [`Note::WriteReverted`], for the candidate.
    CandidateWriteReverted,
    /// Another client deletes the candidate soon after each creation.
    CandidateDeleted,
    /// No controller elects: the candidates elect among themselves until a controller is observed.
    NoController,
    /// The cluster does not know the kind LeaseCandidate. The elector claims the Lease nevertheless, after the longest
    /// wait.
    NoCandidates,
    /// The Lease is free and no controller elects, but the elector does not claim it.
    Withheld(Withheld),
    /// The candidate was deleted soon after its owner was set. The elector creates it again without an owner.
    OwnerDropped,
    /// The candidate with this name stands for another Lease, and its process lives or it has an owner. A candidate
    /// cannot change its Lease.
    CandidateOfAnotherLease {
        /// The other Lease.
        lease_name: String,
    },
    /// The candidate with this name stands for another Lease. The elector pings it, to find out whether its process
    /// lives.
    NamesakeAsked {
        /// The other Lease.
        lease_name: String,
    },
    /// No process answers for the candidate with this name that stands for another Lease. The elector replaces it.
    NamesakeReplaced {
        /// The other Lease.
        lease_name: String,
    },
    /// Another client has changed the candidate. The elector writes its own values again.
    CandidateEdited {
        /// The changed fields.
        fields: Vec<EditedField>,
        /// This has happened several times within a short time. The elector continues, and reports no more.
        again_and_again: bool,
    },
    /// A late release by client-go has emptied the Lease during the term. The elector writes its name back.
    Emptied,
}

/// A field of the elector's candidate that another client has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EditedField {
    /// The name of the field or annotation.
    pub field: &'static str,
    /// The value that the field had; empty if it was absent.
    pub found: String,
    /// The elector's own value; empty if it has none.
    pub own: String,
}

/// Why an elector does not claim a free Lease that no controller grants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Withheld {
    /// It is configured to wait for a controller.
    TurnedOff,
    /// It cannot list the candidates.
    NoList,
    /// The Lease deliberately has no holder.
    Hold(Hold),
    /// The candidates ask for a third party's strategy.
    ThirdPartyStrategy(String),
    /// The candidates of the highest binary version ask for different strategies.
    Disagreement,
    /// This elector's own candidate is not admissible.
    Inadmissible(Inadmissible),
}

/// Why a term ended although the elector did not give it up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No renewal succeeded within the renew deadline.
    NotRenewed,
    /// The Lease is gone.
    LeaseMissing,
    /// A version of the Lease belongs to another term, or to none.
    NotMine {
        /// The holder in that version.
        holder: Option<String>,
    },
}
