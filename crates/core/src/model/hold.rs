//! Why a Lease is left without a holder on purpose, as the annotation `hustings.io/hold` says it.

use std::fmt;

const THIRD_PARTY: &str = "third-party strategy ";
const DISAGREEMENT: &str = "disagreement";

/// More than this of an administrator's text is shown nowhere.
const MAX_PAUSE_CHARS: usize = 256;

/// The reading of `hustings.io/hold`; every text has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The candidates ask for a strategy that is somebody else's to carry out.
    ThirdPartyStrategy(String),
    /// The candidates of the highest binary version ask for different strategies.
    Disagreement,
    /// Any other text: an administrator has paused the elections of this Lease.
    Pause(String),
}

impl Hold {
    /// Reads the annotation. An empty one holds nothing.
    pub fn read(annotation: Option<&str>) -> Option<Self> {
        let text = annotation.filter(|text| !text.is_empty())?;
        Some(match text.strip_prefix(THIRD_PARTY) {
            Some(strategy) => Self::ThirdPartyStrategy(strategy.to_owned()),
            None if text == DISAGREEMENT => Self::Disagreement,
            None => Self::Pause(text.chars().take(MAX_PAUSE_CHARS).collect()),
        })
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThirdPartyStrategy(strategy) => write!(f, "{THIRD_PARTY}{strategy}"),
            Self::Disagreement => f.write_str(DISAGREEMENT),
            Self::Pause(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_reads_what_it_writes_and_any_other_text_is_a_pause() {
        for text in ["third-party strategy example.com/Mine", "disagreement", "maintenance until Monday"] {
            assert_eq!(Hold::read(Some(text)).unwrap().to_string(), text);
        }
        assert!(matches!(Hold::read(Some("maintenance")), Some(Hold::Pause(_))));
        assert_eq!(
            Hold::read(Some(&"ä".repeat(10_000))),
            Some(Hold::Pause("ä".repeat(256))),
            "whatever it is, it is short"
        );
        assert_eq!(Hold::read(Some("")), None);
        assert_eq!(Hold::read(None), None);
    }
}
