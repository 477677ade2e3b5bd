//! Which of two candidates is better, and by which strategy. Every process gets the same answer.
//!
//! The order is strict and total, and written once: [`Contender`] has the list of its criteria. Excluded candidates come
//! last, damped ones before them. Only the criteria of the strategy are *merits*: for them, a live holder is asked to
//! hand over. The rest decides only between candidates for a free Lease.

pub(crate) mod strategy;

use std::cmp::Ordering;

use crate::election::{Config, Damping};
use crate::model::{
    CandidateKey, CandidateRecord, Hold, Inadmissible, LeaseRecord, Moment, Now, RecordedStatus, Standing, Strategy,
    Version, WireTime,
};

/// The parsed values by which a candidate is ordered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    priority: u32,
    emulation_version: Version,
    binary_version: Version,
    creation_time: WireTime,
    key: CandidateKey,
}

/// An admissible candidate, with everything by which the candidates of one Lease are ordered.
#[derive(Clone, Copy, Debug)]
pub struct Contender<'a> {
    /// Its parsed values.
    pub rank: &'a Rank,
    /// The strategy of the Lease, which may be another one than the candidate asks for.
    pub strategy: &'a Strategy,
    /// An administrator excludes it.
    pub is_excluded: bool,
    /// When it last lost the Lease, if it is damped. Among damped candidates the earliest loss comes first. By merit
    /// alone, the best of them would be granted the Lease again and again, even if it takes up no grant.
    pub last_loss: Option<Moment>,
    /// An administrator pinned the Lease to it.
    pub is_pinned: bool,
    /// An administrator transfers the Lease to it.
    pub is_transfer_target: bool,
}

/// The first value in which two candidates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// An administrator excludes one of them.
    Exclusion,
    /// One of them is damped: it ranks last for a while.
    Damping,
    /// An administrator pinned the Lease to one of them.
    Pin,
    /// `spec.priority`, high first.
    Priority,
    /// `spec.emulationVersion`, low first.
    EmulationVersion,
    /// `spec.binaryVersion`, low first.
    BinaryVersion,
    /// `spec.emulationVersion`, high first.
    NewerEmulationVersion,
    /// `spec.binaryVersion`, high first.
    NewerBinaryVersion,
    /// An administrator transfers the Lease to one of them.
    Transfer,
    /// `metadata.creationTimestamp`, early first.
    CreationTime,
    /// `metadata.name`.
    Name,
    /// The API of the LeaseCandidate: `hustings.io` first.
    Kind,
}

/// The strategy that orders the candidates of one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// There are no candidates.
    NoCandidates,
    /// One of [`Strategy::OURS`].
    Ours(Strategy),
    /// A third party's strategy.
    ThirdParty(String),
    /// The candidates of the highest binary version ask for different strategies.
    Disagreement,
}

impl Rank {
    /// The rank of an admissible candidate. Without an emulation version, its binary version is used instead.
    pub fn new(standing: &Standing, record: &CandidateRecord) -> Self {
        Self {
            priority: standing.priority,
            emulation_version: standing.emulation_version.clone().unwrap_or_else(|| standing.binary_version.clone()),
            binary_version: standing.binary_version.clone(),
            creation_time: record.creation_time,
            key: record.key(),
        }
    }

    /// Whether this candidate is better than the holder by merit, so that the holder must hand over.
    pub fn is_better_than_holder(&self, holder: &Self, strategy: &Strategy) -> bool {
        let (own, others) = (Contender::by_rank(self, strategy), Contender::by_rank(holder, strategy));
        strategy.merits().iter().map(|merit| own.by(*merit, &others)).find(|order| order.is_ne())
            == Some(Ordering::Less)
    }

    /// The order of candidates whom neither damping nor an administrator's act concerns. The better candidate is less.
    pub fn order(&self, other: &Self, strategy: &Strategy) -> Ordering {
        Contender::by_rank(self, strategy).order(&Contender::by_rank(other, strategy))
    }

