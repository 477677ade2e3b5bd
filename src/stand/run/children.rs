//! The descendants of the wrapper: the command, the processes that it started, and the guardian.
//!
//! The wrapper is process 1 or a subreaper, so orphans become its children. It reaps them, and kills them at the end of
//! a term. Only the code that started a child reaps it. This module never waits for "any child": that would take the
//! exit status of a credential program away from the Kubernetes client, which could then not connect.
//!
//! A process id is used only while it cannot belong to another process. The wrapper reaps the command last, and until
//! then the kernel reuses neither its process id nor the id of its group.

use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hustings_client::access::credential_programs;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::processes::{self, ChildProcess};
use crate::base::hint::Hinted;

/// The longest pause between two attempts to kill processes that do not end.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often the log reports that processes do not end, or that they cannot be listed.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// All children of the wrapper. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Children(Arc<SharedChildren>);

#[derive(Debug)]
struct SharedChildren {
    /// Whether the command shares the wrapper's terminal and process group. Ctrl-C, Ctrl-Z and `fg` then work as they
    /// do without a wrapper.
    terminal: bool,
    started: Mutex<Started>,
}

#[derive(Debug, Default)]
struct Started {
    guardian: Option<Pid>,
    command: Option<Pid>,
}

/// The processes that a signal to the command reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalTarget {
    /// The process group of the command.
    Group(Pid),
    /// The command alone.
    Process(Pid),
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(i32),
}

impl Status {
    /// The exit code that a shell would return: a signal's number plus 128.
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

impl SignalTarget {
    /// The process of the command.
    pub(super) const fn pid(self) -> Pid {
        let (Self::Group(pid) | Self::Process(pid)) = self;
        pid
    }

    pub(super) fn signal(self, signal: Signal) -> rustix::io::Result<()> {
        match self {
            Self::Group(pid) => kill_process_group(pid, signal),
            Self::Process(pid) => kill_process(pid, signal),
        }
    }

    pub(super) fn includes(self, process: &ChildProcess) -> bool {
        match self {
            Self::Group(group) => process.group == Some(group),
            Self::Process(pid) => process.pid == pid,
        }
    }
}

impl Children {
    /// Makes this process a subreaper and starts to reap orphans.
    ///
    /// # Errors
    /// Fails if `/proc` does not show this process's own process namespace.
    pub(super) fn new(terminal: bool) -> anyhow::Result<Self> {
        set_child_subreaper(Some(getpid())).context("cannot become a subreaper")?;
        processes::check_namespace().context(Hinted::new(
            "cannot find the processes of the command in /proc",
            "mount /proc for the process namespace of this process, as `unshare --mount-proc` does",
        ))?;
        let children = Self(Arc::new(SharedChildren { terminal, started: Mutex::default() }));
        let mut ended = signal(SignalKind::child()).context("signals cannot be received")?;
        let reaper = children.clone();
        tokio::spawn(async move {
            while ended.recv().await.is_some() {
                while let Err(error) = reaper.reap_orphans() {
                    tracing::debug!(%error, "cannot list the processes that have ended");
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
            }
        });
        Ok(children)
    }

    /// Starts the command. No other command may be running.
    pub(super) fn start_command(&self, command: &mut Command) -> io::Result<SignalTarget> {
        if !self.0.terminal {
            std::os::unix::process::CommandExt::process_group(command, 0);
        }
        // Take the lock before the process exists, so that no signal is lost and the reaper does not reap it.
        let mut started = self.started();
        let pid = Pid::from_child(&command.spawn()?);
        started.command = Some(pid);
        Ok(self.target(pid))
    }

    /// Starts the guardian in its own process group, so that signals to the command or from the terminal do not reach
    /// it.
    pub(super) fn start_guardian(&self, command: &mut Command) -> io::Result<Child> {
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut started = self.started();
        let child = command.spawn()?;
        started.guardian = Some(Pid::from_child(&child));
        Ok(child)
    }

    /// Sends a signal to the command. Returns false if there is no command.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let started = self.started();
        let Some(command) = started.command else { return false };
        if let Err(error) = self.target(command).signal(signal) {
            tracing::debug!(?signal, %error, "cannot signal the command");
        }
        true
    }

    /// Waits until the command has ended, without reaping it.
    pub(super) async fn exited(&self) -> anyhow::Result<Status> {
        let mut ended = signal(SignalKind::child()).context("signals cannot be received")?;
        loop {
            let command = self.started().command.context("there is no command")?;
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if let Some(status) = waitid(WaitId::Pid(command), options).context("cannot wait for the command")? {
                return Ok(Status::read(&status));
            }
            ended.recv().await;
        }
    }

