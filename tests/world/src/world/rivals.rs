//! Others that write what the controllers write: a second installation that leads, too, and an operator that reverts a
//! field as soon as its watch shows it.
//!
//! Neither may make the controllers or the electors write without a pause (W1).

use std::time::Duration;

use hustings_client::api::names;
use kube::api::{Patch, PatchParams};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Act, Kubelets, Mode, World, purpose};
use crate::machine::Machine;
use crate::process::ControllerProcess;
use crate::server::{Kind, News, PERSON};

/// The namespace of the second installation, whose controller therefore has an own Lease of its own.
const SECOND_NAMESPACE: &str = "second";

/// The longest time that the second controller stays while there are faults.
const LONGEST_STAY: Duration = Duration::from_mins(5);

/// The longest time that the operator reverts a field.
const LONGEST_FIGHT: Duration = Duration::from_mins(1);

/// How soon neither of them has an effect any more: a pause is at most as long as the time for which writes had no
/// effect.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(100);

/// How soon the operator reacts.
const REACTS_WITHIN: Duration = Duration::from_millis(50);

/// The fields that the operator reverts. It never gives a Lease up, nor ends a pause.
const FIELDS: [(Kind, &[&str]); 7] = [
    (Kind::Lease, &["metadata", "labels", names::ENROLLED_LABEL]),
    (Kind::Lease, &["metadata", "annotations", names::STRATEGY]),
    (Kind::Lease, &["metadata", "annotations", names::PREFERRED_HOLDER]),
    (Kind::Lease, &["metadata", "annotations", names::REASON]),
    (Kind::LeaseCandidate, &["spec", "pingTime"]),
    (Kind::LeaseCandidate, &["spec", "renewTime"]),
    (Kind::LeaseCandidate, &["status"]),
];

/// An operator that reverts a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reverting {
    kind: Kind,
    field: &'static [&'static str],
}

impl World {
    /// Starts the controller of a second installation, which differs in its configuration and its clocks.
    pub(super) fn start_second(&mut self, number: u64, rng: &mut StdRng) -> bool {
        if self.setup.mode != Mode::Coordinated || self.second.is_some() {
            return false;
        }
        let name = format!("s{number}");
        let mut of_machine = self.setup.rng([purpose::CONTROLLER, u64::MAX, number]);
        let machine = Machine::new(&self.site, &name, &mut of_machine);
        let stays = rng.random_range(Duration::from_secs(1)..LONGEST_STAY);
        let settling = Duration::from_secs(rng.random_range(0..5));
        let watches_pods = rng.random_bool(0.5) && self.setup.kubelets != Kubelets::Unwatched;
        self.trace(None, &format!("#{number} controller {name} of a second installation starts"));
        self.second = Some(ControllerProcess::start(&name, SECOND_NAMESPACE, (settling, watches_pods), machine));
        self.acts.push((Instant::now() + stays, Act::EndSecond));
        true
    }

    /// Ends the second controller.
    pub(super) fn end_second(&mut self) {
        if let Some(mut second) = self.second.take() {
            self.trace(None, &format!("{} is uninstalled", second.name));
            second.kill();
            // The requests that it has sent arrive eventually.
            second.machine.link.heal();
        }
    }

    /// Starts an operator that reverts a field of a Lease or of its candidates.
    pub(super) fn revert(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        if self.fields[field].reverting.is_some() {
            return false;
        }
        let Some((kind, path)) = FIELDS.choose(rng).copied() else { return false };
        let lasts = rng.random_range(Duration::from_secs(1)..LONGEST_FIGHT);
        self.trace(Some(field), &format!("#{number} an operator reverts {path:?}"));
        let here = &mut self.fields[field];
        here.reverting = Some(Reverting { kind, field: path });
        here.unjudged_until = here.unjudged_until.max(Instant::now() + lasts + FORGOTTEN_WITHIN);
        self.acts.push((Instant::now() + lasts, Act::EndReverting { field }));
        true
    }

    pub(super) fn end_reverting(&mut self, field: usize) {
        self.trace(Some(field), "the operator reverts no more");
        self.fields[field].reverting = None;
    }

    /// Lets the operator of this Lease react to a version that shows its field.
    pub(super) fn notice_field(&mut self, field: usize, news: &News) {
        let Some(Reverting { kind, field: path }) = self.fields[field].reverting else { return };
        let Some(object) = news.object().filter(|_| news.kind == kind && *news.caller != *PERSON) else { return };
        let shown = path.iter().try_fold(object, |place, part| place.get(part));
        let act = Act::Revert { field, name: news.name.clone() };
        if shown.is_some_and(|value| !value.is_null()) && !self.acts.iter().any(|(_, planned)| *planned == act) {
            self.acts.push((Instant::now() + REACTS_WITHIN, act));
        }
    }

    /// Removes the field from this object.
    pub(super) async fn revert_field(&mut self, field: usize, name: &str) {
        let Some(Reverting { kind, field: place }) = self.fields[field].reverting else { return };
        let removal = place.iter().rev().fold(Value::Null, |value, part| json!({ *part: value }));
        let (removal, params) = (Patch::Merge(removal), PatchParams::default());
        let reverted = match (kind, place) {
            (Kind::Lease, _) => self.leases().patch(name, &params, &removal).await.is_ok(),
            (_, ["status"]) => self.candidates().patch_status(name, &params, &removal).await.is_ok(),
            _ => self.candidates().patch(name, &params, &removal).await.is_ok(),
        };
        if reverted {
            self.trace(Some(field), &format!("the operator reverts {place:?} of {name}"));
        }
    }
}
