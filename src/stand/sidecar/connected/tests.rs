//! Clients without a connection, over the store in memory and in virtual time; and one with real connections.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::Request;
use hustings_client::Elector;
use hustings_client::api::read_pod_label;
use hustings_client::testing::MemoryStore;
use hustings_controlplane::eventually;
use hustings_core::model::Ending;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tower::util::ServiceExt as _;

use super::super::testing::{config, endpoints, get, read_until, sidecar};
use super::*;
use crate::base::access::Access;
use crate::base::cluster::testing::cluster;
use crate::serve::http::Peer;
use crate::serve::metrics;
use crate::stand::candidacy::Connection;
use crate::stand::sidecar::OwnPod;

/// A client of `/term`, and the end of its connection.
async fn connect(sidecar: &Sidecar<'_>) -> (Client, Peer) {
    let peer = Peer::default();
    let (router, mut clients) = term::route(Duration::from_secs(2), &sidecar.runtime.shutdown, &sidecar.runtime.over);
    let request = Request::get("/term").body(Body::empty()).unwrap();
    tokio::spawn(router.layer(Extension(peer.clone())).oneshot(request));
    (clients.recv().await.unwrap(), peer)
}

fn standing<'a>(sidecar: &'a Sidecar<'a>, releases: ReleaseMetrics, label: Option<Keeper>) -> ConnectedSidecar<'a> {
    ConnectedSidecar { sidecar, releases, label, electors: Succession::default() }
}

