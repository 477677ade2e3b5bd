//! What goes into an elector and what comes out of it, as values.

use std::time::Duration;

use super::range::Range;
use crate::model::{CandidateRecord, Hold, Inadmissible, LeaseRecord, LeaseWrite, Moment, WireTime};

/// Names one request of one elector. Its answer, or that there is none, comes back under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// Something that the elector is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A version of the Lease.
    Lease {
        /// What it says.
        record: LeaseRecord,
        /// How it became known.
        source: Source,
    },
    /// There is no such Lease. From a watch this is a hint, upon which the elector reads.
    LeaseMissing {
        /// How it became known.
        source: Source,
    },
    /// The outcome of [`Action::WriteLease`] or [`Action::CreateLease`].
    LeaseWritten {
        /// The request.
        attempt: AttemptId,
        /// What became of it.
        outcome: Outcome<LeaseRecord>,
    },
    /// A version of this elector's own candidate.
    Candidate {
        /// What it says.
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
        /// What became of it.
        outcome: Outcome<CandidateRecord>,
    },
    /// The candidates of this Lease, as [`Action::ListCandidates`] found them.
    Candidates {
        /// The request.
        attempt: AttemptId,
        /// What they say; `None` where the cluster knows no candidates.
        records: Option<Vec<CandidateRecord>>,
    },
    /// [`Action::ReadLease`], [`Action::ReadCandidate`] or [`Action::ListCandidates`] brought no answer to the question.
    ReadFailed(AttemptId),
    /// This elector's preference, by which it asks a holder of a lower one to hand over (direct mode only). `None` where
    /// it is not known, or not yet: such a one never asks.
    Key(Option<i64>),
    /// The work of the last term has ended. This answers every [`Action::StopWork`], at once where there is no work.
    WorkStopped,
    /// The running term is not wanted any longer: give it up, stand aside for a while, and campaign on. Without a term
    /// this is nothing.
    Resign,
    /// The process is about to end: give up in order and campaign no more.
    Stop,
}

/// How a version became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From a watch or a list, which may lag behind.
    Watch,
    /// From the live read of this number.
    Read(AttemptId),
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<Record> {
    /// It succeeded, and this is the answer.
    Landed(Record),
    /// Another version stands (409), or, for a creation, the object exists.
    Conflict,
    /// The server answers that there is no such object (404). This is a hint, upon which the elector reads.
    Missing,
    /// This request has deleted the object.
    Deleted,
    /// The server has certainly not executed it (403, 422, 429, or it was never sent).
    Refused,
    /// Nobody knows: timed out, connection lost, 5xx. It may still be executed, even much later.
    Unknown,
}

/// Something that the elector wants done. Every request is sent at once, or later, or never; that and its answer take at
/// most the request timeout from the decision on, and an [`Observation`] tells what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the Lease live.
    ReadLease(AttemptId),
    /// Create the Lease empty: no holder, duration 15 s, no session, label `hustings.io/enrolled`.
    CreateLease(AttemptId),
    /// Patch the Lease.
    WriteLease {
        /// The request.
        attempt: AttemptId,
        /// What shall stand in it, and on which version that is conditional.
        write: Box<LeaseWrite>,
    },
    /// Read this elector's own candidate live.
    ReadCandidate(AttemptId),
    /// List the candidates of this Lease live.
    ListCandidates(AttemptId),
    /// Create the candidate, with this renew time.
    CreateCandidate {
        /// The request.
        attempt: AttemptId,
        /// `spec.renewTime`.
        renew_time: WireTime,
        /// Whether it names its owner, where that is known.
        names_owner: bool,
    },
    /// Patch the candidate's renew time: the answer to a ping, or an unasked sign of life.
    RenewCandidate {
        /// The request.
        attempt: AttemptId,
        /// The object that is meant; one of another uid must not be written.
        uid: String,
        /// `spec.renewTime`.
        renew_time: WireTime,
        /// Whether versions, strategy, lease duration and the owner are written too, since this process did not
        /// create the object. The priority never is.
        refresh: bool,
    },
    /// Delete the candidate.
    DeleteCandidate {
        /// The request.
        attempt: AttemptId,
        /// The object that is meant.
        uid: String,
    },
    /// Ask the work of the term to stop, and tell when it has.
    StopWork,
    /// The work has used up its grace: drop it, and still tell when it has ended.
    AbortWork,
}

