//! An admission webhook that does not answer. The server waits for it at every covered write. It then executes or
//! rejects the write.

use std::sync::{Arc, Mutex, PoisonError};

use http::Method;

/// The writes that hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// Writes of Leases.
    Leases,
    /// Writes of candidates, except their statuses.
    Candidates,
    /// Writes of the statuses of candidates.
    Statuses,
    /// Writes of events.
    Events,
}

/// The writes that the webhook covers, and the fate of a write that it does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The namespace.
    pub namespace: &'static str,
    /// The writes.
    pub covered: Covered,
    /// Whether the server rejects them. Otherwise it executes them late.
    pub fails: bool,
}

/// The webhook of a cluster. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Webhook(Arc<Mutex<Option<Rule>>>);

impl Webhook {
    /// Sets which writes hang from now on, if any.
    pub fn set(&self, rule: Option<Rule>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = rule;
    }

    /// The rule for this request, if it hangs.
    pub fn rule(&self, method: &Method, path: &str) -> Option<Rule> {
        let rule = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let (_, resource) = path.split_once("/namespaces/")?.1.split_once(rule.namespace)?;
        let is_covered = match rule.covered {
            Covered::Leases => resource.starts_with("/leases"),
            Covered::Candidates => resource.starts_with("/leasecandidates") && !resource.ends_with("/status"),
            Covered::Statuses => resource.starts_with("/leasecandidates") && resource.ends_with("/status"),
            Covered::Events => resource.starts_with("/events"),
        };
        (is_covered && *method != Method::GET).then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_covered_writes_hang() {
        let webhook = Webhook::default();
        webhook.set(Some(Rule { namespace: "n", covered: Covered::Statuses, fails: true }));
        let hangs = |method, path| webhook.rule(&method, path).is_some();
        assert!(hangs(Method::PATCH, "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates/a/status"));
        assert!(!hangs(Method::GET, "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates/a/status"));
        assert!(!hangs(Method::PATCH, "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates/a"));
        assert!(!hangs(Method::PATCH, "/apis/hustings.io/v1alpha1/namespaces/m/leasecandidates/a/status"));
    }
}
