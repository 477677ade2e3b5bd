//! Where the time after a kill goes, by watches of the Lease, the candidates and the Pods of a group.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::TryStreamExt as _;
use hustings_client::api::LeaseCandidate;
use hustings_node::{Interval, since_start};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::stage::{Group, is_in};

/// Between a watch that could not begin and the next one.
const PAUSE: Duration = Duration::from_millis(100);

/// What happens between the last renewal of a holder and the term of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The last renewal. This time is before the kill.
    Renewed,
    /// The API server shows that the container has ended.
    ContainerEnded,
    /// A candidate was pinged.
    Pinged,
    /// A candidate answered.
    Answered,
    /// The Lease has no holder.
    Released,
    /// The Lease names the successor.
    Granted,
    /// The successor leads.
    Leads,
    /// How long after the release the successor leads: its own retry, if it uses client-go.
    Retry,
}

/// An object that a watch showed, at that time since the machine started.
enum Seen {
    Lease { holder: Option<String> },
    Candidate { pinged: bool },
    Pod { name: String, has_ended: bool },
}

/// The watches of one group.
pub(crate) struct Steps {
    seen: Arc<Mutex<Vec<(Duration, Seen)>>>,
    watches: JoinSet<()>,
}

impl Steps {
    pub(crate) fn watch(group: &Group) -> Self {
        let mut steps = Self { seen: Arc::default(), watches: JoinSet::new() };
        steps.watch_kind(group.api(), |lease: Lease| Seen::Lease {
            holder: lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty()),
        });
        steps.watch_kind(group.api(), |candidate: LeaseCandidate| Seen::Candidate {
            pinged: candidate.spec.ping_time > candidate.spec.renew_time,
        });
        steps.watch_kind(group.api(), |pod: Pod| {
            let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let mut states = containers.filter_map(|container| container.state.as_ref());
            let has_ended = states.any(|state| state.terminated.is_some());
            Seen::Pod { name: pod.name_any(), has_ended }
        });
        steps
    }

    fn watch_kind<K>(&mut self, api: Api<K>, seen: impl Fn(K) -> Seen + Send + 'static)
    where
        K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let all = Arc::clone(&self.seen);
        self.watches.spawn(async move {
            loop {
                let Ok(events) = api.watch(&WatchParams::default(), "0").await else {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                };
                let mut events = pin!(events);
                while let Ok(Some(event)) = events.try_next().await {
                    if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                        all.lock().unwrap_or_else(PoisonError::into_inner).push((since_start(), seen(object)));
                    }
                }
            }
        });
    }

    /// When each step happened, in seconds after the end of `killed`.
    pub(crate) fn between(&self, killed: &Interval, next: &Interval) -> BTreeMap<Step, f64> {
        let end = Duration::from_nanos(killed.led_after);
        let mut steps = BTreeMap::new();
        for (at, seen) in self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let at = at.as_secs_f64() - end.as_secs_f64();
            match seen {
                Seen::Lease { .. } if at < 0.0 => drop(steps.insert(Step::Renewed, at)),
                _ if at < 0.0 => {}
                Seen::Lease { holder: None } => drop(steps.entry(Step::Released).or_insert(at)),
                Seen::Lease { holder: Some(holder) } if is_in(holder, &next.replica) => {
                    steps.entry(Step::Granted).or_insert(at);
                }
                Seen::Pod { name, has_ended: true } if *name == killed.replica => {
                    steps.entry(Step::ContainerEnded).or_insert(at);
                }
                Seen::Candidate { pinged: true } => drop(steps.entry(Step::Pinged).or_insert(at)),
                Seen::Candidate { pinged: false } if steps.contains_key(&Step::Pinged) => {
                    steps.entry(Step::Answered).or_insert(at);
                }
                _ => {}
            }
        }
        let leads = killed.gap_to(next).as_secs_f64();
        steps.insert(Step::Leads, leads);
        if let Some(released) = steps.get(&Step::Released).filter(|released| **released <= leads) {
            steps.insert(Step::Retry, leads - released);
        }
        steps
    }
}
