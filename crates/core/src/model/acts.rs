//! Acts of administrators, as the annotations of a Lease and of a candidate record them.
//!
//! An act has an end, which the controller compares with its own wall clock. That end only affects which candidate is
//! preferred: no rule of safety depends on it. An annotation that does not parse has no effect, and the controller
//! reports it.

use std::fmt;

use super::{CandidateKey, PodLabel, WireTime};
use crate::assist::AssistOptions;

/// What an annotation contains.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Annotation<T> {
    /// Its value.
    Valid(T),
    /// A text that does not parse. Boxed, because few objects have one.
    Malformed(Box<Malformed>),
}

/// An annotation that does not parse, so it has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Malformed {
    /// The annotation.
    pub annotation: &'static str,
    /// Its text, or the beginning of a long one.
    pub text: String,
    /// Why it does not parse and how to correct it, as a sentence without its end.
    pub why: String,
}

/// The acts that a Lease records, in addition to `hustings.io/hold`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseActs {
    /// Annotation `hustings.io/hold-until`: when a pause ends. A pause without it lasts until an administrator ends it.
    pub hold_until: Option<Annotation<WireTime>>,
    /// Annotation `hustings.io/transfer`: the candidate to which the holder hands over, once.
    pub transfer: Option<Transfer>,
    /// Annotation `hustings.io/pin`: the candidate that ranks first.
    pub pin: Option<Annotation<Pin>>,
    /// Annotation `hustings.io/assist`: the Lease is released once its holder, a component that knows nothing of
    /// Hustings, is proven dead.
    pub assist: Option<Annotation<AssistOptions>>,
    /// Annotation `hustings.io/leader-label`: the label that the controller keeps on the Pod of the holder. Boxed, because
    /// few Leases have it.
    pub leader_label: Option<Box<Annotation<PodLabel>>>,
    /// Annotation `hustings.io/asked-by`: who asked for the newest act, according to its writer.
    pub asked_by: Option<String>,
}

/// To which candidate the holder hands over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// The best of the others.
    Any,
    /// The candidate with this name.
    To(String),
}

/// The candidate that ranks first until a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pin {
    /// Its name.
    pub candidate: String,
    /// Until when.
    pub until: WireTime,
}

/// Annotation `hustings.io/exclude` of a candidate: it is not elected until a time. Its text is the end, with the reason
/// if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exclusion {
    /// Until when.
    pub until: WireTime,
    /// The administrator's reason.
    pub reason: String,
}

/// The acts of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CandidateActs {
    /// Annotation `hustings.io/exclude`.
    pub exclude: Option<Annotation<Exclusion>>,
    /// Annotation `hustings.io/asked-by`: who excluded it, according to the annotation's writer.
    pub asked_by: Option<String>,
}

/// The value of `hustings.io/transfer` that means any other candidate.
const ANY: &str = "any";

impl Transfer {
    /// Parses the annotation. Every text is valid.
    pub fn read(text: &str) -> Self {
        if text == ANY { Self::Any } else { Self::To(text.to_owned()) }
    }

    /// The text of the annotation.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => ANY,
            Self::To(name) => name,
        }
    }

    /// Whether the holder may hand over to this candidate.
    pub fn includes(&self, candidate: &CandidateKey) -> bool {
        match self {
            Self::Any => true,
            Self::To(name) => **name == *candidate.name,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { until, reason } = self;
        if reason.is_empty() { write!(f, "{until}") } else { write!(f, "{until}: {reason}") }
    }
}

impl Malformed {
    /// An annotation with this text, which does not parse for this reason.
    pub fn new(annotation: &'static str, text: String, why: String) -> Box<Self> {
        Box::new(Self { annotation, text, why })
    }
}

impl<T> Annotation<T> {
    /// The value, if the annotation parses.
    pub const fn valid(&self) -> Option<&T> {
        match self {
            Self::Valid(value) => Some(value),
            Self::Malformed(_) => None,
        }
    }

    /// The text that does not parse.
    pub fn malformed(&self) -> Option<&Malformed> {
        match self {
            Self::Valid(_) => None,
            Self::Malformed(malformed) => Some(malformed),
        }
    }
}

/// Wraps a value to write, which is always valid.
impl<T> From<T> for Annotation<T> {
    fn from(value: T) -> Self {
        Self::Valid(value)
    }
}

impl LeaseActs {
    /// The annotations that do not parse.
    pub fn malformed(&self) -> impl Iterator<Item = &Malformed> {
        let until = self.hold_until.as_ref().and_then(Annotation::malformed);
        let pin = self.pin.as_ref().and_then(Annotation::malformed);
        let assist = self.assist.as_ref().and_then(Annotation::malformed);
        let label = self.leader_label.as_deref().and_then(Annotation::malformed);
        [until, pin, assist, label].into_iter().flatten()
    }
}

impl CandidateActs {
    /// The annotation that does not parse.
    pub fn malformed(&self) -> Option<&Malformed> {
        self.exclude.as_ref()?.malformed()
    }

    /// The exclusion that is in force at `wall`, by the clock of the caller.
    pub fn exclusion(&self, wall: WireTime) -> Option<&Exclusion> {
        self.standing_exclusion(wall)?.valid()
    }

    /// The exclusion on the candidate, unless it has ended at `wall`, by the clock of the caller. The controller leaves
    /// one that has ended. One that does not parse has no end.
    pub fn standing_exclusion(&self, wall: WireTime) -> Option<&Annotation<Exclusion>> {
        self.exclude.as_ref().filter(|exclude| exclude.valid().is_none_or(|exclusion| wall < exclusion.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: WireTime = WireTime::from_micros(5);
    const BEFORE: WireTime = WireTime::from_micros(4);

    #[test]
    fn an_exclusion_ends_at_its_time() {
        let exclusion = Exclusion { until: END, reason: String::new() };
        let excluded =
            CandidateActs { exclude: Some(Annotation::Valid(exclusion.clone())), ..CandidateActs::default() };
        assert_eq!((excluded.exclusion(BEFORE), excluded.exclusion(END)), (Some(&exclusion), None));
    }

    #[test]
    fn an_exclusion_shows_its_end_and_its_reason_if_it_has_one() {
        let text = |reason: &str| Exclusion { until: WireTime::from_micros(0), reason: reason.to_owned() }.to_string();
        assert_eq!((&*text(""), &*text("drain")), ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z: drain"));
    }

    #[test]
    fn a_transfer_names_one_candidate_or_any() {
        let key = CandidateKey::hustings("a");
        for (text, includes) in [("any", true), ("a", true), ("b", false)] {
            let transfer = Transfer::read(text);
            assert_eq!((transfer.as_str(), transfer.includes(&key)), (text, includes));
        }
    }
}
