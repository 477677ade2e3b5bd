//! Tests over real sockets.

mod server;

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use self::server::{Server, serve};
use super::addresses::{KEEPALIVE, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES, UNACKNOWLEDGED};
use super::*;
use crate::store::kubernetes::{lease_client, lease_config, reading_client};

/// The limit for a request that is answered.
const LONG: Duration = Duration::from_secs(30);

/// How long the tests wait for a request that is not answered.
const SHORT: Duration = Duration::from_millis(300);

/// How many connections are idle when the path fails over.
const IDLE: usize = 8;

async fn served() -> (Arc<Server>, Client) {
    let (server, config) = serve().await;
    (server, lease_client(config).unwrap())
}

/// The sockets of this process that are connected to `address`.
#[cfg(target_os = "linux")]
fn sockets_to(address: std::net::SocketAddr) -> Vec<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    let me = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name());
    let numbers: Vec<i32> = numbers.filter_map(|name| name.to_str()?.parse().ok()).collect();
    let open = numbers.into_iter().filter_map(|number| pidfd_getfd(&me, number, PidfdGetfdFlags::empty()).ok());
    let is_to = |socket: &std::os::fd::OwnedFd| {
        let peer = rustix::net::getpeername(socket).ok().flatten();
        peer.is_some_and(|peer| std::net::SocketAddr::try_from(peer).is_ok_and(|peer| peer == address))
    };
    open.filter(is_to).collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_detects_a_dead_peer_and_delays_no_small_request() {
    use rustix::net::sockopt;
    let (_, config) = serve().await;
    let uri = config.cluster_url.clone();
    let client = lease_client(config).unwrap();
    assert!(timeout(LONG, client.request_text(Request::get("/x").body(Vec::new()).unwrap())).await.is_ok());
    let address = format!("{}:{}", uri.host().unwrap(), uri.port().unwrap()).parse().unwrap();
    let sockets = sockets_to(address);
    assert!(!sockets.is_empty());
    for socket in &sockets {
        assert!(sockopt::tcp_nodelay(socket).unwrap() && sockopt::socket_keepalive(socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), KEEPALIVE);
        assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), KEEPALIVE_RETRIES);
        assert_eq!(u128::from(sockopt::tcp_user_timeout(socket).unwrap()), UNACKNOWLEDGED.as_millis());
    }
}

async fn get(client: &Client, path: &str) -> String {
    let request = Request::get(path).body(Vec::new()).unwrap();
    timeout(LONG, client.request_text(request)).await.expect("it is answered").unwrap()
}

async fn get_in_vain(client: &Client, path: &str) {
    let request = Request::get(path).body(Vec::new()).unwrap();
    assert!(timeout(SHORT, client.request_text(request)).await.is_err(), "it is not answered");
}

async fn begin_watch(client: &Client) -> Body {
    let request = Request::get("/?watch=true").body(Body::empty()).unwrap();
    timeout(LONG, client.send(request)).await.expect("it is answered").unwrap().into_body()
}

