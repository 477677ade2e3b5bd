//! The few fields of a certificate that TLS libraries do not show: its version and its validity.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// What a certificate says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The version of X.509: 1, 2 or 3.
    pub(crate) version: u8,
    /// The first second of its validity, since 1970.
    pub(crate) not_before: i64,
    /// The last second of its validity, since 1970.
    pub(crate) not_after: i64,
}

/// Reads a certificate; `None` if it is malformed.
pub(crate) fn facts(certificate: &[u8]) -> Option<Facts> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    let mut version = 1;
    if let Some((explicit, after)) = element(rest, VERSION) {
        version = element(explicit, INTEGER)?.0.last()?.checked_add(1)?;
        rest = after;
    }
    // The serial number, the algorithm of the signature and the issuer precede the validity.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        rest = element(rest, tag)?.1;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (not_before, rest) = time(validity)?;
    let (not_after, _) = time(rest)?;
    Some(Facts { version, not_before, not_after })
}

/// The content of the first element, which must have this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [found, length, rest @ ..] = bytes else { return None };
    if *found != tag {
        return None;
    }
    let (length, rest) = match *length {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let size = usize::from(long & 0x7f);
            let (digits, rest) = rest.split_at_checked(size).filter(|_| (1..=4).contains(&size))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    rest.split_at_checked(length)
}

fn time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (text, rest, long) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, false),
        None => element(bytes, GENERALIZED_TIME).map(|(text, rest)| (text, rest, true))?,
    };
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = text.split_at_checked(if long { 4 } else { 2 })?;
    let year: i16 = year.parse().ok()?;
    let year = if long { year } else { year + if year < 50 { 2000 } else { 1900 } };
    let field = |index: usize| text.get(2 * index..2 * index + 2)?.parse::<i8>().ok();
    let moment = DateTime::new(year, field(0)?, field(1)?, field(2)?, field(3)?, field(4)?, 0).ok()?;
    Some((TimeZone::UTC.to_timestamp(moment).ok()?.as_second(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element with this tag.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82][..], &length, content].concat()
    }

    fn certificate(version: &[u8], not_after: &[u8]) -> Vec<u8> {
        let validity = [der(UTC_TIME, b"700101000001Z"), not_after.to_vec()].concat();
        let fields =
            [version, &der(INTEGER, &[7]), &der(SEQUENCE, &[]), &der(SEQUENCE, &[]), &der(SEQUENCE, &validity)];
        der(SEQUENCE, &der(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn the_version_and_the_validity_are_read() {
        let third = der(VERSION, &der(INTEGER, &[2]));
        let later = der(GENERALIZED_TIME, b"20500101000000Z");
        let expected = Facts { version: 3, not_before: 1, not_after: 2_524_608_000 };
        assert_eq!(facts(&certificate(&third, &later)), Some(expected));
        let first = certificate(&[], &der(UTC_TIME, b"490101000000Z"));
        assert_eq!(facts(&first), Some(Facts { version: 1, not_before: 1, not_after: 2_493_072_000 }));
        for end in 0..first.len() {
            assert_eq!(facts(&first[..end]), None, "{end}");
        }
        assert_eq!(facts(&certificate(&[], &der(UTC_TIME, b"991301000000Z"))), None);
    }
}
