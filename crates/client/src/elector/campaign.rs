//! An elector before it starts, a running campaign, and work that runs in each term.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt as _;
use hustings_core::model::Cause;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::elector::driver::Driver;
use crate::elector::off::Off;
use crate::instance::InstanceLock;
use crate::leadership::{Leadership, Term};
use crate::work::panics::as_work;

/// An elector that is ready to start.
pub struct Elector {
    pub(super) task: ElectorTask,
    leadership: Leadership,
    shutdown: CancellationToken,
}

/// The task of an elector.
pub(crate) enum ElectorTask {
    /// Campaigns for the Lease.
    Campaign(Box<Driver>),
    /// Leads without an election.
    Off(Box<Off>),
}

/// A running elector. Dropping it stops the elector gracefully, provided that the runtime keeps running.
pub struct Campaign {
    leadership: Leadership,
    task: JoinHandle<()>,
    shutdown: DropGuard,
}

/// Why a campaign ended although the caller did not stop it. Its elector will not lead again: to stand again, start a
/// new elector in this process, or a new process.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The elector's task panicked or was aborted. Its term, if it led one, is over, and the Lease expires.
    #[error(
        "the elector of Lease {lease} panicked or was aborted, and will not lead again: start a new elector, or restart \
         the process"
    )]
    Died {
        /// `namespace/name`.
        lease: String,
        /// How the task ended.
        source: tokio::task::JoinError,
    },
}

impl Elector {
    pub(crate) const fn new(task: ElectorTask, leadership: Leadership, shutdown: CancellationToken) -> Self {
        Self { task, leadership, shutdown }
    }

    /// Returns a handle for checking whether this process leads. You may share it before the elector starts.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Returns the lock of this elector instance, if the elector holds one. A program whose work runs in another
    /// process lets that process [inherit](InstanceLock::let_children_inherit) the lock.
    pub fn instance_lock(&self) -> Option<InstanceLock> {
        match &self.task {
            ElectorTask::Campaign(driver) => driver.publisher.instance_lock(),
            ElectorTask::Off(_) => None,
        }
    }

    /// Starts the campaign on the current runtime. The campaign outlives its terms: after losing one, the elector
    /// campaigns again.
    pub fn start(self) -> Campaign {
        let (lease, identity) = (self.leadership.lease(), self.leadership.identity());
        let span = tracing::error_span!("election", lease, identity);
        let task = match self.task {
            ElectorTask::Campaign(driver) => tokio::spawn(driver.drive().instrument(span)),
            ElectorTask::Off(off) => tokio::spawn(off.drive().instrument(span)),
        };
        Campaign { leadership: self.leadership, task, shutdown: self.shutdown.drop_guard() }
    }

    /// Campaigns, and runs `work` once in each term, until the shutdown token is cancelled.
    ///
    /// When a term must end, the elector first [cancels](Term::cancelled) it. It gives the Lease up only after the work
    /// has ended. If the work has not ended within the grace, this method drops its future, and the Lease expires. Work
    /// that returns on its own does not end the term.
    ///
    /// If the work panics, the elector gives the Lease up, and then the panic continues in the caller. If the caller
    /// drops the future of this method, for example by [`JoinHandle::abort`](tokio::task::JoinHandle::abort), the
    /// elector drops the work. It then gives the Lease up in its own task. Before the program exits, it must then wait
    /// for [`Leadership::ended`]. Where panics abort the process, see [`release_on_panic`](crate::release_on_panic).
    ///
    /// # Errors
    /// Fails if the elector's task panicked or was aborted.
    pub async fn run<F>(self, mut work: impl FnMut(Term) -> F) -> Result<(), CampaignError>
    where
        F: Future<Output = ()>,
    {
        let campaign = self.start();
        let leadership = campaign.leadership();
        let mut former = None;
        while let Some(term) = leadership.next_term(former.as_ref()).await {
            if let Some(working) = term.begin_work() {
                // The call may panic, too.
                let work = AssertUnwindSafe(as_work(working, async { work(term.clone()).await })).catch_unwind();
                let ended = tokio::select! {
                    biased;
                    () = term.aborted() => Ok(()),
                    () = leadership.overdue(&term) => Ok(()),
                    ended = work => ended,
                };
                if let Err(panic) = ended {
                    tracing::error!(lease = leadership.lease(), "the work panicked: giving the Lease up");
                    leadership.set_stop_cause(Cause::Panicked);
                    // The panic matters more than how the campaign ends.
                    let _ = campaign.stop().await;
                    resume_unwind(panic);
                }
            }
            former = Some(term);
        }
        campaign.ended().await
    }

    #[cfg(test)]
    pub(crate) fn nomination(&self) -> Option<hustings_core::model::Nomination> {
        match &self.task {
            ElectorTask::Campaign(driver) => driver.config.nomination(),
            ElectorTask::Off(_) => None,
        }
    }
}

impl Campaign {
    /// Returns a handle for checking whether this process leads.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Stops the elector gracefully, and waits until it has stopped. The elector deletes its candidate, stops the work
    /// and gives the Lease up.
    ///
    /// # Errors
    /// Fails if the elector's task panicked or was aborted.
    pub async fn stop(self) -> Result<(), CampaignError> {
        let Self { leadership, task, shutdown } = self;
        drop(shutdown);
        outcome(&leadership, task.await)
    }

    /// Waits until the campaign ends because the shutdown token was cancelled.
    ///
    /// # Errors
    /// Fails if the elector's task panicked or was aborted.
    pub async fn ended(self) -> Result<(), CampaignError> {
        let Self { leadership, task, shutdown: _shutdown } = self;
        outcome(&leadership, task.await)
    }

    /// Aborts the elector's task, which does not give the Lease up. This process stops leading as soon as the runtime
    /// has dropped the task, and at the latest when the validity ends. The Lease then expires.
    pub fn abort(&self) {
        self.task.abort();
    }
}

fn outcome(leadership: &Leadership, ended: Result<(), tokio::task::JoinError>) -> Result<(), CampaignError> {
    ended.map_err(|source| CampaignError::Died { lease: leadership.lease().to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_end_of_a_campaign_does_not_stop_it() {
        let shutdown = CancellationToken::new();
        let builder = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").shutdown(&shutdown);
        let campaign = builder.build().unwrap().start();
        let leadership = campaign.leadership();
        let ended = tokio::spawn(campaign.ended());
        leadership.wait_until_leader().await.unwrap();
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert!(leadership.is_leader() && !ended.is_finished());
        shutdown.cancel();
        ended.await.unwrap().unwrap();
    }
}
