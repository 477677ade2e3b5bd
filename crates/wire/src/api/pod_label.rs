//! Labels of Pods as texts.

use hustings_core::model::PodLabel;
use hustings_core::names::{is_dns_subdomain, is_label_text};

/// The hint of an error about a label's name or value.
const LABEL_RULE: &str = "use at most 63 letters, digits, \"-\", \"_\" and \".\", with a letter or digit at both ends";

/// Parses `KEY=VALUE` by the rules of Kubernetes.
///
/// # Errors
/// Fails with the part that is wrong, and how to correct it.
pub fn read_pod_label(text: &str) -> Result<PodLabel, String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form KEY=VALUE"))?;
    let name = match key.split_once('/') {
        Some((prefix, name)) if is_dns_subdomain(prefix) => name,
        Some((prefix, _)) => {
            return Err(format!("{prefix:?} is not a valid label prefix: use a DNS subdomain"));
        }
        None => key,
    };
    if name.is_empty() || !is_label_text(name) {
        return Err(format!("{name:?} is not a valid label name: {LABEL_RULE}"));
    }
    if !is_label_text(value) {
        return Err(format!("{value:?} is not a valid label value: {LABEL_RULE}"));
    }
    Ok(PodLabel { key: key.to_owned(), value: value.to_owned() })
}

/// Parses the annotation `hustings.io/leader-label`.
///
/// # Errors
/// Fails also if the key belongs to Kubernetes or to Hustings.
pub fn read_leader_label(text: &str) -> Result<PodLabel, String> {
    let label = read_pod_label(text)?;
    label.check_leads()?;
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_valid_if_kubernetes_accepts_them() {
        for good in ["leader=true", "hustings.io/leader=true", "a/B_c.d=", "a=1"] {
            assert!(read_pod_label(good).is_ok_and(|label| label.to_string() == good), "{good}");
        }
        for refused in ["", "leader", "=true", "/a=b", "A.b/c=d", "a/=b", "a=b c", "a=-", "-a=b", "a=b=c", "a/b/c=d"] {
            assert!(read_pod_label(refused).is_err(), "{refused:?}");
        }
        assert!(read_pod_label(&format!("a={}", "b".repeat(64))).is_err());
        assert!(read_leader_label("role=leader").is_ok() && read_leader_label("pod-template-hash=a").is_err());
    }
}
