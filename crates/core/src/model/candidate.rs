//! What a version of a LeaseCandidate says, and whether it may stand at all.

use super::{Version, WireTime};

/// The strategy of a candidate that names none.
const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

/// One version of a LeaseCandidate, as it was read: nothing in it has been judged yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CandidateRecord {
    /// `metadata.name`: the identity under which it would hold the Lease.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// `metadata.creationTimestamp`.
    pub creation_time: WireTime,
    /// Whether an owner is named, with which the cluster's garbage collector removes the candidate.
    pub owned: bool,
    /// `spec.leaseName`.
    pub lease_name: String,
    /// `spec.binaryVersion`, as written.
    pub binary_version: String,
    /// `spec.emulationVersion`, as written.
    pub emulation_version: Option<String>,
    /// `spec.strategy`, as written.
    pub strategy: Option<String>,
    /// `spec.priority`; 0 where it is absent.
    pub priority: i32,
    /// `spec.pingTime`.
    pub ping_time: Option<WireTime>,
    /// `spec.renewTime`.
    pub renew_time: Option<WireTime>,
    /// Annotation `hustings.io/lease-duration`: how long a Lease that this candidate holds may last, in seconds.
    pub lease_duration_seconds: Option<u32>,
    /// Annotation `hustings.io/session`: the elector instance that stands, which another one replaces. It is told apart
    /// from the former, and nothing else is made of it.
    pub session: Option<String>,
    /// What a controller has recorded in `status`.
    pub status: RecordedStatus,
}

/// What `status` says and keeps from one controller to the next: read from the API, and patched as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedStatus {
    /// `status.state`.
    pub state: Option<CandidateState>,
    /// `status.message`: why this candidate does or does not lead. It names no moment, so that it changes only when
    /// the reason does.
    pub message: String,
    /// `status.unresponsiveSince`, by the clock of the controller that wrote it: shown, never measured.
    pub unresponsive_since: Option<WireTime>,
    /// `status.dampingCount`: grants not taken up, lapses and reclaims since the last full term.
    pub damping_count: u32,
    /// `status.dampedUntil`: when its last damping ends or ended, by the clock of the controller that wrote it.
    pub damped_until: Option<WireTime>,
    /// Condition `Admissible`: whether it may stand at all.
    pub admissible: Condition,
    /// Condition `Responsive`: whether it answered its last ping.
    pub responsive: Condition,
    /// Condition `Leading`: whether it holds the Lease and has taken it up.
    pub leading: Condition,
}

/// One condition, without the time of its last transition, which the writer of the object keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// `status`.
    pub status: Truth,
    /// `reason`, one word in camel case.
    pub reason: String,
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    /// It is so.
    True,
    /// It is not so.
    False,
    /// Nobody knows, or the condition is absent.
    #[default]
    Unknown,
}

impl Condition {
    /// The reason of `Leading` by which a controller remembers that the candidate's last grant was not taken up.
    pub const GRANT_NOT_TAKEN_UP: &'static str = "GrantNotTakenUp";
}

impl Truth {
    /// The value as conditions spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Reads a condition's `status`; whatever it may be, it has a reading.
    pub fn read(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// Where a candidate stands in its election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CandidateState {
    /// It holds the Lease.
    Holder,
    /// The holder has been asked to hand over to it.
    Preferred,
    /// It has proved itself live, and another is better.
    Standby,
    /// Nobody knows yet whether it is live.
    Unproven,
    /// It did not answer a ping within the election window.
    Unresponsive,
    /// It lost the Lease too often and ranks last for a while.
    Damped,
    /// It cannot stand: see the message.
    Invalid,
}

/// How candidates are ordered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// The lowest emulation version first: Hustings' own and the default.
    OldestEmulationVersion,
    /// Somebody else's rule, `domain/Name`. Hustings elects nobody under it.
    ThirdParty(String),
}

/// An admissible candidate's claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// `spec.binaryVersion`.
    pub binary_version: Version,
    /// `spec.emulationVersion`; a third party's strategy may do without.
    pub emulation_version: Option<Version>,
    /// `spec.strategy`.
    pub strategy: Strategy,
    /// `spec.priority`, never negative.
    pub priority: u32,
}

/// Why a candidate cannot stand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inadmissible {
    /// `binaryVersion` is no version.
    BinaryVersion(String),
    /// `emulationVersion` is no version.
    EmulationVersion(String),
    /// The strategy needs an emulation version.
    EmulationVersionMissing,
    /// A component cannot emulate what it does not know.
    EmulationAboveBinary {
        /// The emulation version.
        emulation: Version,
        /// The binary version.
        binary: Version,
    },
    /// The strategy is neither ours nor a qualified name.
    Strategy(String),
    /// `priority` is negative.
    Priority(i32),
}

