//! The network between a process and the API server. It can hold bytes in both directions, and deliver them later, also
//! after their sender has given up and closed its connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hustings_controlplane::ControlPlane;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::replica::until;

/// The longest pause between two pieces that are delivered after a hold.
const LONGEST_DISTANCE: Duration = Duration::from_secs(1);

/// The bytes carried at a time.
const PIECE: usize = 16 * 1024;

pub(crate) struct Wire {
    address: SocketAddr,
    held: watch::Sender<bool>,
    owed: Owed,
    _task: AbortOnDropHandle<()>,
}

/// How many connections have delivered their held bytes and have no answer yet.
type Owed = Arc<AtomicUsize>;

impl Wire {
    /// A wire to the API server.
    pub(crate) async fn to(plane: &ControlPlane) -> Self {
        let port = plane.url().port_u16().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (held, is_held) = watch::channel(false);
        let owed = Owed::default();
        let accept = {
            let owed = Arc::clone(&owed);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    // An API server that is not running refuses connections, and so does the wire.
                    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { continue };
                    tokio::spawn(carry(client, server, is_held.clone(), Arc::clone(&owed)));
                }
            }
        };
        Self { address, held, owed, _task: AbortOnDropHandle::new(tokio::spawn(accept)) }
    }

    /// The address to use in place of the server's.
    pub(crate) fn address(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Holds all bytes from now on.
    pub(crate) fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Delivers the held bytes, and waits until the server has answered them.
    pub(crate) async fn release(&self) {
        self.held.send_replace(false);
        // A connection with held bytes registers before it delivers them.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let answered = async || (self.owed.load(Ordering::SeqCst) == 0).then_some(());
        until("what was held is answered", String::new, answered).await;
    }
}

async fn carry(client: TcpStream, server: TcpStream, is_held: watch::Receiver<bool>, owed: Owed) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let waits = Arc::new(AtomicBool::new(false));
    let up = deliver(from_client, to_server, is_held.clone(), Arc::clone(&owed), Arc::clone(&waits));
    let down = answer(from_server, to_client, is_held, owed, waits);
    // Only the server closes its end: otherwise it would drop requests that it has not executed yet.
    let (_to_server, ()) = futures::join!(up, down);
}

/// Carries the client's bytes. It keeps bytes that arrive while the wire is held, and delivers them even if their sender is
/// gone: in order, and with their original pauses up to a second each. So a request arrives before the end of its
/// connection, as in a slow network.
async fn deliver(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
    owed: Owed,
    waits: Arc<AtomicBool>,
) -> OwnedWriteHalf {
    let mut kept: Vec<(Instant, Vec<u8>)> = Vec::new();
    let (mut was_held, mut ended) = (false, false);
    loop {
        let now_held = *is_held.borrow_and_update();
        was_held |= now_held && !kept.is_empty();
        if !now_held {
            if std::mem::take(&mut was_held) && !waits.swap(true, Ordering::SeqCst) {
                owed.fetch_add(1, Ordering::SeqCst);
            }
            let mut former = None;
            for (at, bytes) in kept.drain(..) {
                let distance = former.map_or(Duration::ZERO, |former| at - former);
                tokio::time::sleep(distance.min(LONGEST_DISTANCE)).await;
                former = Some(at);
                if to.write_all(&bytes).await.is_err() {
                    return to;
                }
            }
            if ended {
                return to;
            }
        }
        let mut bytes = Vec::with_capacity(PIECE);
        tokio::select! {
            changed = is_held.changed() => {
                if changed.is_err() {
                    return to;
                }
            }
            read = from.read_buf(&mut bytes), if !ended => match read {
                Ok(0) | Err(_) => ended = true,
                Ok(_) => kept.push((Instant::now(), bytes)),
            }
        }
    }
}

/// Carries the server's bytes.
async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut is_held: watch::Receiver<bool>,
    owed: Owed,
    waits: Arc<AtomicBool>,
) {
    let mut bytes = Vec::with_capacity(PIECE);
    let mut is_gone = false;
    loop {
        let read = from.read_buf(&mut bytes).await;
        let is_over = matches!(read, Ok(0) | Err(_));
        // It stays set at the end: a server that has closed the connection, for example after a slow handshake, owes no answer
        // to later bytes.
        if waits.swap(is_over, Ordering::SeqCst) {
            owed.fetch_sub(1, Ordering::SeqCst);
        }
        if is_over || is_held.wait_for(|held| !held).await.is_err() {
            return;
        }
        is_gone = is_gone || to.write_all(&bytes).await.is_err();
        bytes.clear();
    }
}
