//! A server that speaks just enough HTTP, on a real socket.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kube::Config;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, watch};

use super::IDLE;

/// A server behind a network path that can fail over silently.
pub(super) struct Server {
    /// The number of failovers. The server ignores requests on connections from before the last failover.
    pub(super) failovers: watch::Sender<usize>,
    /// Whether the server closes such a connection instead.
    pub(super) closes: AtomicBool,
    pub(super) connections: AtomicUsize,
    /// How many of the connections are open.
    pub(super) open: AtomicUsize,
    /// The number of ignored requests.
    pub(super) ignored: AtomicUsize,
    pub(super) user_agents: Mutex<Vec<String>>,
    /// How many of the next requests for `/busy` the server rejects.
    pub(super) busy: AtomicUsize,
    /// The server answers this many requests for `/together` at a time, so each needs a connection of its own.
    pub(super) together: Barrier,
    /// The number of events. Each one is sent on every watch.
    pub(super) events: watch::Sender<usize>,
}

pub(super) async fn serve() -> (Arc<Server>, Config) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let server = Arc::new(Server {
        failovers: watch::Sender::new(0),
        closes: AtomicBool::new(false),
        connections: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
        ignored: AtomicUsize::new(0),
        user_agents: Mutex::default(),
        busy: AtomicUsize::new(0),
        together: Barrier::new(IDLE),
        events: watch::Sender::new(0),
    });
    let accepting = Arc::clone(&server);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepting.connections.fetch_add(1, Ordering::SeqCst);
            accepting.open.fetch_add(1, Ordering::SeqCst);
            let server = Arc::clone(&accepting);
            tokio::spawn(async move {
                Arc::clone(&server).answer(stream).await;
                server.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (server, config)
}

impl Server {
    async fn answer(self: Arc<Self>, stream: TcpStream) {
        let failovers = *self.failovers.borrow();
        let is_stale = || *self.failovers.borrow() != failovers;
        while let Some(head) = read_head(&stream).await {
            if is_stale() {
                self.ignored.fetch_add(1, Ordering::SeqCst);
                if self.closes.load(Ordering::SeqCst) {
                    return;
                }
                continue;
            }
            if head.starts_with("CONNECT ") {
                write(&stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
                continue;
            }
            let agent = head.lines().find_map(|line| line.strip_prefix("user-agent: ")).unwrap_or_default();
            self.user_agents.lock().unwrap().push(agent.to_owned());
            if head.starts_with("GET /hang") {
                std::future::pending::<()>().await;
            }
            if head.contains("watch=true") {
                write(&stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                let mut events = self.events.subscribe();
                while events.changed().await.is_ok() {
                    write(&stream, b"5\r\nword\n\r\n").await;
                }
            }
            if head.starts_with("GET /partial") {
                write(&stream, b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}").await;
                std::future::pending::<()>().await;
            }
            if head.starts_with("GET /empty") {
                write(&stream, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                continue;
            }
            if head.starts_with("GET /busy")
                && self.busy.try_update(Ordering::SeqCst, Ordering::SeqCst, |busy| busy.checked_sub(1)).is_ok()
            {
                write(&stream, b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
                continue;
            }
            if head.starts_with("GET /chunked") {
                write(&stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n").await;
                continue;
            }
            if head.starts_with("GET /together") {
                self.together.wait().await;
            }
            write(&stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        }
    }

    pub(super) fn fail_over(&self) {
        self.failovers.send_modify(|failovers| *failovers += 1);
    }

    pub(super) fn send_event(&self) {
        self.events.send_modify(|events| *events += 1);
    }
}

async fn read_head(stream: &TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        stream.readable().await.ok()?;
        let mut buffer = [0; 4096];
        match stream.try_read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => head.extend(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8(head).unwrap())
}

/// Writes all bytes at once: they fit into the buffer of the socket.
async fn write(stream: &TcpStream, bytes: &[u8]) {
    stream.writable().await.unwrap();
    assert_eq!(stream.try_write(bytes).unwrap(), bytes.len());
}
