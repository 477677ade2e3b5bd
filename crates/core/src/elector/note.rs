//! What an elector reports to people, as values. Their [sentences](super::sentences) are elsewhere.

use std::time::Duration;

use crate::model::{Hold, Inadmissible};

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
    /// The Lease deliberately has no holder, as it records or as the list of its candidates shows.
    Hold(Hold),
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
