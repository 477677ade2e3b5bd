//! The processes that descend from the wrapper: the command, what it has started, and the guardian.
//!
//! Orphans become children of the wrapper, as the process 1 or as a subreaper, so that nothing which the command starts
//! gets out of sight: it is reaped, and killed at the end. A child is reaped by whoever started it and by nobody else;
//! so there is no wait for "any child" here, which would steal the end of a credential plugin from the client.
//!
//! A process number is used only as long as it cannot be another's: the command is reaped last, and until then neither
//! its number nor that of its group is given away.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::processes::{self, Process};
use crate::cli::Hinted;

/// The longest pause between two attempts to end what does not end.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long the client may take to reap a credential plugin that has ended.
const PLUGIN_REAPED_WITHIN: Duration = Duration::from_secs(1);

/// How often it is logged that processes do not end, or that they cannot be listed.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// All children. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Children(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Whether the command shares the wrapper's terminal, and with it the process group: Ctrl-C, Ctrl-Z and `fg` then do
    /// what they do without a wrapper.
    terminal: bool,
    /// The wrapper's own process group; `None` if that is outside of its process namespace.
    group: Option<Pid>,
    started: Mutex<Started>,
}

#[derive(Debug, Default)]
struct Started {
    guardian: Option<Pid>,
    command: Option<Pid>,
    /// What has ended in the wrapper's own group, and when that was seen first: plugins, and on a terminal orphans.
    unclaimed: HashMap<Pid, Instant>,
}

/// Whom a signal to the command reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The process group of the command.
    Group(Pid),
    /// The command alone.
    Process(Pid),
}

/// How a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