impl CandidateRecord {
    /// The candidate's claims, parsed, or the reason why it cannot stand.
    pub fn standing(&self) -> Result<Standing, Inadmissible> {
        let binary_version: Version =
            self.binary_version.parse().map_err(|_| Inadmissible::BinaryVersion(self.binary_version.clone()))?;
        let emulation_version = match self.emulation_version.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.parse::<Version>().map_err(|_| Inadmissible::EmulationVersion(text.to_owned()))?),
        };
        let strategy = Strategy::read(self.strategy.as_deref())?;
        match &emulation_version {
            None if strategy == Strategy::OldestEmulationVersion => return Err(Inadmissible::EmulationVersionMissing),
            Some(emulation) if *emulation > binary_version => {
                return Err(Inadmissible::EmulationAboveBinary {
                    emulation: emulation.clone(),
                    binary: binary_version,
                });
            }
            None | Some(_) => {}
        }
        let priority = u32::try_from(self.priority).map_err(|_| Inadmissible::Priority(self.priority))?;
        Ok(Standing { binary_version, emulation_version, strategy, priority })
    }
}

impl Strategy {
    /// Reads `spec.strategy`; one that is absent or empty is the default.
    pub fn read(text: Option<&str>) -> Result<Self, Inadmissible> {
        match text {
            None | Some("" | OLDEST_EMULATION_VERSION) => Ok(Self::OldestEmulationVersion),
            Some(text) => match text.split_once('/') {
                Some((domain, name)) if !domain.is_empty() && !name.is_empty() && !name.contains('/') => {
                    Ok(Self::ThirdParty(text.to_owned()))
                }
                _ => Err(Inadmissible::Strategy(text.to_owned())),
            },
        }
    }

    /// The strategy as the objects spell it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OldestEmulationVersion => OLDEST_EMULATION_VERSION,
            Self::ThirdParty(name) => name,
        }
    }
}

impl CandidateState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Holder, Self::Preferred, Self::Standby, Self::Unproven, Self::Unresponsive, Self::Damped, Self::Invalid];

    /// The state as `status.state` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Holder => "Holder",
            Self::Preferred => "Preferred",
            Self::Standby => "Standby",
            Self::Unproven => "Unproven",
            Self::Unresponsive => "Unresponsive",
            Self::Damped => "Damped",
            Self::Invalid => "Invalid",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(binary: &str, emulation: Option<&str>, strategy: Option<&str>, priority: i32) -> CandidateRecord {
        CandidateRecord {
            binary_version: binary.to_owned(),
            emulation_version: emulation.map(str::to_owned),
            strategy: strategy.map(str::to_owned),
            priority,
            ..CandidateRecord::default()
        }
    }

    #[test]
    fn a_candidate_stands_by_the_default_strategy() {
        let standing = candidate("1.32", Some("v1.31"), None, 0).standing().unwrap();
        assert_eq!(standing.strategy, Strategy::OldestEmulationVersion);
        assert_eq!(standing.emulation_version, Some(Version::new(1, 31, 0)));
    }

    #[test]
    fn each_reason_to_refuse_a_candidate_is_told_apart() {
        let refused = |candidate: CandidateRecord| candidate.standing().unwrap_err();
        assert_eq!(refused(candidate("one", None, None, 0)), Inadmissible::BinaryVersion("one".to_owned()));
        assert_eq!(refused(candidate("1.2", Some("x"), None, 0)), Inadmissible::EmulationVersion("x".to_owned()));
        assert_eq!(refused(candidate("1.2", None, None, 0)), Inadmissible::EmulationVersionMissing);
        assert_eq!(
            refused(candidate("1.2", Some("1.3"), None, 0)),
            Inadmissible::EmulationAboveBinary { emulation: Version::new(1, 3, 0), binary: Version::new(1, 2, 0) }
        );
        assert_eq!(refused(candidate("1.2", None, Some("Mine"), 0)), Inadmissible::Strategy("Mine".to_owned()));
        assert_eq!(refused(candidate("1.2", Some("1.2"), None, -1)), Inadmissible::Priority(-1));
    }

    #[test]
    fn a_third_partys_strategy_needs_no_emulation_version() {
        let standing = candidate("1.2", None, Some("example.com/Mine"), 0).standing().unwrap();
        assert_eq!(standing.strategy.as_str(), "example.com/Mine");
    }

    #[test]
    fn a_third_partys_strategy_is_a_domain_and_a_name() {
        for text in ["/", "x.io/", "/Y", "x.io/Y/Z", "Y"] {
            assert_eq!(Strategy::read(Some(text)), Err(Inadmissible::Strategy(text.to_owned())));
        }
    }

    #[test]
    fn the_truth_of_a_condition_reads_as_it_is_spelt() {
        for (truth, text) in [(Truth::True, "True"), (Truth::False, "False"), (Truth::Unknown, "Unknown")] {
            assert_eq!((truth.as_str(), Truth::read(text)), (text, truth));
        }
        assert_eq!(Truth::read("true"), Truth::Unknown);
    }
}
