//! The name of the machine or container that this process runs on.

use rustix::system::uname;

use crate::api::names::is_dns_subdomain;

/// Returns the system's host name, changed into a DNS subdomain as the name of an object must be; `None` if nothing of
/// the name is usable. An elector without another identity uses this name.
pub fn host_name() -> Option<String> {
    dns_subdomain(&uname().nodename().to_string_lossy())
}

fn dns_subdomain(name: &str) -> Option<String> {
    let hyphenated = name.to_ascii_lowercase().replace(|c: char| !(c.is_ascii_alphanumeric() || c == '.'), "-");
    let parts: Vec<&str> =
        hyphenated.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    Some(parts.join(".")).filter(|name| is_dns_subdomain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_host_name_becomes_a_dns_subdomain_or_none() {
        for (name, expected) in [
            ("web-7d9c", Some("web-7d9c")),
            ("Ada-Lovelaces_MacBook.local", Some("ada-lovelaces-macbook.local")),
            ("-a-..b.", Some("a.b")),
            ("caf\u{e9}", Some("caf")),
            ("(none)", Some("none")),
            ("", None),
            ("___", None),
            (&"a".repeat(254), None),
        ] {
            assert_eq!(dns_subdomain(name).as_deref(), expected, "{name:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_host_name_is_that_of_the_system() {
        let system = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host_name(), dns_subdomain(system.trim_end()));
    }
}
