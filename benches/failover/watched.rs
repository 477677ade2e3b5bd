//! The changes of Leases and candidates that the benchmark's own watch observes, with their times.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result};
use futures::StreamExt;
use hustings_client::Moment;
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock, SystemClock};
use hustings_core::model::{CandidateRecord, CandidateState, LeaseRecord, LeaseStage, Observed};
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::stage::LIMIT;

/// Everything observed in one namespace.
pub(crate) struct Watched {
    seen: Arc<watch::Sender<Seen>>,
    // They end with it.
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    leases: HashMap<String, Vec<(Moment, LeaseRecord)>>,
    candidates: HashMap<String, Option<CandidateState>>,
}

/// An observed grant.
pub(crate) struct Grant {
    pub(crate) at: Moment,
    pub(crate) electee: String,
    /// When the record that it replaced expired.
    pub(crate) expiry: Moment,
}

impl Watched {
    /// Watches a namespace for as long as this value lives.
    pub(crate) fn of(client: &Client, namespace: &str) -> Self {
        let seen = Arc::new(watch::Sender::<Seen>::default());
        let mut watches = JoinSet::new();
        let leases = Arc::clone(&seen);
        watches.spawn(follow(Api::<ReadLease>::namespaced(client.clone(), namespace), move |at, lease| {
            let name = lease.metadata.name.unwrap_or_default();
            trace(at, &name, || {
                let LeaseRecord { holder, session, preferred_holder, transitions, .. } = &lease.record;
                format!(
                    "holder {holder:?}, preferred {preferred_holder:?}, session {session}, transitions {transitions}"
                )
            });
            leases.send_modify(|seen| seen.leases.entry(name).or_default().push((at, lease.record)));
        }));
        let candidates = Arc::clone(&seen);
        watches.spawn(follow(Api::<ReadCandidate>::namespaced(client.clone(), namespace), move |at, candidate| {
            trace(at, &candidate.record.lease_name, || {
                let CandidateRecord { name, ping_time, renew_time, status, .. } = &candidate.record;
                let asked = if ping_time > renew_time { "asked" } else { "not asked" };
                format!("{name}: {:?}, {asked}, renewed {renew_time:?}", status.state)
            });
            candidates.send_modify(|seen| {
                seen.candidates.insert(candidate.record.name, candidate.record.status.state);
            });
        }));
        Self { seen, _watches: watches }
    }

    /// Waits until the status of a candidate is Standby.
    pub(crate) async fn wait_standby(&self, name: &str) -> Result<()> {
        let mut seen = self.seen.subscribe();
        let standby = seen.wait_for(
            |seen| matches!(seen.candidates.get(name), Some(Some(state)) if *state != CandidateState::Unresponsive),
        );
        tokio::time::timeout(LIMIT, standby).await.with_context(|| format!("{name} is no Standby"))??;
        Ok(())
    }

    /// The grants of a Lease after `since`.
    pub(crate) fn grants(&self, lease: &str, since: Moment) -> Vec<Grant> {
        let seen = self.seen.borrow();
        let mut grants = Vec::new();
        let mut observed: Option<Observed> = None;
        for (at, record) in seen.leases.get(lease).into_iter().flatten() {
            let Some(observed) = &mut observed else {
                observed = Some(Observed::first(record.clone(), *at));
                continue;
            };
            let regrant =
                observed.record().stage(None) == LeaseStage::Granted && observed.record().holder == record.holder;
            if let Some(electee) =
                record.holder.clone().filter(|_| *at > since && record.stage(None) == LeaseStage::Granted && !regrant)
            {
                grants.push(Grant { at: *at, electee, expiry: observed.expires_at() });
            }
            observed.observe(record.clone(), *at);
        }
        grants
    }

    /// The transitions that a Lease shows now.
    pub(crate) fn transitions(&self, lease: &str) -> u32 {
        let seen = self.seen.borrow();
        seen.leases.get(lease).and_then(|versions| versions.last()).map_or(0, |(_, record)| record.transitions)
    }
}

/// If `FAILOVER_TRACE` is the name of this Lease, or the beginning of the name, prints what the watch observed.
pub(crate) fn trace(at: Moment, lease: &str, what: impl FnOnce() -> String) {
    static TRACED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("FAILOVER_TRACE").ok());
    if TRACED.as_deref().is_some_and(|traced| lease.starts_with(traced)) {
        eprintln!("  {:>14.3} ms  {lease}: {}", at.since(Moment::default()).as_secs_f64() * 1000.0, what());
    }
}

async fn follow<K>(api: Api<K>, mut see: impl FnMut(Moment, K))
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut events = pin!(watcher(api, Config::default()));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => see(SystemClock.now(), object),
            Ok(_) => {}
            Err(error) => eprintln!("the benchmark's own watch failed, its numbers are late: {error}"),
        }
    }
}
