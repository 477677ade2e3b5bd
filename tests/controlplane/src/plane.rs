//! Starts etcd and a kube-apiserver on loopback ports, and gives tests control of both.
//!
//! The rule that must hold: a control plane that [`Builder::start`] returns is ready. An error names the reason, with the
//! end of the log.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher, Hasher},
    net::{Ipv4Addr, TcpListener},
    ops::Deref,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use http::{Request, Uri};
use tokio::{
    sync::OnceCell,
    time::{sleep, timeout},
};

use crate::{
    AuditEvent, audit,
    certificates::{self, Authority},
    elected,
    process::Process,
    run::Run,
    tools::{Tool, Tools},
};

/// Two seconds on an idle machine; a machine that compiles at the same time takes many times that.
const READY_LIMIT: Duration = Duration::from_mins(2);
const READY_REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Between the question for a free port and its use another process may take it.
const PORT_ATTEMPTS: u32 = 5;

/// An etcd and a kube-apiserver, which end with this value, or with the process.
pub struct ControlPlane {
    // Fields drop in this order, so the API server logs no errors about an etcd that ended first.
    apiserver: Process,
    etcd: Process,
    run: Run,
    url: Uri,
    authority: Authority,
    admin_token: String,
    audit: bool,
    tools: Tools,
}

/// How to start a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct Builder {
    audit: bool,
    native_election: NativeElection,
    apiserver_flags: Vec<String>,
    tools: Tools,
}

/// What an API server does for Kubernetes' own coordinated leader election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeElection {
    /// Nothing, as in most clusters: LeaseCandidates of `coordination.k8s.io` are not served.
    #[default]
    Off,
    /// The server serves LeaseCandidates and elects none of them: the feature gate is off. It drops the strategy and the
    /// preferred holder of every Lease.
    Served,
    /// The server serves LeaseCandidates and elects among them: the feature gate is on.
    On,
}

/// The API server or the etcd of a control plane.
pub struct Component<'plane> {
    plane: &'plane ControlPlane,
    process: &'plane Process,
}

