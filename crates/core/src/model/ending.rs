//! How a term ended and why, what proves a holder dead, and why nobody holds a Lease.
//!
//! The history of a Lease, the verdict of an election, metrics, events and the page all use these values. Each has one
//! word for programs (`as_str`), and one sentence for people.

use std::borrow::Cow;
use std::fmt;

use super::history::short;

/// Why nobody holds a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unheld {
    /// No earlier holder is known.
    New,
    /// The Lease does not exist.
    Missing,
    /// The last term, or the last grant, ended.
    Ended(Ending),
}

/// How a term ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The holder handed over.
    HandedOver(Cause),
    /// The holder released the Lease.
    Released(Cause),
    /// The holder stopped renewing, and the Lease expired.
    Expired,
    /// Evidence proved the holder dead.
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

/// What proved a holder dead. [`Doubt`](crate::election::Doubt) lists why an election may not accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The kubelet reports that the holder's container has terminated.
    ContainerTerminated,
    /// The holder's node is not ready, and an administrator has declared it out of service.
    NodeOutOfService,
}

impl Unheld {
    /// Every [word](Self::as_str), for the series of a metric.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let given_up = [Ending::Released(Cause::Unknown), Ending::HandedOver(Cause::Unknown)];
        let endings = given_up.into_iter().chain(Ending::PLAIN).chain([Ending::Other(String::new())]);
        let causes = Cause::ALL.into_iter().filter(|cause| cause.is_end_of_work()).map(Ending::Released);
        let proofs = Evidence::ALL.into_iter().map(Ending::ProvenDead);
        let ended = endings.chain(causes).chain(proofs).map(Self::Ended);
        [Self::New, Self::Missing].into_iter().chain(ended).map(|unheld| unheld.as_str())
    }

    /// The reason as one word, for a program or as a metric label. An end of the holder's work is named by its cause,
    /// and a death by its proof.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Missing => "missing",
            Self::Ended(Ending::HandedOver(cause) | Ending::Released(cause)) if cause.is_end_of_work() => {
                cause.as_str()
            }
            Self::Ended(Ending::ProvenDead(evidence)) => evidence.as_str(),
            Self::Ended(ending) => ending.as_str(),
        }
    }
}

impl Ending {
    /// The endings without a cause or a proof.
    const PLAIN: [Self; 4] = [Self::Expired, Self::NotTakenUp, Self::Reclaimed, Self::LeaseDeleted];

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
            ("proven dead", Some(why)) => {
                Evidence::ALL.into_iter().find(|evidence| words(evidence.as_str()) == why).map(Self::ProvenDead)
            }
            (_, Some(_)) => None,
            (how, None) => Self::PLAIN.into_iter().find(|ending| words(ending.as_str()) == how),
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

    /// Whether the holder gave the Lease up, so that its period ended with a write.
    pub const fn is_given_up(&self) -> bool {
        matches!(self, Self::HandedOver(_) | Self::Released(_))
    }

    /// The ending as a sentence without a period.
    pub fn sentence(&self) -> Cow<'_, str> {
        let (how, cause) = match self {
            Self::HandedOver(cause) => ("the holder handed over", *cause),
            Self::Released(cause) => ("the holder released the Lease", *cause),
            Self::Expired => return "the holder stopped renewing".into(),
            Self::ProvenDead(evidence) => return evidence.to_string().into(),
            Self::NotTakenUp => return "the elected candidate did not take up its grant".into(),
            Self::Reclaimed => return "the holder claimed the Lease again".into(),
            Self::LeaseDeleted => return "the Lease was deleted".into(),
            Self::Other(text) => return text.into(),
        };
        match cause.end_of_work() {
            Some(sentence) => sentence.into(),
            None if cause == Cause::Unknown => how.into(),
            None => format!("{how} ({cause})").into(),
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
        self.end_of_work().is_some()
    }