#[tokio::test(start_paused = true)]
async fn the_label_goes_and_the_release_is_measured_once_the_client_has_closed_its_connection() {
    // Whether the sidecar stops, and whether it keeps the Lease then.
    let closed = (false, false, [1, 0], Some(Ending::Released(Cause::ConnectionClosed)));
    let stopped = (true, false, [0, 1], Some(Ending::Released(Cause::Stopped)));
    let kept = (false, true, [0, 0], None);
    // The order in which tasks notice the close is random.
    for (stops, keep_on_stop, expected, ending) in std::iter::repeat_n(closed, 8).chain([stopped, kept]) {
        let (store, access) = (MemoryStore::new(), Access::default());
        let mut config = config();
        config.candidacy.keep_on_stop = keep_on_stop;
        let sidecar = sidecar(&access, config, Connection::Memory(store.clone()));
        let (client, peer) = connect(&sidecar).await;
        let (cluster, requests) = cluster(|_| Some((200, json!({ "metadata": { "name": "p" } }))));
        let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
        let label = Keeper::start(cluster.leases, read_pod_label("leader=true").unwrap(), pod).await.unwrap();
        let labelled = || requests.lock().unwrap().last().unwrap().body["metadata"]["labels"]["leader"] == "true";
        let mut registry = metrics::registry();
        let standing = standing(&sidecar, ReleaseMetrics::register(&mut registry), Some(label));
        let program = async {
            let leadership = standing.electors.current().await;
            leadership.wait_until_leader().await.unwrap();
            while !labelled() {
                sleep(Duration::from_millis(1)).await;
            }
            if stops {
                sidecar.runtime.shutdown.cancel();
            }
            sleep(Duration::from_secs(5)).await;
            assert!(!leadership.remaining().is_zero(), "the Lease is kept until the client closes");
            peer.close();
        };
        let (stood, ()) = tokio::join!(standing.stand(client), program);
        stood.unwrap();
        assert!(!labelled());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |what: &str, cause: &str| {
            let series = format!("hustings_sidecar_release_seconds_{what}{{cause=\"{cause}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&*series)).unwrap().to_owned()
        };
        let causes = ["connection-closed", "stopping"];
        assert_eq!(causes.map(|cause| value("count", cause)), expected.map(|count| count.to_string()), "{text}");
        assert_eq!(causes.map(|cause| value("sum", cause)), ["0.0", "0.0"], "the store in memory takes no time");
        let lease = store.lease("n", "l").unwrap();
        assert_eq!(lease.holder.is_some(), keep_on_stop);
        assert_eq!(lease.history.terms().next().map(|term| term.ending), ending, "{lease:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_that_was_lost_counts_as_no_release() {
    let (store, access) = (MemoryStore::new(), Access::default());
    let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
    let (client, peer) = connect(&sidecar).await;
    let mut registry = metrics::registry();
    let standing = standing(&sidecar, ReleaseMetrics::register(&mut registry), None);
    let loses = async {
        let leadership = standing.electors.current().await;
        let term = leadership.wait_until_leader().await.unwrap();
        store.edit_lease("n", "l", |lease| lease.holder = Some("c".to_owned()));
        term.cancelled().await;
        peer.close();
    };
    let (stood, ()) = tokio::join!(standing.stand(client), loses);
    stood.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(!text.contains("_count{cause=\"connection-closed\"} 1"), "{text}");
    assert!(!text.contains("_count{cause=\"stopping\"} 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_its_term_is_no_longer_stood_for() {
    let (store, access) = (MemoryStore::new(), Access::default());
    let rival = Elector::direct(&store, "n", "l").identity("b").build().unwrap().start();
    rival.leadership().wait_until_leader().await.unwrap();
    let sidecar = sidecar(&access, config(), Connection::Memory(store));
    let (client, peer) = connect(&sidecar).await;
    let standing = standing(&sidecar, ReleaseMetrics::register(&mut metrics::registry()), None);
    let leaves = async {
        sleep(Duration::from_mins(1)).await;
        peer.close();
    };
    let stood = timeout(Duration::from_mins(2), standing.stand(client));
    tokio::join!(stood, leaves).0.expect("it waits for no term").unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_connection_that_its_client_did_not_close_the_lease_expires() {
    let (store, access) = (MemoryStore::new(), Access::default());
    let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
    let (client, peer) = connect(&sidecar).await;
    let standing = standing(&sidecar, ReleaseMetrics::register(&mut metrics::registry()), None);
    let breaks = async {
        let leadership = standing.electors.current().await;
        leadership.wait_until_leader().await.unwrap();
        peer.disconnect();
    };
    let stood = timeout(Duration::from_mins(10), standing.stand(client));
    tokio::join!(stood, breaks).0.expect("it waits for no other client").unwrap();
    assert_eq!(store.lease("n", "l").unwrap().holder.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_one_term_even_if_its_client_does_not_close_it() {
    let (store, access) = (MemoryStore::new(), Access::default());
    let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
    let (client, _peer) = connect(&sidecar).await;
    let standing = standing(&sidecar, ReleaseMetrics::register(&mut metrics::registry()), None);
    let ends = async {
        let leadership = standing.electors.current().await;
        leadership.wait_until_leader().await.unwrap().resign();
        sleep(Duration::from_mins(10)).await;
        leadership.terms()
    };
    let (stood, terms) = tokio::join!(timeout(Duration::from_mins(10), standing.stand(client)), ends);
    stood.expect("the elector has ended").unwrap();
    assert_eq!(terms, 1);
}

#[tokio::test]
async fn answers_are_about_the_client_that_is_connected() {
    let access = Access::default();
    let sidecar = sidecar(&access, config(), Connection::Memory(MemoryStore::new()));
    let (endpoints, address) = endpoints(None).await;
    let ask = async |path: &str| get(TcpStream::connect(address).await.unwrap(), path).await;
    let leader = async || {
        let mut text = String::new();
        ask("/leader").await.read_to_string(&mut text).await.unwrap();
        text
    };
    let program = async {
        let before = leader().await;
        assert!(before.starts_with("HTTP/1.0 503 ") && before.contains("no client has connected"), "{before}");
        for _ in 0..2 {
            let mut stream = ask("/term").await;
            read_until(&mut stream, "event: leading").await;
            let leads = leader().await;
            assert!(leads.starts_with("HTTP/1.0 200 ") && leads.contains(r#""isLeader":true"#), "{leads}");
            drop(stream);
            eventually(async || leader().await.contains(r#""isLeader":false"#).then_some(()).ok_or("it leads"))
                .await
                .unwrap();
        }
        sidecar.runtime.shutdown.cancel();
    };
    let releases = ReleaseMetrics::register(&mut metrics::registry());
    let (ran, ()) = tokio::join!(run(&sidecar, endpoints, releases), program);
    ran.unwrap();
}

#[tokio::test]
async fn the_range_of_a_former_client_lasts_until_a_later_client_leads() {
    let (store, access) = (MemoryStore::new(), Access::default());
    let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
    let (endpoints, address) = endpoints(None).await;
    let ask = async |path: &str| get(TcpStream::connect(address).await.unwrap(), path).await;
    let answer = async |path: &str| {
        let mut text = String::new();
        ask(path).await.read_to_string(&mut text).await.unwrap();
        text
    };
    let program = async {
        let mut stream = ask("/term").await;
        read_until(&mut stream, "event: leading").await;
        let range = answer("/range").await;
        let start = range.split_once(r#""start":""#).unwrap().1.split_once('"').unwrap().0;
        drop(stream);
        let rival = Elector::direct(&store, "n", "l").identity("b").build().unwrap().start();
        rival.leadership().wait_until_leader().await.unwrap();
        let mut stream = ask("/term").await;
        // The elector of the former client has not observed this holder.
        eventually(async || answer("/leader").await.contains(r#""holder":"b""#).then_some(()).ok_or("not observed"))
            .await
            .unwrap();
        let owned = answer(&format!("/range?instant={start}")).await;
        assert!(owned.contains(r#""contains":true"#) && owned.contains(start), "{owned}");
        rival.stop().await.unwrap();
        read_until(&mut stream, "event: leading").await;
        let owned = answer(&format!("/range?instant={start}")).await;
        assert!(owned.contains(r#""contains":false"#) && !owned.contains(start), "{owned}");
        sidecar.runtime.shutdown.cancel();
        drop(stream);
    };
    let releases = ReleaseMetrics::register(&mut metrics::registry());
    let (ran, ()) = tokio::join!(run(&sidecar, endpoints, releases), program);
    ran.unwrap();
}
