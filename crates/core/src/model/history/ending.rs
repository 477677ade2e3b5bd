//! How a term ended, and why.

use std::fmt;

use super::text::short;
use crate::model::Evidence;

/// How a term ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The holder handed over.
    HandedOver(Cause),
    /// The holder released the Lease.
    Released(Cause),
    /// The holder stopped renewing, and the Lease expired.
    Expired,
    /// The holder was silent, and evidence proved it dead.
    ProvenDead(Evidence),
    /// The holder did not take its grant up.
    NotTakenUp,
    /// The same holder claimed the Lease again: a later process in its place, or the same one after a lost term.
    Reclaimed,
    /// The Lease was deleted.
    LeaseDeleted,
    /// An ending that another program wrote.
    Other(String),
}

/// Why a holder gave the Lease up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing is known.
    Unknown,
    /// The elector was stopped, usually because its process ends.
    Stopped,
    /// The term was resigned, and the elector stays a candidate.
    Resigned,
    /// The program that the elector stands for has closed its connection, or died.
    ConnectionClosed,
    /// The work of the term panicked.
    Panicked,
    /// The work ended by itself, such as the command of a wrapper.
    WorkEnded,
    /// Another candidate is better by priority or version, or has a higher key.
    BetterCandidate,
    /// An administrator transferred the Lease.
    Transfer,
    /// An administrator pinned the Lease to another candidate.
    Pin,
    /// An administrator excludes the holder.
    Exclusion,
}

impl Ending {
    /// Parses the end of a line. Any unknown text becomes [`Ending::Other`].
    pub(super) fn read(text: &str) -> Self {
        let (how, why) = match text.strip_suffix(')').and_then(|text| text.split_once(" (")) {
            Some((how, why)) => (how, Some(why)),
            None => (text, None),
        };
        let cause = || why.map_or(Some(Cause::Unknown), Cause::read);
        let known = match (how, why) {
            ("handed over", _) => cause().map(Self::HandedOver),
            ("released", _) => cause().map(Self::Released),
            ("proven dead", Some(why)) => [Evidence::ContainerTerminated, Evidence::NodeOutOfService]
                .into_iter()
                .find(|evidence| words(evidence.as_str()) == why)
                .map(Self::ProvenDead),
            (_, Some(_)) => None,
            (how, None) => [Self::Expired, Self::NotTakenUp, Self::Reclaimed, Self::LeaseDeleted]
                .into_iter()
                .find(|ending| words(ending.as_str()) == how),
        };
        known.unwrap_or_else(|| Self::Other(short(text)))
    }

    /// The ending as one word, for a program.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::HandedOver(_) => "handed-over",
            Self::Released(_) => "released",
            Self::Expired => "expired",
            Self::ProvenDead(_) => "proven-dead",
            Self::NotTakenUp => "not-taken-up",
            Self::Reclaimed => "reclaimed",
            Self::LeaseDeleted => "lease-deleted",
            Self::Other(_) => "other",
        }
    }

    /// The cause or the evidence as one word, for a program; `None` if nothing is known.
    pub const fn cause(&self) -> Option<&'static str> {
        match self {
            Self::HandedOver(cause) | Self::Released(cause) if !matches!(cause, Cause::Unknown) => Some(cause.as_str()),
            Self::ProvenDead(evidence) => Some(evidence.as_str()),
            Self::HandedOver(_)
            | Self::Released(_)
            | Self::Expired
            | Self::NotTakenUp
            | Self::Reclaimed
            | Self::LeaseDeleted
            | Self::Other(_) => None,
        }
    }
}

impl Cause {
    /// Every cause that has a name.
    const ALL: [Self; 9] = [
        Self::Stopped,
        Self::Resigned,
        Self::ConnectionClosed,
        Self::Panicked,
        Self::WorkEnded,
        Self::BetterCandidate,
        Self::Transfer,
        Self::Pin,
        Self::Exclusion,
    ];

    /// Whether the holder gave the Lease up because its work or its program ended, not because it was asked to.
    pub const fn is_end_of_work(self) -> bool {
        matches!(self, Self::ConnectionClosed | Self::Panicked | Self::WorkEnded)
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| words(cause.as_str()) == text)
    }

    /// The cause as one word, for a program or as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Resigned => "resigned",
            Self::ConnectionClosed => "connection-closed",
            Self::Panicked => "panicked",
            Self::WorkEnded => "work-ended",
            Self::BetterCandidate => "better-candidate",
            Self::Transfer => "transfer",
            Self::Pin => "pin",
            Self::Exclusion => "exclusion",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Other(text) = self {
            return f.write_str(text);
        }
        f.write_str(&words(self.as_str()))?;
        match self.cause() {
            Some(cause) => write!(f, " ({})", words(cause)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(self.as_str()))
    }
}

fn words(word: &str) -> String {
    word.replace('-', " ")
}
