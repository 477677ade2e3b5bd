//! An administrator, who pauses elections, transfers and pins Leases, and excludes candidates.
//!
//! The clocks of the controllers are wrong by up to a day, so the written end of an act may come at any time or never.
//! The administrator ends every act by hand after at most [`LONGEST_ACT`].

use std::time::Duration;

use hustings_client::api::names;
use kube::api::{Patch, PatchParams};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fault::Fault;
use super::{Act, Mode, World};

/// The longest time that an act lasts.
const LONGEST_ACT: Duration = Duration::from_mins(1);

/// The ends that the administrator writes: never, long ago, and a text that is not a time.
const ENDS: [&str; 4] = ["2200-01-01T00:00:00Z", "2200-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "soon"];

impl World {
    /// Begins an act, and schedules its end.
    pub(super) async fn administer(&mut self, act: Fault, field: usize, number: u64, rng: &mut StdRng) -> bool {
        // Candidates that elect among themselves respect pauses only, and without candidates there are no elections.
        let is_heeded = match self.setup.mode {
            Mode::Coordinated => true,
            Mode::Alone => act == Fault::Pause,
            _ => false,
        };
        let Some(name) = self.fields[field].processes.choose(rng).map(|process| process.name.clone()) else {
            return false;
        };
        if !is_heeded {
            return false;
        }
        let end = ENDS.choose(rng).copied().unwrap_or_default();
        let to = ["any", "nobody-knows", &name, &name].choose(rng).copied().unwrap_or_default();
        let on_lease = match act {
            Fault::Pause => json!({ names::HOLD: "maintenance" }),
            Fault::Transfer => json!({ names::TRANSFER: to }),
            Fault::Pin => json!({ names::PIN: format!("{name} until {end}") }),
            _ => Value::Null,
        };
        self.acts.push((Instant::now() + rng.random_range(Duration::ZERO..LONGEST_ACT), Act::EndActs { field }));
        if on_lease.is_null() {
            self.trace(Some(field), &format!("#{number} a person excludes {name} until {end}"));
            return self.annotate_candidate(&name, json!({ names::EXCLUDE: format!("{end}: drain") })).await;
        }
        self.trace(Some(field), &format!("#{number} a person writes {on_lease}"));
        self.annotate_lease(field, on_lease).await
    }

    /// Ends every act on a Lease and on its candidates.
    pub(super) async fn end_acts(&mut self, field: usize) {
        self.trace(Some(field), "a person ends all acts");
        let none = json!({ names::HOLD: null, names::TRANSFER: null, names::PIN: null });
        self.annotate_lease(field, none).await;
        let names: Vec<_> = self.fields[field].everybody().map(|process| process.name.clone()).collect();
        for name in names {
            self.annotate_candidate(&name, json!({ names::EXCLUDE: null })).await;
        }
    }

    async fn annotate_lease(&self, field: usize, annotations: Value) -> bool {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        self.leases().patch(&self.fields[field].lease, &PatchParams::default(), &patch).await.is_ok()
    }

    async fn annotate_candidate(&self, name: &str, annotations: Value) -> bool {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        self.candidates().patch(name, &PatchParams::default(), &patch).await.is_ok()
    }
}
