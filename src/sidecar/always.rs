//! A sidecar that stands from its start to its end. The program queries it, or reads its stream of events.

use std::sync::Arc;
use std::time::Duration;

use hustings_client::{Leadership, Term};

use super::label::Keeper;
use super::updates::Updates;
use super::{Endpoints, Sidecar, routes};
use crate::candidacy::{range, snapshot};

/// The work of each term.
struct Work {
    leadership: Leadership,
    updates: Arc<Updates>,
    label: Option<Keeper>,
    handover_delay: Duration,
}

/// Stands until the sidecar is stopped.
pub(super) async fn run(sidecar: &Sidecar<'_>, endpoints: Endpoints, handover_delay: Duration) -> anyhow::Result<()> {
    let elector = sidecar.elector(&sidecar.shutdown)?;
    let leadership = elector.leadership();
    let updates = Arc::new(Updates::new(leadership.clone(), sidecar.shutdown.clone()));
    tokio::spawn(Arc::clone(&updates).follow(sidecar.health.clone()));
    let program = routes::program(&updates, &sidecar.over).merge(range::routes({
        let leadership = leadership.clone();
        move || Some(leadership.clone())
    }));
    let is_leader = snapshot::routes({
        let updates = Arc::clone(&updates);
        move || Some(updates.snapshot())
    });
    let label = sidecar.start(endpoints, program, is_leader).await?;
    let work = Work { leadership, updates, label, handover_delay };
    let campaign = elector.run(|term| work.lead(term)).await;
    sidecar.finish().await;
    Ok(campaign?)
}

impl Work {
    /// Serves one term. The elector does not give up the Lease before this function returns.
    async fn lead(&self, term: Term) {
        self.updates.term_begins();
        if let Some(label) = &self.label {
            label.put_on();
        }
        term.cancelled().await;
        let taken_off = async {
            if let Some(label) = &self.label {
                label.take_off().await;
            }
        };
        let noticed = async {
            // A term that is already lost cannot be extended.
            if self.leadership.is_leader() {
                tokio::time::sleep(self.handover_delay).await;
            }
        };
        tokio::join!(self.updates.term_ends(), taken_off, noticed);
    }
}
