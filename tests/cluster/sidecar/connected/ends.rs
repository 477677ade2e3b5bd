//! The ends of a connection, and of a term.

use std::process::{Command, Stdio};

use hustings_controlplane::shared;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::super::beside::{self, Events, Sidecar, ask};
use super::{LONG, start};
use crate::installed::installed;
use crate::replica::{candidate_account, lease, token, until};

/// Another client leads as soon as the first connection is closed, in whatever way.
#[tokio::test]
async fn closed_and_half_closed_connections_release_the_lease() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("closed").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("term.sock");
    let socket = format!("--socket={}", path.display());
    let one = Sidecar::start(&plane, &namespace, "one", &[&LONG[..], &[&socket]].concat()).await;
    let two = start(&plane, &namespace, "two").await;

    // By TCP, half-closed.
    let mut first = one.events("/term").await;
    let led = first.named("leading").await;
    let mut second = two.events("/term").await;
    first.stream().shutdown().await.unwrap();
    let then = second.named("leading").await;
    assert!(then.data["token"].as_u64() > led.data["token"].as_u64());
    assert_eq!((then.data["identity"].as_str(), two.is_leader().await), (Some("two"), 200));
    assert_eq!(then.data["lease"], format!("{namespace}/work"));
    assert_eq!(then.data["token"].to_string(), token(&lease(&plane, &namespace, "work").await));
    assert_eq!(one.is_leader().await, 503);
    drop(first);
    released(&one, "connection-closed").await;
    let history = &lease(&plane, &namespace, "work").await["metadata"]["annotations"]["hustings.io/history"];
    assert!(history.as_str().unwrap().ends_with(": released (connection closed)"), "{history}");

    // By the socket, closed and then half-closed.
    for half in [false, true] {
        let mut third = Events::open(UnixStream::connect(&path).await.unwrap(), "/term").await;
        drop(second);
        third.named("leading").await;
        second = two.events("/term").await;
        if half {
            third.stream().shutdown().await.unwrap();
            second.named("leading").await;
        } else {
            drop(third);
            second.named("leading").await;
        }
    }

    // A killed sidecar leaves its socket behind, and the next one takes its place. A live one keeps it.
    let other = beside::command(&plane.kubeconfig(), &namespace, "other", &[&LONG[..], &[&socket]].concat()).output();
    let other = String::from_utf8(other.unwrap().stderr).unwrap();
    assert!(other.contains(&format!("error: cannot listen on {}\n", path.display())), "{other}");
    assert!(other.contains("another process listens on this socket"), "{other}");
    one.process.kill().unwrap();
    let one = Sidecar::start(&plane, &namespace, "one", &[&LONG[..], &[&socket]].concat()).await;
    let mut third = Events::open(UnixStream::connect(&path).await.unwrap(), "/term").await;
    drop(second);
    third.named("leading").await;
    // A client that closes on `stopping` lets the sidecar stop at once.
    let closing = tokio::spawn(async move { third.named("stopping").await });
    assert_eq!(one.process.stop().await.unwrap().code(), Some(0), "{}", one.log());
    assert!(closing.await.unwrap().data["validForSeconds"].as_f64() > Some(0.0));
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "");
    assert!(!path.exists());
}

/// Waits until the metrics of the sidecar count one release of this cause.
async fn released(sidecar: &Sidecar, cause: &str) {
    let count = format!("hustings_sidecar_release_seconds_count{{cause=\"{cause}\"}} 1\n");
    let counted = async || ask(sidecar.admin, "GET", "/metrics").await.body.contains(&count).then_some(());
    until(&format!("{count:?} among its metrics"), || sidecar.log(), counted).await;
}

/// What the client sends after its request hides the end of the connection from the server until it writes.
#[tokio::test]
async fn a_dead_client_that_has_sent_too_much_is_noticed_by_the_heartbeats() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("too-much").await.unwrap();
    let one = start(&plane, &namespace, "one").await;
    let mut first = one.events("/term").await;
    first.stream().write_all(b"GET /leader HTTP/1.0\r\n\r\n").await.unwrap();
    first.named("leading").await;
    let two = start(&plane, &namespace, "two").await;
    let mut second = two.events("/term").await;
    drop(first);
    second.named("leading").await;
}

#[tokio::test]
async fn behind_a_proxy_the_death_of_either_ends_the_term() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("proxy").await.unwrap();
    let (one, two) = (start(&plane, &namespace, "one").await, start(&plane, &namespace, "two").await);
    for proxy_dies in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, target) = (listener.local_addr().unwrap(), one.listen);
        let proxy = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(target).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
        let url = format!("http://{address}/term");
        let mut curl = Command::new("curl").args(["-sN", &url]).stdout(Stdio::null()).spawn().unwrap();
        let leads = async || (one.is_leader().await == 200).then_some(());
        until("the client leads", || one.log(), leads).await;
        let mut second = two.events("/term").await;
        if proxy_dies {
            proxy.abort();
            second.named("leading").await;
            // The client gets the end of its stream, and stops.
            curl.wait().unwrap();
        } else {
            curl.kill().unwrap();
            curl.wait().unwrap();
            second.named("leading").await;
        }
    }
}

/// Under the controller a replica is a candidate while its client is connected, and hands over to a better one.
#[tokio::test]
async fn a_candidate_exists_while_its_client_is_connected() {
    let plane = installed().await;
    let namespace = plane.create_namespace("candidates").await.unwrap();
    let account = candidate_account(&plane, &namespace, "program").await;
    let start = async |name: &str, version: &str| {
        let version = format!("--binary-version={version}");
        let flags: Vec<_> = LONG.into_iter().filter(|flag| *flag != "--direct").chain([&*version]).collect();
        Sidecar::run(&plane, &namespace, name, beside::command(&account, &namespace, name, &flags)).await
    };
    let candidates = async || -> String {
        let listed = plane.kubectl(["get", "lcand", "--namespace", &namespace, "--output=name"]).await.unwrap();
        String::from_utf8(listed.stdout).unwrap()
    };
    let (newer, older) = (start("newer", "1.5.0").await, start("older", "1.4.0").await);
    assert_eq!(candidates().await, "");
    let mut of_newer = newer.events("/term").await;
    of_newer.named("leading").await;
    assert_eq!(candidates().await, "leasecandidate.hustings.io/newer\n");

    let mut of_older = older.events("/term").await;
    let stopping = of_newer.named("stopping").await;
    assert!(stopping.data["validForSeconds"].as_f64() > Some(0.0), "it renews until its client closes");
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "newer");
    // Otherwise the connection could be closed before the work of the term has observed why.
    let waits = async || newer.log().contains("waiting until the client closes the connection").then_some(());
    until("it waits for its client", || newer.log(), waits).await;
    drop(of_newer);
    of_older.named("leading").await;
    released(&newer, "stopping").await;
    let alone = async || (candidates().await == "leasecandidate.hustings.io/older\n").then_some(());
    until("the other is no candidate", || newer.log(), alone).await;

    // A crash: the other replica leads.
    let mut of_newer = newer.events("/term").await;
    let both = async || candidates().await.contains("newer").then_some(());
    until("it stands again", || newer.log(), both).await;
    drop(of_older);
    of_newer.named("leading").await;
    released(&older, "connection-closed").await;
    let published = async || {
        let listed = plane.kubectl(["get", "events", "--namespace", &namespace, "--output=json"]).await.unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        // The Lease is handed over, or released and granted anew if the controller is late.
        listed.contains(" after the connection of the holder's program closed").then_some(())
    };
    until("an event names the connection", || older.log(), published).await;
}