impl Status {
    /// The exit code that a shell would have.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(signal).unwrap_or(u8::MAX).saturating_add(128),
        }
    }

    fn read(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            (None, signal) => Self::Signal(signal.unwrap_or_else(|| Signal::KILL.as_raw())),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl Target {
    pub(super) fn signal(self, signal: Signal) -> rustix::io::Result<()> {
        match self {
            Self::Group(pid) => kill_process_group(pid, signal),
            Self::Process(pid) => kill_process(pid, signal),
        }
    }

    pub(super) fn includes(self, process: &Process) -> bool {
        match self {
            Self::Group(group) => process.group == Some(group),
            Self::Process(pid) => process.pid == pid,
        }
    }
}

impl Children {
    /// Takes charge of all children of this process, and reaps orphans from now on.
    pub(super) fn new(terminal: bool) -> anyhow::Result<Self> {
        set_child_subreaper(Some(getpid())).context("this process cannot take charge of orphans")?;
        let own = processes::own().context(Hinted::new(
            "the processes of the command cannot be found in /proc",
            "mount /proc for the process namespace of this process, as `unshare --mount-proc` does",
        ))?;
        let children = Self(Arc::new(Shared { terminal, group: own.group, started: Mutex::default() }));
        let mut ended = signal(SignalKind::child()).context("signals cannot be received")?;
        let reaper = children.clone();
        tokio::spawn(async move {
            while ended.recv().await.is_some() {
                reaper.reap_orphans();
            }
        });
        Ok(children)
    }

    /// Starts the command, of which there is only one at a time.
    pub(super) fn start_command(&self, command: &mut Command) -> io::Result<Target> {
        if !self.0.terminal {
            std::os::unix::process::CommandExt::process_group(command, 0);
        }
        // Locked before it exists, so that no signal gets lost on the way and nobody else reaps it.
        let mut started = self.started();
        let pid = Pid::from_child(&command.spawn()?);
        started.command = Some(pid);
        Ok(self.target(pid))
    }

    /// Starts the guardian, which no signal to the command or from the terminal reaches.
    pub(super) fn start_guardian(&self, command: &mut Command) -> io::Result<Child> {
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut started = self.started();
        let child = command.spawn()?;
        started.guardian = Some(Pid::from_child(&child));
        Ok(child)
    }

    /// Sends the command a signal; false if there is no command.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let started = self.started();
        let Some(command) = started.command else { return false };
        if let Err(error) = self.target(command).signal(signal) {
            tracing::debug!(?signal, %error, "the command cannot be signalled");
        }
        true
    }

    /// Waits until the command has ended. It stays unreaped.
    pub(super) async fn exited(&self) -> anyhow::Result<Status> {
        let mut ended = signal(SignalKind::child()).context("signals cannot be received")?;
        loop {
            let command = self.started().command.context("there is no command")?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Some(status) = waitid(WaitId::Pid(command), options).context("the command cannot be waited for")? {
                return Ok(Status::read(&status));
            }
            ended.recv().await;
        }
    }

    /// Kills the command and everything that descends from it, once. Where processes cannot be listed, only the command
    /// and its group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        match self.descendants() {
            Ok(descendants) => descendants.iter().for_each(kill),
            Err(error) => tracing::debug!(%error, "the processes of the command cannot be listed"),
        }
    }

    /// After the command has ended: kills the processes that it has left, and completes when none is left. While they
    /// cannot be listed, it is not known whether any is.
    pub(super) async fn clear(&self) {
        let started = Instant::now();
        let mut logged = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            self.kill();
            self.reap_orphans();
            let left = self.descendants();
            if left.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            if started.elapsed() >= logged.saturating_add(LOG_PERIOD) {
                logged = started.elapsed();
                match left {
                    Ok(left) => {
                        let pids: Vec<_> = left.iter().map(|process| process.pid.as_raw_nonzero()).collect();
                        tracing::error!(?pids, "processes of the command do not end; the Lease is not released before");
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "/proc cannot be read: processes of the command may be left; the Lease is not released before \
                         that is known"
                    ),
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Reaps the command, whose number may be another's from now on.
    pub(super) fn forget_command(&self) {
        if let Some(pid) = self.started().command.take() {
            reap(pid);
        }
    }

    /// The descendants of the command that live. The command itself is not among them, nor the guardian.
    fn descendants(&self) -> io::Result<Vec<Process>> {
        let mut all = processes::all()?;
        // Locked, so that no child is reaped meanwhile.
        let started = self.started();
        processes::add_children(&mut all)?;
        let mut found = processes::descendants(&all, getpid());
        if let Some(guardian) = started.guardian {
            found.retain(|process| process.pid != guardian);
        }
        let plugins: Vec<Pid> =
            found.iter().filter(|process| self.is_plugin(process)).map(|process| process.pid).collect();
        let of_plugins: Vec<Process> = plugins.iter().flat_map(|pid| processes::descendants(&all, *pid)).collect();
        found.retain(|process| {
            Some(process.pid) != started.command && !plugins.contains(&process.pid) && !of_plugins.contains(process)
        });
        Ok(found)
    }

    fn reap_orphans(&self) {
        // The next child that ends, or `clear`, tries again.
        let Ok(mut all) = processes::all() else { return };
        // Locked, so that what is being started meanwhile is not taken for an orphan.
        let mut started = self.started();
        if processes::add_children(&mut all).is_err() {
            return;
        }
        let known = [started.command, started.guardian];
        let ended = all.iter().filter(|process| {
            process.has_ended && process.parent == Some(getpid()) && !known.contains(&Some(process.pid))
        });
        let (unclaimed, orphans): (Vec<&Process>, Vec<&Process>) =
            ended.partition(|process| process.group == self.0.group);
        for orphan in orphans {
            reap(orphan.pid);
        }
        let former = std::mem::take(&mut started.unclaimed);
        for Process { pid, .. } in unclaimed {
            let seen = former.get(pid).copied().unwrap_or_else(Instant::now);
            if seen.elapsed() < PLUGIN_REAPED_WITHIN {
                started.unclaimed.insert(*pid, seen);
            } else {
                reap(*pid);
            }
        }
    }

    /// Whether a process may be the client's, to get at credentials. It is told by the wrapper's process group, which no
    /// descendant of the command has unless they share a terminal. There only what has ended is taken for one.
    fn is_plugin(&self, process: &Process) -> bool {
        process.parent == Some(getpid()) && process.group == self.0.group && (!self.0.terminal || process.has_ended)
    }

    fn target(&self, command: Pid) -> Target {
        if self.0.terminal { Target::Process(command) } else { Target::Group(command) }
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.0.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill(process: &Process) {
    if let Err(error) = kill_process(process.pid, Signal::KILL) {
        tracing::debug!(pid = process.pid.as_raw_nonzero(), %error, "a process cannot be killed");
    }
}

fn reap(pid: Pid) {
    // It fails only where there is nothing to reap any more.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}
