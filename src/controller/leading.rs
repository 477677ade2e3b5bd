//! Whether this controller elects: it holds the controllers' own Lease, or it is the only controller.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::Leadership;
use hustings_client::gate::WriteGate;
use hustings_client::{Campaign, Elector};
use kube::Client;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::config::{OwnLease, Surroundings};
use super::key::LeaseKey;
use crate::serve::health::Check;

/// How long the controllers' own Lease may have no known holder before this process reports that it is not ready. This
/// is longer than the failover after a crash.
const NOT_READY_AFTER: Duration = Duration::from_secs(30);

/// How long the release of the controllers' own Lease may take when the process stops.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The campaign for the controllers' own Lease.
pub(super) struct OwnCampaign {
    key: LeaseKey,
    campaign: Campaign,
    request_timeout: Duration,
}

/// A handle for checking whether this process elects.
#[derive(Clone)]
pub(super) enum Electing {
    /// It is the only controller.
    Always,
    /// It elects while it holds the controllers' own Lease.
    Holding(Leadership),
}

impl Electing {
    /// The name of the controller that elects; `None` if it is unknown, or if this is the only controller.
    pub(super) fn holder(&self) -> Option<String> {
        match self {
            Self::Always => None,
            Self::Holding(leadership) => leadership.holder(),
        }
    }

    /// Gives the controllers' own Lease up. If no other controller takes it, this one stands again after a pause.
    pub(super) fn resign(&self) {
        if let Self::Holding(leadership) = self
            && let Some(term) = leadership.term()
        {
            term.resign();
        }
    }

