//! Temporary trouble with admission: a webhook that does not answer, or a policy that reverts writes.

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

/// The longest time that the trouble lasts.
const LONGEST: Duration = Duration::from_mins(1);

/// How soon the trouble no longer has an effect. The pause before a write is repeated is at most as long as the time
/// for which writes had no effect.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(100);

/// The fields that a policy may revert, and whether that costs no holder its term. A policy never reverts a hold,
/// because a pause would never end, nor a token, on which a checker relies.
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
    /// Makes writes of one kind hang, for every caller.
    pub(super) fn hang_writes(&mut self, number: u64, rng: &mut StdRng) -> bool {
        let covered = [Covered::Leases, Covered::Candidates, Covered::Statuses, Covered::Events];
        let covered = *covered.choose(rng).unwrap_or(&Covered::Statuses);
        let rule = Rule { namespace: NAMESPACE, covered, fails: rng.random_bool(0.5) };
        if !self.admit_otherwise(covered != Covered::Leases, rng) {
            return false;
        }
        self.trace(None, &format!("#{number} a webhook does not answer: {rule:?}"));
        self.site.webhook.set(Some(rule));
        true
    }

    /// Makes writes of one field have no effect, for every caller.
    pub(super) fn take_back(&mut self, number: u64, rng: &mut StdRng) -> bool {
        let Some((policy, is_slight)) = POLICIES.choose(rng).copied() else { return false };
        if !self.admit_otherwise(is_slight, rng) {
            return false;
        }
        self.trace(None, &format!("#{number} a policy reverts what is written: {policy:?}"));
        self.site.server.set_policy(Some(policy));
        true
    }

    /// Returns whether there is no such trouble yet. Records until when the effects of the new trouble excuse a
    /// violation.
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

    /// Ends the trouble: every write is admitted unchanged, at once.
    pub(super) fn admit(&mut self) {
        self.trace(None, "every write is admitted unchanged");
        self.site.webhook.set(None);
        self.site.server.set_policy(None);
    }
}
