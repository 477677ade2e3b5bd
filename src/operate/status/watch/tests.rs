//! `status --watch` against a server that is a function, in virtual time.

use std::collections::VecDeque;
use std::sync::Mutex;

use hustings_client::testing::TokioClock;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::{LeaseState, StatusOutput};
use super::*;
use crate::base::cluster::testing::{Sent, cluster, failure, list, silent_cluster};

/// A server with objects of each kind, and with the events of each kind that its watches have still to deliver.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<BTreeMap<&'static str, Kind>>>);

#[derive(Default)]
struct Kind {
    objects: Vec<Value>,
    events: VecDeque<Value>,
    /// The code of each answer, if the server rejects the requests.
    lists_fail: Option<u16>,
    watches_fail: Option<u16>,
}

/// What a command shows of a Lease.
type Shown = (String, LeaseState, Option<String>, Vec<String>);

impl Server {
    fn change(&self, kind: &'static str, change: impl FnOnce(&mut Kind)) {
        change(self.0.lock().unwrap().entry(kind).or_default());
    }

    /// Reports a change of an object to the watches.
    fn report(&self, kind: &'static str, event: &str, object: &Value) {
        self.change(kind, |kind| kind.events.push_back(json!({ "type": event, "object": object })));
    }

    fn answer(&self, request: &Sent) -> Option<(u16, Value)> {
        let path = &*request.path;
        if path.starts_with("/apis/coordination.k8s.io/v1beta1?") || path == "/apis/coordination.k8s.io/v1beta1" {
            let resource = json!({ "name": "leasecandidates", "singularName": "", "namespaced": true,
                "kind": "LeaseCandidate", "verbs": [] });
            let group = json!({ "groupVersion": "coordination.k8s.io/v1beta1", "resources": [resource] });
            return Some((200, group));
        }
        let (kind, version) = if path.contains("/apis/hustings.io/") {
            (CANDIDATES, "hustings.io/v1alpha1")
        } else if path.contains("/v1beta1/namespaces/n/leasecandidates?") {
            (NATIVE_CANDIDATES, "coordination.k8s.io/v1beta1")
        } else if path.contains("/v1/namespaces/n/leases?") {
            (LEASES, "coordination.k8s.io/v1")
        } else {
            return None;
        };
        let mut kinds = self.0.lock().unwrap();
        let kind = kinds.entry(kind).or_default();
        let code = if path.contains("watch=true") { kind.watches_fail } else { kind.lists_fail };
        if let Some(code) = code {
            return Some(failure(code));
        }
        if !path.contains("watch=true") {
            return Some(list(&kind.objects));
        }
        // The watch ends after one event.
        let bookmark = json!({ "apiVersion": version, "kind": "Any", "metadata": { "resourceVersion": "1" } });
        let none = json!({ "type": "BOOKMARK", "object": bookmark });
        Some((200, kind.events.pop_front().unwrap_or(none)))
    }
}

fn lease(name: &str, holder: &str, renewed: u32) -> Value {
    let version = renewed.to_string();
    let renewed = format!("2026-01-02T03:04:{renewed:02}.000000Z");
    let metadata = json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": version,
        "labels": { "hustings.io/enrolled": "true" } });
    let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed });
    json!({ "metadata": metadata, "spec": spec })
}

fn candidate(name: &str, lease: &str) -> Value {
    let metadata = json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": "2" });
    let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0",
        "strategy": "OldestEmulationVersion" });
    json!({ "metadata": metadata, "spec": spec })
}

fn shown(rows: &[LeaseRow]) -> Vec<Shown> {
    let names = |row: &LeaseRow| row.candidates.iter().map(|candidate| candidate.name.clone()).collect();
    rows.iter().map(|row| (row.lease.clone(), row.state, row.holder.clone(), names(row))).collect()
}

/// A row of a Lease that `holder` holds.
fn held(lease: &str, holder: &str, candidates: &[&str]) -> Shown {
    let candidates = candidates.iter().map(|&name| name.to_owned()).collect();
    (lease.to_owned(), LeaseState::Held, Some(holder.to_owned()), candidates)
}

