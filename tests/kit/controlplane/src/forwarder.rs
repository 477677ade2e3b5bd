//! Forwards TCP connections like a network or a load balancer between two processes, and can fail like them.
//!
//! All forwarders of this process share one runtime: a shared control plane outlives the runtime of the test that
//! started it.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{LazyLock, OnceLock},
};

use anyhow::{Context, Result, anyhow};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, sink},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    runtime::{Builder, Runtime},
    sync::watch::{self, Receiver},
    task::AbortHandle,
};

/// How many bytes are forwarded at a time.
const PIECE: usize = 16 * 1024;

static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("forwarder").enable_all().build());

/// An address on loopback that forwards its connections to another address. Dropping it breaks all connections.
pub struct Forwarder {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    accept: AbortHandle,
}

/// What happens to a connection from before a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It drops the client's bytes silently, for as long as the client keeps it open.
    Swallows,
    /// It is reset.
    Resets,
}

#[derive(Clone)]
struct Orders {
    target: SocketAddr,
    held: Held,
    /// Connections from before the last failover are stale.
    failovers: u64,
    stale: Stale,
}

/// The connections that are held: they forward nothing.
#[derive(Clone)]
enum Held {
    None,
    All,
    /// The connections of these processes.
    From(Vec<u32>),
}

impl Forwarder {
    /// A forwarder to this address.
    pub fn to(target: SocketAddr) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a forwarder")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let orders = Orders { target, held: Held::None, failovers: 0, stale: Stale::Resets };
        let (orders, seen) = watch::channel(orders);
        let runtime = RUNTIME.as_ref().map_err(|error| anyhow!("cannot start the forwarders: {error}"))?;
        let accept = runtime.spawn(async move {
            let listener = TcpListener::from_std(listener)?;
            loop {
                let (client, from) = listener.accept().await?;
                let mut seen = seen.clone();
                // Dropping the forwarder closes the channel, which ends the connection.
                tokio::spawn(async move {
                    let number = seen.borrow_and_update().failovers;
                    forward(client, from, number, seen).await
                });
            }
            #[expect(unreachable_code, reason = "it names the type of the block")]
            io::Result::Ok(())
        });
        Ok(Self { address, orders, accept: accept.abort_handle() })
    }

    /// The address to use in place of the target's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections to this address. Existing connections stay.
    pub fn switch(&self, target: SocketAddr) {
        self.orders.send_modify(|orders| orders.target = target);
    }

    /// Makes all existing connections stale; new ones work at once.
    pub fn fail_over(&self, stale: Stale) {
        self.orders.send_modify(|orders| {
            orders.failovers += 1;
            orders.stale = stale;
        });
    }

    /// Holds all connections until [`release`](Self::release). They then deliver the bytes that were sent during the
    /// hold.
    pub fn hold(&self) {
        self.orders.send_modify(|orders| orders.held = Held::All);
    }

    /// Holds only the connections of these processes. It needs `/proc`.
    pub(crate) fn hold_from(&self, processes: Vec<u32>) {
        self.orders.send_modify(|orders| orders.held = Held::From(processes));
    }

    /// Ends a hold.
    pub fn release(&self) {
        self.orders.send_modify(|orders| orders.held = Held::None);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

impl Orders {
    fn hold(&self, client: &Peer) -> bool {
        match &self.held {
            Held::None => false,
            Held::All => true,
            Held::From(processes) => client.belongs_to(processes),
        }
    }
}

/// The process at the other end of a connection. Its socket is looked up when a hold needs it: `/proc` lists all sockets
/// of the machine.
struct Peer {
    address: SocketAddr,
    socket: OnceLock<Option<String>>,
}

impl Peer {
    fn belongs_to(&self, processes: &[u32]) -> bool {
        let socket = self.socket.get_or_init(|| socket_of(self.address));
        socket.as_ref().is_some_and(|socket| processes.iter().any(|process| has_socket(*process, socket)))
    }
}

/// Forwards one connection until it ends, becomes stale, or the forwarder ends.
async fn forward(mut client: TcpStream, from: SocketAddr, number: u64, mut orders: Receiver<Orders>) -> Option<()> {
    let peer = Peer { address: from, socket: OnceLock::new() };
    let target = orders.wait_for(|orders| !orders.hold(&peer)).await.ok()?.target;
    // If the server refuses the connection, this connection is closed as well.
    let mut server = TcpStream::connect(target).await.ok()?;
    let stale = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = carry(from_client, to_server, orders.clone(), &peer);
        let down = carry(from_server, to_client, orders.clone(), &peer);
        tokio::select! {
            _ = async { tokio::try_join!(up, down) } => return None,
            stale = orders.wait_for(|orders| orders.failovers != number) => stale.ok()?.stale,
        }
    };
    match stale {
        // The kernel resets a connection that is closed with unread bytes.
        Stale::Resets => client.readable().await.ok(),
        Stale::Swallows => {
            let mut sink = sink();
            tokio::select! {
                _ = tokio::io::copy(&mut client, &mut sink) => None,
                _ = orders.wait_for(|_| false) => None,
            }
        }
    }
}

async fn carry(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut orders: Receiver<Orders>,
    client: &Peer,
) -> Result<()> {
    let mut bytes = Vec::with_capacity(PIECE);
    loop {
        bytes.clear();
        let read = from.read_buf(&mut bytes).await?;
        // The end of a connection is held like its bytes.
        orders.wait_for(|orders| !orders.hold(client)).await?;
        if read == 0 {
            return Ok(to.shutdown().await?);
        }
        to.write_all(&bytes).await?;
    }
}

/// The name of the socket at this local address in `/proc`; `None` if `/proc` does not show it.
fn socket_of(address: SocketAddr) -> Option<String> {
    // The kernel prints 127.0.0.1:80 as 0100007F:0050.
    let local = format!("0100007F:{:04X}", address.port());
    let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
    let mut sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let inode = sockets.find(|fields| fields.get(1) == Some(&local.as_str()))?.get(9)?.to_string();
    Some(format!("socket:[{inode}]"))
}

fn has_socket(process: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|link| link == Path::new(socket)))
}
