//! `hustings status --watch` shows every change.
//!
//! A store follows each kind of object by a watch. When a store changes or a Lease expires, this module builds new
//! rows. It shows them if they differ from the last ones. It logs a failed watch once and retries, so the command
//! survives an outage of the API server. After the first read, it shows nothing until the first list of each kind is
//! complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::SelectAll;
use futures::{FutureExt as _, Stream, StreamExt as _};
use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::store::{Pauses, discover_native, paced, watch_config};
use hustings_core::model::{Now, Observed};
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, Store, reflector};
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::output::{show, shows_page};
use super::read::{Selection, read};
use super::snapshot::{self, LeaseRow, rows};
use crate::base::cluster::{Cluster, api_error, limited, scoped_native};
use crate::base::hint::Hinted;
use crate::base::pages::TIMEOUT;
use crate::operate::assisted::complete_all;

/// How long to collect changes that arrive together.
const SETTLING: Duration = Duration::from_millis(50);

/// How often a page on a terminal updates the time until expiry.
const PAGE_PERIOD: Duration = Duration::from_secs(1);

/// The pause after the first failure of a watch.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

const LEASES: &str = "leases";
const CANDIDATES: &str = "leasecandidates.hustings.io";
const NATIVE_CANDIDATES: &str = "leasecandidates.coordination.k8s.io";

/// The stream of one watch. An item is the kind of the objects that changed, or a failure.
type Changes = Pin<Box<dyn Stream<Item = Result<&'static str, StatusWatchFailure>> + Send>>;

/// A failed watch: the kind of its objects, and the error.
struct StatusWatchFailure(&'static str, watcher::Error);

/// The watched objects.
struct WatchedStores {
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
    let changes = show_changes(cluster, config, &SystemClock, |rows| show(config, rows));
    let watched = interrupted.run_until_cancelled(changes).await;
    watched.unwrap_or(Ok(()))
}

async fn interrupt(token: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        token.cancel();
    }
}

async fn show_changes(
    cluster: &Cluster,
    config: &Config,
    clock: &dyn Clock,
    mut show: impl FnMut(&[LeaseRow]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // This read fails as without --watch: no server, no permission, no CRD.
    let mut shown = read(cluster, config).await?;
    show(&shown)?;
    let (stores, mut signals) = follow(cluster, config).await;
    let mut observed = BTreeMap::new();
    let mut failing: BTreeMap<&'static str, String> = BTreeMap::new();
    // The kinds that cannot be listed. Their stores stay empty.
    let mut absent = BTreeSet::new();
    let mut next_update = None;
    loop {
        let update = async {
            match next_update {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            signal = signals.next() => match signal {
                Some(signal) => {
                    if take(signal, &mut failing, &mut absent)? {
                        let soon = tokio::time::Instant::now() + SETTLING;
                        next_update = Some(next_update.map_or(soon, |at: tokio::time::Instant| at.min(soon)));
                    }
                    continue;
                }
                // Watches never end.
                None => return Ok(()),
            },
            () = update => {}
        }
        let now = clock.both();
        if stores.are_listed(&absent) {
            let mut rows = stores.rows(cluster, config, &mut observed, now);
            read_new_holders(cluster, &shown, &mut rows).await;
            // The time until expiry always shrinks. That alone is not a change.
            let same = shown.len() == rows.len()
                && shown.iter().zip(&rows).all(|(one, other)| one.equals_except_expiry(other));
            if shows_page(config) || !same {
                show(&rows)?;
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
        next_update = pause.map(|pause| tokio::time::Instant::now() + pause);
    }
}

/// Begins to watch each kind. A kind that the server does not serve, or that the caller may not list, has an empty
/// store.
async fn follow(cluster: &Cluster, config: &Config) -> (WatchedStores, SelectAll<Changes>) {
    let mut signals = SelectAll::new();
    // kube restarts a watch as soon as it ends. Pace the restarts, since a server may end each watch at once.
    let paced = || Cluster { leases: paced(cluster.leases.clone(), &cluster.namespace), ..cluster.clone() };
    let of_leases = paced();
    let (api, fields) = Selection::new(&of_leases, config).leases();
    let (leases, signal) = reflect(LEASES, api, fields, Writer::default());
    signals.push(signal);
    let of_candidates = paced();
    let (api, fields) = Selection::new(&of_candidates, config).candidates();
    let (candidates, signal) = reflect(CANDIDATES, api, fields, Writer::default());
    signals.push(signal);
    let version = limited(TIMEOUT, discover_native(&cluster.leases)).await.ok().flatten();
    let native = version.map(|version| {
        let of_native = paced();
        let selection = Selection::new(&of_native, config);
        let api = scoped_native(of_native.leases.clone(), selection.namespace, version);
        let writer = Writer::new(version);
        let (store, signal) = reflect(NATIVE_CANDIDATES, api, selection.native_fields(), writer);
        signals.push(signal);
        store
    });
    (WatchedStores { leases, candidates, native }, signals)
}

/// Creates a store that follows the objects, and a stream with an item for each change of the store.
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
            // The store changes only when the list is complete.
            Ok(Event::Init | Event::InitApply(_)) => None,
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => Some(Ok(kind)),
            Err(error) => Some(Err(StatusWatchFailure(kind, error))),
        })
    });
    (store, Box::pin(signals))
}

