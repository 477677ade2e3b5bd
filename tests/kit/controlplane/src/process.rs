//! One child process that tests stop, kill, freeze and start again.
//!
//! It is a child of std, not of tokio, because a shared control plane outlives the runtime of the test that started it.
//! The rule that must hold: a signal goes only to a process that was not reaped yet, and so never to another process
//! with the same ID.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// How long a process may take to end after SIGTERM: an API server first finishes the requests that it has begun.
const STOP_LIMIT: Duration = Duration::from_secs(90);

/// A process. Dropping this value kills it.
pub struct Process {
    name: String,
    log: PathBuf,
    inner: Mutex<Inner>,
}

struct Inner {
    command: Command,
    child: Child,
}

/// The same command, started by `env` with an option such as `--default-signal=HUP`. If these tests ignore SIGHUP to
/// outlive a terminal, their children inherit that.
pub fn by_env(option: &str, command: &Command) -> Command {
    let mut by_env = Command::new("env");
    by_env.arg(option).arg(command.get_program()).args(command.get_args());
    by_env.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    by_env
}

impl Process {
    pub(crate) fn spawn(name: &str, mut command: Command, log: PathBuf) -> Result<Self> {
        let child = spawn(name, &mut command, &log)?;
        Ok(Self { name: name.to_owned(), log, inner: Mutex::new(Inner { command, child }) })
    }

    /// The ID of the process that was started last. That process may have ended.
    pub fn pid(&self) -> u32 {
        self.inner().child.id()
    }

    /// How the process ended; `None` while it runs or is paused.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        self.inner().child.try_wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file with the standard output and standard error of the process.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of the log, for an error message.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Freezes the process (SIGSTOP), and waits until none of its threads runs any more. Threads may continue for a
    /// moment after the signal, on a busy machine for longer.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let child = WaitId::Pid(Pid::from_child(&self.inner().child));
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let began = Instant::now();
        while waitid(child.clone(), stopped).with_context(|| format!("cannot wait for {}", self.name))?.is_none() {
            ensure!(began.elapsed() < STOP_LIMIT, "{} does not freeze", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Resumes the process (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the process (SIGKILL), paused or not, and waits until it is gone.
    pub fn kill(&self) -> Result<()> {
        let mut inner = self.inner();
        inner.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        inner.child.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        Ok(())
    }

    /// Asks the process to end (SIGTERM) and waits until it has ended.
    pub async fn stop(&self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let started = Instant::now();
        while started.elapsed() < STOP_LIMIT {
            if let Some(status) = self.exit_status()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.kill()?;
        bail!("{} did not end within {STOP_LIMIT:?} of SIGTERM and was killed", self.name)
    }

    /// Starts the same command again after it has ended.
    pub fn start(&self) -> Result<()> {
        let inner = &mut *self.inner();
        ensure!(inner.child.try_wait()?.is_some(), "{} is running", self.name);
        inner.child = spawn(&self.name, &mut inner.command, &self.log)?;
        Ok(())
    }

    /// Adds an argument to the command, for its next starts.
    pub fn add_argument(&self, argument: &str) {
        self.inner().command.arg(argument);
    }

    /// Starts the command again if the process has ended, as a kubelet does. Returns whether it had ended.
    pub fn start_again(&self) -> Result<bool> {
        let has_ended = self.exit_status()?.is_some();
        if has_ended {
            self.start()?;
        }
        Ok(has_ended)
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let mut inner = self.inner();
        if let Some(status) = inner.child.try_wait()? {
            bail!("{} has ended ({status})", self.name);
        }
        kill_process(Pid::from_child(&inner.child), signal)
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Child> {
    let file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let copy = file.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(copy).stderr(file);
    command.spawn().with_context(|| format!("cannot start {name}"))
}