    /// The first criterion of [`order`](Self::order) in which the two differ; `None` if they do not differ.
    pub fn criterion(&self, other: &Self, strategy: &Strategy) -> Option<Criterion> {
        Contender::by_rank(self, strategy).criterion(&Contender::by_rank(other, strategy))
    }
}

impl<'a> Contender<'a> {
    /// A candidate whom neither damping nor an administrator's act concerns.
    pub const fn by_rank(rank: &'a Rank, strategy: &'a Strategy) -> Self {
        Self { rank, strategy, is_excluded: false, last_loss: None, is_pinned: false, is_transfer_target: false }
    }

    /// A candidate as the objects alone show it to a process that has observed nothing before. `lease` is its Lease, if
    /// that exists.
    pub(crate) fn recorded(
        (record, rank): (&CandidateRecord, &'a Rank),
        strategy: &'a Strategy,
        lease: Option<&LeaseRecord>,
        now: Now,
    ) -> Self {
        let RecordedStatus { damping_count, damped_until, .. } = record.status;
        // An elector does not know the controllers' configuration, and no flag changes this part of it.
        let damping = Damping::recorded(damping_count, damped_until, now, &Config::default());
        let transfer = lease.and_then(|lease| lease.acts.transfer.as_ref());
        Self {
            rank,
            strategy,
            is_excluded: record.acts.exclusion(now.wall).is_some(),
            last_loss: damping.last_loss(now.moment),
            is_pinned: lease.and_then(|lease| lease.pin(now.wall)).is_some_and(|pin| pin.candidate == *rank.key.name),
            is_transfer_target: transfer.is_some_and(|transfer| transfer.includes(&rank.key)),
        }
    }

    /// The order of the candidates of one Lease. The better candidate is less.
    pub fn order(&self, other: &Self) -> Ordering {
        self.criteria().fold(Ordering::Equal, |so_far, criterion| so_far.then_with(|| self.by(criterion, other)))
    }

    /// The first criterion in which the two differ; `None` if they do not differ.
    pub fn criterion(&self, other: &Self) -> Option<Criterion> {
        self.criteria().find(|criterion| self.by(*criterion, other).is_ne())
    }

    /// The criteria, the strongest first. This list *is* the order.
    ///
    /// Damping counts before the pin: a pinned candidate that takes up no grant would otherwise keep the Lease without a
    /// holder.
    fn criteria(&self) -> impl Iterator<Item = Criterion> {
        let before = [Criterion::Exclusion, Criterion::Damping, Criterion::Pin];
        let after = [Criterion::Transfer, Criterion::CreationTime, Criterion::Name, Criterion::Kind];
        before.into_iter().chain(self.strategy.merits().iter().copied()).chain(after)
    }

    /// The order of the two by one criterion.
    fn by(&self, criterion: Criterion, other: &Self) -> Ordering {
        let (own, others) = (self.rank, other.rank);
        match criterion {
            Criterion::Exclusion => self.is_excluded.cmp(&other.is_excluded),
            Criterion::Damping => self.last_loss.cmp(&other.last_loss),
            Criterion::Pin => other.is_pinned.cmp(&self.is_pinned),
            Criterion::Priority => others.priority.cmp(&own.priority),
            Criterion::EmulationVersion => own.emulation_version.cmp(&others.emulation_version),
            Criterion::BinaryVersion => own.binary_version.cmp(&others.binary_version),
            Criterion::NewerEmulationVersion => others.emulation_version.cmp(&own.emulation_version),
            Criterion::NewerBinaryVersion => others.binary_version.cmp(&own.binary_version),
            Criterion::Transfer => other.is_transfer_target.cmp(&self.is_transfer_target),
            Criterion::CreationTime => own.creation_time.cmp(&others.creation_time),
            Criterion::Name => own.key.name.cmp(&others.key.name),
            Criterion::Kind => own.key.kind.cmp(&others.key.kind),
        }
    }
}

impl Criterion {
    /// Whether a live holder must hand over to a candidate that is better by this criterion: some strategy has it.
    pub fn is_merit(self) -> bool {
        Strategy::OURS.iter().any(|strategy| strategy.merits().contains(&self))
    }
}

/// The candidates that determine the strategy, of these with the information whether an administrator excludes them.
/// Excluded ones have no say, unless all are excluded.
pub fn with_a_say<T>(candidates: impl Iterator<Item = (bool, T)> + Clone) -> impl Iterator<Item = T> {
    let are_all_excluded = candidates.clone().all(|(is_excluded, _)| is_excluded);
    candidates.filter(move |(is_excluded, _)| are_all_excluded || !is_excluded).map(|(_, candidate)| candidate)
}

impl Rule {
    /// The strategy of the candidates with the highest binary version, if they agree. The caller must leave out
    /// candidates that are known to be unresponsive, and those that have no [say](with_a_say).
    pub fn of<'a>(standings: impl IntoIterator<Item = (&'a Version, &'a Strategy)>) -> Self {
        let mut highest: Option<&Version> = None;
        let mut rule = Self::NoCandidates;
        for (version, strategy) in standings {
            match highest.map_or(Ordering::Greater, |highest| version.cmp(highest)) {
                Ordering::Less => {}
                Ordering::Greater => {
                    highest = Some(version);
                    rule = Self::by(strategy);
                }
                Ordering::Equal if rule == Self::by(strategy) => {}
                Ordering::Equal => rule = Self::Disagreement,
            }
        }
        rule
    }