impl WatchedStores {
    /// Whether the first list of each kind is complete, apart from the kinds that cannot be listed.
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
        candidates.extend(self.native.iter().flat_map(Store::state).map(|one| Arc::unwrap_or_clone(one).into()));
        candidates.retain(|candidate| selection.includes(candidate));
        observe(&leases, observed, now);
        rows(leases, candidates, observed, now, config.lease.is_some())
    }
}

/// Reads the Pods of the holders of assisted Leases that were not shown before.
async fn read_new_holders(cluster: &Cluster, shown: &[LeaseRow], rows: &mut [LeaseRow]) {
    let key = |row: &LeaseRow| (row.namespace.clone(), row.lease.clone());
    let known: BTreeMap<_, _> =
        shown.iter().filter_map(|row| Some((key(row), (&row.holder, row.assist.as_ref()?)))).collect();
    let mut unread = Vec::new();
    for row in rows {
        let known = known.get(&key(row)).filter(|(holder, _)| **holder == row.holder).map(|(_, assist)| *assist);
        match (&mut row.assist, known) {
            (Some(assist), Some(known)) if assist.is_about_the_same_pod(known) => *assist = known.clone(),
            (Some(assist), _) => unread.push(assist),
            (None, _) => {}
        }
    }
    complete_all(cluster, unread).await;
}

fn is_listed<K>(store: &Store<K>) -> bool
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone,
{
    store.wait_until_ready().now_or_never().is_some_and(|ready| ready.is_ok())
}

/// Records when each Lease last changed. Expiry is measured from there, as every elector does.
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

/// Takes an item of a watch. Returns whether there is something new to show.
fn take(
    signal: Result<&'static str, StatusWatchFailure>,
    failing: &mut BTreeMap<&'static str, String>,
    absent: &mut BTreeSet<&'static str>,
) -> anyhow::Result<bool> {
    match signal {
        Ok(kind) => {
            failing.remove(kind);
            Ok(true)
        }
        // A kind that cannot be listed completes the first lists.
        Err(failure) => {
            let known = absent.len();
            report(failure, failing, absent).map(|()| absent.len() > known)
        }
    }
}

/// Logs once why a watch fails. If the permission to watch is missing, the command ends, since it would never see a
/// change.
fn report(
    StatusWatchFailure(kind, error): StatusWatchFailure,
    failing: &mut BTreeMap<&'static str, String>,
    absent: &mut BTreeSet<&'static str>,
) -> anyhow::Result<()> {
    let (verb, cause) = match error {
        watcher::Error::InitialListFailed(cause) => ("list", cause),
        watcher::Error::WatchStartFailed(cause) => ("watch", cause),
        watcher::Error::WatchError(status) => ("watch", kube::Error::Api(status)),
        // The watcher resumes a stream that broke off.
        watcher::Error::WatchFailed(_) | watcher::Error::NoResourceVersion => return Ok(()),
    };
    match &cause {
        kube::Error::Api(status) if status.code == 403 && verb == "watch" => {
            let hint = format!("grant the verb watch on {kind} in a Role, or use `hustings status` without --watch");
            return Err(api_error(cause).context(Hinted::new(format!("cannot watch {kind}"), hint)));
        }
        // The first read has already reported a kind that cannot be listed.
        kube::Error::Api(status) if matches!(status.code, 403 | 404) => {
            absent.insert(kind);
            return Ok(());
        }
        // The version was too old. The watcher lists again.
        kube::Error::Api(status) if status.code == 410 => return Ok(()),
        _ => {}
    }
    let reason = format!("{:#}", api_error(cause));
    if failing.insert(kind, reason.clone()).is_none() {
        tracing::warn!(kind, reason, "cannot {verb}; retrying");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
