//! `hustings status --watch`: every change, by watches.
//!
//! A store follows each kind of object. A change of a store, or the expiry of a Lease, makes new rows; rows that differ
//! from the last ones are shown. A failed watch is logged once and retried, so that the command survives an outage of the
//! API server. The rule that must hold: nothing is shown before the first list of each kind is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::SelectAll;
use futures::{FutureExt as _, Stream, StreamExt as _};
use hustings_client::api::{LeaseCandidateStatus, NativeVersion, ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_client::store::{Pauses, paced, watch_config};
use hustings_core::model::{Now, Observed};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, Store, reflector};
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::output::{show, shows_page};
use super::read::{Selection, read};
use super::snapshot::{self, LeaseRow, rows};
use crate::cluster::{Cluster, api_error};
use crate::hint::Hinted;

/// How long changes that come together are collected.
const SETTLING: Duration = Duration::from_millis(50);

/// How often a page on a terminal shows the time until expiry.
const PAGE_PERIOD: Duration = Duration::from_secs(1);

/// The pause after the first failure of a watch.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

const LEASES: &str = "leases";
const CANDIDATES: &str = "leasecandidates.hustings.io";
const NATIVE_CANDIDATES: &str = "leasecandidates.coordination.k8s.io";

/// The changes of one store: the kind of its objects, or why the watch failed.
type Changes = Pin<Box<dyn Stream<Item = Result<&'static str, Failure>> + Send>>;

/// A watch that failed: the kind of its objects, and why.
struct Failure(&'static str, watcher::Error);

/// The watched objects.
struct Stores {
    leases: Store<ReadLease>,
    candidates: Store<ReadCandidate>,
    native: Option<Store<ReadNativeCandidate>>,
}

/// Shows every change until it is interrupted.
///
/// # Errors
/// Fails if the first read fails, if the caller may list but not watch, or if standard output is closed.
pub(super) async fn watch(cluster: &Cluster, config: &Config) -> anyhow::Result<()> {
    let interrupted = CancellationToken::new();
    tokio::spawn(interrupt(interrupted.clone()));
    let watched = interrupted.run_until_cancelled(show_changes(cluster, config)).await;
    watched.unwrap_or(Ok(()))
}

async fn interrupt(token: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        token.cancel();
    }
}

