//! The content of a version of a LeaseCandidate, and whether the candidate is admissible.

use super::{
    CandidateActs, CandidateKey, CandidateKind, InvalidVersion, PodRecord, Strategy, Unparsed, Version, WireTime,
};

/// One version of a LeaseCandidate as read, not validated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CandidateRecord {
    /// The API of this LeaseCandidate.
    pub kind: CandidateKind,
    /// `metadata.name`: the identity under which it holds the Lease.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: u64,
    /// `metadata.creationTimestamp`.
    pub creation_time: WireTime,
    /// Whether it names an owner. The cluster's garbage collector then deletes the candidate with its owner.
    pub owned: bool,
    /// The Pod among its owners.
    pub pod: Option<Pod>,
    /// `spec.leaseName`.
    pub lease_name: String,
    /// `spec.binaryVersion`, as written.
    pub binary_version: String,
    /// `spec.emulationVersion`, as written.
    pub emulation_version: Option<String>,
    /// `spec.strategy`, as written.
    pub strategy: Option<String>,
    /// `spec.priority`; 0 if it is absent.
    pub priority: i32,
    /// `spec.pingTime`.
    pub ping_time: Option<WireTime>,
    /// `spec.renewTime`.
    pub renew_time: Option<WireTime>,
    /// The text of `spec.renewTime`, if the field above does not represent it exactly.
    pub unparsed: Unparsed,
    /// Annotation `hustings.io/lease-duration`: the longest duration, in seconds, of a Lease that this candidate holds.
    pub lease_duration_seconds: Option<u32>,
    /// Annotation `hustings.io/session`: the elector instance behind this candidate. It is only compared with the
    /// former value, to detect that a new instance has replaced the former one.
    pub session: Option<String>,
    /// The acts of administrators.
    pub acts: CandidateActs,
    /// The status that a controller recorded.
    pub status: RecordedStatus,
}

/// The Pod that owns a candidate. Kubernetes deletes the candidate with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// The content of `status`. It carries information from one controller to the next. A patch replaces all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedStatus {
    /// `status.state`.
    pub state: Option<CandidateState>,
    /// `status.message`: why this candidate does or does not lead. It contains no time, so that it changes only when
    /// the reason changes.
    pub message: String,
    /// `status.unresponsiveSince`, by the clock of the controller that wrote it. It is only for display: no decision
    /// compares it with a clock.
    pub unresponsive_since: Option<WireTime>,
    /// `status.dampingCount`: how often it lost the Lease since its last full term.
    pub damping_count: u32,
    /// `status.dampedUntil`: the end of its last damping, by the clock of the controller that wrote it.
    pub damped_until: Option<WireTime>,
    /// Condition `Admissible`: whether it may be elected at all.
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
    /// `reason`, one word in CamelCase.
    pub reason: String,
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Unknown, or the condition is absent.
    #[default]
    Unknown,
}

impl Condition {
    /// The reason of `Leading` with which a controller records that the candidate did not take up its last grant.
    pub const GRANT_NOT_TAKEN_UP: &'static str = "GrantNotTakenUp";

    /// The reason of `Responsive` with which a controller records that the answer to the last ping has a time before
    /// that ping.
    pub const ANSWERED_BEFORE_PING: &'static str = "AnsweredBeforePing";
}

impl Truth {
    /// The value as it is spelt in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// Parses a condition's `status`. Any text but `True` and `False` means [`Unknown`](Self::Unknown).
    pub fn read(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// The state of a candidate in its election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CandidateState {
    /// It holds the Lease.
    Holder,
    /// The holder has been asked to hand over to it.
    Preferred,
    /// It has proved that it is live, and another candidate is better.
    Standby,
    /// It is unknown whether it is live.
    Unproven,
    /// It did not answer a ping within the election window.
    Unresponsive,
    /// It lost the Lease or left a grant unused, and ranks last for a while.
    Damped,
    /// It is not admissible; the message says why.
    Invalid,
}

/// The parsed claims of an admissible candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// `spec.binaryVersion`.
    pub binary_version: Version,
    /// `spec.emulationVersion`; optional under a third party's strategy.
    pub emulation_version: Option<Version>,
    /// `spec.strategy`.
    pub strategy: Strategy,
    /// `spec.priority`, never negative.
    pub priority: u32,
}

/// Why a candidate is not admissible.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inadmissible {
    /// `binaryVersion` is not a version.
    BinaryVersion(InvalidVersion),
    /// `emulationVersion` is not a version.
    EmulationVersion(InvalidVersion),
    /// This strategy needs an emulation version.
    EmulationVersionMissing(Strategy),
    /// The emulation version is above the binary version: a component cannot emulate a version that it does not know.
    EmulationAboveBinary {
        /// The emulation version.
        emulation: Version,
        /// The binary version.
        binary: Version,
    },
    /// The strategy is neither one of [`Strategy::OURS`] nor a qualified name.
    Strategy(String),
    /// `priority` is negative.
    Priority(i32),
    /// A native candidate has the same name. A grant by name would reach two processes.
    Namesake,
    /// It is native and has no `renewTime`. A ping would crash its process, because client-go dereferences the missing
    /// time.
    RenewTimeMissing,
}