/// The control plane that all tests of this binary share. If the test that holds it panics, the logs are kept.
pub struct Shared(&'static ControlPlane);

/// The control plane that all tests of this binary share: started once, and ended with the process. Each test makes
/// itself a namespace, and clients of its own, as a client belongs to a runtime.
pub async fn shared() -> Result<Shared> {
    static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
    SHARED.get_or_try_init(|| ControlPlane::builder().audit(true).start()).await.map(Shared)
}

impl Builder {
    /// Whether to write an audit log, see [`ControlPlane::audit_events`].
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Adds a flag of kube-apiserver, such as `--feature-gates=Name=true`.
    #[must_use]
    pub fn apiserver_flag(mut self, flag: impl Into<String>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// What the API server does for Kubernetes' own coordinated leader election; by default nothing.
    #[must_use]
    pub fn native_election(mut self, native_election: NativeElection) -> Self {
        self.native_election = native_election;
        self
    }

    /// Where the programs come from; by default [`Tools::from_env`].
    #[must_use]
    pub fn tools(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// Builds the programs if they are missing, starts them, and waits until they are ready.
    pub async fn start(self) -> Result<ControlPlane> {
        let tools = self.tools.clone();
        let (etcd, apiserver) = tokio::task::spawn_blocking(move || {
            Ok::<_, anyhow::Error>((tools.path(Tool::Etcd)?, tools.path(Tool::KubeApiserver)?))
        })
        .await??;
        let mut attempt = 1;
        loop {
            let plane = self.spawn(&etcd, &apiserver)?;
            let Err(error) = plane.wait_ready().await else { return Ok(plane) };
            let taken = [&plane.etcd, &plane.apiserver]
                .iter()
                .any(|process| process.log_tail().contains("address already in use"));
            if !taken || attempt == PORT_ATTEMPTS {
                plane.run.keep();
                bail!("{error:#}\nthe logs are in {}", plane.folder().display());
            }
            attempt += 1;
        }
    }

    fn spawn(&self, etcd: &Path, apiserver: &Path) -> Result<ControlPlane> {
        let run = Run::new()?;
        let folder = run.folder();
        let authority = certificates::write(folder)?;
        let admin_token = random_token();
        let [etcd_port, peer_port, port] = free_ports()?;

        let (client_url, peer_url) = (format!("http://127.0.0.1:{etcd_port}"), format!("http://127.0.0.1:{peer_port}"));
        let mut command = Command::new(etcd);
        command.arg("--data-dir").arg(folder.join("etcd")).args([
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
        ]);
        let etcd = run.spawn("etcd", command)?;

        let tokens = format!("{admin_token},admin,admin,system:masters\n{}", elected::tokens(&admin_token));
        fs::write(folder.join("tokens.csv"), tokens).context("cannot write tokens.csv")?;
        let mut command = Command::new(apiserver);
        // Relative paths: the folder's name may have any character.
        command.current_dir(folder).args([
            &format!("--etcd-servers={client_url}"),
            &format!("--secure-port={port}"),
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--cert-dir=certificates",
            "--tls-cert-file=apiserver.crt",
            "--tls-private-key-file=apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--token-auth-file=tokens.csv",
        ]);
        if self.audit {
            fs::write(folder.join("audit-policy.json"), audit::POLICY).context("cannot write the audit policy")?;
            command.args(["--audit-policy-file=audit-policy.json", "--audit-log-path=audit.log"]);
        }
        command.args(self.native_election.flags()).args(&self.apiserver_flags);
        let apiserver = run.spawn("kube-apiserver", command)?;

        let url = format!("https://127.0.0.1:{port}").parse().context("cannot make the URL")?;
        let tools = self.tools.clone();
        let plane = ControlPlane { apiserver, etcd, run, url, authority, admin_token, audit: self.audit, tools };
        plane.write_kubeconfig(&plane.kubeconfig(), &plane.admin_token, "default")?;
        Ok(plane)
    }
}

impl NativeElection {
    const fn flags(self) -> &'static [&'static str] {
        const SERVED: &str = "--runtime-config=coordination.k8s.io/v1beta1=true";
        match self {
            Self::Off => &[],
            Self::Served => &[SERVED],
            Self::On => &[SERVED, "--feature-gates=CoordinatedLeaderElection=true"],
        }
    }
}

impl ControlPlane {
    /// No audit log, no native election, no flags, programs from the environment.
    pub fn builder() -> Builder {
        let native_election = NativeElection::default();
        Builder { audit: false, native_election, apiserver_flags: Vec::new(), tools: Tools::from_env() }
    }

    /// Where the API server listens.
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// The certificate that clients verify the API server with.
    pub fn ca_pem(&self) -> &str {
        &self.authority.pem
    }

    /// The folder of this run: logs, kubeconfig files, and whatever a test wants to go with them.
    pub fn folder(&self) -> &Path {
        self.run.folder()
    }

    /// The API server's process.
    pub fn apiserver(&self) -> Component<'_> {
        Component { plane: self, process: &self.apiserver }
    }

    /// The process of etcd.
    pub fn etcd(&self) -> Component<'_> {
        Component { plane: self, process: &self.etcd }
    }

    /// Starts a process that ends with the returned value, or with the control plane, or with the test run, and whose
    /// log `NAME.log` is in the folder of this run.
    pub fn spawn(&self, name: &str, command: Command) -> Result<Process> {
        self.run.spawn(name, command)
    }

    /// The requests to the API server since its start; an error without an audit log.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        ensure!(self.audit, "this control plane was started without an audit log");
        let log = fs::read_to_string(self.folder().join("audit.log")).context("cannot read the audit log")?;
        audit::parse(&log).context("cannot parse the audit log")
    }

    /// Waits until the API server reports ready, which needs etcd.
    pub async fn wait_ready(&self) -> Result<()> {
        let client = self.admin();
        let started = Instant::now();
        loop {
            for process in [&self.etcd, &self.apiserver] {
                if let Some(status) = process.exit_status()? {
                    bail!("{} ended ({status}):\n{}", process.name(), process.log_tail());
                }
            }
            let request = Request::get("/readyz").body(Vec::new())?;
            let answer = match timeout(READY_REQUEST_LIMIT, client.request_text(request)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {READY_REQUEST_LIMIT:?}"),
            };
            if started.elapsed() > READY_LIMIT {
                bail!("not ready within {READY_LIMIT:?}: {answer}\n{}", self.apiserver.log_tail());
            }
            sleep(Duration::from_millis(50)).await;
        }
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

    pub(crate) fn tools(&self) -> &Tools {
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
    /// Starts the process on the same port with the same data, after SIGTERM if it runs, and waits until the control
    /// plane is ready.
    pub async fn restart(&self) -> Result<()> {
        if self.process.exit_status()?.is_none() {
            self.stop().await?;
        }
        self.process.start()?;
        self.plane.wait_ready().await
    }
}

/// The other methods are those of the process. An etcd that is stopped rather than killed waits some seconds for the API
/// server's connections to end.
impl Deref for Component<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.process
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

/// Ports below those that the kernel gives to outgoing connections (32768 on Linux, 49152 elsewhere), as it would
/// otherwise give one away while its server is being restarted.
fn free_ports() -> Result<[u16; 3]> {
    const FIRST: u64 = 20_000;
    const COUNT: u64 = 12_000;
    let start = RandomState::new().build_hasher().finish() % COUNT;
    let ports: Vec<u16> = (0..COUNT)
        .filter_map(|offset| u16::try_from(FIRST + (start + offset) % COUNT).ok())
        .filter(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .take(3)
        .collect();
    ports.try_into().ok().context("too few free ports on the loopback interface")
}

fn random_token() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
