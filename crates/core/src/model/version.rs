//! Versions as Kubernetes components write them: `v1.31`, `1.31`, `1.31.0-alpha.1`.
//!
//! This tolerant form is the one that upstream's election parses (`semver.ParseTolerant`), although upstream's
//! validation requires the strict form. The parser drops surrounding space, a leading `v` and leading zeros. Missing
//! parts are zero, and a version with a missing part has no pre-release. Build metadata never counts, so the parser
//! drops it: two versions that differ only in build metadata are equal.

use std::fmt;
use std::str::FromStr;

/// A longer text is rejected, which bounds the work of the parser.
const MAX_LENGTH_BYTES: usize = 256;

/// A semantic version, ordered by precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(semver::Version);

/// The text is not a semantic version, not even in the tolerant form. Contains the first 64 characters of the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InvalidVersion(String);

impl Version {
    /// The version `major.minor.patch`.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion(text.chars().take(64).collect());
        if text.len() > MAX_LENGTH_BYTES {
            return Err(invalid());
        }
        let trimmed = text.trim();
        let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
        let numbers = trimmed.find(['-', '+']).unwrap_or(trimmed.len());
        let (core, suffix) = trimmed.split_at(numbers);
        let mut parts: Vec<&str> = core.split('.').map(without_leading_zeros).collect();
        if parts.len() > 3 || (parts.len() < 3 && !suffix.is_empty()) {
            return Err(invalid());
        }
        parts.resize(3, "0");
        let mut version: semver::Version = format!("{}{suffix}", parts.join(".")).parse().map_err(|_| invalid())?;
        version.build = semver::BuildMetadata::EMPTY;
        Ok(Self(version))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for InvalidVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a semantic version", self.0)
    }
}

impl std::error::Error for InvalidVersion {}

fn without_leading_zeros(part: &str) -> &str {
    let digits = part.trim_start_matches('0');
    // "000" is zero. An empty part ("1..2") stays empty, so that it is rejected.
    if digits.is_empty() && !part.is_empty() { "0" } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match text.parse::<Version>() {
            Ok(version) => version.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_tolerant_forms_of_upstream_parse() {
        for (text, expected) in [
            ("1.31.0", "1.31.0"),
            ("v1.31.0", "1.31.0"),
            ("v1.31", "1.31.0"),
            ("1", "1.0.0"),
            (" 1.31 ", "1.31.0"),
            ("01.2", "1.2.0"),
            ("1.00.3", "1.0.3"),
            ("1.31.0-alpha.1", "1.31.0-alpha.1"),
            ("v1.34.1-gke.1829001", "1.34.1-gke.1829001"),
            ("1.31.0+build.5", "1.31.0"),
        ] {
            assert_eq!(parsed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_version_does_not_parse() {
        let long = "1".repeat(300);
        let long_pre_release = format!("1.31.0-{long}");
        for text in [
            "",
            "v",
            "one",
            "1..2",
            "1.2.3.4",
            "1.31-alpha",
            "-1.2.3",
            "1.2.3-",
            "99999999999999999999.0.0",
            &long,
            &long_pre_release,
        ] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
        assert_eq!(parsed("one"), "\"one\" is not a semantic version");
        assert_eq!(parsed(&long), format!("{:?} is not a semantic version", "1".repeat(64)));
    }

    #[test]
    fn versions_compare_by_number_and_never_by_build_metadata() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("1.9") < version("1.10"));
        assert!(version("1.31.0-alpha.2") < version("1.31.0-alpha.10"));
        assert!(version("1.31.0-rc.0") < version("1.31"));
        assert_eq!(version("1.31.0+a"), version("1.31.0+b"));
    }
}
