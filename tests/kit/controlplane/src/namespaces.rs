//! Linux namespaces for a control plane that has a node.
//!
//! A kubelet mounts filesystems, creates network links, and changes kernel settings. All of that must affect only this
//! run, and end with it. So one process, the *init*, has its own namespaces for mounts, network, processes and host
//! name, and the node's programs enter them. When init ends, the kernel kills every process inside, containers
//! included, and removes the mounts and links. Threads of this process in the network namespace end with [`Namespaces`].
//! Only cgroups remain: the guardian removes them.
//!
//! The rule that must hold: nothing outside the namespaces changes, neither a setting nor a link nor a mount.

use std::{
    ffi::OsStr,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::fd::AsFd as _,
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::{io::copy_bidirectional, net::TcpStream, runtime::Builder, sync::watch};

use crate::{process::Process, run::Run};

/// The address of the node and of the API server inside the namespaces.
pub const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);

/// The folder of the cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// How long the set-up may take.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// The script of the first process inside. Arguments: the folder of the run, the address of the node.
const INIT: &str = include_str!("namespaces.sh");

/// Directories that are empty inside. The node must not need any file in them.
const REPLACED: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// Runs a function in a network namespace, on a thread of its own, and waits for its result. Sockets in the result stay
/// in that network.
///
/// # Panics
/// If the function panics.
pub fn run_in_network<T: Send>(network: &Path, function: impl FnOnce() -> T + Send) -> Result<T> {
    let file = fs::File::open(network).with_context(|| format!("cannot open {}", network.display()))?;
    let inside = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        io::Result::Ok(function())
    };
    let outcome = thread::scope(|scope| scope.spawn(inside).join());
    outcome.unwrap_or_else(|panic| resume_unwind(panic)).with_context(|| format!("cannot enter {}", network.display()))
}

/// The namespaces of one run.
pub struct Namespaces {
    /// When it is dropped, the threads inside end.
    threads: watch::Sender<()>,
    init: u32,
    cgroup: String,
    /// When this process ends, everything inside ends.
    _unshare: Process,
}

impl Namespaces {
    /// Checks whether this machine allows such namespaces.
    ///
    /// # Errors
    /// Returns the reason why it does not.
    pub fn check() -> Result<()> {
        ensure!(rustix::process::geteuid().is_root(), "a node needs root");
        let allowed =
            unshare().args(["mount", "-t", "tmpfs", "tmpfs", "/run"]).output().context("cannot run unshare")?;
        ensure!(
            allowed.status.success(),
            "this machine does not allow namespaces: {}",
            String::from_utf8_lossy(&allowed.stderr).trim()
        );
        let probe = format!("hustings-probe-{}", std::process::id());
        for controller in controllers()? {
            let cgroup = controller.join(&probe);
            fs::create_dir(&cgroup)
                .and_then(|()| fs::remove_dir(&cgroup))
                .with_context(|| format!("this machine does not allow cgroups in {}", controller.display()))?;
        }
        Ok(())
    }

    pub(crate) fn start(run: &Run) -> Result<Self> {
        let folder = run.folder();
        for replaced in REPLACED {
            ensure!(
                !folder.starts_with(replaced),
                "a node hides {replaced}, and so cannot run in {}",
                folder.display()
            );
        }
        let name = folder.file_name().and_then(OsStr::to_str).context("the folder of the run has no name")?;
        let cgroup = format!("hustings-{name}");
        // The guardian runs this once all processes have ended. It takes a moment until the kernel considers a cgroup
        // empty.
        let cleanup = format!(
            "for root in {CGROUPS} {CGROUPS}/*; do\n\
             [ ! -d $root/{cgroup} ] || find $root/{cgroup} -depth -type d -exec rmdir {{}} + || exit\n\
             done\n"
        );
        fs::write(folder.join("cleanup"), cleanup).context("cannot write the cleanup")?;
        for controller in controllers()? {
            create_cgroup(&controller, &cgroup)?;
        }

        let mut command = unshare();
        command.args(["sh", "-c", INIT, "init"]).arg(folder).arg(NODE_ADDRESS.to_string());
        let unshare = run.spawn("init", command)?;
        let ready = folder.join("init.ready");
        let began = Instant::now();
        while !ready.exists() {
            if let Some(status) = unshare.exit_status()? {
                bail!("cannot set up the namespaces ({status}):\n{}", unshare.log_tail());
            }
            ensure!(began.elapsed() < READY_LIMIT, "no namespaces within {READY_LIMIT:?}:\n{}", unshare.log_tail());
            thread::sleep(Duration::from_millis(10));
        }
        let init = child_of(unshare.pid()).context("the first process of the namespaces has ended")?;
        Ok(Self { threads: watch::Sender::new(()), init, cgroup, _unshare: unshare })
    }

