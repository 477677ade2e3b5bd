//! Which of the watched namespaces may be missing, and whether any is watched.
//!
//! A namespace of `--watch-namespaces` may be deleted, or may never have existed. That must not keep every controller
//! unready, since a rollout would hang. So a missing namespace only causes a warning while another one is watched.
//!
//! How the API server shows it depends on the permissions of the controller:
//!
//! - With a Role in each namespace, as the chart grants them, the Role is gone with its namespace. Every request is
//!   forbidden, also the read of the namespace itself. So a namespace counts as missing if the controller may list
//!   neither of the two kinds that it needs there. A namespace where only some permissions are missing is misconfigured.
//! - With permissions for the whole cluster, lists of a missing namespace are empty. If the controller may read
//!   namespaces, it finds out that way which ones exist.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::Status;
use kube::{Api, Client};
use tokio::sync::watch;

use super::watched::Scope;
use crate::serve::health::Check;
use crate::serve::metrics::Resource;

/// How long the read of one namespace may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two reads of all namespaces.
const PAUSE: Duration = Duration::from_mins(1);

/// The same while one is missing, so that the warning soon ends when it is created.
const PAUSE_WHILE_MISSING: Duration = Duration::from_secs(10);

/// What is known of the watched namespaces. Clones share it.
#[derive(Clone)]
pub(super) struct Namespaces(watch::Sender<BTreeMap<String, NamespaceState>>);

/// What is known of one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NamespaceState {
    leases: NamespaceListing,
    candidates: NamespaceListing,
    /// Whether it exists; `None` if the controller may not read it, or has not yet.
    exists: Option<bool>,
}

/// The last result of listing one kind in a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NamespaceListing {
    /// There is no answer yet, or a failure.
    #[default]
    Unknown,
    /// It is listed and watched.
    Listed,
    /// The server forbids it.
    Forbidden,
}

impl Namespaces {
    /// The namespaces of these scopes.
    pub(super) fn new(scopes: &[Scope]) -> Self {
        let names = scopes.iter().filter_map(|scope| scope.namespace());
        Self(watch::channel(names.map(|name| (name.to_owned(), NamespaceState::default())).collect()).0)
    }

    /// Records the result of listing one of the kinds that elections need.
    pub(super) fn note(&self, scope: &Scope, kind: Resource, listing: NamespaceListing) {
        self.update(scope.namespace(), |state| {
            let known = match kind {
                Resource::Leases => &mut state.leases,
                Resource::Candidates => &mut state.candidates,
                Resource::NativeCandidates | Resource::Pods | Resource::Nodes => return,
            };
            // The Role may be gone with its namespace, so what the last read has shown no longer counts.
            if *known != listing && listing == NamespaceListing::Forbidden {
                state.exists = None;
            }
            *known = listing;
        });
    }

    /// Waits for the next change. This function is cancel safe.
    pub(super) fn changes(&self) -> watch::Receiver<impl Sized + use<>> {
        self.0.subscribe()
    }

    /// Why the namespace of `scope` counts as missing; `None` if it does not.
    pub(super) fn absence(&self, scope: &Scope) -> Option<String> {
        let name = scope.namespace()?;
        self.0.borrow().get(name)?.absence(name)
    }

    /// Whether at least one namespace is watched and exists, so that this controller is of use.
    pub(super) fn any_watched(&self) -> bool {
        self.0.borrow().iter().any(|(name, state)| state.is_watched() && state.absence(name).is_none())
    }

