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

/// How much of a text goes into a message, in characters.
const LONGEST_EXCERPT: usize = 64;

/// A semantic version, ordered by precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(semver::Version);

/// The text is not a semantic version, not even in the tolerant form. Contains the first 64 characters of the text.
/// Its message names the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InvalidVersion {
    text: String,
    flaw: Flaw,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    /// It does not begin with a number, or one of its numbers is missing or too large.
    NoNumbers,
    TooLong,
    /// More than three numbers, as in `1.2.3.4`. Contains a valid version, like those of the next variants.
    TooManyNumbers(Option<String>),
    /// A suffix after fewer than three numbers, as in `1.31-alpha`.
    TooFewNumbers(Option<String>),
    /// A number with a leading zero in the pre-release, as in `1.2.3-01`.
    LeadingZero(Option<String>),
    /// A character that a suffix cannot contain, as in `1.2.3-a_b`.
    Character(char, Option<String>),
    /// Two dots in a row, or none after the hyphen or the plus sign.
    EmptyPart,
}

impl Version {
    /// The version `major.minor.patch`.
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    /// Whether this is a pre-release of `release`, and so ranks before it.
    pub fn is_pre_release_of(&self, release: &Self) -> bool {
        let numbers = |version: &Self| (version.0.major, version.0.minor, version.0.patch);
        numbers(self) == numbers(release) && !self.0.pre.is_empty() && release.0.pre.is_empty()
    }

    /// Explains why this version ranks before `release` if a pre-release is the only reason, as in the output of
    /// `git describe`, with the remedy.
    pub fn note_on_pre_release(&self, release: &Self) -> Option<String> {
        let semver::Version { major, minor, patch, pre, .. } = &self.0;
        self.is_pre_release_of(release).then(|| {
            format!(
                "{self} is a pre-release because of its suffix, and ranks before {release}; if it is not one, write \
                 {major}.{minor}.{patch}+{pre}"
            )
        })
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).map_err(|flaw| InvalidVersion { text: text.chars().take(LONGEST_EXCERPT).collect(), flaw })
    }
}

fn parse(text: &str) -> Result<Version, Flaw> {
    if text.len() > MAX_LENGTH_BYTES {
        return Err(Flaw::TooLong);
    }
    let trimmed = text.trim();
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let numbers = trimmed.find(['-', '+']).unwrap_or(trimmed.len());
    let (core, suffix) = trimmed.split_at(numbers);
    let mut parts: Vec<&str> = core.split('.').map(without_leading_zeros).collect();
    if parts.len() > 3 {
        let rest = suffix.replacen(['-', '+'], ".", 1);
        return Err(Flaw::TooManyNumbers(valid(format!("{}+{}{rest}", parts[..3].join("."), parts[3..].join(".")))));
    }
    let is_short = parts.len() < 3;
    parts.resize(3, "0");
    let full = format!("{}{suffix}", parts.join("."));
    if is_short && !suffix.is_empty() {
        return Err(Flaw::TooFewNumbers(valid(full)));
    }
    match full.parse::<semver::Version>() {
        Ok(version) => Ok(Version(semver::Version { build: semver::BuildMetadata::EMPTY, ..version })),
        Err(_) if parts.join(".").parse::<semver::Version>().is_err() => Err(Flaw::NoNumbers),
        Err(_) => Err(flaw_of_suffix(&full, suffix)),
    }
}

/// What is wrong with the suffix of a version whose numbers are right.
fn flaw_of_suffix(full: &str, suffix: &str) -> Flaw {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || "-.+".contains(character);
    if let Some(other) = suffix.chars().find(|character| !is_allowed(*character)) {
        return Flaw::Character(other, valid(full.replace(|character| !is_allowed(character), "-")));
    }
    let (pre_release, _) = suffix.split_once('+').unwrap_or((suffix, ""));
    let is_zero_padded =
        |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit());
    if pre_release.trim_start_matches('-').split('.').any(is_zero_padded) {
        return Flaw::LeadingZero(valid(full.replacen('-', "+", 1)));
    }
    Flaw::EmptyPart
}