    /// Waits until the answer differs from `previous`, and returns the new answer. This function is cancel safe.
    pub(super) async fn changed(&mut self, previous: bool) -> bool {
        match self {
            Self::Always if previous => std::future::pending().await,
            Self::Always => true,
            Self::Holding(leadership) => {
                let mut changes = std::pin::pin!(leadership.changes());
                loop {
                    let leads = leadership.term().is_some();
                    if leads != previous {
                        return leads;
                    }
                    if changes.next().await.is_none() {
                        // The elector has ended, so this process never leads again.
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }
}

impl OwnCampaign {
    /// Starts to stand for the controllers' own Lease.
    ///
    /// # Errors
    /// Fails if the elector cannot be built.
    pub(super) fn start(own_lease: &OwnLease, surroundings: &mut Surroundings) -> anyhow::Result<Self> {
        let rng = StdRng::from_rng(&mut surroundings.rng);
        let Surroundings { identity, clock, health, metrics, .. } = surroundings;
        let namespace = own_lease.namespace.as_ref().unwrap_or(&surroundings.namespace);
        let elector = Elector::direct(surroundings.leases.clone(), namespace, &own_lease.name)
            .identity(identity.as_str())
            .timing(own_lease.timing)
            .clock(Arc::clone(clock))
            // The heartbeat is the dispatcher's: a controller that elects nobody must not hold the Lease.
            .heartbeat(health.heartbeat())
            .rng(rng)
            .metrics(&metrics.own)
            .build()
            .context("cannot stand for the controllers' own Lease")?;
        tracing::info!(lease = elector.leadership().lease(), identity, "standing for the controllers' own Lease");
        Ok(Self {
            key: LeaseKey::new(namespace, &own_lease.name),
            campaign: elector.start(),
            request_timeout: own_lease.timing.request_timeout(),
        })
    }

    /// The key of the controllers' own Lease.
    pub(super) const fn key(&self) -> &LeaseKey {
        &self.key
    }

    /// A handle for checking whether this process leads.
    pub(super) fn leadership(&self) -> Leadership {
        self.campaign.leadership()
    }

    /// Returns a client that writes only while this process leads, and a handle for checking whether it leads.
    ///
    /// # Errors
    /// Fails if the durations of the controllers' own Lease do not permit a write gate, or if the client cannot be
    /// built.
    pub(super) fn gated(&self, surroundings: &Surroundings) -> anyhow::Result<(Client, Electing)> {
        let leadership = self.campaign.leadership();
        let gate = WriteGate::new(leadership.clone(), self.request_timeout)
            .context("the durations of the controllers' own Lease do not permit a write gate")?;
        Ok(((surroundings.gated)(&gate)?, Electing::Holding(leadership)))
    }

    /// Waits until the campaign has ended.
    pub(super) async fn ended(&self) {
        self.campaign.leadership().ended().await;
    }

    /// Releases the controllers' own Lease, so that the next controller does not wait until it expires.
    pub(super) async fn stop(self) {
        match tokio::time::timeout(STOP_LIMIT, self.campaign.stop()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "cannot release the controllers' own Lease"),
            Err(_) => tracing::warn!("the controllers' own Lease was not released within {} s", STOP_LIMIT.as_secs()),
        }
    }
}

/// Reports to `check` whether the controllers' own Lease has a known holder: this process or another controller.
pub(super) async fn check(leadership: Leadership, check: Check) {
    loop {
        if leadership.holder().is_some() {
            check.pass();
        }
        let held = async {
            let mut changes = std::pin::pin!(leadership.changes());
            while let Some(view) = changes.next().await {
                if view.holder.is_some() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        if tokio::time::timeout(NOT_READY_AFTER, held).await.is_err() {
            check.fail(format!(
                "Lease {} has had no known holder for {} s",
                leadership.lease(),
                NOT_READY_AFTER.as_secs()
            ));
        } else {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::testing::MemoryStore;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::serve::health::Health;

    /// Longer than any election.
    const LONG: Duration = Duration::from_hours(1);

    fn elector(store: &MemoryStore, identity: &str) -> Elector {
        Elector::direct(store, "n", "own").identity(identity).build().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_elects_while_its_own_elector_leads() {
        let store = MemoryStore::new();
        let first = elector(&store, "a").start();
        let mut leading = Electing::Holding(first.leadership());
        assert!(timeout(LONG, leading.changed(false)).await.expect("it leads"));
        let second = elector(&store, "b").start();
        let mut standby = Electing::Holding(second.leadership());
        assert!(timeout(LONG, standby.changed(false)).await.is_err(), "another controller leads");
        assert_eq!((standby.holder().as_deref(), Electing::Always.holder()), (Some("a"), None));

        first.abort();
        assert!(!timeout(LONG, leading.changed(true)).await.expect("its elector died"));
        assert!(timeout(LONG, leading.changed(false)).await.is_err(), "a dead elector never leads again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_is_not_ready_while_the_own_lease_has_no_known_holder() {
        let health = Health::new();
        let elector = elector(&MemoryStore::new(), "a");
        tokio::spawn(check(elector.leadership(), health.check("own-lease")));
        sleep(NOT_READY_AFTER * 2).await;
        let message = health.readiness().checks[0].message.clone();
        assert_eq!(message.as_deref(), Some("Lease n/own has had no known holder for 30 s"));
        let campaign = elector.start();
        campaign.leadership().wait_until_leader().await.unwrap();
        sleep(NOT_READY_AFTER).await;
        assert!(health.readiness().ready);
        campaign.abort();
        sleep(NOT_READY_AFTER * 2).await;
        assert!(!health.readiness().ready, "its elector died");
    }

    #[tokio::test(start_paused = true)]
    async fn the_own_lease_is_released_when_the_controller_stops() {
        let store = MemoryStore::new();
        let campaign = elector(&store, "a").start();
        campaign.leadership().wait_until_leader().await.unwrap();
        let key = LeaseKey::new("n", "own");
        let own = OwnCampaign { key, campaign, request_timeout: Duration::from_secs(5) };
        assert!(timeout(NOT_READY_AFTER, own.ended()).await.is_err(), "it has not ended");
        own.stop().await;
        assert!(store.lease("n", "own").unwrap().is_given_up());
    }
}
