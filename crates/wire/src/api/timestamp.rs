//! Timestamps in objects. Reading one never fails.
//!
//! Go writes years that other libraries reject, and a CRD's `date-time` accepts even stranger texts. One such value
//! must not stop a watch, so a text that does not parse counts as [`WireTime::MAX`]. It is compared only with other
//! values of its field, and any later write replaces it.

use std::borrow::Cow;

use hustings_core::model::WireTime;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A `MicroTime`, such as `spec.renewTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime(pub WireTime);

impl MicroTime {
    /// Parses a timestamp. A text that is not a timestamp becomes [`WireTime::MAX`].
    pub fn read(text: &str) -> Self {
        let micros = text.parse::<Timestamp>().map_or(i64::MAX, Timestamp::as_microsecond);
        Self(WireTime::from_micros(micros))
    }
}

impl From<WireTime> for MicroTime {
    fn from(time: WireTime) -> Self {
        Self(time)
    }
}

impl std::fmt::Display for MicroTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Only a time before the year 0 is out of range: no clock shows it, and no server accepts it.
        let time = Timestamp::from_microsecond(self.0.as_micros()).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(f, "{time:.6}")
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Self::read(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_written_with_six_digits_and_read_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1_700_000_000_123_456, "2023-11-14T22:13:20.123456Z"),
            (WireTime::MAX.as_micros(), "9999-12-30T22:00:00.000000Z"),
        ] {
            let time = MicroTime(WireTime::from_micros(micros));
            assert_eq!(time.to_string(), text);
            assert_eq!(MicroTime::from(time.0), time);
            assert_eq!(MicroTime::read(text), time);
        }
    }

    #[test]
    fn a_text_that_is_not_a_timestamp_is_the_latest_time() {
        for text in ["9999-12-31T23:59:59Z", "", "yesterday", "2023-13-01T00:00:00Z", "10000-01-01T00:00:00Z"] {
            assert_eq!(MicroTime::read(text), MicroTime(WireTime::MAX), "{text:?}");
        }
        assert_eq!(MicroTime::read("1970-01-01T01:00:01.5+01:00"), MicroTime(WireTime::from_micros(1_500_000)));
        assert_eq!(MicroTime::read("1970-01-01T00:00:00.0000019Z"), MicroTime(WireTime::from_micros(1)));
    }
}
