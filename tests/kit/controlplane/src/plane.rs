//! A running control plane, and control of its processes.

use std::{
    fs,
    net::UdpSocket,
    ops::Deref,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use http::{Request, Uri};
use kube::Client;
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};

use crate::{
    AuditEvent, audit, certificates::Authority, namespaces::Namespaces, process::Process, replication::Network,
    run::Run, tools::Tools,
};

/// How long a start may take. It takes two seconds on an idle machine, and many times as long on one that compiles.
const READY_LIMIT: Duration = Duration::from_mins(2);
const READY_REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// An etcd and a kube-apiserver, or several of each. They end when this value is dropped or the process ends.
pub struct ControlPlane {
    // Fields drop in this order, so the API server logs no errors about an etcd that ended first.
    pub(crate) servers: Vec<Daemon>,
    pub(crate) members: Vec<Daemon>,
    pub(crate) network: Option<Network>,
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) run: Run,
    pub(crate) url: Uri,
    pub(crate) authority: Authority,
    pub(crate) admin_token: String,
    pub(crate) audit: bool,
    pub(crate) tools: Tools,
    /// Keeps other control planes from the ports of processes that are dead for a while.
    pub(crate) _reserved: Vec<UdpSocket>,
}

/// An API server, or a member of etcd.
pub(crate) struct Daemon {
    pub(crate) process: Process,
    /// The port for clients.
    pub(crate) port: u16,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    ApiServer,
    Etcd,
}

/// An API server or a member of etcd of a control plane.
pub struct Component<'plane> {
    plane: &'plane ControlPlane,
    daemon: &'plane Daemon,
}

/// A control plane that tests of this binary share. If the test that holds it panics, the logs are kept.
pub struct Shared(&'static ControlPlane);

/// Returns the control plane that all tests of this binary share. It is started once, and ends with the process. Each
/// test creates its own namespace, and its own clients, because a client belongs to a runtime.
pub async fn shared() -> Result<Shared> {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED.get_or_try_init(|| ControlPlane::builder().audit(true).start()).await.map(Shared::new)
}

impl ControlPlane {
    /// The URL of the API server.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// The certificate with which clients verify the API server.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }

    /// The folder of this run: logs, kubeconfig files, and files of a test that are to be removed with them.
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// The API server, the first of several.
    pub fn apiserver(&self) -> Component<'_> {
        self.server(0)
    }

    /// One of the API servers.
    pub fn server(&self, number: usize) -> Component<'_> {
        Component { plane: self, daemon: &self.servers[number] }
    }

    /// The etcd, the first member of several.
    pub fn etcd(&self) -> Component<'_> {
        self.member(0)
    }

    /// One of the members of etcd.
    pub fn member(&self, number: usize) -> Component<'_> {
        Component { plane: self, daemon: &self.members[number] }
    }

    /// Starts a process. It ends with the returned value, the control plane or the test run, whichever ends first. Its
    /// log is `NAME.log` in the folder of this run.
    pub fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        self.run.spawn(name, command)
    }

    /// The namespaces in which the servers run, if the builder asked for them.
    pub fn namespaces(&self) -> Option<&Namespaces> {
        self.namespaces.as_ref()
    }

    /// The requests to the API servers since their start, one server after the other.
    ///
    /// # Errors
    /// Fails if the control plane was started without an audit log.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        ensure!(self.audit, "this control plane was started without an audit log");
        let mut events = Vec::new();
        for server in &self.servers {
            let log = self.folder().join(audit::log(server.process.name()));
            let log = fs::read_to_string(log).context("cannot read the audit log")?;
            events.extend(audit::parse(&log).context("cannot parse the audit log")?);
        }
        Ok(events)
    }

    /// Waits until every API server and etcd report ready.
    pub async fn wait_ready(&self) -> Result<()> {
        for daemon in self.members.iter().chain(&self.servers) {
            Component { plane: self, daemon }.wait_ready().await?;
        }
        Ok(())
    }

    /// Keeps the logs after the end of the process, and prints where they are.
    pub fn keep_logs(&self) {
        self.run.keep();
    }

    pub(crate) fn process_group(&self) -> i32 {
        self.run.process_group()
    }

    pub(crate) fn admin_token(&self) -> &str {
        &self.admin_token
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The tools that provide the programs.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if thread::panicking() {
            self.run.keep();
        }
    }
}

impl Component<'_> {
    /// Starts the process again on the same port with the same data, and waits until it is ready. Stops it first
    /// (SIGTERM) if it runs.
    pub async fn restart(&self) -> Result<()> {
        if self.exit_status()?.is_none() {
            self.stop().await?;
        }
        self.start()?;
        self.wait_ready().await
    }

    /// Waits until the process reports ready. An API server needs etcd for that, and a member of etcd a leader.
    async fn wait_ready(&self) -> Result<()> {
        let name = self.process().name();
        let client = match self.daemon.kind {
            Kind::ApiServer => {
                let mut config = self.plane.config();
                config.cluster_url = format!("https://127.0.0.1:{}", self.daemon.port).parse()?;
                config.try_into()?
            }
            Kind::Etcd => {
                Client::try_from(kube::Config::new(format!("http://127.0.0.1:{}", self.daemon.port).parse()?))?
            }
        };
        let started = Instant::now();
        loop {
            if let Some(status) = self.exit_status()? {
                bail!("{name} ended ({status}):\n{}", self.process().log_tail());
            }
            let request = Request::get("/readyz").body(Vec::new())?;
            let answer = match timeout(READY_REQUEST_LIMIT, client.request_text(request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {READY_REQUEST_LIMIT:?}"),
            };
            if started.elapsed() > READY_LIMIT {
                bail!("{name} is not ready within {READY_LIMIT:?}: {answer}\n{}", self.process().log_tail());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn process(&self) -> &Process {
        &self.daemon.process
    }
}

/// Gives access to the methods of the process. An etcd that is stopped, not killed, waits some seconds for the API
/// server's connections to end.
impl Deref for Component<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.process()
    }
}

impl Shared {
    /// Shares a control plane that the tests of a binary keep in a static, together with what they have installed in
    /// it.
    pub fn new(plane: &'static ControlPlane) -> Self {
        Self(plane)
    }
}

impl Deref for Shared {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.run.keep();
        }
    }
}
