//! What admission does to writes for a while: a webhook that does not answer, a policy that takes back what is written.

use std::time::Duration;

use hustings_client::api::names;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::time::Instant;

use super::{Act, World};
use crate::process::NAMESPACE;
use crate::server::{Kind, Policy};
use crate::webhook::{Covered, Rule};

/// How long it lasts at the most.
const LONGEST: Duration = Duration::from_mins(1);

/// After what time nothing is left of it: what had no effect is tried again as long after as it was tried in vain.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(100);

/// What a policy may take back, and whether no holder loses its term by that. It takes back no hold and no token: with the one
/// a pause never ends, and the other is what a checker goes by.
const POLICIES: [(Policy, bool); 9] = [
    (lease(&["metadata", "labels", names::ENROLLED_LABEL]), true),
    (lease(&["metadata", "annotations", names::PREFERRED_HOLDER]), true),
    (lease(&["metadata", "annotations", names::STRATEGY]), true),
    (lease(&["metadata", "annotations", names::REASON]), true),
    (lease(&["metadata", "annotations", names::SESSION]), false),
    (lease(&["spec", "holderIdentity"]), false),
    (lease(&["spec", "renewTime"]), false),
    (candidate(&["spec", "pingTime"]), true),
    (candidate(&["spec", "renewTime"]), true),
];

const fn lease(field: &'static [&'static str]) -> Policy {
    Policy { kind: Kind::Lease, field }
}

const fn candidate(field: &'static [&'static str]) -> Policy {
    Policy { kind: Kind::LeaseCandidate, field }
}

impl World {
    /// Writes of one kind hang, for everybody.
    pub(super) fn hang_writes(&mut self, number: u64, rng: &mut StdRng) -> bool {
        let covered = [Covered::Leases, Covered::Candidates, Covered::Statuses, Covered::Events];
        let covered = *covered.choose(rng).unwrap_or(&Covered::Statuses);
        let rule = Rule { namespace: NAMESPACE, covered, fails: rng.random_bool(0.5) };
        if !self.admit_otherwise(covered != Covered::Leases, rng) {
            return false;
        }
        self.tell(None, &format!("#{number} a webhook does not answer: {rule:?}"));
        self.site.webhook.set(Some(rule));
        true
    }

    /// What anybody writes to one field does not stick.
    pub(super) fn take_back(&mut self, number: u64, rng: &mut StdRng) -> bool {
        let Some((policy, is_slight)) = POLICIES.choose(rng).copied() else { return false };
        if !self.admit_otherwise(is_slight, rng) {
            return false;
        }
        self.tell(None, &format!("#{number} a policy takes back what is written: {policy:?}"));
        self.site.server.set_policy(Some(policy));
        true
    }

    /// Whether there is nothing of the kind yet. Notes until when what it does excuses what happens.
    fn admit_otherwise(&mut self, is_slight: bool, rng: &mut StdRng) -> bool {
        if self.acts.iter().any(|(_, act)| *act == Act::Admit) {
            return false;
        }
        let ends_at = Instant::now() + rng.random_range(Duration::from_secs(1)..LONGEST);
        self.acts.push((ends_at, Act::Admit));
        for field in &mut self.fields {
            field.unjudged_until = ends_at + FORGOTTEN_WITHIN;
            if !is_slight {
                field.upset_until = ends_at + FORGOTTEN_WITHIN;
            }
        }
        true
    }

    /// Every write is admitted as it is, at once.
    pub(super) fn admit(&mut self) {
        self.tell(None, "every write is admitted as it is");
        self.site.webhook.set(None);
        self.site.server.set_policy(None);
    }
}
