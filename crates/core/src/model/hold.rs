//! Why a Lease deliberately has no holder: the annotation `hustings.io/hold`.

use std::fmt;

const THIRD_PARTY: &str = "third-party strategy ";
const DISAGREEMENT: &str = "disagreement";

/// The longest part of an administrator's text that is shown, in characters.
const MAX_PAUSE_CHARS: usize = 256;

/// The content of `hustings.io/hold`. Every text is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The candidates ask for a third party's strategy.
    ThirdPartyStrategy(String),
    /// The candidates of the highest binary version ask for different strategies.
    Disagreement,
    /// Any other text: an administrator paused the elections of this Lease.
    Pause(String),
}

impl Hold {
    /// Reads the annotation. An empty annotation is no hold.
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
    fn a_displayed_hold_parses_to_the_same_hold_and_any_other_text_is_a_pause() {
        for text in ["third-party strategy example.com/Mine", "disagreement", "maintenance until Monday"] {
            assert_eq!(Hold::read(Some(text)).unwrap().to_string(), text);
        }
        assert!(matches!(Hold::read(Some("maintenance")), Some(Hold::Pause(_))));
        assert_eq!(Hold::read(Some(&"ä".repeat(10_000))), Some(Hold::Pause("ä".repeat(256))), "a long text is cut");
        assert_eq!(Hold::read(Some("")), None);
        assert_eq!(Hold::read(None), None);
    }
}