    /// The strategy by which the candidates are ordered.
    pub const fn strategy(&self) -> &Strategy {
        match self {
            Self::Ours(strategy) => strategy,
            Self::NoCandidates | Self::ThirdParty(_) | Self::Disagreement => &Strategy::OldestEmulationVersion,
        }
    }

    /// Checks whether a candidate may be elected by this rule.
    ///
    /// # Errors
    /// A strategy that compares emulation versions needs that of every candidate, even of one that asks for another
    /// strategy. Returns [`Inadmissible::EmulationVersionMissing`] if it is missing.
    pub fn admits(&self, standing: &Standing) -> Result<(), Inadmissible> {
        match (self, &standing.emulation_version) {
            (Self::Ours(strategy), None) if strategy.needs_emulation_version() => {
                Err(Inadmissible::EmulationVersionMissing(strategy.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Why nobody is elected by this rule, if so.
    pub fn hold(&self) -> Option<Hold> {
        match self {
            Self::NoCandidates | Self::Ours(_) => None,
            Self::ThirdParty(strategy) => Some(Hold::ThirdPartyStrategy(strategy.clone())),
            Self::Disagreement => Some(Hold::Disagreement),
        }
    }

    fn by(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::ThirdParty(name) => Self::ThirdParty(name.clone()),
            ours => Self::Ours(ours.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(name: &str, priority: u32, emulation: u64, binary: u64, created: i64) -> Rank {
        let standing = Standing {
            binary_version: Version::new(1, binary, 0),
            emulation_version: Some(Version::new(1, emulation, 0)),
            strategy: Strategy::OldestEmulationVersion,
            priority,
        };
        let record = CandidateRecord {
            name: name.to_owned(),
            creation_time: WireTime::from_micros(created),
            ..CandidateRecord::default()
        };
        Rank::new(&standing, &record)
    }

    const OLDEST: Strategy = Strategy::OldestEmulationVersion;

    #[test]
    fn each_criterion_yields_to_those_before_it() {
        let ordered = [
            (rank("z", 1, 9, 9, 9), Criterion::Priority),
            (rank("z", 0, 1, 9, 9), Criterion::EmulationVersion),
            (rank("z", 0, 2, 2, 9), Criterion::BinaryVersion),
            (rank("z", 0, 2, 3, 1), Criterion::CreationTime),
            (rank("a", 0, 2, 3, 2), Criterion::Name),
        ];
        for pair in ordered.windows(2) {
            let [(better, criterion), (worse, _)] = pair else { unreachable!() };
            assert_eq!(better.order(worse, &OLDEST), Ordering::Less);
            assert_eq!(better.criterion(worse, &OLDEST), Some(*criterion));
            assert_eq!(better.is_better_than_holder(worse, &OLDEST), criterion.is_merit());
        }
        let last = &ordered[4].0;
        assert_eq!(last.criterion(&rank("b", 0, 2, 3, 2), &OLDEST), Some(Criterion::Name));
        let native = Rank { key: CandidateKey::native("a"), ..last.clone() };
        assert_eq!(
            (last.order(&native, &OLDEST), last.criterion(&native, &OLDEST)),
            (Ordering::Less, Some(Criterion::Kind))
        );
        assert_eq!(last.criterion(last, &OLDEST), None);
    }

    #[test]
    fn under_the_newest_emulation_version_only_the_versions_are_reversed() {
        let newest = Strategy::NewestEmulationVersion;
        for (better, worse, criterion) in [
            (rank("z", 1, 1, 1, 9), rank("a", 0, 9, 9, 1), Criterion::Priority),
            (rank("z", 0, 2, 2, 9), rank("a", 0, 1, 9, 1), Criterion::NewerEmulationVersion),
            (rank("z", 0, 2, 3, 9), rank("a", 0, 2, 2, 1), Criterion::NewerBinaryVersion),
            (rank("z", 0, 2, 3, 1), rank("a", 0, 2, 3, 9), Criterion::CreationTime),
        ] {
            assert_eq!(better.criterion(&worse, &newest), Some(criterion));
            assert_eq!(
                (better.order(&worse, &newest), worse.order(&better, &newest)),
                (Ordering::Less, Ordering::Greater)
            );
            assert_eq!(better.is_better_than_holder(&worse, &newest), criterion.is_merit());
            assert!(!worse.is_better_than_holder(&better, &newest));
        }
    }

    #[test]
    fn only_a_third_partys_rule_admits_a_candidate_without_an_emulation_version() {
        let theirs = Strategy::ThirdParty("x.io/Y".to_owned());
        let mut standing = Standing {
            binary_version: Version::new(1, 2, 0),
            emulation_version: None,
            strategy: theirs.clone(),
            priority: 0,
        };
        assert_eq!(Rule::by(&theirs).admits(&standing), Ok(()));
        assert_eq!(Rule::Disagreement.admits(&standing), Ok(()));
        assert_eq!(Rule::Ours(OLDEST).admits(&standing), Err(Inadmissible::EmulationVersionMissing(OLDEST)));
        standing.emulation_version = Some(Version::new(1, 1, 0));
        assert_eq!(Rule::Ours(OLDEST).admits(&standing), Ok(()));
    }

    #[test]
    fn the_strategy_is_that_of_the_highest_binary_version() {
        let (old, new) = (Version::new(1, 1, 0), Version::new(1, 2, 0));
        let (ours, theirs) = (Strategy::OldestEmulationVersion, Strategy::ThirdParty("x.io/Y".to_owned()));
        assert_eq!(Rule::of([(&old, &theirs), (&new, &ours)]), Rule::Ours(OLDEST));
        assert_eq!(Rule::of([(&new, &theirs), (&old, &ours)]), Rule::ThirdParty("x.io/Y".to_owned()));
        assert_eq!(Rule::of([(&new, &theirs), (&new, &ours), (&new, &theirs)]), Rule::Disagreement);
        assert_eq!(Rule::of([(&new, &theirs), (&new, &theirs)]), Rule::ThirdParty("x.io/Y".to_owned()));
        let others = Strategy::ThirdParty("x.io/Z".to_owned());
        assert_eq!(Rule::of([(&new, &theirs), (&new, &others)]), Rule::Disagreement);
        assert_eq!(Rule::of([(&old, &theirs), (&old, &ours), (&new, &ours)]), Rule::Ours(OLDEST));
        let newest = Strategy::NewestEmulationVersion;
        assert_eq!(Rule::of([(&new, &newest), (&old, &ours)]), Rule::Ours(newest.clone()));
        assert_eq!(Rule::of([(&new, &newest), (&new, &ours)]), Rule::Disagreement);
        assert_eq!(Rule::of([]), Rule::NoCandidates);
    }
}
