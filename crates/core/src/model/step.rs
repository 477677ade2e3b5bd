//! What one version of a Lease is, and what happened between two of its versions.
//!
//! Every room takes these answers from here: the view of a Lease, the election's count of losses, metrics, events, the
//! page, and the commands for people. Two copies of such a rule would sooner or later disagree.
//!
//! A *period* is one grant or one term. The holder and `leaseTransitions` distinguish it from the next one, and so does a
//! new session stamp. A removed stamp does not: a third party has removed it, and the term may go on.

use super::{CandidateKind, Cause, Ending, LeaseRecord, UNDECLARED_DURATION_SECONDS};

/// What one version of a Lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseStage {
    /// It names no holder, and counts as held until it expires: see [`Observed`](super::Observed).
    Reserved,
    /// It names no holder, and nobody has to wait for it to expire.
    GivenUp,
    /// It is a grant or a hand-over that its electee has not taken up yet.
    Granted,
    /// It names a holder that has begun its term, or that is not an elector of Hustings.
    InTerm,
}

/// What happened between two versions of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The record is the same. Other metadata may have changed.
    Same,
    /// The holder renewed, and nothing else has changed.
    Renewed,
    /// The period goes on, or the Lease still has no holder. Other fields of the record have changed.
    Changed,
    /// client-go has emptied the Lease by a late release. The term goes on.
    Emptied,
    /// Another writer has named a holder in the term of another one. The other fields still belong to that term.
    Renamed,
    /// The electee has taken up its grant.
    TakenUp,
    /// The Lease has lost its holder.
    Vacated(Ending),
    /// A candidate was granted the Lease. If there was a holder before, its period ended like this: a hand-over is a
    /// grant after [`Ending::HandedOver`]. A watch may skip that version, so a claim may follow that ending, too.
    Granted(Option<Ending>),
    /// A holder claimed the Lease, and so began a term without a grant. If there was a holder before, its period ended
    /// like this.
    Claimed(Option<Ending>),
}

impl LeaseRecord {
    /// What this version is, if its holder is a candidate of this kind. `None` means that the kind is not known; the
    /// answer is then what the record alone shows.
    ///
    /// A grant to a native candidate carries no mark, because client-go keeps annotations, and the mark would outlive the
    /// take-up. On its take-up, client-go keeps `acquireTime` and sets its own, longer duration.
    pub fn stage(&self, kind: Option<CandidateKind>) -> LeaseStage {
        if self.holder.is_none() {
            return if self.is_given_up() { LeaseStage::GivenUp } else { LeaseStage::Reserved };
        }
        let has_native_form = self.duration_seconds < UNDECLARED_DURATION_SECONDS
            && self.acquire_time.is_some()
            && self.acquire_time == self.renew_time;
        let is_grant = match kind {
            Some(CandidateKind::Hustings) => self.is_open(),
            Some(CandidateKind::Native) => has_native_form,
            None => self.is_open() || (has_native_form && self.session.stamp().is_none()),
        };
        if is_grant { LeaseStage::Granted } else { LeaseStage::InTerm }
    }

    /// How the grant or term of this record ended, given that no process has given it up and the Lease has expired.
    /// `kind` is that of its holder, as for [`stage`](Self::stage).
    pub fn lapse(&self, kind: Option<CandidateKind>) -> Ending {
        if self.stage(kind) == LeaseStage::Granted { Ending::NotTakenUp } else { Ending::Expired }
    }
}

