//! The HTTP server of this process: few connections at a time, with small requests and answers.
//!
//! This rule must hold: no client can block the process, or keep others from being served. Therefore:
//!
//! - Headers must arrive in time, and the server reads no bodies.
//! - The server closes a connection whose client reads nothing.
//! - Beyond the limit of connections, a new one takes the place of the one that has waited longest for a request. It
//!   waits only if the server answers requests on all of them.

mod peer;
mod places;
mod socket;
#[cfg(test)]
pub(crate) mod testing;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::{Listener, ListenerExt as _};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::peer::Peer;
use self::peer::PeerConnection;
use self::places::{ConnectionPlace, Places};
pub use self::socket::Socket;
use crate::base::hint::Hinted;

/// The most connections that one listener serves at a time.
const MOST_CONNECTIONS: usize = 128;

/// How long a client may take to send the headers of a request. Also the longest idle time of a connection.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// How long a client may leave an answer unread.
const UNREAD_LIMIT: Duration = Duration::from_secs(10);

/// The most bytes that a connection buffers. Requests are far smaller, and longer answers are sent in parts.
const BUFFER_LIMIT: usize = 16 * 1024;

/// How long connections may take to end after the server was stopped.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Where a server listens: `:8080` for every address, or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    host: Option<String>,
    port: u16,
}

impl ListenAddress {
    /// Parses a flag such as `--admin-address`.
    pub fn read(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not an address: use :PORT or HOST:PORT, such as 127.0.0.1:8080");
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().map_err(|_| refused())?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(char::is_whitespace) || (host.contains(':') && !bracketed) {
            return Err(refused());
        }
        Ok(Self { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }

    /// Starts to listen. `flag` names the flag in the hint of an error.
    ///
    /// # Errors
    /// Fails if the address is in use or cannot be bound.
    pub async fn listen(&self, flag: &str) -> anyhow::Result<TcpListener> {
        let failed = || Hinted::new(format!("cannot listen on {self}"), format!("choose another --{flag}"));
        self.bind().await.with_context(failed)
    }

    async fn bind(&self) -> std::io::Result<TcpListener> {
        match &self.host {
            Some(host) => TcpListener::bind(format!("{host}:{}", self.port)).await,
            None => match TcpListener::bind(SocketAddr::from(([0_u16; 8], self.port))).await {
                Ok(listener) => Ok(listener),
                // The machine may have no IPv6.
                Err(_) => TcpListener::bind(SocketAddr::from(([0_u8; 4], self.port))).await,
            },
        }
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host.as_deref().unwrap_or_default(), self.port)
    }
}

/// Serves until `stop` is cancelled. Connections then have one second to end.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    serve_on(listener.tap_io(set_options), |address| Some(address.ip()), router, stop).await;
}