impl CandidateRecord {
    /// The name of the candidate's Pod. A static pod owns no candidate, which usually has the name of its mirror.
    pub fn pod_name(&self) -> &str {
        self.pod.as_ref().map_or(&self.name, |pod| &pod.name)
    }

    /// Whether this is the candidate's Pod.
    pub fn runs_in(&self, pod: &PodRecord) -> bool {
        match &self.pod {
            Some(owner) => *owner.uid == *pod.uid,
            None => *self.name == *pod.name,
        }
    }

    /// The kind and name of this candidate.
    pub fn key(&self) -> CandidateKey {
        CandidateKey { name: self.name.as_str().into(), kind: self.kind }
    }

    /// Its last sign of life. Any change of it is another one, whatever it shows.
    pub const fn renewal(&self) -> (Option<WireTime>, Unparsed) {
        (self.renew_time, self.unparsed)
    }

    /// `spec.renewTime`; `None` also if it is not a timestamp.
    pub fn renewed_at(&self) -> Option<WireTime> {
        self.renew_time.filter(|time| self.unparsed == Unparsed::NONE || *time < WireTime::MAX)
    }

    /// Whether this version is the first after `former` that answers the ping in it.
    pub fn answers_ping_of(&self, former: &Self) -> bool {
        let was_asked = former.ping_time.is_some() && former.ping_time > former.renewed_at();
        // Compare for inequality, since the clock of a native candidate may be behind.
        was_asked && (self.renewed_at(), self.unparsed) != (former.renewed_at(), former.unparsed)
    }

    /// Parses the candidate's claims.
    ///
    /// # Errors
    /// Returns the reason why the candidate is not admissible.
    pub fn standing(&self) -> Result<Standing, Inadmissible> {
        let binary_version: Version = self.binary_version.parse().map_err(Inadmissible::BinaryVersion)?;
        let emulation_version = match self.emulation_version.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.parse::<Version>().map_err(Inadmissible::EmulationVersion)?),
        };
        let strategy = Strategy::read(self.strategy.as_deref())?;
        match &emulation_version {
            None if strategy.needs_emulation_version() => return Err(Inadmissible::EmulationVersionMissing(strategy)),
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
    fn a_candidate_without_a_strategy_has_the_default_one() {
        let standing = candidate("1.32", Some("v1.31"), None, 0).standing().unwrap();
        assert_eq!(standing.strategy, Strategy::OldestEmulationVersion);
        assert_eq!(standing.emulation_version, Some(Version::new(1, 31, 0)));
    }

    #[test]
    fn each_rejected_candidate_has_a_reason_of_its_own() {
        let refused = |candidate: CandidateRecord| candidate.standing().unwrap_err();
        let invalid = |text: &str| text.parse::<Version>().unwrap_err();
        assert_eq!(refused(candidate("one", None, None, 0)), Inadmissible::BinaryVersion(invalid("one")));
        assert_eq!(refused(candidate("1.2", Some("x"), None, 0)), Inadmissible::EmulationVersion(invalid("x")));
        let newest = Strategy::NewestEmulationVersion;
        for (text, strategy) in [(None, &Strategy::default()), (Some(newest.as_str()), &newest)] {
            assert_eq!(
                refused(candidate("1.2", None, text, 0)),
                Inadmissible::EmulationVersionMissing(strategy.clone())
            );
            assert_eq!(candidate("1.2", Some("1.1"), text, 0).standing().unwrap().strategy, *strategy);
        }
        assert_eq!(
            refused(candidate("1.2", Some("1.3"), None, 0)),
            Inadmissible::EmulationAboveBinary { emulation: Version::new(1, 3, 0), binary: Version::new(1, 2, 0) }
        );
        assert_eq!(refused(candidate("1.2", None, Some("Mine"), 0)), Inadmissible::Strategy("Mine".to_owned()));
        assert_eq!(refused(candidate("1.2", Some("1.2"), None, -1)), Inadmissible::Priority(-1));
    }

    #[test]
    fn a_third_partys_strategy_needs_no_emulation_version() {
        for emulation in [None, Some("")] {
            let standing = candidate("1.2", emulation, Some("example.com/Mine"), 0).standing().unwrap();
            assert_eq!((standing.strategy.as_str(), standing.emulation_version), ("example.com/Mine", None));
        }
    }

    #[test]
    fn the_truth_of_a_condition_parses_as_it_is_spelt() {
        for (truth, text) in [(Truth::True, "True"), (Truth::False, "False"), (Truth::Unknown, "Unknown")] {
            assert_eq!((truth.as_str(), Truth::read(text)), (text, truth));
        }
        assert_eq!(Truth::read("true"), Truth::Unknown);
    }
}