impl Step {
    /// What happened between `before` and the later version `after`. `kind_of` is the kind of a record's holder, as for
    /// [`LeaseRecord::stage`].
    pub fn between(
        before: &LeaseRecord,
        after: &LeaseRecord,
        kind_of: impl Fn(&LeaseRecord) -> Option<CandidateKind>,
    ) -> Self {
        if before.uid != after.uid {
            return Self::after_a_deletion(before, after, kind_of(after));
        }
        let (was, is) = (before.stage(kind_of(before)), after.stage(kind_of(after)));
        let was_native = kind_of(before) == Some(CandidateKind::Native);
        let has_same_holder = before.holder == after.holder;
        let has_same_number = before.transitions == after.transitions;
        let keeps_stamp = before.session == after.session && before.session.stamp().is_some();
        let was_emptied = keeps_stamp && before.has_release_form();
        let is_restamped = !keeps_stamp && before.session.stamp().is_some() && after.session.stamp().is_some();
        match is {
            LeaseStage::InTerm if has_same_holder && was == LeaseStage::Granted => Self::TakenUp,
            _ if has_same_number && (was_emptied || (has_same_holder && !is_restamped)) => {
                Self::within_a_period(before, after)
            }
            LeaseStage::Reserved if has_same_number && keeps_stamp && after.has_release_form() && !was_native => {
                Self::Emptied
            }
            LeaseStage::Reserved | LeaseStage::GivenUp if before.holder.is_none() => Self::Changed,
            LeaseStage::Reserved | LeaseStage::GivenUp => {
                Self::Vacated(before.recorded_end(after).unwrap_or(Ending::Released(Cause::Unknown)))
            }
            LeaseStage::Granted => Self::Granted(before.end(after, is, kind_of(before))),
            LeaseStage::InTerm if has_same_number && keeps_stamp => Self::Renamed,
            LeaseStage::InTerm => Self::Claimed(before.end(after, is, kind_of(before))),
        }
    }

    fn after_a_deletion(before: &LeaseRecord, after: &LeaseRecord, kind: Option<CandidateKind>) -> Self {
        let ending = before.holder.as_ref().map(|_| Ending::LeaseDeleted);
        match (after.stage(kind), ending) {
            (LeaseStage::Granted, ending) => Self::Granted(ending),
            (LeaseStage::InTerm, ending) => Self::Claimed(ending),
            (LeaseStage::Reserved | LeaseStage::GivenUp, Some(ending)) => Self::Vacated(ending),
            (LeaseStage::Reserved | LeaseStage::GivenUp, None) => Self::Changed,
        }
    }

    fn within_a_period(before: &LeaseRecord, after: &LeaseRecord) -> Self {
        let (renew_time, resource_version) = (after.renew_time, after.resource_version);
        if before.is_same_record(after) {
            Self::Same
        } else if before.renew_time != renew_time
            && *after == (LeaseRecord { resource_version, renew_time, ..before.clone() })
        {
            Self::Renewed
        } else {
            Self::Changed
        }
    }

    /// How the period of the former holder ended; `None` if it goes on, or if there was none.
    pub fn ended(&self) -> Option<&Ending> {
        match self {
            Self::Vacated(ending) => Some(ending),
            Self::Granted(ending) | Self::Claimed(ending) => ending.as_ref(),
            Self::Same | Self::Renewed | Self::Changed | Self::Emptied | Self::Renamed | Self::TakenUp => None,
        }
    }

    /// Why the former holder handed over, if it did.
    pub fn hand_over(&self) -> Option<Cause> {
        match self.ended() {
            Some(Ending::HandedOver(cause)) => Some(*cause),
            _ => None,
        }
    }

    /// Whether a term has begun.
    pub const fn begins_term(&self) -> bool {
        matches!(self, Self::TakenUp | Self::Claimed(_))
    }
}

impl LeaseRecord {
    /// How the holder of this record, of this kind, lost the Lease to that of `after`; `None` if this record has no
    /// holder.
    fn end(&self, after: &Self, stage: LeaseStage, kind: Option<CandidateKind>) -> Option<Ending> {
        self.holder.as_ref()?;
        let is_asked_for = stage == LeaseStage::Granted && self.preferred_holder == after.holder;
        let inferred = || if is_asked_for { Ending::HandedOver(Cause::Unknown) } else { self.lapse(kind) };
        Some(self.recorded_end(after).unwrap_or_else(inferred))
    }

    /// How the period of this record ended, as the writer of a later version recorded it.
    fn recorded_end(&self, after: &Self) -> Option<Ending> {
        if self.history == after.history {
            return None;
        }
        after.history.newest(self.transitions).map(|term| term.ending)
    }
}

#[cfg(test)]
mod tests;
