//! Starts etcd and kube-apiserver on loopback ports.
//!
//! The rule that must hold: a control plane that [`Builder::start`] returns is ready. An error contains the reason and
//! the end of the log.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher, Hasher},
    net::{Ipv4Addr, TcpListener, UdpSocket},
    path::Path,
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    ControlPlane, audit, certificates,
    forwarder::Forwarder,
    namespaces::Namespaces,
    plane::{Daemon, Kind},
    replication::{MEMBERS, Network, SERVERS, local},
    run::Run,
    tools::{Tool, Tools},
    users,
};

/// The flags for the address and the authorization of an API server without a node.
const WITHOUT_NODE: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--authorization-mode=RBAC",
];

/// The same for an API server with a node: it calls the kubelet, and pods find it by a Service. The address is
/// [`NODE_ADDRESS`](crate::NODE_ADDRESS).
const WITH_NODE: &[&str] = &[
    "--bind-address=0.0.0.0",
    "--advertise-address=10.66.0.1",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--allow-privileged",
    "--kubelet-preferred-address-types=InternalIP",
    "--kubelet-client-certificate=kubelet-client.crt",
    "--kubelet-client-key=kubelet-client.key",
];

/// The most attempts to start, if a start fails for a temporary reason.
const ATTEMPTS: u32 = 5;

/// How to start a [`ControlPlane`].
#[derive(Clone, Debug)]
pub struct Builder {
    audit: bool,
    replicated: bool,
    namespaces: bool,
    native_election: NativeElection,
    apiserver_flags: Vec<String>,
    tools: Tools,
}

/// How an API server supports Kubernetes' own coordinated leader election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NativeElection {
    /// Not at all, as in most clusters: the server does not serve LeaseCandidates of `coordination.k8s.io`.
    #[default]
    Off,
    /// The server serves LeaseCandidates but elects none of them: the feature gate is off. It drops the strategy and
    /// the preferred holder of every Lease.
    Served,
    /// The server serves LeaseCandidates and elects among them: the feature gate is on.
    On,
}

impl ControlPlane {
    /// One etcd and one API server, no audit log, no native election, no flags, programs from the environment.
    pub fn builder() -> Builder {
        Builder {
            audit: false,
            replicated: false,
            namespaces: false,
            native_election: NativeElection::default(),
            apiserver_flags: Vec::new(),
            tools: Tools::from_env(),
        }
    }
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

    /// Sets how the API server supports Kubernetes' own coordinated leader election. Default: not at all.
    #[must_use]
    pub fn native_election(mut self, native_election: NativeElection) -> Self {
        self.native_election = native_election;
        self
    }

    /// Starts three members of etcd, and two API servers behind a load balancer, which forwards to the first.
    #[must_use]
    pub fn replicated(mut self) -> Self {
        self.replicated = true;
        self
    }