async fn show_changes(cluster: &Cluster, config: &Config) -> anyhow::Result<()> {
    // The same errors as without --watch: nothing to reach, no right, no such kind.
    let mut shown = read(cluster, config).await?;
    show(config, &shown)?;
    let (stores, mut signals) = follow(cluster, config).await;
    let mut observed = BTreeMap::new();
    let mut failing: BTreeMap<&'static str, String> = BTreeMap::new();
    // The kinds that cannot be listed, so that their stores stay empty.
    let mut absent = BTreeSet::new();
    let mut next_look = None;
    loop {
        let look = async {
            match next_look {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = signals.next() => match signal {
                Some(Ok(kind)) => {
                    failing.remove(kind);
                    let soon = tokio::time::Instant::now() + SETTLING;
                    next_look = Some(next_look.map_or(soon, |at: tokio::time::Instant| at.min(soon)));
                    continue;
                }
                Some(Err(failure)) => {
                    report(failure, &mut failing, &mut absent)?;
                    continue;
                }
                // Watches never end.
                None => return Ok(()),
            },
            () = look => {}
        }
        let now = SystemClock.both();
        if stores.are_listed(&absent) {
            let rows = stores.rows(cluster, config, &mut observed, now);
            // The time until expiry shrinks all the time. That alone is no change.
            let same = shown.len() == rows.len()
                && shown.iter().zip(&rows).all(|(one, other)| one.equals_except_expiry(other));
            if shows_page(config) || !same {
                show(config, &rows)?;
            }
            shown = rows;
        }
        let expiry = observed
            .values()
            .map(|observed| observed.expires_at().since(now.moment))
            .filter(|rest| !rest.is_zero())
            .min();
        let pause = if shows_page(config) {
            Some(expiry.map_or(PAGE_PERIOD, |expiry| expiry.min(PAGE_PERIOD)))
        } else {
            expiry
        };
        next_look = pause.map(|pause| tokio::time::Instant::now() + pause);
    }
}

/// Begins to watch each kind. A kind that the server does not serve, or that the caller may not list, has an empty store.
async fn follow(cluster: &Cluster, config: &Config) -> (Stores, SelectAll<Changes>) {
    let mut signals = SelectAll::new();
    // kube begins a watch at once when the former one ends, also against a server that ends each at once.
    let paced = || Cluster { leases: paced(cluster.leases.clone(), &cluster.namespace), ..cluster.clone() };
    let of_leases = paced();
    let (api, fields) = Selection::new(&of_leases, config).leases();
    let (leases, signal) = reflect(LEASES, api, fields, Writer::default());
    signals.push(signal);
    let of_candidates = paced();
    let (api, fields) = Selection::new(&of_candidates, config).candidates();
    let (candidates, signal) = reflect(CANDIDATES, api, fields, Writer::default());
    signals.push(signal);
    let version = NativeVersion::discover(&cluster.leases).await.ok().flatten();
    let native = version.map(|version| {
        let of_native = paced();
        let selection = Selection::new(&of_native, config);
        let api = match selection.namespace() {
            Some(namespace) => Api::namespaced_with(of_native.leases.clone(), namespace, &version),
            None => Api::all_with(of_native.leases.clone(), &version),
        };
        let writer = Writer::new(version);
        let (store, signal) = reflect(NATIVE_CANDIDATES, api, selection.native_fields(), writer);
        signals.push(signal);
        store
    });
    (Stores { leases, candidates, native }, signals)
}

/// A store that follows the objects, and a stream with an item for each change of it.
fn reflect<K>(kind: &'static str, api: Api<K>, fields: Option<String>, writer: Writer<K>) -> (Store<K>, Changes)
where
    K: kube::Resource
        + Lookup<DynamicType = <K as kube::Resource>::DynamicType>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    <K as kube::Resource>::DynamicType: Eq + std::hash::Hash + Clone + Send + Sync,
{
    let store = writer.as_reader();
    let config = watcher::Config { field_selector: fields, ..watch_config() };
    let events = watcher(api, config).backoff(Pauses::new(SHORTEST_PAUSE, rand::make_rng()));
    let signals = reflector(writer, events).filter_map(move |event| {
        std::future::ready(match event {
            // The store changes when the list is complete.
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(Ok(kind)),
            Err(error) => Some(Err(Failure(kind, error))),
        })
    });
    (store, Box::pin(signals))
}

impl Stores {
    /// Whether the first list of each kind is complete, of those that can be listed.
    fn are_listed(&self, absent: &BTreeSet<&'static str>) -> bool {
        is_listed(&self.leases)
            && (absent.contains(CANDIDATES) || is_listed(&self.candidates))
            && (absent.contains(NATIVE_CANDIDATES) || self.native.as_ref().is_none_or(is_listed))
    }

    /// The rows of all objects.
    fn rows(
        &self,
        cluster: &Cluster,
        config: &Config,
        observed: &mut BTreeMap<(String, String), Observed>,
        now: Now,
    ) -> Vec<LeaseRow> {
        let selection = Selection::new(cluster, config);
        let leases: Vec<_> = self.leases.state().iter().map(|lease| ReadLease::clone(lease)).collect();
        let mut candidates: Vec<_> = self.candidates.state().iter().map(|one| ReadCandidate::clone(one)).collect();
        candidates.extend(self.native.iter().flat_map(Store::state).map(without_status));
        candidates.retain(|candidate| selection.includes(candidate));
        observe(&leases, observed, now);
        rows(leases, candidates, observed, now, config.lease.is_some())
    }
}

fn is_listed<K>(store: &Store<K>) -> bool
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store.wait_until_ready().now_or_never().is_some_and(|ready| ready.is_ok())
}

/// A native candidate is one without a status.
fn without_status(candidate: Arc<ReadNativeCandidate>) -> ReadCandidate {
    let ReadNativeCandidate { metadata, record } = Arc::unwrap_or_clone(candidate);
    ReadCandidate { metadata, record, status: LeaseCandidateStatus::default() }
}

/// Measures expiry as every elector does, from the own observation of the last change.
fn observe(leases: &[ReadLease], observed: &mut BTreeMap<(String, String), Observed>, now: Now) {
    let mut former = std::mem::take(observed);
    for lease in leases {
        let key = snapshot::key(&lease.metadata);
        let entry = match former.remove(&key) {
            Some(mut entry) => {
                entry.observe(lease.record.clone(), now.moment);
                entry
            }
            None => Observed::first(lease.record.clone(), now.moment),
        };
        observed.insert(key, entry);
    }
}

/// Logs why a watch fails, once. A missing right to watch ends the command, because nothing would ever change.
fn report(
    Failure(kind, error): Failure,
    failing: &mut BTreeMap<&'static str, String>,
    absent: &mut BTreeSet<&'static str>,
) -> anyhow::Result<()> {
    let (verb, cause) = match error {
        watcher::Error::InitialListFailed(cause) => ("list", cause),
        watcher::Error::WatchStartFailed(cause) => ("watch", cause),
        watcher::Error::WatchError(status) => ("watch", kube::Error::Api(status)),
        // The watcher resumes where a stream broke off.
        watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => return Ok(()),
    };
    match &cause {
        kube::Error::Api(status) if status.code == 403 && verb == "watch" => {
            let hint = format!("grant the verb watch on {kind} in a Role, or use `hustings status` without --watch");
            return Err(api_error(cause).context(Hinted::new(format!("cannot watch {kind}"), hint)));
        }
        // The first read has reported a kind that cannot be listed. A version that is too old is followed by a list.
        kube::Error::Api(status) if matches!(status.code, 403 | 404) => {
            absent.insert(kind);
            return Ok(());
        }
        kube::Error::Api(status) if status.code == 410 => return Ok(()),
        _ => {}
    }
    let reason = format!("{:#}", api_error(cause));
    if failing.insert(kind, reason.clone()).is_none() {
        tracing::warn!(kind, reason, "cannot {verb}; retrying");
    }
    Ok(())
}
