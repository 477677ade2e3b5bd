//! A sidecar that stands from its start to its end. The program queries it, or reads its stream of events.

use std::sync::Arc;
use std::time::Duration;

use hustings_client::{Leadership, Term};

use super::common::{Endpoints, Sidecar};
use super::label::Keeper;
use super::routes;
use super::updates::Updates;
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
    if sidecar.candidacy.leader_elect && handover_delay.is_zero() {
        tracing::warn!(
            "--handover-delay is 0s: at a hand-over another replica may lead before the program has stopped. Set it to \
             at least the time between two queries plus the time that the program takes to stop"
        );
    }
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

#[cfg(test)]
mod tests {
    use hustings_client::Elector;
    use hustings_client::testing::MemoryStore;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_is_still_valid_waits_for_its_clients_before_it_hands_over() {
        for is_lost in [false, true] {
            let elector = Elector::in_memory(&MemoryStore::new(), "n", "l").identity("a").direct().build().unwrap();
            let campaign = elector.start();
            let leadership = campaign.leadership();
            let term = leadership.wait_until_leader().await.unwrap();
            // It stays valid while the work goes on.
            let running = term.begin_work().unwrap();
            let updates = Arc::new(Updates::new(leadership.clone(), CancellationToken::new()));
            let handover_delay = Duration::from_secs(20);
            let work = Work { leadership, updates, label: None, handover_delay };
            if is_lost {
                campaign.abort();
            } else {
                term.resign();
            }
            let began = Instant::now();
            work.lead(term).await;
            assert_eq!(began.elapsed() >= handover_delay, !is_lost, "lost: {is_lost}, {:?}", began.elapsed());
            drop(running);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_every_term_are_waited_for() {
        let elector = Elector::in_memory(&MemoryStore::new(), "n", "l").identity("a").direct().build().unwrap();
        let campaign = elector.start();
        let updates = Arc::new(Updates::new(campaign.leadership(), CancellationToken::new()));
        campaign.leadership().wait_until_leader().await.unwrap();
        for _ in 0..2 {
            updates.term_begins();
            // A reader that has read `leading` and reads nothing more.
            let mut reader = updates.reader();
            assert!(reader.next().await.snapshot.is_leader);
            let began = Instant::now();
            updates.term_ends().await;
            assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        }
    }
}
