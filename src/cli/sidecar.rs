//! The rules that concern several flags of `hustings sidecar`, and its environment.

use std::time::Duration;

use hustings_client::api::names::is_static_pod_uid;

use super::Mistakes;
use crate::base::environment::variable;
use crate::stand::sidecar::{Config, OwnPod};

impl Config {
    /// The configuration with its timing and its pod; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Self> {
        let candidacy = self.candidacy.read(mistakes);
        let pod = self
            .pod_label
            .as_ref()
            .and_then(|_| pod(variable).map_err(|reason| mistakes.add("--pod-label", reason)).ok());
        if self.while_connected && self.handover_delay > Duration::ZERO {
            let reason = "has no effect with --while-connected, where the client ends a term by closing its \
                          connection: remove one of the two flags";
            mistakes.add("--handover-delay", reason);
        }
        Some(Self { candidacy: candidacy?, pod, ..self })
    }
}

/// The pod of this process, from the downward API.
fn pod(variable: impl Fn(&str) -> Option<String>) -> Result<OwnPod, String> {
    let needed = |name: &str| {
        variable(name).ok_or_else(|| format!("needs {name} in the environment: set it by the downward API"))
    };
    let uid = variable("POD_UID").filter(|uid| !is_static_pod_uid(uid));
    Ok(OwnPod { name: needed("POD_NAME")?, namespace: needed("POD_NAMESPACE")?, uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_of_a_label_comes_from_the_downward_api_and_a_static_pod_has_no_uid() {
        let mirror = "0123456789abcdef0123456789abcdef";
        for (name, namespace, uid, expected) in [
            ("p", "n", "f3a1b2c4-0000-4000-8000-000000000001", Ok(Some("f3a1b2c4-0000-4000-8000-000000000001"))),
            ("p", "n", mirror, Ok(None)),
            ("p", "n", "", Ok(None)),
            ("", "n", "", Err("needs POD_NAME")),
            ("p", "", "", Err("needs POD_NAMESPACE")),
        ] {
            let pod = pod(|variable| {
                let value = match variable {
                    "POD_NAME" => name,
                    "POD_NAMESPACE" => namespace,
                    "POD_UID" => uid,
                    other => panic!("{other}"),
                };
                Some(value.to_owned()).filter(|value| !value.is_empty())
            });
            match (pod, expected) {
                (Ok(pod), Ok(uid)) => assert_eq!((pod.name.as_str(), pod.uid.as_deref()), ("p", uid)),
                (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
