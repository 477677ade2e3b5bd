//! The API server's rules for the names of objects.

/// The longest name of an object, in bytes.
pub const LONGEST_NAME: usize = 253;

/// Whether a Lease or a candidate can have this name: a DNS subdomain by the API server's rule, whose parts may be
/// longer than a DNS label.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.split('.').all(is_dns_part)
}

/// Whether a namespace can have this name: a DNS label.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Whether `text` may be the value of a label, or the name in its key.
pub fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

fn is_dns_part(part: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_if_the_server_accepts_it() {
        for (text, is_label, is_subdomain) in [
            ("a", true, true),
            ("web-0", true, true),
            ("0", true, true),
            (&"a".repeat(63), true, true),
            (&"a".repeat(64), false, true),
            (&"a".repeat(253), false, true),
            (&"a".repeat(254), false, false),
            ("a.b", false, true),
            ("a..b", false, false),
            (".a", false, false),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a.-b", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("\u{e4}", false, false),
        ] {
            assert_eq!((is_dns_label(text), is_dns_subdomain(text)), (is_label, is_subdomain), "{text:?}");
        }
    }
}
