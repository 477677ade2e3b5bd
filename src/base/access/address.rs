//! URLs as Go's `net/url` splits them, because kubectl accepts what Go accepts.
//!
//! The rule that must hold: no value of this module prints a password.

use std::fmt;

use percent_encoding::percent_decode_str;

/// The parts of a URL that matter for a server or a proxy.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// In lower case; empty if the text names none.
    pub(super) scheme: String,
    /// The user and the password, decoded.
    pub(super) login: Option<(String, String)>,
    /// Without brackets; empty if the text is no address.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Empty, or begins with a slash.
    pub(super) path: String,
}

impl Address {
    /// Splits a text. Returns nothing where Go reports an error.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let text = text.split('#').next()?;
        let (scheme, rest) = split_scheme(text)?;
        let rest = rest.split('?').next()?;
        let scheme = scheme.to_ascii_lowercase();
        let Some(rest) = rest.strip_prefix("//") else {
            let is_path = rest.starts_with('/');
            let ambiguous = scheme.is_empty() && rest.split('/').next()?.contains(':');
            // `host:1` is a scheme and something opaque.
            return (is_path || !ambiguous).then(|| Self { scheme, path: rest.to_owned(), ..Self::default() });
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(split_login(login)?), host),
            None => (None, authority),
        };
        let (host, port) = split_host(host)?;
        let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
        Some(Self { scheme, login, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Splits a text, which may lack a scheme. It then means `http`.
    pub(super) fn parse_or_http(text: &str) -> Option<Self> {
        let is_whole = |address: &Self| !address.scheme.is_empty() && !address.host.is_empty();
        Self::parse(text).filter(is_whole).or_else(|| Self::parse(&format!("http://{text}")))
    }

    /// The URL without the user and the password.
    pub(super) fn url(&self) -> String {
        let Self { scheme, host, path, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{path}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.url()).field(&self.login.is_some()).finish()
    }
}

/// The scheme, which may be empty, and the rest.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"+-.".contains(letter));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn split_login(login: &str) -> Option<(String, String)> {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    if login.chars().all(is_valid) { Some((unescape(user)?, unescape(password)?)) } else { None }
}

/// The host without brackets, and the port, which may be empty.
fn split_host(host: &str) -> Option<(&str, &str)> {
    let (host, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.rsplit_once(']').filter(|(host, _)| host.contains(':'))?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = if rest.is_empty() { "" } else { rest.strip_prefix(':')? };
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:".contains(letter);
    (host.chars().all(is_valid) && port.bytes().all(|byte| byte.is_ascii_digit())).then_some((host, port))
}

/// The text without its escapes; `None` if one is malformed.
pub(super) fn unescape(text: &str) -> Option<String> {
    let is_whole = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_whole).then(|| percent_decode_str(text).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_as_go_splits_it() {
        let whole = |text| Address::parse_or_http(text).map(|address| address.url());
        for (text, expected) in [
            ("https://api:6443", Some("https://api:6443")),
            ("HTTPS://api:6443/", Some("https://api:6443/")),
            ("https://api:", Some("https://api")),
            ("https://api/k8s/clusters/c?a=b#c", Some("https://api/k8s/clusters/c")),
            ("https://[::1]:6443", Some("https://[::1]:6443")),
            ("api:6443", Some("http://api:6443")),
            ("10.0.0.1:6443", Some("http://10.0.0.1:6443")),
            ("api", Some("http://api")),
            ("//api", Some("http:////api")),
            (" https://api", None),
            ("https://api\n", None),
        ] {
            assert_eq!(whole(text).as_deref(), expected, "{text:?}");
        }
        // With another scheme before it, such a text names a host that does not exist.
        for text in ["https://::1:6443", "https://api:port", "https://api:65536", "https://[::1"] {
            assert_eq!(Address::parse(text), None);
            assert!(whole(text).unwrap().starts_with("http://https//"), "{text:?}");
        }
    }

    #[test]
    fn a_password_is_decoded_and_never_printed() {
        let address = Address::parse("http://me:p%40ss@proxy:3128").unwrap();
        assert_eq!(address.login, Some(("me".to_owned(), "p@ss".to_owned())));
        assert_eq!(Address::parse("http://me:p@ss@proxy").unwrap().login.unwrap().1, "p@ss");
        assert_eq!(Address::parse("http://me:%zz@proxy"), None);
        assert!(!format!("{address:?} {}", address.url()).contains("p@ss"), "{address:?}");
        assert!(!format!("{address:?} {}", address.url()).contains("p%40ss"), "{address:?}");
    }
}