/// Like [`serve`], on a listener of any kind. `ip` tells the IP address of a client, if it has one.
pub async fn serve_on<L: Listener>(
    mut listener: L,
    ip: impl Fn(L::Addr) -> Option<IpAddr>,
    router: Router,
    stop: CancellationToken,
) {
    let router = router.fallback(not_found).method_not_allowed_fallback(method_not_allowed);
    let places = Places::new(MOST_CONNECTIONS);
    let connections = TaskTracker::new();
    let accepting = async {
        loop {
            let (stream, address) = listener.accept().await;
            let Ok(place) = places.take().await else { return };
            let peer = Peer::new(ip(address));
            connections.spawn(serve_connection(stream, peer, place, router.clone(), stop.clone()));
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = accepting => {}
    }
    drop(listener);
    connections.close();
    let _ = tokio::time::timeout(END_LIMIT, connections.wait()).await;
}

/// An answer that is true only at the instant at which the server builds it. No cache may store it.
pub fn answer(code: StatusCode, body: &impl Serialize) -> Response {
    (code, [(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}

/// An error answer, `{"error":"..."}`.
pub fn refusal(code: StatusCode, error: &str) -> Response {
    (code, axum::Json(json!({ "error": error }))).into_response()
}

fn set_options(stream: &mut TcpStream) {
    // The server works without these options. Setting them fails only if the client is already gone.
    let _ = stream.set_nodelay(true);
    // The limit of `Connection` does not cover bytes in the kernel that the client never acknowledges.
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, u32::try_from(UNREAD_LIMIT.as_millis()).unwrap_or(0));
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    place: Arc<ConnectionPlace>,
    router: Router,
    stop: CancellationToken,
) {
    let stream = PeerConnection::new(stream, peer.clone(), UNREAD_LIMIT);
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let service = service_fn(|request| {
        let serving = place.serve();
        let answer = service.call(request);
        async { answer.await.map(|answer| answer.map(|body| serving.until_sent(body))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(BUFFER_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = place.closed() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

async fn not_found() -> Response {
    refusal(StatusCode::NOT_FOUND, "this path does not exist")
}

async fn method_not_allowed() -> Response {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "this server accepts only GET and HEAD")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn addresses_are_parsed_with_and_without_a_host() {
        for text in [":8080", "127.0.0.1:0", "localhost:9090", "[::1]:80"] {
            assert_eq!(ListenAddress::read(text).unwrap().to_string(), text);
        }
        for refused in ["", "8080", "::1:80", "[::1:80", "host:", "host:http", ":99999", "a b:80"] {
            assert!(ListenAddress::read(refused).is_err(), "{refused:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_finish_its_headers_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(1_024);
        let began = tokio::time::Instant::now();
        let place = Places::new(1).take().await.unwrap();
        tokio::spawn(serve_connection(server, Peer::default(), place, Router::new(), CancellationToken::new()));
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), HEADER_LIMIT.as_secs());
    }

    #[tokio::test]
    async fn errors_are_json_and_head_has_no_body() {
        let address = serve_ok().await;
        let answer = ask(address, "GET /else HTTP/1.0\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.0 404 ") && answer.ends_with(r#"{"error":"this path does not exist"}"#),
            "{answer}"
        );
        let answer = ask(address, "POST / HTTP/1.0\r\ncontent-length: 9\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 405 ") && answer.contains("\r\nallow: GET,HEAD\r\n"), "{answer}");
        assert!(answer.ends_with(r#"{"error":"this server accepts only GET and HEAD"}"#), "{answer}");
        let answer = ask(address, "HEAD / HTTP/1.0\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(
            ask(address, &format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(BUFFER_LIMIT)))
                .await
                .starts_with("HTTP/1.1 4")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_connections_ends_at_once() {
        let listener = ListenAddress::read("127.0.0.1:0").unwrap().listen("admin-address").await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        let began = tokio::time::Instant::now();
        serve(listener, Router::new(), stop).await;
        assert!(began.elapsed() < END_LIMIT, "{:?}", began.elapsed());
    }

    // The paused clock advances whenever every task waits.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_cut_off() {
        let mut stream = TcpStream::connect(serve_ok().await).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(!answer.contains("200"), "{answer}");
    }

    #[tokio::test]
    async fn clients_that_send_no_request_keep_no_place_from_one_that_does() {
        let address = serve_ok().await;
        let mut held = Vec::new();
        // Half of them have never sent a whole head, and half of them are idle after a request.
        for number in 0..2 * MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let sent: &[u8] = if number % 2 == 0 { b"G" } else { b"GET / HTTP/1.1\r\n\r\n" };
            stream.write_all(sent).await.unwrap();
            held.push(stream);
        }
        // The kubelet waits for 5 s.
        let answer = tokio::time::timeout(HEADER_LIMIT / 2, ask(address, "GET / HTTP/1.0\r\n\r\n")).await;
        assert!(answer.expect("it is served").starts_with("HTTP/1.0 200 "));
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_wait_while_all_others_are_served() {
        let listener = ListenAddress::read("127.0.0.1:0").unwrap().listen("listen").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = || async {
            let chunks = futures::stream::iter(["first"]).chain(futures::stream::pending());
            axum::body::Body::from_stream(chunks.map(Ok::<_, Infallible>))
        };
        let router = Router::new()
            .route("/", axum::routing::get(|| async { "ok" }))
            .route("/endless", axum::routing::get(endless));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        let mut held = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /endless HTTP/1.1\r\n\r\n").await.unwrap();
            held.push(stream);
        }
        // The server accepts connections in their order.
        let late = tokio::spawn(async move { ask(address, "GET / HTTP/1.0\r\n\r\n").await });
        for stream in &mut held {
            assert!(stream.read_u8().await.is_ok(), "each of them is served");
        }
        assert!(!late.is_finished());
        held.pop();
        assert!(late.await.unwrap().starts_with("HTTP/1.0 200 "));
    }

    #[tokio::test]
    async fn a_stop_ends_idle_connections_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = Router::new().route("/", axum::routing::get(|| async { "ok" }));
        let serving = tokio::spawn(serve(listener, router, stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"ok") {
            assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0);
        }
        stop.cancel();
        let rest = tokio::time::timeout(HEADER_LIMIT / 2, client.read_buf(&mut answer)).await;
        assert_eq!(rest.expect("the server closes it before it has been idle for long").unwrap(), 0);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_stop_waits_for_no_answer_that_does_not_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let endless = || async {
            let chunks = futures::stream::iter(["first"]).chain(futures::stream::pending());
            axum::body::Body::from_stream(chunks.map(Ok::<_, Infallible>))
        };
        let router = Router::new().route("/", axum::routing::get(endless));
        let serving = tokio::spawn(serve(listener, router, stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(client.peek(&mut [0]).await.unwrap(), 1, "it is served");
        stop.cancel();
        tokio::time::timeout(HEADER_LIMIT, serving).await.expect("it ends").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_an_answer_that_ends_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, asked, answered) = (CancellationToken::new(), CancellationToken::new(), CancellationToken::new());
        let answer = {
            let (asked, answered) = (asked.clone(), answered.clone());
            async move || {
                asked.cancel();
                tokio::time::sleep(END_LIMIT / 2).await;
                answered.cancel();
                "ok"
            }
        };
        let serving = tokio::spawn(serve(listener, Router::new().route("/", axum::routing::get(answer)), stop.clone()));
        let client = tokio::spawn(async move { ask(address, "GET / HTTP/1.1\r\n\r\n").await });
        asked.cancelled().await;
        stop.cancel();
        serving.await.unwrap();
        assert!(answered.is_cancelled());
        assert!(client.await.unwrap().ends_with("\r\n\r\nok"));
    }

    async fn serve_ok() -> SocketAddr {
        let listener = ListenAddress::read("127.0.0.1:0").unwrap().listen("listen").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "ok" }));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        address
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_client_that_reads_nothing_is_cut_off() {
        let listener = ListenAddress::read("127.0.0.1:0").unwrap().listen("listen").await.unwrap();
        let address = listener.local_addr().unwrap();
        let place = Arc::new(Semaphore::new(1));
        let places = Arc::clone(&place);
        let endless = move || async move {
            let held = places.acquire_owned().await;
            let chunks = futures::stream::repeat_with(move || Ok::<_, Infallible>(format!("{held:?}")));
            axum::body::Body::from_stream(chunks)
        };
        let router = Router::new().route("/", axum::routing::get(endless));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(stream.peek(&mut [0]).await.unwrap(), 1, "it is served");
        assert!(tokio::time::timeout(3 * UNREAD_LIMIT, place.acquire()).await.is_ok());
        drop(stream);
    }
}