/// Runs `script` together with `status --watch` of one Lease or of all. The script gets each output.
async fn watched(lease: Option<&str>, server: &Server, script: impl AsyncFnOnce(mpsc::UnboundedReceiver<Vec<Shown>>)) {
    let (cluster, _) = cluster({
        let server = server.clone();
        move |request| server.answer(request)
    });
    let lease = lease.map(str::to_owned);
    let config = Config { lease, all_namespaces: false, watch: true, output: StatusOutput::Json };
    let (outputs, received) = mpsc::unbounded_channel();
    let clock = TokioClock::shared();
    let watching = show_changes(&cluster, &config, &*clock, |rows| Ok(outputs.send(shown(rows))?));
    tokio::select! {
        ended = watching => panic!("{ended:?}"),
        ended = tokio::time::timeout(Duration::from_hours(1), script(received)) => ended.unwrap(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_change_of_an_object_is_shown_once_and_a_renewal_is_none() {
    let server = Server::default();
    server.change(LEASES, |leases| leases.objects = vec![lease("l", "a", 5)]);
    server.change(CANDIDATES, |candidates| candidates.objects = vec![candidate("a", "l")]);
    watched(None, &server, async |mut outputs| {
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a"])]);
        server.report(LEASES, "MODIFIED", &lease("l", "a", 6));
        server.report(LEASES, "MODIFIED", &lease("l", "b", 7));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "b", &["a"])]);
        // The former state is a change as well.
        server.report(LEASES, "MODIFIED", &lease("l", "a", 8));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a"])]);
        server.report(CANDIDATES, "ADDED", &candidate("b", "l"));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a", "b"])]);
        server.report(NATIVE_CANDIDATES, "ADDED", &candidate("c", "l"));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a", "b", "c"])]);
        server.report(CANDIDATES, "DELETED", &candidate("b", "l"));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a", "c"])]);
        server.report(LEASES, "ADDED", &lease("k", "z", 8));
        assert_eq!(outputs.recv().await.unwrap(), [held("k", "z", &[]), held("l", "a", &["a", "c"])]);
        server.report(LEASES, "DELETED", &lease("k", "z", 8));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a", "c"])]);
        server.report(LEASES, "ADDED", &lease("m", "z", 8));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["a", "c"]), held("m", "z", &[])]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_expires_one_duration_after_its_last_observed_change() {
    let server = Server::default();
    server.change(LEASES, |leases| leases.objects = vec![lease("l", "a", 5)]);
    watched(None, &server, async |mut outputs| {
        let began = tokio::time::Instant::now();
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &[])]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        server.report(LEASES, "MODIFIED", &lease("l", "a", 15));
        let expired = outputs.recv().await.unwrap();
        assert_eq!(expired[0].1, LeaseState::Expired);
        let seconds = began.elapsed().as_secs();
        assert!((25..30).contains(&seconds), "{seconds}");
        server.report(LEASES, "MODIFIED", &lease("l", "a", 40));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &[])], "it is renewed after all");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_lease_shows_its_native_candidates_and_no_others() {
    let server = Server::default();
    server.change(LEASES, |leases| leases.objects = vec![lease("l", "a", 5)]);
    let natives = vec![candidate("of-l", "l"), candidate("of-k", "k")];
    server.change(NATIVE_CANDIDATES, |kind| kind.objects = natives);
    watched(Some("l"), &server, async |mut outputs| {
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "a", &["of-l"])]);
        server.report(LEASES, "MODIFIED", &lease("l", "b", 6));
        assert_eq!(outputs.recv().await.unwrap(), [held("l", "b", &["of-l"])]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_listed_does_not_delay_changes_of_others_but_an_outage_does() {
    for (kind, code, is_shown) in [
        (CANDIDATES, 404, true),
        (NATIVE_CANDIDATES, 403, true),
        (CANDIDATES, 500, false),
        (NATIVE_CANDIDATES, 500, false),
        (LEASES, 500, false),
    ] {
        let server = Server::default();
        server.change(LEASES, |leases| leases.objects = vec![lease("l", "a", 5)]);
        watched(None, &server, async |mut outputs| {
            outputs.recv().await.unwrap();
            // The first read has succeeded. The first list of the watch follows.
            server.change(kind, |kind| kind.lists_fail = Some(code));
            server.change(LEASES, |leases| leases.objects = vec![lease("l", "b", 6)]);
            let next = tokio::time::timeout(Duration::from_mins(1), outputs.recv()).await;
            assert_eq!(next.is_ok(), is_shown, "{kind} {code}");
            server.change(kind, |kind| kind.lists_fail = None);
            if !is_shown {
                assert_eq!(outputs.recv().await.unwrap(), [held("l", "b", &[])], "{kind} {code}");
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_forbidden_ends_the_command_with_the_right_to_grant() {
    let server = Server::default();
    server.change(CANDIDATES, |candidates| candidates.watches_fail = Some(403));
    let (cluster, _) = cluster(move |request| server.answer(request));
    let config = Config { lease: None, all_namespaces: false, watch: true, output: StatusOutput::Json };
    let clock = TokioClock::shared();
    let error = show_changes(&cluster, &config, &*clock, |_| Ok(())).await.unwrap_err();
    let hinted = error.downcast_ref::<Hinted>().unwrap();
    assert_eq!(hinted.to_string(), "cannot watch leasecandidates.hustings.io");
    let hint =
        "grant the verb watch on leasecandidates.hustings.io in a Role, or use `hustings status` without --watch";
    assert_eq!(hinted.hint(), hint);
}

#[test]
fn a_failed_watch_ends_the_command_only_if_it_can_never_work() {
    let status = |code: u16| serde_json::from_value::<kube::core::Status>(failure(code).1).unwrap();
    let listing = |code: u16| watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status(code))));
    let starting = |code: u16| watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status(code))));
    let watching = |code: u16| watcher::Error::WatchError(Box::new(status(code)));
    for (error, is_end, is_absent, is_failing) in [
        (listing(403), false, true, false),
        (listing(404), false, true, false),
        (starting(403), true, false, false),
        (watching(403), true, false, false),
        (watching(410), false, false, false),
        (watching(500), false, false, true),
        (listing(500), false, false, true),
        (watcher::Error::NoResourceVersion, false, false, false),
    ] {
        let (mut failing, mut absent) = (BTreeMap::new(), BTreeSet::new());
        let text = error.to_string();
        let ended = report(StatusWatchFailure(CANDIDATES, error), &mut failing, &mut absent).is_err();
        assert_eq!((ended, !absent.is_empty(), !failing.is_empty()), (is_end, is_absent, is_failing), "{text}");
    }
}