    /// Reads the namespaces periodically and reports those that are missing, for ever.
    pub(super) async fn watch(self, client: Client, check: Check) {
        let mut changes = self.0.subscribe();
        let reports = async {
            loop {
                self.report(&check);
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let reads = async {
            loop {
                self.read(&client).await;
                let is_missing = |state: &NamespaceState| state.exists == Some(false);
                let pause = if self.0.borrow().values().any(is_missing) { PAUSE_WHILE_MISSING } else { PAUSE };
                tokio::time::sleep(pause).await;
            }
        };
        // The reads may take long, and readiness does not depend on their answers.
        tokio::select! {
            () = reports => {}
            () = reads => {}
        }
    }

    async fn read(&self, client: &Client) {
        let api = Api::<Namespace>::all(client.clone());
        let names: Vec<_> = self.0.borrow().keys().cloned().collect();
        for name in names {
            let exists = match tokio::time::timeout(TIMEOUT, api.get_metadata(&name)).await {
                Ok(Ok(_)) => Some(true),
                Ok(Err(kube::Error::Api(status))) if is_missing(&status, &name) => Some(false),
                // The controller needs no permission to read namespaces.
                Ok(Err(_)) => None,
                // The namespace is as it was before.
                Err(_) => continue,
            };
            self.update(Some(&name), |state| state.exists = exists);
        }
    }

    fn report(&self, check: &Check) {
        let absences: Vec<_> = self.0.borrow().iter().filter_map(|(name, state)| state.absence(name)).collect();
        let is_any_watched = self.any_watched();
        let message = (!absences.is_empty()).then(|| absences.join("; "));
        let is_new = if is_any_watched {
            check.pass_with(message.clone())
        } else {
            check.fail(message.clone().unwrap_or_else(|| "no namespace is watched yet".to_owned()))
        };
        if let Some(message) = message.filter(|_| is_new) {
            tracing::warn!(reason = message, "a watched namespace may be missing");
        }
    }

    fn update(&self, namespace: Option<&str>, change: impl FnOnce(&mut NamespaceState)) {
        self.0.send_if_modified(|states| {
            let Some(state) = namespace.and_then(|name| states.get_mut(name)) else { return false };
            let before = *state;
            change(state);
            before != *state
        });
    }
}

impl NamespaceState {
    fn is_watched(self) -> bool {
        self.leases == NamespaceListing::Listed && self.candidates == NamespaceListing::Listed
    }

    fn absence(self, name: &str) -> Option<String> {
        let is_forbidden = self.leases == NamespaceListing::Forbidden && self.candidates == NamespaceListing::Forbidden;
        match self.exists {
            Some(false) => Some(format!("namespace {name} does not exist: {REMEDY}")),
            None if is_forbidden => {
                Some(format!("namespace {name} does not exist, or this controller may do nothing there: {REMEDY}"))
            }
            None | Some(true) => None,
        }
    }
}

/// Whether this answer says that there is no such namespace. Any other 404 may come from a proxy.
fn is_missing(status: &Status, name: &str) -> bool {
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// How to mend a missing namespace.
const REMEDY: &str =
    "create it with the Role and the RoleBinding of the controller, or remove it from --watch-namespaces";

#[cfg(test)]
mod tests {
    use super::*;

    fn namespaces() -> (Namespaces, [Scope; 2]) {
        let scopes = ["a", "b"].map(|name| Scope::Namespace(name.to_owned()));
        (Namespaces::new(&scopes), scopes)
    }

    fn note(namespaces: &Namespaces, scope: &Scope, leases: NamespaceListing, candidates: NamespaceListing) {
        namespaces.note(scope, Resource::Leases, leases);
        namespaces.note(scope, Resource::Candidates, candidates);
    }

    #[test]
    fn a_namespace_counts_as_missing_if_both_kinds_are_forbidden_and_it_is_not_known_to_exist() {
        use NamespaceListing::{Forbidden, Listed, Unknown};
        for (leases, candidates, exists, is_missing) in [
            (Unknown, Unknown, None, false),
            (Listed, Listed, None, false),
            (Forbidden, Listed, None, false),
            (Forbidden, Unknown, None, false),
            (Forbidden, Forbidden, None, true),
            (Forbidden, Forbidden, Some(true), false),
            (Forbidden, Forbidden, Some(false), true),
            (Listed, Listed, Some(false), true),
        ] {
            let (namespaces, [a, _]) = namespaces();
            note(&namespaces, &a, leases, candidates);
            namespaces.update(Some("a"), |state| state.exists = exists);
            assert_eq!(namespaces.absence(&a).is_some(), is_missing, "{leases:?} {candidates:?} {exists:?}");
        }
    }

    #[test]
    fn a_namespace_that_becomes_forbidden_is_no_longer_known_to_exist() {
        use NamespaceListing::{Forbidden, Listed};
        let (namespaces, [a, _]) = namespaces();
        let is_missing_after = |listing| {
            note(&namespaces, &a, listing, listing);
            namespaces.absence(&a).is_some()
        };
        let read = || namespaces.update(Some("a"), |state| state.exists = Some(true));
        assert!(!is_missing_after(Listed));
        read();
        assert!(is_missing_after(Forbidden), "its Role is gone with it");
        // A right for the whole cluster.
        read();
        assert!(!is_missing_after(Forbidden), "the next refusals show nothing new");
    }

    #[test]
    fn a_missing_namespace_is_a_warning_while_another_one_is_watched() {
        let (namespaces, [a, b]) = namespaces();
        let health = crate::serve::health::Health::new();
        let check = health.check("namespaces");
        note(&namespaces, &a, NamespaceListing::Forbidden, NamespaceListing::Forbidden);
        let shown = || {
            namespaces.report(&check);
            let readiness = health.readiness();
            (readiness.ready, readiness.checks[0].message.clone().unwrap_or_default())
        };
        let (is_ready, message) = shown();
        assert!(!is_ready && message.starts_with("namespace a does not exist, or"), "{message}");
        note(&namespaces, &b, NamespaceListing::Listed, NamespaceListing::Listed);
        let (is_ready, message) = shown();
        assert!(is_ready && message.starts_with("namespace a does not exist, or"), "{message}");
        note(&namespaces, &a, NamespaceListing::Listed, NamespaceListing::Listed);
        assert_eq!(shown(), (true, String::new()));
        for name in ["a", "b"] {
            namespaces.update(Some(name), |state| state.exists = Some(false));
        }
        let (is_ready, message) = shown();
        assert!(!is_ready && message.contains("namespace a does not exist: create it"), "{message}");
    }
}
