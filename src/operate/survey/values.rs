//! The values of the chart that assist the locks that are ready. The others are comments.

use std::fmt::Write as _;

use serde::Serialize;

use super::lock::{Lock, LockState};
use super::render::{path, summary};
use crate::base::terminal::visible;

/// One item of `assist.leases`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedLease<'a> {
    lease: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_prefix: Option<&'a str>,
}

/// The values as YAML.
///
/// # Errors
/// Fails if an item cannot be written as YAML, which no name of an object causes.
pub(super) fn render(locks: &[Lock]) -> anyhow::Result<String> {
    let is_active = |lock: &&Lock| matches!(lock.state, LockState::Ready | LockState::Assisted);
    let active: Vec<_> = locks.iter().filter(is_active).collect();
    let none = if active.is_empty() { " []" } else { "" };
    let mut text = format!("# {}\nassist:\n  leases:{none}\n", summary(locks).replace('\n', "\n# "));
    for lock in active {
        text.push_str(&item(lock, "    ")?);
    }
    for lock in locks {
        let why = match lock.state {
            LockState::Ambiguous | LockState::Unidentified | LockState::Stuck => {
                lock.reason.clone().unwrap_or_default()
            }
            LockState::Unread => "you may not list the Pods of its namespace".to_owned(),
            LockState::Free => "it has no holder now, so its Pod is unknown".to_owned(),
            LockState::Ready | LockState::Assisted | LockState::Elected => continue,
        };
        let is_likely = lock.state == LockState::Ambiguous && lock.options.container.is_some();
        let check = if is_likely { "; check that this container holds the Lease" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "    # {}: {}{check}", lock.state.as_str(), visible(&why));
        text.push_str(&item(lock, "    # ")?);
    }
    Ok(text)
}

fn item(lock: &Lock, indent: &str) -> anyhow::Result<String> {
    let options = &lock.options;
    let item = [ListedLease {
        lease: path(lock),
        container: options.container.as_deref(),
        pod_namespace: options.pod_namespace.as_deref(),
        pod_prefix: options.pod_prefix.as_deref(),
    }];
    let yaml = serde_saphyr::to_string(&item)?;
    Ok(yaml.lines().flat_map(|line| [indent, line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use hustings_core::assist::AssistOptions;
    use serde_json::{Value, json};

    use super::super::lock::tests::lock;
    use super::*;

    #[test]
    fn the_values_are_yaml_and_so_are_the_comments_without_their_mark() {
        let options = |text: &str| AssistOptions::read(text).unwrap();
        let locks = [
            lock("a", LockState::Ready),
            Lock { options: options("pod-prefix=true,pod-namespace=8080"), ..lock("b", LockState::Ready) },
            Lock { options: options("container=1e3"), ..lock("c", LockState::Assisted) },
            Lock {
                options: options("container=null"),
                reason: Some("\"it\": [has\nseveral\u{1b}".to_owned()),
                ..lock("d", LockState::Ambiguous)
            },
            lock("e", LockState::Stuck),
            lock("f", LockState::Elected),
        ];
        let active = json!([
            { "lease": "n/a", "container": "c" },
            { "lease": "n/b", "podNamespace": "8080", "podPrefix": "true" },
            { "lease": "n/c", "container": "1e3" },
        ]);
        let text = render(&locks).unwrap();
        let parsed: Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(parsed, json!({ "assist": { "leases": active } }), "{text}");
        let is_item = |line: &str| line.starts_with("    # - ") || line.starts_with("    #   ");
        let uncommented: String = text
            .lines()
            .map(|line| if is_item(line) { line.replacen("# ", "", 1) } else { line.to_owned() } + "\n")
            .collect();
        let parsed: Value = serde_yaml::from_str(&uncommented).unwrap();
        let others = json!([{ "lease": "n/d", "container": "null" }, { "lease": "n/e", "container": "c" }]);
        assert_eq!(parsed["assist"]["leases"].as_array().unwrap()[3..], others.as_array().unwrap()[..], "{text}");
        let none: Value = serde_yaml::from_str(&render(&locks[4..]).unwrap()).unwrap();
        assert_eq!(none, json!({ "assist": { "leases": [] } }));
    }
}
