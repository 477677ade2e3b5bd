//! The sentences for reasons, as shown in `status.message`, in `hustings.io/reason` and in events. Each gives the
//! reason, contains no time, and changes only when the reason does.

mod acts;
mod conditions;
mod events;
mod short;

use std::fmt;

use self::short::Short;
use super::{CandidateVerdict, Choice, Ineligible, Reason};
use crate::model::{CandidateState, Condition, Hold, Inadmissible, RecordedStatus, Truth};
use crate::ranking::Criterion;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leads => f.write_str("Holds the Lease."),
            Self::Granted => f.write_str("Elected; has not taken up the grant yet."),
            Self::Preferred => f.write_str("The holder was asked to hand over to this candidate."),
            Self::Asked => f.write_str("Better than the holder; waiting for its answer to a ping."),
            Self::BehindPreferred => f.write_str("Better than the holder, but another candidate is better still."),
            Self::HolderLeftAlone(hold) => write!(f, "{} The live holder stays.", OnHold(hold)),
            Self::Election => f.write_str("The Lease has no holder yet."),
            Self::RanksLast => f.write_str(DAMPED),
            Self::ForeignHolder => f.write_str(
                "The holder has no admissible candidate. The controller waits until the Lease is released or expires.",
            ),
            Self::Reserved => f.write_str("The Lease names no holder, but a process may still rely on it."),
            Self::OnHold(hold) => OnHold(hold).fmt(f),
            Self::Ineligible(ineligible) => ineligible.fmt(f),
        }
    }
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inadmissible(inadmissible) => inadmissible.fmt(f),
            Self::Unresponsive => f.write_str(
                "Did not answer a ping within the election window. Check that its process runs and reaches the API server.",
            ),
            Self::Holder => f.write_str("Is the holder."),
            Self::Excluded(reason) => write!(f, "{EXCLUDED}{}.", Because(reason)),
            Self::HolderPinned => f.write_str("An administrator pinned the Lease to the holder."),
            Self::Forfeited | Self::Damped => f.write_str(DAMPED),
            Self::OnHold(hold) => OnHold(hold).fmt(f),
            Self::Outranked(criterion) => write!(f, "The holder has {}.", advantage(*criterion)),
            Self::HolderStays => f.write_str(
                "The holder is a candidate of coordination.k8s.io, and nothing can ask it to hand over: the API server or \
                 the holder drops spec.preferredHolder. The controller waits until the Lease is released or expires.",
            ),
            Self::Tie => {
                f.write_str("Equal to the holder in all that the strategy compares, so it does not replace the live holder.")
            }
        }
    }
}

impl Reason {
    /// The reason's name in conditions and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Leads => "Leads",
            Self::Granted => "Granted",
            Self::Preferred => "Preferred",
            Self::Asked => "Asked",
            Self::BehindPreferred => "BehindPreferred",
            Self::HolderLeftAlone(_) => "HolderLeftAlone",
            Self::Election => "NoHolder",
            Self::RanksLast => "Damped",
            Self::ForeignHolder => "ForeignHolder",
            Self::Reserved => "Reserved",
            Self::OnHold(_) => "OnHold",
            Self::Ineligible(ineligible) => ineligible.as_str(),
        }
    }
}

impl Ineligible {
    /// The reason's name in conditions and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Inadmissible(_) => "Inadmissible",
            Self::Unresponsive => "Unresponsive",
            Self::Holder => "Holder",
            Self::Forfeited | Self::Damped => "Damped",
            Self::Excluded(_) => "Excluded",
            Self::HolderPinned => "HolderPinned",
            Self::OnHold(_) => "OnHold",
            Self::Outranked(_) => "Outranked",
            Self::Tie => "Tie",
            Self::HolderStays => "HolderStays",
        }
    }
}

impl CandidateVerdict {
    /// The status that shows this verdict.
    pub fn status(&self) -> RecordedStatus {
        let admissible = match &self.reason {
            Reason::Ineligible(Ineligible::Inadmissible(inadmissible)) => {
                condition(Truth::False, refused(inadmissible))
            }
            _ => condition(Truth::True, "Admissible"),
        };
        let responsive = match self.responsive {
            Some(true) if self.answered_early => condition(Truth::True, Condition::ANSWERED_BEFORE_PING),
            Some(true) => condition(Truth::True, "Answered"),
            Some(false) => condition(Truth::False, "DidNotAnswer"),
            None => condition(Truth::Unknown, "NotAsked"),
        };
        let leading = match self.reason {
            Reason::Leads => condition(Truth::True, "Leads"),
            _ if self.forfeited => condition(Truth::False, Condition::GRANT_NOT_TAKEN_UP),
            _ => condition(Truth::False, self.reason.as_str()),
        };
        RecordedStatus {
            state: Some(self.state),
            message: self.reason.to_string(),
            unresponsive_since: self.unresponsive_since.filter(|_| self.state != CandidateState::Holder),
            damping_count: self.damping_count,
            damped_until: self.damped_until,
            admissible,
            responsive,
            leading,
        }
    }
}

