//! A sidecar as a process, and the requests of the program beside it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use hustings_controlplane::{ControlPlane, PATIENCE, Process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use crate::http::{Answer, ask};
use crate::replica::{hustings, logged_address, until};

/// A replica in direct mode needs only a Lease.
pub(crate) const DIRECT: [&str; 4] =
    ["--direct", "--lease-duration=60s", "--renew-deadline=50s", "--retry-period=300ms"];

/// A sidecar. Dropping this value kills it.
pub(crate) struct Sidecar {
    pub(crate) name: String,
    pub(crate) process: Process,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// A stream of events.
pub(crate) struct Events<S = TcpStream>(BufReader<S>);

/// One event. Fields that the stream omits are empty.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// `hustings sidecar` for the Lease `work` as `name`, on ports of its own. `flags` may override these.
pub(crate) fn command(kubeconfig: &Path, namespace: &str, name: &str, flags: &[&str]) -> Command {
    let mut command = hustings();
    command.args(["sidecar", "--log-format=json", "--namespace", namespace, "--identity", name]);
    let usual = ["--lease=work", "--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"];
    command.args(usual.iter().filter(|usual| {
        let flag = usual.split_inclusive('=').next();
        !flags.iter().any(|given| given.split_inclusive('=').next() == flag)
    }));
    command.args(flags).arg("--kubeconfig").arg(kubeconfig);
    command
}

impl Sidecar {
    /// Starts a sidecar as the administrator.
    pub(crate) async fn start(plane: &ControlPlane, namespace: &str, name: &str, flags: &[&str]) -> Self {
        Self::run(plane, namespace, name, command(&plane.kubeconfig(), namespace, name, flags)).await
    }

    /// Starts `command` and waits until it listens.
    pub(crate) async fn run(plane: &ControlPlane, namespace: &str, name: &str, command: Command) -> Self {
        // A log of its own, also if an earlier process had the name.
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let process = plane.spawn(&format!("{namespace}-{name}-{number}"), command).unwrap();
        let log = || fs::read_to_string(process.log()).unwrap();
        let address = |message: &str| logged_address(&log(), message);
        let listening = async || Some((address("the sidecar listens")?, address("the admin server listens")?));
        let (listen, admin) = until("it listens", log, listening).await;
        Self { name: name.to_owned(), process, listen, admin }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        ask(self.listen, "GET", path).await
    }

    /// The answer of `/leader`.
    pub(crate) async fn standing(&self) -> Value {
        self.get("/leader").await.json()
    }

    /// The code of `/isleader`.
    pub(crate) async fn is_leader(&self) -> u16 {
        ask(self.admin, "GET", "/isleader").await.code
    }

    /// Waits until it leads, and returns the answer of `/leader`.
    pub(crate) async fn leads(&self) -> Value {
        let leads = async || Some(self.standing().await).filter(|standing| standing["isLeader"] == true);
        until(&format!("{} leads", self.name), || self.log(), leads).await
    }

    pub(crate) async fn events(&self, path: &str) -> Events {
        Events::open(TcpStream::connect(self.listen).await.unwrap(), path).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Events<S> {
    /// Asks for a stream of events over a connection.
    pub(crate) async fn open(mut stream: S, path: &str) -> Self {
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut events = Self(BufReader::new(stream));
        let head = events.block().await.unwrap();
        assert!(head.starts_with("HTTP/1.0 200 ") && head.contains("content-type: text/event-stream"), "{head}");
        events
    }

    /// The connection.
    pub(crate) fn stream(&mut self) -> &mut S {
        self.0.get_mut()
    }

    /// The next event; `None` once the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        // Comments keep the stream busy.
        timeout(PATIENCE, self.next_event()).await.unwrap()
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            let mut event = Event::default();
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("event", name)) => name.clone_into(&mut event.name),
                    Some(("id", id)) => id.clone_into(&mut event.id),
                    Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                    // A comment, or the retry interval.
                    _ => {}
                }
            }
            if !event.data.is_null() {
                return Some(event);
            }
        }
    }

    /// The next event of this name.
    pub(crate) async fn named(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("no {name} in the whole stream"));
            if event.name == name {
                return event;
            }
        }
    }

    /// The lines up to the next empty one.
    async fn block(&mut self) -> Option<String> {
        let mut block = String::new();
        while timeout(PATIENCE, self.0.read_line(&mut block)).await.unwrap().unwrap() > 0 {
            if block.ends_with("\n\n") || block.ends_with("\r\n\r\n") {
                return Some(block);
            }
        }
        None
    }
}