    /// The sentence about a holder that gave the Lease up because its work or its program ended, not because it was asked
    /// to; `None` for every other cause.
    pub const fn end_of_work(self) -> Option<&'static str> {
        match self {
            Self::ConnectionClosed => Some("the connection of the holder's program closed"),
            Self::Panicked => Some("the work of the holder panicked"),
            Self::WorkEnded => Some("the work of the holder ended"),
            Self::Unknown
            | Self::Stopped
            | Self::Resigned
            | Self::BetterCandidate
            | Self::Transfer
            | Self::Pin
            | Self::Exclusion => None,
        }
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

impl Evidence {
    /// Every evidence.
    pub const ALL: [Self; 2] = [Self::ContainerTerminated, Self::NodeOutOfService];

    /// The evidence as one word, for a program or as a metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContainerTerminated => "container-terminated",
            Self::NodeOutOfService => "node-out-of-service",
        }
    }
}

impl fmt::Display for Unheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("no holder before"),
            Self::Missing => f.write_str("the Lease does not exist"),
            Self::Ended(ending) => f.write_str(&ending.sentence()),
        }
    }
}

/// As a line of the history has it.
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

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ContainerTerminated => "the container of the holder terminated",
            Self::NodeOutOfService => "the node of the holder was declared out of service",
        })
    }
}

fn words(word: &str) -> String {
    word.replace('-', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_why_nobody_holds_a_lease_has_a_word_and_a_sentence() {
        let ended = |ending, word, sentence| (Unheld::Ended(ending), word, sentence);
        let closed = "the connection of the holder's program closed";
        let terminated = "the container of the holder terminated";
        let out_of_service = "the node of the holder was declared out of service";
        let untaken = "the elected candidate did not take up its grant";
        let shown = [
            (Unheld::New, "new", "no holder before"),
            (Unheld::Missing, "missing", "the Lease does not exist"),
            ended(Ending::Released(Cause::Unknown), "released", "the holder released the Lease"),
            ended(Ending::Released(Cause::Resigned), "released", "the holder released the Lease (resigned)"),
            ended(Ending::Released(Cause::ConnectionClosed), "connection-closed", closed),
            ended(Ending::Released(Cause::Panicked), "panicked", "the work of the holder panicked"),
            ended(Ending::Released(Cause::WorkEnded), "work-ended", "the work of the holder ended"),
            ended(Ending::HandedOver(Cause::Unknown), "handed-over", "the holder handed over"),
            ended(Ending::HandedOver(Cause::Stopped), "handed-over", "the holder handed over (stopped)"),
            ended(Ending::HandedOver(Cause::Transfer), "handed-over", "the holder handed over (transfer)"),
            ended(
                Ending::HandedOver(Cause::BetterCandidate),
                "handed-over",
                "the holder handed over (better candidate)",
            ),
            ended(Ending::HandedOver(Cause::ConnectionClosed), "connection-closed", closed),
            ended(Ending::HandedOver(Cause::Panicked), "panicked", "the work of the holder panicked"),
            ended(Ending::HandedOver(Cause::WorkEnded), "work-ended", "the work of the holder ended"),
            ended(Ending::Expired, "expired", "the holder stopped renewing"),
            ended(Ending::ProvenDead(Evidence::ContainerTerminated), "container-terminated", terminated),
            ended(Ending::ProvenDead(Evidence::NodeOutOfService), "node-out-of-service", out_of_service),
            ended(Ending::NotTakenUp, "not-taken-up", untaken),
            ended(Ending::Reclaimed, "reclaimed", "the holder claimed the Lease again"),
            ended(Ending::LeaseDeleted, "lease-deleted", "the Lease was deleted"),
            ended(Ending::Other("gone".to_owned()), "other", "gone"),
        ];
        for (unheld, word, sentence) in &shown {
            assert_eq!((unheld.as_str(), &*unheld.to_string()), (*word, *sentence));
            assert!(Unheld::words().any(|known| known == *word), "{word} has no series from the start");
        }
        assert!(Unheld::words().all(|word| shown.iter().any(|(_, known, _)| *known == word)));
    }
}