/// What the controller does with an assisted Lease whose holder dies, as a sentence.
pub const fn release_of_assisted(hold: Option<&Hold>) -> &'static str {
    match hold {
        None => "The controller releases the Lease once the holder is proven dead.",
        Some(_) => {
            "Elections are paused, so the controller does not release the Lease, even if the holder is proven dead."
        }
    }
}

const DAMPED: &str =
    "Ranks last until status.dampedUntil, because it lost or gave up the Lease or did not take up a grant.";

const EXCLUDED: &str = "An administrator excludes this candidate";

/// The administrator's reason, after a colon.
struct Because<'a>(&'a str);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", Short(self.0, QUOTE)) }
    }
}

struct Why(Choice);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Choice::Only => f.write_str("it is the only admissible candidate"),
            Choice::OnlyLive => f.write_str("no other candidate is known to be live"),
            Choice::Better(Criterion::Damping) => f.write_str("the next live candidate ranks last for a while"),
            Choice::Better(Criterion::Exclusion) => f.write_str("an administrator excludes the next live candidate"),
            Choice::Better(Criterion::Pin) => f.write_str("an administrator pinned the Lease to it"),
            Choice::Better(Criterion::Transfer) => f.write_str("an administrator transfers the Lease to it"),
            Choice::Better(criterion) => write!(f, "it has {} than the next live candidate", advantage(criterion)),
        }
    }
}

struct OnHold<'a>(&'a Hold);

impl fmt::Display for OnHold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Hold::ThirdPartyStrategy(strategy) => {
                write!(
                    f,
                    "The candidates ask for the strategy {}, which another controller must carry out.",
                    Short(strategy, QUOTE)
                )
            }
            Hold::Disagreement => f.write_str(
                "The candidates of the highest binary version ask for different strategies, so none is elected. Give them the \
                 same strategy.",
            ),
            Hold::Pause(text) => write!(
                f,
                "Elections are paused: {}. To resume, remove the annotation hustings.io/hold.",
                Short(text, QUOTE)
            ),
        }
    }
}

impl fmt::Display for Inadmissible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BinaryVersion(invalid) => write!(f, "binaryVersion {invalid}."),
            Self::EmulationVersion(invalid) => write!(f, "emulationVersion {invalid}."),
            Self::EmulationVersionMissing(strategy) => {
                write!(f, "The strategy {} needs an emulationVersion: set one such as 1.31.0.", strategy.as_str())
            }
            Self::EmulationAboveBinary { emulation, binary } => {
                write!(f, "emulationVersion {emulation} is above binaryVersion {binary}: ")?;
                match binary.note_on_pre_release(emulation) {
                    Some(note) => write!(f, "{note}."),
                    None => f.write_str("lower it, or raise binaryVersion."),
                }
            }
            Self::Strategy(text) => {
                write!(
                    f,
                    "strategy {:?} is not valid: use OldestEmulationVersion or the form domain/Name.",
                    Short(text, QUOTE)
                )
            }
            Self::Priority(priority) => write!(f, "priority {priority} is negative: use 0 or more."),
            Self::Namesake => f.write_str(
                "A LeaseCandidate of coordination.k8s.io has the same name, so a grant would reach two processes. Rename \
                 one of the two candidates, or delete the other one.",
            ),
            Self::RenewTimeMissing => f.write_str(
                "renewTime is missing, and a ping would end a client-go process. client-go writes renewTime every 5 \
                 minutes: if it stays missing, no process stands behind this candidate.",
            ),
        }
    }
}

/// How many characters of another writer's text are shown. A status must not grow with the text that it quotes.
const QUOTE: usize = 64;

/// How many characters of a name are shown. An annotation may name a longer one than objects have.
const NAME: usize = crate::names::LONGEST_NAME;

const fn advantage(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Damping => "no recent loss",
        Criterion::Exclusion => "no exclusion",
        Criterion::Pin => "a pin",
        Criterion::Transfer => "a transfer",
        Criterion::Priority => "a higher priority",
        Criterion::EmulationVersion => "an older emulation version",
        Criterion::BinaryVersion => "an older binary version",
        Criterion::NewerEmulationVersion => "a newer emulation version",
        Criterion::NewerBinaryVersion => "a newer binary version",
        Criterion::CreationTime => "existed for longer",
        Criterion::Name => "an earlier name",
        Criterion::Kind => "an earlier kind",
    }
}

const fn refused(inadmissible: &Inadmissible) -> &'static str {
    match inadmissible {
        Inadmissible::BinaryVersion(_) => "InvalidBinaryVersion",
        Inadmissible::EmulationVersion(_) => "InvalidEmulationVersion",
        Inadmissible::EmulationVersionMissing(_) => "EmulationVersionMissing",
        Inadmissible::EmulationAboveBinary { .. } => "EmulationAboveBinary",
        Inadmissible::Strategy(_) => "InvalidStrategy",
        Inadmissible::Priority(_) => "NegativePriority",
        Inadmissible::Namesake => "NameTaken",
        Inadmissible::RenewTimeMissing => "RenewTimeMissing",
    }
}

fn condition(status: Truth, reason: &str) -> Condition {
    Condition { status, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