#[test]
fn a_failure_lasts_until_the_next_change_of_that_kind() {
    let (mut failing, mut absent) = (BTreeMap::new(), BTreeSet::new());
    let failed = |kind| {
        let status = serde_json::from_value::<kube::core::Status>(failure(500).1).unwrap();
        Err(StatusWatchFailure(kind, watcher::Error::WatchError(Box::new(status))))
    };
    for (signal, is_change, expected) in [
        (failed(LEASES), false, &[LEASES][..]),
        (failed(LEASES), false, &[LEASES]),
        (failed(CANDIDATES), false, &[CANDIDATES, LEASES]),
        (Ok(LEASES), true, &[CANDIDATES]),
        (failed(LEASES), false, &[CANDIDATES, LEASES]),
        (Ok(CANDIDATES), true, &[LEASES]),
    ] {
        assert_eq!(take(signal, &mut failing, &mut absent).unwrap(), is_change);
        assert_eq!(failing.keys().copied().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_watches_begin_although_the_server_does_not_answer_which_candidates_it_serves() {
    let cluster = silent_cluster(|_| None);
    let config = Config { lease: None, all_namespaces: false, watch: true, output: StatusOutput::Json };
    let begun = tokio::time::timeout(Duration::from_mins(1), follow(&cluster, &config)).await;
    let (stores, _) = begun.expect("they begin");
    assert!(stores.native.is_none());
}
