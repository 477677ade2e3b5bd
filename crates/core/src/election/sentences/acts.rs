//! The sentences for acts of administrators. Unlike other reasons, an act has an end, so its sentence contains a time.

use std::fmt;

use super::short::Short;
use super::{Because, NAME, OnHold, QUOTE};
use crate::election::{AdminAct, TransferRefusal};
use crate::model::Malformed;

/// Who asked for an act, according to the annotation's writer.
pub(super) struct By<'a>(pub(super) Option<&'a str>);

impl fmt::Display for By<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(f, " (asked by {})", Short(name, NAME)))
    }
}

impl AdminAct {
    /// The act's name as the `reason` of an event.
    pub(in crate::election) const fn as_str(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "Paused",
            Self::Resumed { .. } => "Resumed",
            Self::Pinned(_) => "Pinned",
            Self::Unpinned { .. } => "Unpinned",
            Self::Excluded { .. } => "Excluded",
            Self::Included { .. } => "Included",
        }
    }

    /// Whether it ends because its time has passed.
    pub(in crate::election) const fn has_ended(&self) -> bool {
        matches!(
            self,
            Self::Resumed { ended: true } | Self::Unpinned { ended: true, .. } | Self::Included { ended: true, .. }
        )
    }
}

impl fmt::Display for AdminAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { hold, until: None } => {
                write!(f, "Elections are paused: {}", Short(&hold.to_string(), QUOTE))
            }
            Self::Paused { hold, until: Some(until) } => {
                write!(f, "Elections are paused until {until}: {}", Short(&hold.to_string(), QUOTE))
            }
            Self::Resumed { ended: true } => f.write_str("The pause of the elections has ended"),
            Self::Resumed { ended: false } => f.write_str("Elections continue: the pause was removed"),
            Self::Pinned(pin) => write!(f, "{} ranks first until {}", Short(&pin.candidate, NAME), pin.until),
            Self::Unpinned { candidate, ended: true } => {
                write!(f, "The pin to {} has ended", Short(candidate, NAME))
            }
            Self::Unpinned { candidate, ended: false } => {
                write!(f, "The pin to {} was removed", Short(candidate, NAME))
            }
            Self::Excluded { candidate: (candidate, _), exclusion } => {
                write!(f, "{candidate} is excluded until {}{}", exclusion.until, Because(&exclusion.reason))
            }
            Self::Included { candidate: (candidate, _), ended: true } => {
                write!(f, "The exclusion of {candidate} has ended")
            }
            Self::Included { candidate: (candidate, _), ended: false } => {
                write!(f, "The exclusion of {candidate} was removed")
            }
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { annotation, text, why } = self;
        write!(
            f,
            "The annotation {annotation} has no effect, because {:?} does not parse: {}.",
            Short(text, QUOTE),
            Short(why, NAME)
        )
    }
}

impl fmt::Display for TransferRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("it holds the Lease."),
            Self::NoSuchCandidate => f.write_str("the Lease has no candidate of this name."),
            Self::NoOther => f.write_str("no other live candidate may have the Lease."),
            Self::Ineligible(why) => why.fmt(f),
            Self::Outranked(better) => {
                write!(
                    f,
                    "{} ranks before it. To keep the Lease from that one, pin it.",
                    Short(&better.to_string(), NAME)
                )
            }
            Self::OnHold(hold) => OnHold(hold).fmt(f),
            Self::ForeignHolder(holder) => {
                write!(f, "the holder {} has no admissible candidate.", Short(holder, NAME))
            }
        }
    }
}