/// Returns a proposal if it is a version and short enough for a message.
fn valid(proposal: String) -> Option<String> {
    (proposal.len() <= LONGEST_EXCERPT && parse(&proposal).is_ok()).then_some(proposal)
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
        let Self { text, flaw } = self;
        write!(f, "{text:?} is not a semantic version: ")?;
        let (cause, proposal) = match flaw {
            Flaw::NoNumbers => return f.write_str("use one such as 1.31.0"),
            Flaw::TooLong => return write!(f, "it is longer than {MAX_LENGTH_BYTES} bytes; use one such as 1.31.0"),
            Flaw::TooManyNumbers(proposal) => ("it has more than three numbers", proposal),
            Flaw::TooFewNumbers(proposal) => ("a suffix needs three numbers before it", proposal),
            Flaw::LeadingZero(proposal) => ("a number of its pre-release has a leading zero", proposal),
            Flaw::Character(character, proposal) => {
                write!(f, "its suffix contains {character:?}")?;
                ("", proposal)
            }
            Flaw::EmptyPart => ("its suffix has an empty part", &None),
        };
        f.write_str(cause)?;
        match proposal {
            Some(proposal) => write!(f, "; use one such as {proposal}"),
            None => f.write_str("; use one such as 1.31.0 or 1.31.0+abc"),
        }
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
    }

    #[test]
    fn an_invalid_version_names_its_cause_and_a_valid_version() {
        for (text, expected) in [
            ("one", "use one such as 1.31.0"),
            ("", "use one such as 1.31.0"),
            ("1..2", "use one such as 1.31.0"),
            ("v1.2.x", "use one such as 1.31.0"),
            ("99999999999999999999.0.0", "use one such as 1.31.0"),
            ("1.2.3.4", "it has more than three numbers; use one such as 1.2.3+4"),
            ("v1.2.03.04-rc.1", "it has more than three numbers; use one such as 1.2.3+4.rc.1"),
            ("1.31-alpha", "a suffix needs three numbers before it; use one such as 1.31.0-alpha"),
            ("1-4-gabc", "a suffix needs three numbers before it; use one such as 1.0.0-4-gabc"),
            ("1.2.3-0123", "a number of its pre-release has a leading zero; use one such as 1.2.3+0123"),
            ("1.2.3-rc.01", "a number of its pre-release has a leading zero; use one such as 1.2.3+rc.01"),
            ("1.2.3-a_b", "its suffix contains '_'; use one such as 1.2.3-a-b"),
            ("1.2.3+a b", "its suffix contains ' '; use one such as 1.2.3+a-b"),
            ("1.2.3-01_b", "its suffix contains '_'; use one such as 1.2.3-01-b"),
            ("1.2.3-", "its suffix has an empty part; use one such as 1.31.0 or 1.31.0+abc"),
            ("1.2.3-a..b", "its suffix has an empty part; use one such as 1.31.0 or 1.31.0+abc"),
        ] {
            assert_eq!(parsed(text), format!("{text:?} is not a semantic version: {expected}"));
        }
        let long = "1".repeat(300);
        let expected = "is not a semantic version: it is longer than 256 bytes; use one such as 1.31.0";
        assert_eq!(parsed(&long), format!("{:?} {expected}", "1".repeat(64)));
    }

    #[test]
    fn a_pre_release_belongs_to_the_release_with_its_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        for (one, other, expected) in [
            ("1.2.3-4-gabc", "1.2.3", true),
            ("1.2.3-4-gabc", "1.2.3+x", true),
            ("1.2.3-4-gabc", "1.2.4", false),
            ("1.2.3-4-gabc", "1.2.3-5", false),
            ("1.2.3", "1.2.3", false),
        ] {
            assert_eq!(version(one).is_pre_release_of(&version(other)), expected, "{one} {other}");
        }
        assert_eq!(
            version("v1.2.3-4-gabc").note_on_pre_release(&version("1.2.3")).unwrap(),
            "1.2.3-4-gabc is a pre-release because of its suffix, and ranks before 1.2.3; if it is not one, write \
             1.2.3+4-gabc"
        );
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
