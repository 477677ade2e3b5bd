//! The machine or container that this process runs on: its name, and what its environment says about its pod.

use std::{env, fs};

use rustix::system::uname;

use crate::api::names::is_dns_subdomain;

/// Returns the system's host name, changed into a DNS subdomain as the name of an object must be; `None` if nothing of
/// the name is usable. An elector without another identity uses this name.
pub fn host_name() -> Option<String> {
    dns_subdomain(&uname().nodename().to_string_lossy())
}

/// The environment variable of the pod's namespace.
pub(super) const POD_NAMESPACE: &str = "POD_NAMESPACE";

/// The namespace of the pod, among the files of its service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns an environment variable. An empty one counts as missing.
pub(super) fn variable(name: &str) -> Option<String> {
    variable_or_file(env::var(name).ok(), name, NAMESPACE_FILE)
}

/// The value of a variable; without one, the namespace in this file.
fn variable_or_file(value: Option<String>, name: &str, namespace_file: &str) -> Option<String> {
    let of_file = || fs::read_to_string(namespace_file).ok().filter(|_| name == POD_NAMESPACE);
    let value = value.filter(|value| !value.is_empty()).or_else(of_file)?;
    Some(value.trim_end_matches('\n').to_owned()).filter(|value| !value.is_empty())
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

    #[test]
    fn the_namespace_of_the_pod_comes_from_its_variable_or_else_from_its_service_account() {
        let file = env::temp_dir().join(format!("hustings-namespace-{}", std::process::id()));
        fs::write(&file, "shop\n").unwrap();
        let file = file.to_str().unwrap();
        let text = |text: &str| Some(text.to_owned());
        for (value, name, file, expected) in [
            (text("own"), POD_NAMESPACE, file, text("own")),
            (None, POD_NAMESPACE, file, text("shop")),
            (text(""), POD_NAMESPACE, file, text("shop")),
            (None, POD_NAMESPACE, "/nowhere", None),
            (None, "POD_NAME", file, None),
            (text("a"), "POD_NAME", file, text("a")),
            (text(""), "POD_NAME", file, None),
        ] {
            assert_eq!(variable_or_file(value.clone(), name, file), expected, "{name}={value:?} {file}");
        }
        fs::remove_file(file).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_host_name_is_that_of_the_system() {
        let system = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host_name(), dns_subdomain(system.trim_end()));
    }
}
