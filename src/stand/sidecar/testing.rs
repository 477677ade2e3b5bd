//! A sidecar over a store in memory, for the tests of both kinds of sidecar.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use hustings_client::metrics::Metrics;
use hustings_client::testing::MemoryStore;
use hustings_client::{Campaign, Elector, Term};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::common::{Endpoints, Sidecar};
use super::updates::Updates;
use crate::base::access::Access;
use crate::serve::health::Health;
use crate::serve::http::Socket;
use crate::serve::metrics::registry;
use crate::serve::runtime::Runtime;
use crate::stand::candidacy::Connection;

/// The sidecar of the replica `a` in direct mode.
pub(super) fn config() -> Config {
    crate::cli::testing::sidecar("--lease=l --identity=a --direct").unwrap()
}

pub(super) fn sidecar(access: &Access, config: Config, connection: Connection) -> Sidecar<'_> {
    let runtime = Runtime::new(CancellationToken::new(), registry());
    Sidecar::new(access, config, connection, Metrics::default(), runtime)
}

/// The elector `a` of a Lease of its own, in its first term.
pub(super) async fn leading() -> (Campaign, Term) {
    let elector = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").build().unwrap();
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    (campaign, term)
}

/// Starts to wake the readers of `updates` at every change.
pub(super) fn spawn_follow(updates: &Arc<Updates>, health: &Health) -> JoinHandle<()> {
    let (updates, health) = (Arc::clone(updates), health.clone());
    tokio::spawn(async move { updates.follow(&health).await })
}

/// Free ports for the program and for administrators, and the address for the program.
pub(super) async fn endpoints(socket: Option<&Path>) -> (Endpoints, SocketAddr) {
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = listen().await;
    let address = program.local_addr().unwrap();
    let socket = match socket {
        Some(path) => Some(Socket::listen(path, "socket").await.unwrap()),
        None => None,
    };
    (Endpoints { program, socket, admin: listen().await }, address)
}

/// Asks for this path.
pub(super) async fn get<S: AsyncWrite + Unpin>(mut stream: S, path: &str) -> S {
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Reads an answer until it contains `text`.
pub(super) async fn read_until(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
    }
}
