//! One Lease and the replicas that stand for it, all of them in this process.
//!
//! Each replica reports here at once when it begins to lead and when it stops. All share one clock, so the gaps are
//! exact.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::future::try_join_all;
use hustings_client::api::ReadCandidate;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Campaign, Elector, Leadership, Moment};
use kube::Api;
use kube::api::DeleteParams;
use tokio::sync::watch;

use crate::stage::{LIMIT, Stage};
use crate::watched::trace;

/// A Lease and its replicas.
pub(crate) struct Contest<'stage> {
    stage: &'stage Stage,
    namespace: String,
    pub(crate) lease: String,
    number: usize,
    turn: Duration,
    replicas: BTreeMap<String, Campaign>,
    dead: Vec<String>,
    terms: Arc<watch::Sender<Vec<Term>>>,
}

/// The interval in which a replica reported that it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) from: Moment,
    pub(crate) until: Option<Moment>,
}

impl<'stage> Contest<'stage> {
    /// The requested number of Leases, without replicas.
    pub(crate) fn many(stage: &'stage Stage, namespace: &str, leases: usize) -> Vec<Self> {
        let share = stage.spread() / u32::try_from(leases.max(1)).unwrap_or(u32::MAX);
        let contest = |number| Self {
            stage,
            namespace: namespace.to_owned(),
            lease: format!("lease-{number:03}"),
            number,
            turn: share.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)),
            replicas: BTreeMap::new(),
            dead: Vec::new(),
            terms: Arc::default(),
        };
        (0..leases).map(contest).collect()
    }

    /// Waits for this Lease's turn in the event that concerns all Leases.
    pub(crate) async fn turn(&self) {
        tokio::time::sleep(self.turn).await;
    }

    /// The name of a replica.
    pub(crate) fn name(&self, replica: char) -> String {
        format!("{}-{replica}", self.lease)
    }

    /// Starts a replica, and returns the time of the start.
    pub(crate) fn start(&mut self, replica: char, version: &str) -> Result<Moment> {
        let name = self.name(replica);
        let elector = Elector::coordinated(self.stage.client(self.number), &self.namespace, &self.lease, version)
            .identity(&name)
            .build()?;
        tokio::spawn(follow(elector.leadership(), Arc::clone(&self.terms)));
        let started = SystemClock.now();
        self.replicas.insert(name, elector.start());
        Ok(started)
    }

    /// Stops a replica gracefully, as on SIGTERM, and returns when the stop began.
    pub(crate) async fn stop(&mut self, name: &str) -> Result<Moment> {
        let campaign = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        let began = SystemClock.now();
        tokio::time::timeout(LIMIT, campaign.stop()).await.with_context(|| format!("{name} does not stop"))??;
        Ok(began)
    }

    /// Kills a replica, and returns the time of the kill. The API server is not notified.
    pub(crate) fn kill(&mut self, name: &str) -> Result<Moment> {
        let campaign = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        let killed = SystemClock.now();
        campaign.abort();
        self.dead.push(name.to_owned());
        Ok(killed)
    }

    /// Waits for a leader whose name satisfies `accepts`.
    pub(crate) async fn leader(&self, accepts: impl Fn(&str) -> bool) -> Result<Term> {
        let mut terms = self.terms.subscribe();
        let leads = terms.wait_for(|terms| leading(terms, &accepts).is_some());
        let Ok(terms) = tokio::time::timeout(LIMIT, leads).await else {
            bail!("no expected replica leads {}/{} after {LIMIT:?}", self.namespace, self.lease);
        };
        leading(&terms?, &accepts).cloned().context("it led a moment ago")
    }

    /// Every term so far, in the order of their beginnings.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let mut terms = self.terms.borrow().clone();
        terms.sort_by_key(|term| term.from);
        terms
    }

    /// Stops all replicas, and deletes the candidates of killed ones.
    pub(crate) async fn close(mut self) -> Result<()> {
        let stops = std::mem::take(&mut self.replicas).into_values().map(Campaign::stop);
        tokio::time::timeout(LIMIT, try_join_all(stops)).await.context("not all replicas stop")??;
        let candidates = Api::<ReadCandidate>::namespaced(self.stage.admin(), &self.namespace);
        for name in &self.dead {
            candidates.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

fn leading(terms: &[Term], accepts: impl Fn(&str) -> bool) -> Option<&Term> {
    terms.iter().find(|term| term.until.is_none() && accepts(&term.name))
}

/// Notes every beginning and every end of a leadership.
async fn follow(leadership: Leadership, terms: Arc<watch::Sender<Vec<Term>>>) {
    let mut changes = std::pin::pin!(leadership.changes());
    let lease = leadership.lease().rsplit('/').next().unwrap_or_default();
    let mut former = None;
    while let Some(view) = changes.next().await {
        let now = SystemClock.now();
        let term = view.term.filter(|_| leadership.is_leader());
        if term == former {
            continue;
        }
        let name = leadership.identity();
        trace(now, lease, || format!("{name} {}", if term.is_some() { "leads" } else { "leads no more" }));
        terms.send_modify(|terms| {
            if former.is_some()
                && let Some(term) = terms.iter_mut().rfind(|term| term.name == name)
            {
                term.until = Some(now);
            }
            if term.is_some() {
                terms.push(Term { name: name.to_owned(), from: now, until: None });
            }
        });
        former = term;
    }
}
