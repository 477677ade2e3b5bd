//! Which kinds were listed in each scope, and what becomes of a scope where the server refuses to list them.
//!
//! A namespace that is deleted takes the controller's Role with it. From then on, every request there is forbidden, also
//! the live reads that would show that its Leases are gone. So the controller sends no requests about a scope where it
//! may list neither Leases nor candidates. It keeps what it has observed for as long as any process may rely on a Lease,
//! in case the permissions come back. Then it forgets the scope.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Dispatcher;
use crate::controller::key::LeaseKey;
use crate::controller::watched::Scope;
use crate::serve::metrics::Resource;

/// The longest time for which a process may rely on a Lease, and then some for clocks.
pub(super) const FORGET_AFTER: Duration = Duration::from_mins(61);

/// How long this controller leads without a complete list before it lets another one lead.
const LONGEST_USELESS_TERM: Duration = Duration::from_mins(1);

/// All scopes.
pub(super) struct Scopes {
    listed: HashMap<Scope, Listed>,
    /// Since when this controller has led although it could list none of them.
    useless_since: Option<Instant>,
}

/// The state of the lists in one scope.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Listed {
    leases: ListState,
    candidates: ListState,
    /// Whether elections need not wait for native candidates.
    native: bool,
    /// Since when the server refuses to list both kinds that elections need.
    refused_since: Option<Instant>,
}

/// The state of one list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ListState {
    is_complete: bool,
    is_refused: bool,
}

impl Scopes {
    /// Scopes where nothing was listed. `native` says whether elections wait for native candidates.
    pub(super) fn new(scopes: &[Scope], native: bool) -> Self {
        let missing = ListState::default();
        let listed = Listed { leases: missing, candidates: missing, native: !native, refused_since: None };
        Self { listed: scopes.iter().map(|scope| (scope.clone(), listed)).collect(), useless_since: None }
    }

    /// The list of a kind is complete, or elections no longer wait for it. Returns whether elections that waited may go on.
    pub(super) fn note_listed(&mut self, scope: &Scope, kind: Resource) -> bool {
        let Some(listed) = self.listed.get_mut(scope) else { return false };
        let before = *listed;
        match listed.list(kind) {
            Some(list) => {
                *list = ListState { is_complete: true, is_refused: false };
                listed.refused_since = None;
            }
            None => listed.native |= kind == Resource::NativeCandidates,
        }
        *listed != before
    }

    /// The server refuses to list or watch a kind that elections need. Returns whether nothing in the scope is known any
    /// more.
    pub(super) fn note_refused(&mut self, scope: &Scope, kind: Resource) -> bool {
        let Some(listed) = self.listed.get_mut(scope) else { return false };
        if let Some(list) = listed.list(kind) {
            list.is_refused = true;
        }
        if listed.leases.is_refused && listed.candidates.is_refused {
            let is_new = listed.refused_since.is_none();
            listed.refused_since.get_or_insert_with(Instant::now);
            // Both must be listed again before the next decision.
            (listed.leases.is_complete, listed.candidates.is_complete) = (false, false);
            return is_new;
        }
        false
    }

    /// Whether all kinds that elections in this namespace need were listed completely.
    pub(super) fn is_listed(&self, namespace: &str) -> bool {
        self.of(namespace).all(Listed::is_complete)
    }

    /// Whether this controller, if it `leads`, has led for long and knows no complete list of any scope.
    fn is_term_useless(&mut self, leads: bool) -> bool {
        if !leads || self.listed.values().any(Listed::is_complete) {
            self.useless_since = None;
            return false;
        }
        self.useless_since.get_or_insert_with(Instant::now).elapsed() >= LONGEST_USELESS_TERM
    }

    /// Whether the server refuses to list both kinds that elections in this namespace need.
    pub(super) fn is_refused(&self, namespace: &str) -> bool {
        self.of(namespace).any(|listed| listed.refused_since.is_some())
    }

    /// The scopes that were refused for so long that no process can rely on a Lease there.
    fn forgettable(&self) -> Vec<Scope> {
        let is_old = |listed: &Listed| listed.refused_since.is_some_and(|since| since.elapsed() >= FORGET_AFTER);
        self.listed.iter().filter(|(_, listed)| is_old(listed)).map(|(scope, _)| scope.clone()).collect()
    }

    fn of<'s>(&'s self, namespace: &'s str) -> impl Iterator<Item = &'s Listed> {
        self.listed.iter().filter(|(scope, _)| scope.contains(namespace)).map(|(_, listed)| listed)
    }
}

impl Listed {
    /// Whether all kinds that elections in this scope need were listed completely.
    const fn is_complete(&self) -> bool {
        self.leases.is_complete && self.candidates.is_complete && self.native
    }

    /// The list of this kind; `None` if elections do not need it.
    const fn list(&mut self, kind: Resource) -> Option<&mut ListState> {
        match kind {
            Resource::Leases => Some(&mut self.leases),
            Resource::Candidates => Some(&mut self.candidates),
            Resource::NativeCandidates | Resource::Pods | Resource::Nodes => None,
        }
    }
}

impl Dispatcher {
    /// Acts on lists that have been missing for long.
    pub(super) fn act_on_missing_lists(&mut self) {
        self.forget_refused();
        // It elects nobody, and another controller may be able to list: the fault may be in the network of this node.
        if self.scopes.is_term_useless(self.leads) {
            let seconds = LONGEST_USELESS_TERM.as_secs();
            tracing::warn!("could not list Leases and candidates for {seconds} s, so another controller may elect");
            self.scopes.useless_since = None;
            self.parts.leading.resign();
        }
    }

    /// Forgets the Leases and candidates of scopes that were refused for long.
    pub(super) fn forget_refused(&mut self) {
        for scope in self.scopes.forgettable() {
            let is_there = |key: &LeaseKey| scope.contains(key.namespace());
            let leases: Vec<_> = self.elections.keys().filter(|key| is_there(key)).cloned().collect();
            for key in &leases {
                self.forget(key);
            }
            if let Some(pods) = &mut self.pods {
                self.stands_for
                    .iter()
                    .filter(|(_, lease)| is_there(lease))
                    .for_each(|(member, _)| pods.candidates.leave(member));
            }
            self.stands_for.retain(|_, lease| !is_there(lease));
            self.misnamed.retain(|_, (lease, _)| !is_there(lease));
        }
    }
}
