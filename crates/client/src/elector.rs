//! Standing in an election: the elector before it starts, the campaign that runs, and work that follows its terms.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::backend::Backend;
use crate::builder::{ElectorBuilder, Store};
use crate::driver::Driver;
use crate::instance::InstanceLock;
use crate::leadership::{Leadership, Term};
use crate::off::Off;
use crate::testing::MemoryBackend;

/// An elector that is ready to start.
pub struct Elector {
    task: Task,
    pub(crate) stop_grace: Duration,
    leadership: Leadership,
    shutdown: CancellationToken,
}

/// What campaigns.
pub(crate) enum Task {
    /// The elector.
    Campaign(Box<Driver>),
    /// Elections are switched off.
    Off(Box<Off>),
}

/// A running elector. When this is dropped the elector stops in order, as long as the runtime lives.
pub struct Campaign {
    leadership: Leadership,
    task: JoinHandle<()>,
    shutdown: DropGuard,
}

/// Why a campaign is over although nobody stopped it.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// Its task panicked or was aborted. Whatever it led is over; the Lease runs out.
    #[error(
        "the elector of Lease {lease} died, and this process will not lead again: start another elector, or the process"
    )]
    Died {
        /// `namespace/name`.
        lease: String,
        /// What became of the task.
        source: tokio::task::JoinError,
    },
}

impl CampaignError {
    /// Whether this campaign may still lead: never. Another elector may, in this process or in the next.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Died { .. } => false,
        }
    }
}

impl Elector {
    /// An elector for the Lease of this namespace and name. The client should be a
    /// [`lease_client`](crate::requests::lease_client): one that retries of its own accord takes time from the validity of
    /// a term, and hides how long the server asks to be left alone.
    pub fn builder(client: Client, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        ElectorBuilder::new(Store::Cluster(client), namespace.into(), lease.into())
    }

    /// An elector for a Lease that is kept in `backend`.
    pub fn on(backend: impl Backend, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        ElectorBuilder::new(Store::Backend(Arc::new(backend)), namespace.into(), lease.into())
    }

    /// An elector for a Lease that is kept in `store`, for tests: see [`testing`](crate::testing). It goes by the clock
    /// of the store, and draws its random numbers from a seed that the store gives.
    pub fn in_memory(store: &MemoryBackend, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        Self::on(store.clone(), namespace, lease).clock(store.clock()).rng(store.rng())
    }

    pub(crate) const fn new(
        task: Task,
        stop_grace: Duration,
        leadership: Leadership,
        shutdown: CancellationToken,
    ) -> Self {
        Self { task, stop_grace, leadership, shutdown }
    }

    /// By which any part of the process asks whether it leads. It may be handed out before the elector starts.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// The lock of this elector instance, where it could take one: for a program whose work is done by another process,
    /// which [inherits](InstanceLock::let_children_inherit) it.
    pub fn instance_lock(&self) -> Option<InstanceLock> {
        match &self.task {
            Task::Campaign(driver) => driver.publisher.instance_lock(),
            Task::Off(_) => None,
        }
    }

    /// Starts to campaign, on the current runtime. Losing a term never ends this; it campaigns again.
    pub fn start(self) -> Campaign {
        let (lease, identity) = (self.leadership.lease(), self.leadership.identity());
        let span = tracing::error_span!("election", lease, identity);
        let task = match self.task {
            Task::Campaign(driver) => tokio::spawn(driver.drive().instrument(span)),
            Task::Off(off) => tokio::spawn(off.drive().instrument(span)),
        };
        Campaign { leadership: self.leadership, task, shutdown: self.shutdown.drop_guard() }
    }

    /// Campaigns, and does `work` once per term, until the shutdown token is cancelled.
    ///
    /// When a term ends, its [cancellation](Term::cancelled) comes first; work that has not ended within the grace is
    /// dropped where it waits, and the Lease then runs out. It is given up when work has ended, and never while work goes on.
    /// Work that ends by itself leaves the term as it is.
    pub async fn run<F>(self, mut work: impl FnMut(Term) -> F) -> Result<(), CampaignError>
    where
        F: Future<Output = ()>,
    {
        let grace = self.stop_grace;
        let campaign = self.start();
        let leadership = campaign.leadership();
        let mut former = None;
        while let Some(term) = leadership.next_term(former.as_ref()).await {
            if let Some(_working) = term.begin_work() {
                tokio::select! {
                    biased;
                    () = term.aborted() => {}
                    () = leadership.overdue(&term, grace) => {}
                    () = work(term.clone()) => {}
                }
            }
            former = Some(term);
        }
        campaign.ended().await
    }

    #[cfg(test)]
    pub(crate) fn nomination(&self) -> Option<&crate::nomination::Nomination> {
        match &self.task {
            Task::Campaign(driver) => driver.nomination.as_deref(),
            Task::Off(_) => None,
        }
    }
}

impl Campaign {
    /// By which any part of the process asks whether it leads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Gives up in order and waits until that is done: the candidate is deleted, work is stopped, the Lease released.
    pub async fn stop(self) -> Result<(), CampaignError> {
        let Self { leadership, task, shutdown } = self;
        drop(shutdown);
        outcome(&leadership, task.await)
    }

    /// Waits until the campaign is over because the shutdown token was cancelled.
    pub async fn ended(self) -> Result<(), CampaignError> {
        let Self { leadership, task, shutdown: _shutdown } = self;
        outcome(&leadership, task.await)
    }

    /// Ends the task where it stands. What it led is over as soon as the runtime has dropped it, and at the end of its
    /// validity in any case; the Lease runs out.
    pub fn abort(&self) {
        self.task.abort();
    }
}

fn outcome(leadership: &Leadership, ended: Result<(), tokio::task::JoinError>) -> Result<(), CampaignError> {
    ended.map_err(|source| CampaignError::Died { lease: leadership.lease().to_owned(), source })
}