#[tokio::test]
async fn after_one_request_without_an_answer_no_request_uses_an_earlier_connection() {
    let (server, client) = served().await;
    join_all((0..IDLE).map(|_| get(&client, "/together"))).await;
    server.fail_over();
    get_in_vain(&client, "/").await;
    join_all((0..IDLE).map(|_| get(&client, "/"))).await;
    assert_eq!(server.ignored.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn after_one_connection_has_failed_no_request_uses_an_earlier_connection() {
    let (server, client) = served().await;
    join_all((0..IDLE).map(|_| get(&client, "/together"))).await;
    server.closes.store(true, Ordering::SeqCst);
    server.fail_over();
    let request = Request::get("/").body(Vec::new()).unwrap();
    let answer = timeout(LONG, client.request_text(request)).await.expect("it fails at once");
    assert!(answer.is_err(), "{answer:?}");
    join_all((0..IDLE).map(|_| get(&client, "/"))).await;
    assert_eq!(server.ignored.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn connections_that_are_idle_for_long_are_closed() {
    let (server, mut config) = serve().await;
    config.read_timeout = Some(SHORT);
    let client = super::client(config).unwrap();
    join_all((0..IDLE).map(|_| get(&client, "/together"))).await;
    assert_eq!(server.open.load(Ordering::SeqCst), IDLE);
    timeout(LONG, async {
        while server.open.load(Ordering::SeqCst) > 0 {
            sleep(SHORT / 10).await;
        }
    })
    .await
    .expect("they are closed");
}

#[tokio::test]
async fn requests_that_are_answered_share_one_connection() {
    let (server, client) = served().await;
    for _ in 0..100 {
        get(&client, "/").await;
        get(&client, "/chunked").await;
        let empty = Request::get("/empty").body(Body::empty()).unwrap();
        let answer = timeout(LONG, client.send(empty)).await.expect("it is answered").unwrap();
        assert!(answer.body().is_end_stream(), "the caller has nothing to read");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_that_time_out_together_replace_the_pool_once() {
    let (server, client) = served().await;
    join_all((0..IDLE).map(|_| get_in_vain(&client, "/hang"))).await;
    let before = server.connections.load(Ordering::SeqCst);
    for _ in 0..10 {
        get(&client, "/").await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn an_incomplete_answer_counts_as_no_answer() {
    let (server, client) = served().await;
    join_all((0..IDLE).map(|_| get(&client, "/together"))).await;
    let partial = Request::get("/partial").body(Body::empty()).unwrap();
    let answer = timeout(LONG, client.send(partial)).await.expect("its head comes").unwrap();
    assert!(!answer.body().is_end_stream());
    drop(answer);
    get(&client, "/").await;
    assert_eq!(server.connections.load(Ordering::SeqCst), IDLE + 1);
}

#[tokio::test]
async fn an_abandoned_request_of_an_earlier_pool_does_not_replace_the_current_pool() {
    let (server, client) = served().await;
    let mut early = Box::pin(get(&client, "/hang"));
    assert!(timeout(SHORT, &mut early).await.is_err(), "it is under way");
    get_in_vain(&client, "/hang").await;
    get(&client, "/").await;
    drop(early);
    get(&client, "/").await;
    assert_eq!(server.connections.load(Ordering::SeqCst), 3, "two that hang, and the one of the current pool");
}

#[tokio::test]
async fn silent_watches_end_once_a_new_connection_answers_and_not_before() {
    let (server, client) = served().await;
    let [mut first, mut second] = [begin_watch(&client).await, begin_watch(&client).await];
    get(&client, "/").await;
    server.fail_over();
    get_in_vain(&client, "/").await;
    for body in [&mut first, &mut second] {
        assert!(timeout(SHORT, body.frame()).await.is_err(), "no new connection has answered yet");
    }
    get(&client, "/").await;
    for body in [&mut first, &mut second] {
        let end = timeout(LONG, body.frame()).await.expect("it ends");
        assert!(end.is_none(), "as if the server had ended it: {end:?}");
    }
}

#[tokio::test]
async fn a_watch_that_reports_an_event_during_a_hanging_request_continues() {
    let (server, client) = served().await;
    let mut body = begin_watch(&client).await;
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { get_in_vain(&client, "/hang").await }
    });
    sleep(SHORT / 2).await;
    server.send_event();
    timeout(LONG, body.frame()).await.expect("it speaks").unwrap().unwrap();
    hanging.await.unwrap();
    get(&client, "/").await;
    assert!(timeout(SHORT, body.frame()).await.is_err(), "there was no further event");
    server.send_event();
    timeout(LONG, body.frame()).await.expect("it speaks").unwrap().unwrap();
}

#[tokio::test]
async fn the_user_agent_comes_from_the_configuration_or_names_the_program_and_the_library() {
    let (server, mut config) = serve().await;
    get(&lease_client(config.clone()).unwrap(), "/").await;
    config.headers.push((USER_AGENT, HeaderValue::from_static("mine/1.0")));
    get(&lease_client(config).unwrap(), "/").await;
    let agents = std::mem::take(&mut *server.user_agents.lock().unwrap());
    let [agent, own] = agents.as_slice() else { panic!("{agents:?}") };
    assert_eq!(own, "mine/1.0");
    // The program is the binary of this test.
    assert!(agent.starts_with("hustings-client-"), "{agent}");
    assert!(agent.ends_with(concat!(" hustings-client/", env!("CARGO_PKG_VERSION"))), "{agent}");
}

#[tokio::test]
async fn a_server_with_tls_is_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    let client = super::client(config).unwrap();
    let request = client.request_text(Request::get("/").body(Vec::new()).unwrap());
    tokio::select! {
        answer = request => panic!("{answer:?}"),
        accepted = listener.accept() => drop(accepted.unwrap()),
    }
}

#[tokio::test]
async fn no_request_bypasses_a_proxy() {
    let (server, mut config) = serve().await;
    config.proxy_url = Some("http://127.0.0.1:1".parse().unwrap());
    let client = super::client(config).unwrap();
    let request = client.request_text(Request::get("/").body(Vec::new()).unwrap());
    assert!(timeout(LONG, request).await.expect("no proxy listens").is_err());
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn only_a_client_for_reading_repeats_a_request_by_itself() {
    let (server, config) = serve().await;
    server.busy.store(3, Ordering::SeqCst);
    let busy = || Request::get("/busy").body(Vec::new()).unwrap();
    let rejected = lease_client(config.clone()).unwrap().request_text(busy()).await;
    assert!(rejected.is_err(), "{rejected:?}");
    assert_eq!(server.busy.load(Ordering::SeqCst), 2);
    get(&reading_client(config).unwrap(), "/busy").await;
    assert_eq!(server.busy.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_or_a_proxy_with_an_address_that_accepts_connections_and_answers_nothing_is_reached() {
    let (server, config) = serve().await;
    let port = config.cluster_url.port_u16().unwrap();
    // The kernel accepts connections for a program that is frozen.
    let _frozen = std::net::TcpListener::bind(("127.0.0.2", port)).unwrap();
    let named = format!("http://api.example:{port}").parse::<Uri>().unwrap();
    let mut through_proxy = config.clone();
    through_proxy.proxy_url = Some(named.clone());
    let mut direct = config;
    direct.cluster_url = named;
    for config in [direct, through_proxy] {
        let mut connector = AddressConnector::new();
        connector.resolver = Arc::new(|_| {
            let addresses = ["127.0.0.2:0", "127.0.0.1:0"].map(|address| address.parse().unwrap());
            async move { Ok(addresses.to_vec()) }.boxed()
        });
        let client = client_by(connector, lease_config(config)).unwrap();
        get_in_vain(&client, "/").await;
        join_all((0..IDLE).map(|_| get(&client, "/together"))).await;
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 2 * IDLE);
}

#[tokio::test]
async fn a_failure_to_connect_does_not_replace_the_pool() {
    let mut connections = Connections::new(HttpConnector::new(), user_agent(), Arc::default());
    // No program listens on this port.
    let request = Request::get("http://127.0.0.1:1/").body(Body::empty()).unwrap();
    let failed = connections.call(request).await.err();
    assert!(failed.is_some_and(|error| error.is_connect()));
    assert_eq!(connections.route.state().generation, 0);
}

#[tokio::test]
async fn only_an_answer_on_a_connection_of_the_current_pool_ends_silent_watches() {
    let connections = Connections::new(HttpConnector::new(), user_agent(), Arc::default());
    let route = &connections.route;
    let pending = |generation| UnansweredRequest {
        route: Arc::clone(route),
        generation,
        sent: Instant::now(),
        is_over: generation > 0,
    };
    let slow = pending(0);
    drop(pending(0));
    slow.answered();
    assert_eq!(route.state().silent_since, None, "the connection is older than the request without an answer");
    pending(1).answered();
    assert!(route.state().silent_since.is_some());
}

#[test]
fn only_the_user_agent_is_removed_from_the_headers_of_a_configuration() {
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let accept = (http::header::ACCEPT, HeaderValue::from_static("application/json"));
    config.headers = vec![(USER_AGENT, HeaderValue::from_static("mine/1.0")), accept.clone()];
    assert_eq!(take_user_agent(&mut config), "mine/1.0");
    assert_eq!(config.headers, [accept]);
}

#[test]
fn a_request_is_a_watch_if_its_query_contains_that() {
    for (query, expected) in [("?watch=true", true), ("?a=b&watch=true", true), ("?watch=false", false), ("", false)] {
        let request = Request::get(format!("http://n/api{query}")).body(()).unwrap();
        assert_eq!(is_watch(&request), expected, "{query}");
    }
}

#[test]
fn a_user_agent_contains_no_letter_that_a_token_may_not_contain() {
    let library = concat!("hustings-client/", env!("CARGO_PKG_VERSION"));
    for (program, expected) in [("my app_1.2", "my-app-1.2 "), ("\u{fc}ber/", "-ber- "), ("", "")] {
        assert_eq!(user_agent_of(program), format!("{expected}{library}"), "{program}");
    }
}