    /// Starts the servers in [`Namespaces`] of their own, into which a node can be put.
    #[must_use]
    pub fn namespaces(mut self) -> Self {
        self.namespaces = true;
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
            tools.prepare(&[Tool::Etcd, Tool::KubeApiserver])?;
            Ok::<_, anyhow::Error>((tools.path(Tool::Etcd)?, tools.path(Tool::KubeApiserver)?))
        })
        .await??;
        let mut attempt = 1;
        loop {
            let plane = self.spawn(&etcd, &apiserver)?;
            let Err(error) = plane.wait_ready().await else { return Ok(plane) };
            // Another process took a free port before its use, or etcd had no leader in time on a busy machine.
            let passes = ["address already in use", "error creating storage factory: context deadline exceeded"];
            let may_pass = |daemon: &Daemon| passes.iter().any(|text| daemon.process.log_tail().contains(text));
            let may_pass = plane.members.iter().chain(&plane.servers).any(may_pass);
            if !may_pass || attempt == ATTEMPTS {
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
        let tokens = format!("{admin_token},admin,admin,system:masters\n{}", users::tokens(&admin_token));
        fs::write(folder.join("tokens.csv"), tokens).context("cannot write tokens.csv")?;
        if self.audit {
            fs::write(folder.join("audit-policy.json"), audit::POLICY).context("cannot write the audit policy")?;
        }

        let (members, servers) = if self.replicated { (MEMBERS, SERVERS) } else { (1, 1) };
        let (mut ports, reserved) = free_ports(2 * members + servers, RandomState::new().build_hasher().finish())?
            .into_iter()
            .unzip::<_, _, Vec<_>, Vec<_>>();
        let (client_ports, peer_ports) = (ports.split_off(members + servers), ports.split_off(servers));
        let network = self.replicated.then(|| Network::new(&ports, &client_ports, &peer_ports)).transpose()?;
        let address = |forwarders: Option<&Vec<Forwarder>>, number: usize, direct: u16| {
            forwarders.map_or(local(direct), |forwarders| forwarders[number].address())
        };
        let (peers, links) =
            (network.as_ref().map(|network| &network.peers), network.as_ref().map(|network| &network.links));
        let peers: Vec<_> = (0..members).map(|number| address(peers, number, peer_ports[number])).collect();
        let cluster: Vec<_> =
            peers.iter().enumerate().map(|(number, peer)| format!("{}=http://{peer}", name("etcd", number))).collect();

        let namespaces = self.namespaces.then(|| Namespaces::start(&run)).transpose()?;
        let program = |path: &Path| {
            let mut command = match &namespaces {
                Some(namespaces) => namespaces.in_network(path),
                None => Command::new(path),
            };
            // Collecting garbage less often saves an eighth of the CPU time of a start.
            command.env("GOGC", "400");
            command
        };
        let member = |number: usize| {
            let (client, peer) = (local(client_ports[number]), local(peer_ports[number]));
            let name = name("etcd", number);
            let mut command = program(etcd);
            // The guardian removes the folder `data`.
            command.arg("--data-dir").arg(folder.join("data").join(&name)).args([
                format!("--name={name}"),
                format!("--listen-client-urls=http://{client}"),
                format!("--advertise-client-urls=http://{client}"),
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{}", peers[number]),
                format!("--initial-cluster={}", cluster.join(",")),
                "--unsafe-no-fsync".to_owned(),
            ]);
            Ok(Daemon { process: run.spawn(&name, command)?, port: client.port(), kind: Kind::Etcd })
        };
        let members = (0..members).map(member).collect::<Result<Vec<_>>>()?;
        let server = |number: usize| {
            let name = name("kube-apiserver", number);
            let mut command = program(apiserver);
            // Relative paths: the folder's name may have any character.
            command.current_dir(folder).args([
                &format!("--etcd-servers=http://{}", address(links, number, client_ports[number])),
                &format!("--secure-port={}", ports[number]),
                "--cert-dir=certificates",
                "--tls-cert-file=apiserver.crt",
                "--tls-private-key-file=apiserver.key",
                "--client-ca-file=ca.crt",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-account-key-file=sa.pub",
                "--service-account-signing-key-file=sa.key",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--token-auth-file=tokens.csv",
            ]);
            if self.audit {
                let log = format!("--audit-log-path={}", audit::log(&name));
                command.args(["--audit-policy-file=audit-policy.json", &log]);
            }
            command.args(if self.namespaces { WITH_NODE } else { WITHOUT_NODE });
            command.args(self.native_election.flags()).args(&self.apiserver_flags);
            Ok(Daemon { process: run.spawn(&name, command)?, port: ports[number], kind: Kind::ApiServer })
        };
        let servers = (0..servers).map(server).collect::<Result<Vec<_>>>()?;
        if let Some(namespaces) = &namespaces {
            for daemon in members.iter().chain(&servers) {
                namespaces.open_port(daemon.port)?;
            }
        }

        let front = network.as_ref().map_or(local(ports[0]), |network| network.front.address());
        let url = format!("https://{front}").parse().context("cannot make the URL")?;
        let (audit, tools) = (self.audit, self.tools.clone());
        let plane = ControlPlane {
            servers,
            members,
            network,
            namespaces,
            run,
            url,
            authority,
            admin_token,
            audit,
            tools,
            _reserved: reserved,
        };
        plane.write_kubeconfig(&plane.kubeconfig(), &plane.admin_token, "default")?;
        Ok(plane)
    }
}

impl NativeElection {
    /// The flags of the API server.
    pub const fn flags(self) -> &'static [&'static str] {
        const SERVED: &str = "--runtime-config=coordination.k8s.io/v1beta1=true";
        match self {
            Self::Off => &[],
            Self::Served => &[SERVED],
            Self::On => &[SERVED, "--feature-gates=CoordinatedLeaderElection=true"],
        }
    }
}

/// Ports below those of outgoing connections (from 32768 on Linux, from 49152 elsewhere). Otherwise the kernel could
/// assign one to a connection while its server restarts. Each comes with a UDP socket of its number: while that exists, no
/// other control plane takes the port, although its server may be dead.
fn free_ports(number: usize, start: u64) -> Result<Vec<(u16, UdpSocket)>> {
    const FIRST: u64 = 20_000;
    const COUNT: u64 = 12_000;
    let reserve = |port| Some((port, UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?));
    let ports: Vec<_> = (0..COUNT)
        .filter_map(|offset| u16::try_from(FIRST + (start % COUNT + offset) % COUNT).ok())
        .filter_map(reserve)
        .filter(|(port, _)| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .take(number)
        .collect();
    ensure!(ports.len() == number, "too few free ports on the loopback interface");
    Ok(ports)
}

/// A port of the loopback interface that no process listens on, and that no control plane takes while this process runs.
///
/// # Errors
/// Fails if no port is free.
pub fn free_port() -> Result<u16> {
    static RESERVED: Mutex<Vec<(u16, UdpSocket)>> = Mutex::new(Vec::new());
    let found = free_ports(1, RandomState::new().build_hasher().finish())?;
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    reserved.extend(found);
    reserved.last().map(|(port, _)| *port).context("no free port")
}

fn random_token() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

/// The name of a daemon. The first of several has the same name as a single one.
fn name(kind: &str, number: usize) -> String {
    if number == 0 { kind.to_owned() } else { format!("{kind}-{number}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_control_planes_have_the_same_ports_even_while_no_process_listens() {
        let of = |ports: &[(u16, UdpSocket)]| ports.iter().map(|(port, _)| *port).collect::<Vec<_>>();
        let start = RandomState::new().build_hasher().finish();
        let first = free_ports(3, start).unwrap();
        let second = free_ports(3, start).unwrap();
        assert!(of(&first).iter().all(|port| !of(&second).contains(port)));
    }
}