    /// Kills the command, its group and its descendants, once. If the processes cannot be listed, it kills only the
    /// command and its group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        match self.descendants() {
            Ok(descendants) => descendants.iter().for_each(kill),
            Err(error) => tracing::debug!(%error, "cannot list the processes of the command"),
        }
    }

    /// Kills the processes that an ended command has left behind, and returns when none is left. It retries while the
    /// processes cannot be listed.
    pub(super) async fn clear(&self) {
        let started = Instant::now();
        let mut logged = Duration::ZERO;
        let mut pause = Duration::from_millis(1);
        loop {
            self.kill();
            let left = self.reap_orphans().and_then(|()| self.descendants());
            if left.as_ref().is_ok_and(Vec::is_empty) {
                return;
            }
            if started.elapsed() >= logged.saturating_add(LOG_PERIOD) {
                logged = started.elapsed();
                match left {
                    Ok(left) => {
                        let pids: Vec<_> = left.iter().map(|process| process.pid.as_raw_nonzero()).collect();
                        tracing::error!(
                            ?pids,
                            "processes of the command do not end; the wrapper does not release the Lease before"
                        );
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "cannot read /proc: processes of the command may be left; the wrapper does not release the Lease \
                         before it knows"
                    ),
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// Reaps the command. The kernel may reuse its process id from now on.
    pub(super) fn forget_command(&self) {
        if let Some(pid) = self.started().command.take() {
            reap(pid);
        }
    }

    /// The remaining descendants of the wrapper, except the command itself, the guardian, and credential programs with
    /// their descendants.
    fn descendants(&self) -> io::Result<Vec<ChildProcess>> {
        let mut all = processes::all()?;
        // Hold the locks, so that no child is reaped in the meantime, and no credential program is mistaken for another.
        let (started, programs) = (self.started(), credential_programs());
        processes::add_children(&mut all)?;
        let mut found = processes::descendants(&all, getpid());
        if let Some(guardian) = started.guardian {
            found.retain(|process| process.pid != guardian);
        }
        let of_programs: Vec<ChildProcess> = found
            .iter()
            .filter(|process| process.is_among(&programs))
            .flat_map(|program| processes::descendants(&all, program.pid))
            .collect();
        found.retain(|process| {
            Some(process.pid) != started.command && !process.is_among(&programs) && !of_programs.contains(process)
        });
        Ok(found)
    }

    /// Reaps the orphans that have ended.
    fn reap_orphans(&self) -> io::Result<()> {
        let mut all = processes::all()?;
        // Hold the locks, so that a child that is being started is not mistaken for an orphan.
        let (started, programs) = (self.started(), credential_programs());
        processes::add_children(&mut all)?;
        let known = [started.command, started.guardian];
        let orphans = all.iter().filter(|process| {
            let is_orphan = !known.contains(&Some(process.pid)) && !process.is_among(&programs);
            process.has_ended && process.parent == Some(getpid()) && is_orphan
        });
        for orphan in orphans {
            reap(orphan.pid);
        }
        Ok(())
    }

    fn target(&self, command: Pid) -> SignalTarget {
        if self.0.terminal { SignalTarget::Process(command) } else { SignalTarget::Group(command) }
    }

    fn started(&self) -> MutexGuard<'_, Started> {
        self.0.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kill(process: &ChildProcess) {
    if let Err(error) = kill_process(process.pid, Signal::KILL) {
        tracing::debug!(pid = process.pid.as_raw_nonzero(), %error, "cannot kill a process");
    }
}

fn reap(pid: Pid) {
    // This fails only if the process was already reaped.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn a_signal_reaches_the_group_of_the_command_or_on_a_terminal_the_command_alone() {
        let process = |number: i32, group: i32| ChildProcess {
            pid: pid(number),
            parent: None,
            group: Some(pid(group)),
            has_ended: false,
        };
        for (terminal, expected) in [(false, [true, true, false]), (true, [true, false, false])] {
            let children = Children(Arc::new(SharedChildren { terminal, started: Mutex::default() }));
            let target = children.target(pid(10));
            let included = [process(10, 10), process(11, 10), process(12, 7)].map(|process| target.includes(&process));
            assert_eq!(included, expected, "{target:?}");
        }
    }

    #[test]
    fn an_exit_code_is_that_of_the_command_or_128_plus_its_signal() {
        for (status, code, text) in [
            (Status::Code(7), 7, "exit code 7"),
            (Status::Signal(15), 143, "signal 15"),
            (Status::Signal(300), 255, "signal 300"),
        ] {
            assert_eq!((status.exit_code(), status.to_string().as_str()), (code, text));
        }
    }
}
