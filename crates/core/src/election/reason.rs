//! Why things are as they are, as values. The words for them are in [`words`](super::words).

use std::sync::Arc;

use super::Write;
use crate::model::{Hold, Inadmissible};
use crate::ranking::Criterion;

/// Why a candidate does or does not lead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It holds the Lease.
    Leads,
    /// It was elected and has not taken the grant up yet.
    Granted,
    /// The holder has been asked to hand over to it.
    Preferred,
    /// The holder is better.
    Outranked(Criterion),
    /// The holder is as good, and creation time and name depose nobody.
    Tie,
    /// It is better than the holder, and it is being asked whether it is live.
    Asked,
    /// It is better than the holder, and a better one yet is asked or preferred.
    BehindPreferred,
    /// Elections are paused, or the strategy is disputed or somebody else's, so that the live holder is left alone.
    HolderLeftAlone(Hold),
    /// Nobody holds the Lease yet, and the election runs or found another one better.
    Election,
    /// It did not answer.
    Unresponsive,
    /// It ranks last for a while.
    Damped,
    /// Somebody holds the Lease who has no admissible candidate.
    ForeignHolder,
    /// The Lease counts as held although nobody is named.
    Reserved,
    /// The Lease is kept without a holder.
    OnHold(Hold),
    /// It cannot stand.
    Inadmissible(Inadmissible),
}

/// Something that those who look after a component should be told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A candidate was elected to a free Lease.
    Elected {
        /// The electee.
        candidate: Arc<str>,
        /// Why it.
        why: Choice,
    },
    /// The holder was asked to hand over.
    Preferred {
        /// The holder.
        holder: Arc<str>,
        /// The preferred holder.
        candidate: Arc<str>,
        /// What makes it better; `None` where the holder is about to stop.
        criterion: Option<Criterion>,
    },
    /// The Lease is kept without a holder.
    OnHold(Hold),
    /// The Lease has no holder, and no candidate is admissible and live.
    NoLiveCandidate {
        /// How many admissible candidates did not prove that they are live.
        silent: usize,
        /// How many candidates are not admissible.
        inadmissible: usize,
    },
    /// Writes of a kind succeed, and the object does not show them.
    WriteHasNoEffect {
        /// The kind.
        write: Write,
        /// What the object does not show, or why.
        lost: &'static str,
        /// Name and uid of the candidate that is written; `None` for the Lease.
        candidate: Option<(Arc<str>, Arc<str>)>,
    },
    /// The holder does not hand over.
    HolderIgnoresPreferred {
        /// The holder.
        holder: Arc<str>,
        /// Who waits.
        preferred: Arc<str>,
    },
}

/// Why a candidate was elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Nobody else stood.
    Only,
    /// It was better than the next candidate by this.
    Better(Criterion),
    /// All better ones failed to answer.
    OnlyLive,
}
