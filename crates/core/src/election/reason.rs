//! Reasons as values. [`sentences`](super::sentences) turns them into sentences.

use std::sync::Arc;

use super::{NoEffect, Write};
use crate::model::{
    CandidateKey, Cause, Ending, Evidence, Exclusion, Hold, Inadmissible, Malformed, Pin, Transfer, WireTime,
};
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
    /// It is better than the holder, and is being pinged.
    Asked,
    /// It is better than the holder, but an even better candidate is pinged or preferred.
    BehindPreferred,
    /// The live holder is left alone: elections are paused, the candidates ask for different strategies, or the
    /// strategy is a third party's.
    HolderLeftAlone(Hold),
    /// The Lease has no holder yet. The election is running, or found another candidate better.
    Election,
    /// It is damped, and may be elected if no other candidate can.
    RanksLast,
    /// The holder has no admissible candidate.
    ForeignHolder,
    /// The Lease has no holder on record, but counts as held.
    Reserved,
    /// The Lease deliberately has no holder.
    OnHold(Hold),
    /// It may not be elected.
    Ineligible(Ineligible),
}

/// Why a candidate may not be elected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ineligible {
    /// What it declares is not valid, or the strategy does not admit them.
    Inadmissible(Inadmissible),
    /// It did not answer a ping, and what it declares and `renewTime` have not changed since.
    Unresponsive,
    /// It is the holder.
    Holder,
    /// An administrator excludes it, for this reason.
    Excluded(String),
    /// It did not take up its last grant, and it is damped. So it does not replace a live holder.
    Forfeited,
    /// It is damped, and it does not replace this live holder.
    Damped,
    /// No candidate is elected: elections are paused, or the strategy is not ours.
    OnHold(Hold),
    /// The live holder is pinned.
    HolderPinned,
    /// The live holder is better.
    Outranked(Criterion),
    /// The live holder is equally good. Creation time and name never replace a live holder.
    Tie,
    /// The live holder is native and cannot be asked to hand over: the server or the holder drops the request.
    HolderStays,
}

/// Something that the operator of a component should know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A candidate was elected to a free Lease.
    Elected {
        /// The electee.
        candidate: CandidateKey,
        /// Why this candidate.
        why: Choice,
        /// How the last grant or term ended, if there was one before.
        after: Ending,
    },
    /// The holder was asked to hand over.
    Preferred {
        /// The holder.
        holder: Arc<str>,
        /// The preferred holder.
        candidate: CandidateKey,
        /// Why it is better; `None` if the holder is about to stop.
        criterion: Option<Criterion>,
        /// Who asked for the newest act, according to its writer. The text names it only if that act decides.
        asked_by: Option<String>,
    },
    /// An assisted Lease was released, because its holder is proven dead.
    Released {
        /// The former holder.
        holder: Arc<str>,
        /// What proved it dead.
        evidence: Evidence,
    },
    /// The holder is no longer asked to hand over, and stays.
    Withdrawn {
        /// The holder.
        holder: Arc<str>,
        /// The former preferred holder.
        preferred: CandidateKey,
        /// Why it may not have the Lease now.
        why: TransferRefusal,
    },
    /// The Lease deliberately has no holder.
    OnHold(Hold),
    /// The Lease has no holder, and no candidate is admissible and live.
    NoLiveCandidate {
        /// How many admissible candidates did not prove that they are live.
        silent: usize,
        /// How many candidates are not admissible.
        inadmissible: usize,
        /// How many admissible candidates an administrator excludes.
        excluded: usize,
    },
    /// An administrator's act begins or ends.
    Act {
        /// The act.
        act: AdminAct,
        /// Who asked for it, according to the act's writer.
        asked_by: Option<String>,
    },
    /// A transfer cannot be carried out, so it was removed from the Lease.
    TransferRefused {
        /// To which candidate.
        to: Transfer,
        /// Why.
        why: TransferRefusal,
    },
    /// An annotation for an act does not parse, so it has no effect.
    MalformedAct {
        /// The annotation, and why it does not parse.
        malformed: Malformed,
        /// The candidate and its uid; `None` if it is an annotation of the Lease.
        candidate: Option<(CandidateKey, Arc<str>)>,
    },
    /// A candidate is not admissible.
    Inadmissible {
        /// The candidate and its uid.
        candidate: (CandidateKey, Arc<str>),
        /// Why.
        why: Inadmissible,
    },
    /// The server accepts a kind of write, but the object does not show it, or not for long.
    WriteHasNoEffect {
        /// The kind of write.
        write: Write,
        /// Why it has no effect.
        why: NoEffect,
        /// The candidate and its uid; `None` if the write is of the Lease.
        candidate: Option<(CandidateKey, Arc<str>)>,
    },
    /// A second controller elects for the same Lease.
    SecondController,
    /// A candidate's term has begun.
    BecameLeader {
        /// The holder.
        holder: CandidateKey,
    },
    /// The holder handed over because its work or its program ended.
    HandedOver {
        /// The holder before.
        holder: Arc<str>,
        /// The holder now.
        candidate: CandidateKey,
        /// What ended.
        cause: Cause,
    },
    /// The holder was asked to hand over and has not done so.
    HolderIgnoresPreferred {
        /// The holder.
        holder: CandidateKey,
        /// The preferred holder.
        preferred: CandidateKey,
    },
}

/// An act of an administrator that begins or ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AdminAct {
    /// The elections of the Lease are paused.
    Paused {
        /// The pause.
        hold: Hold,
        /// Until when; `None` if it has no end.
        until: Option<WireTime>,
    },
    /// Elections resume.
    Resumed {
        /// Whether the pause's time has passed. If not, a client removed it.
        ended: bool,
    },
    /// A candidate ranks first.
    Pinned(Pin),
    /// The pinned candidate ranks by merit again.
    Unpinned {
        /// The candidate's name.
        candidate: String,
        /// Whether the pin's time has passed. If not, a client removed it.
        ended: bool,
    },
    /// A candidate is excluded.
    Excluded {
        /// The candidate and its uid.
        candidate: (CandidateKey, Arc<str>),
        /// Until when, and why.
        exclusion: Exclusion,
    },
    /// The excluded candidate may be elected again.
    Included {
        /// The candidate and its uid.
        candidate: (CandidateKey, Arc<str>),
        /// Whether the exclusion's time has passed. If not, a client removed it.
        ended: bool,
    },
}

/// Why a transfer is not carried out, or a request to hand over is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TransferRefusal {
    /// The candidate holds the Lease.
    Holds,
    /// The Lease has no candidate of this name.
    NoSuchCandidate,
    /// No other candidate may have the Lease, or none is live.
    NoOther,
    /// The candidate may not have the Lease.
    Ineligible(Ineligible),
    /// This candidate ranks before it, and would take the Lease back.
    Outranked(CandidateKey),
    /// No candidate is elected.
    OnHold(Hold),
    /// The holder has no admissible candidate, and nothing can ask it to hand over.
    ForeignHolder(Arc<str>),
}

/// Why a candidate was elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// There was no other candidate.
    Only,
    /// It was better than the next candidate by this criterion.
    Better(Criterion),
    /// No other candidate is known to be live.
    OnlyLive,
}