/// A running term. Whoever reads it compares `valid_until` with the local clock, after reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leading {
    /// `leaseTransitions` with which the term began.
    pub number: u32,
    /// Grows with every term of the Lease.
    pub token: u64,
    /// From this moment on the term is over unless a renewal has succeeded.
    pub valid_until: Moment,
}

/// What an elector decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// What is to be done, in this order. **The flag comes first**: `leading` is in force before any action is begun.
    pub actions: Vec<Action>,
    /// The term that runs, if one does.
    pub leading: Option<Leading>,
    /// The wall-clock time that the last term owns, whether or not it still runs.
    pub range: Option<Range>,
    /// When to decide again at the latest, even if nothing is observed.
    pub deadline: Option<Moment>,
    /// What is worth a log line or an event.
    pub notes: Vec<Note>,
    /// After [`Observation::Stop`]: nothing is left to be done.
    pub finished: bool,
}

/// Something worth telling a person.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// A term has begun.
    Began {
        /// Its number.
        number: u32,
        /// Its token.
        token: u64,
    },
    /// The term has ended without being given up.
    Lost(Loss),
    /// The work is being stopped, since a preferred holder is named.
    HandOverAsked {
        /// The preferred holder.
        to: String,
    },
    /// The work is being stopped, since the term is not wanted any longer.
    Resigned {
        /// For how long the elector stands aside when the term is over.
        rest: Duration,
    },
    /// The holder is being asked to hand over to this elector, whose key is higher.
    Asked {
        /// The holder.
        holder: String,
    },
    /// A version shows that the term was given up, or that there is nothing left to give up.
    GaveUp,
    /// The elector stops, and lets the Lease run out as it is set up to do.
    LeftToRunOut,
    /// The term could not be given up in time. The Lease runs out.
    GiveUpAbandoned,
    /// The work has used up its grace. The Lease runs out, and nothing is taken up before the work has ended.
    WorkDidNotStop,
    /// The Lease names this identity, under somebody else's session: another process has the same name.
    NamesakeHolds {
        /// Its session, as written.
        session: String,
    },
    /// The Lease names this identity under a session of the same place, whose process is dead: it is claimed at once.
    Reclaims {
        /// The session of the dead process.
        session: String,
    },
    /// A take-up or claim has landed when it was too late to lead by it.
    LandedTooLate,
    /// Somebody else wrote the Lease first.
    Conflict,
    /// The server refused a write of the Lease.
    Refused,
    /// Nobody knows whether a write of the Lease succeeded.
    OutcomeUnknown,
    /// The server accepted a write of the Lease and answered with a version that does not show it.
    NotKept,
    /// The same of the candidate.
    CandidateNotKept,
    /// Nobody elects: the candidates do so themselves from now on, until a controller is seen.
    NoController,
    /// The cluster knows no candidates. The Lease is claimed nevertheless, after everybody who knows more.
    NoCandidates,
    /// The Lease is free, nobody elects, and yet it is not claimed.
    Withheld(Withheld),
    /// The candidate was deleted soon after its owner was named: it is created again without an owner.
    OwnerDropped,
    /// The candidate of this name stands for another Lease, and a candidate cannot change it.
    CandidateOfAnotherLease {
        /// The other Lease.
        lease_name: String,
    },
}

/// Why an elector leaves a Lease alone that is free, and for which nobody elects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Withheld {
    /// It is set up to wait for a controller.
    TurnedOff,
    /// The candidates cannot be listed.
    NoList,
    /// The Lease is left without a holder on purpose.
    Hold(Hold),
    /// The candidates ask for a strategy that is somebody else's to carry out.
    ThirdPartyStrategy(String),
    /// The candidates of the highest binary version ask for different strategies.
    Disagreement,
    /// This elector's own candidate is not admissible.
    Inadmissible(Inadmissible),
}

/// Why a term ended without being given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No renewal succeeded within the renew deadline.
    NotRenewed,
    /// The Lease is gone.
    LeaseMissing,
    /// A version of the Lease is not this term's.
    NotMine {
        /// The holder that it names.
        holder: Option<String>,
    },
}