    /// The name of the cgroup, below each controller, for all containers.
    pub fn cgroup(&self) -> &str {
        &self.cgroup
    }

    /// A command that runs inside, in all namespaces. It ends with the process here that enters the namespaces for it:
    /// a signal that ends that process, SIGKILL included, kills the command.
    pub fn inside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.to_string(), "--mount", "--net", "--pid", "--uts", "--ipc"]);
        command.args(["--", "setpriv", "--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// A command in the network namespace only, as a process that can be paused and killed.
    pub(crate) fn in_network(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.network().display())).arg("--").arg(program);
        command
    }

    /// Forwards connections to this port of loopback to the same port inside, as long as this value lives.
    pub(crate) fn open_port(&self, port: u16) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        listener.set_nonblocking(true)?;
        self.spawn_inside("forwarder", async move || {
            // The listener stays in the network in which it was opened.
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (mut client, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(address).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        })
    }

    /// Runs a function on a thread of its own in the network namespace, until it ends or this value is dropped. Returns
    /// when the thread has entered it.
    pub fn spawn_inside(
        &self,
        name: &str,
        function: impl AsyncFnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let network = fs::File::open(self.network()).context("cannot open the network of the namespaces")?;
        let mut threads = self.threads.subscribe();
        let (moved, has_moved) = mpsc::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let outcome = move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network));
            let is_inside = outcome.is_ok();
            let _ = moved.send(outcome);
            if !is_inside {
                return;
            }
            let until_dropped = async {
                tokio::select! {
                    outcome = function() => outcome,
                    _ = threads.changed() => Ok(()),
                }
            };
            let runtime = Builder::new_current_thread().enable_all().build();
            if let Err(error) = runtime.and_then(|runtime| runtime.block_on(until_dropped)) {
                eprintln!("a thread in the network of the node has ended: {error}");
            }
        })?;
        has_moved.recv()?.context("cannot enter the network of the namespaces")
    }

    fn network(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.init))
    }
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--uts", "--ipc", "--propagation=private"]);
    command.args(["--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

/// The roots in which a cgroup is created: one for each controller of cgroup v1, or the only one of v2.
fn controllers() -> Result<Vec<PathBuf>> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_owned()]);
    }
    let mounts = fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let controllers: Vec<_> = mounts
        .filter(|fields| fields.get(2) == Some(&"cgroup"))
        .filter_map(|fields| fields.get(1).map(PathBuf::from))
        .collect();
    ensure!(!controllers.is_empty(), "this machine has no cgroups in {CGROUPS}");
    Ok(controllers)
}

/// Creates a cgroup. A cpuset of cgroup v1 accepts no process before its processors and memory are set.
fn create_cgroup(controller: &Path, name: &str) -> Result<()> {
    let cgroup = controller.join(name);
    fs::create_dir(&cgroup).with_context(|| format!("cannot create {}", cgroup.display()))?;
    for setting in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (controller.join(setting), cgroup.join(setting));
        if from.exists() && to.exists() {
            fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
    }
    Ok(())
}

/// The process ID, as seen outside, of the only child of a process.
fn child_of(parent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
