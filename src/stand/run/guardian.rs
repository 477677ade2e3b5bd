//! The process that kills the command when the wrapper cannot.
//!
//! A wrapper may be killed. It may also be frozen: suspended by a signal, starved, or stuck in a system call. With each
//! renewal it therefore sends the guardian a message: which processes to kill, and when. The guardian kills them at
//! that moment, unless a newer message arrives first. It also kills them when its pipe closes, since the wrapper is
//! then gone. The guardian is late in only one case: both it and the command freeze, and the command resumes first. A
//! suspension of the machine can cause that.
//!
//! The guardian kills the command's group, and every process outside the group that still has the command's
//! environment. There is no other way to find the descendants of a dead process. The guardian inherits the lock of the
//! elector instance, and keeps it until all these processes are dead.
//!
//! The messages on the pipe are lines:
//!
//! - `group PID MICROSECONDS` or `process PID MICROSECONDS`: kill these processes at that moment, by the clock that
//!   counts suspension
//! - `free`: kill nothing
//! - `end`: the wrapper ends gracefully

use std::fmt;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use hustings_client::Moment;
use hustings_client::clock::{Clock, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read};
use rustix::process::{Pid, Signal, kill_process};

use super::children::{Children, SignalTarget};
use super::processes;
use super::validity_file::VALID_UNTIL_FILE;
use crate::serve::logging::ProcessLog;

/// How much later the guardian kills than the wrapper, so that a healthy wrapper kills first.
const LATENESS: Duration = Duration::from_millis(150);

/// The longest wait. `poll` may not count the time of a suspension, so the guardian may be late by this much after one.
const LONGEST_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long the wrapper waits for the guardian to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the guardian keeps killing. No Lease lasts longer.
const KILL_LIMIT: Duration = Duration::from_hours(1);

/// How often the guardian checks which processes are left.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// The longest line.
const LONGEST_LINE: usize = 128;

/// The capacity of a pipe. The guardian reads all of it at once, so that after a freeze it acts on the newest message.
const PIPE_CAPACITY: usize = 64 * 1024;

/// The wrapper's handle for its guardian.
pub(super) struct Guardian {
    child: Child,
    children: Children,
    log: ProcessLog,
    folder: PathBuf,
}

/// A message to the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Guard(SignalTarget, Moment),
    Free,
    End,
}

impl Guardian {
    /// Starts the guardian. The guardian removes `folder` when the wrapper is gone.
    pub(super) fn start(children: &Children, log: ProcessLog, folder: &Path) -> std::io::Result<Self> {
        let child = spawn(children, &log, folder)?;
        Ok(Self { child, children: children.clone(), log, folder: folder.to_owned() })
    }

    /// Makes the guardian kill `target` [`LATENESS`] after `moment`, unless it receives another message first. Returns
    /// false if there is no guardian.
    pub(super) fn guard(&mut self, target: SignalTarget, moment: Moment) -> bool {
        self.send(Message::Guard(target, moment.after(LATENESS)))
    }

    /// Makes the guardian kill nothing until the next call of [`Self::guard`].
    pub(super) fn free(&mut self) {
        self.send(Message::Free);
    }

    /// Returns whether the message is in the pipe of a guardian, which reads it even if this process dies.
    fn send(&mut self, message: Message) -> bool {
        let line = format!("{message}\n");
        if self.write(&line).is_ok() {
            return true;
        }
        let restarted = spawn(&self.children, &self.log, &self.folder).and_then(|child| {
            end(std::mem::replace(&mut self.child, child));
            self.write(&line)
        });
        match &restarted {
            Ok(()) => tracing::warn!("the guardian was gone: started a new one"),
            Err(error) => {
                tracing::error!(%error, "there is no guardian: if the wrapper freezes, nothing stops the command");
            }
        }
        restarted.is_ok()
    }

    fn write(&mut self, line: &str) -> std::io::Result<()> {
        let pipe = self.child.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        pipe.write_all(line.as_bytes())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // After a panic the guardian must still kill the command. A failed write is fine: the guardian is then gone.
        if !std::thread::panicking() {
            let _ = self.write(&format!("{}\n", Message::End));
        }
        drop(self.child.stdin.take());
        wait(&mut self.child);
    }
}

fn spawn(children: &Children, log: &ProcessLog, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["guardian", "--log-format", log.format.as_str(), "--log-level", log.level.as_str()]).arg(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let child = children.start_guardian(&mut command)?;
    // A guardian that does not read must not block the wrapper.
    if let Some(pipe) = &child.stdin {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(child)
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    // This guardian has no work left, since another one replaces it.
    let _ = child.kill();
    wait(&mut child);
}

fn wait(child: &mut Child) {
    let started = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if started.elapsed() > STOP_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs the guardian until its standard input, the pipe, is closed.
pub fn guard(folder: &Path) -> ExitCode {
    let clock = SystemClock;
    let pipe = std::io::stdin();
    let mut guarded: Option<(SignalTarget, Moment)> = None;
    let mut killed = None;
    let mut unread = Vec::new();
    loop {
        let due = guarded.filter(|(target, _)| killed != Some(*target)).map(|(_, moment)| moment);
        let received = receive(pipe.as_fd(), due.map(|due| due.since(clock.now())), &mut unread);
        let is_open = received.is_ok_and(|is_open| is_open);
        if obey(&mut unread, &mut guarded) {
            return ExitCode::SUCCESS;
        }
        // A wrapper that was frozen may repeat its message before it notices the end of the command.
        killed = killed.filter(|killed| guarded.is_some_and(|(target, _)| target == *killed));
        if let Some((target, moment)) = guarded
            && killed.is_none()
            && (!is_open || clock.now() >= moment)
        {
            let mut has_ended = false;
            let is_over = || {
                // A closed pipe changes nothing: the next round ends the guardian.
                let _ = receive(pipe.as_fd(), Some(Duration::ZERO), &mut unread);
                has_ended |= obey(&mut unread, &mut guarded);
                has_ended || guarded.is_none_or(|(newest, _)| newest != target)
            };
            kill(target, folder, is_over);
            tracing::error!(
                reason = if is_open { "the wrapper is frozen" } else { "the wrapper is gone" },
                "the guardian killed the command"
            );
            killed = Some(target);
            if has_ended {
                return ExitCode::SUCCESS;
            }
        }
        if let Err(error) = received {
            tracing::error!(%error, "the guardian could not read from the wrapper");
        }
        if !is_open {
            // A dead wrapper cannot remove its directory.
            let _ = std::fs::remove_dir_all(folder);
            return ExitCode::SUCCESS;
        }
    }
}

/// Removes the complete messages from `unread`, and applies them. The newest counts. Returns whether the wrapper ends
/// gracefully.
fn obey(unread: &mut Vec<u8>, guarded: &mut Option<(SignalTarget, Moment)>) -> bool {
    while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = unread.drain(..=end).collect();
        match Message::read(&String::from_utf8_lossy(&line)) {
            Some(Message::Guard(target, moment)) => *guarded = Some((target, moment)),
            Some(Message::Free) => *guarded = None,
            Some(Message::End) => return true,
            None => tracing::error!("the guardian received an invalid message from the wrapper"),
        }
    }
    false
}

/// Kills the command and the processes that it started, until none is left or the work `is_over`. It retries while the
/// processes cannot be listed.
///
/// A wrapper that was frozen may continue meanwhile. When it has cleared the command away, it says so, and may start the
/// next command, which has the same variable.
fn kill(target: SignalTarget, folder: &Path, mut is_over: impl FnMut() -> bool) {
    let started = Instant::now();
    let variable = [VALID_UNTIL_FILE.as_bytes(), b"=", folder.as_os_str().as_bytes(), b"/"].concat();
    let mut failure_is_logged = false;
    // A process has no environment for a moment while it replaces its program, so one round that finds nothing is not
    // enough.
    let mut found_none = false;
    // Send this signal only once: a killed process starts no other, and the kernel may reuse its process id later. The
    // call fails only if no process is left.
    let _ = target.signal(Signal::KILL);
    while started.elapsed() <= KILL_LIMIT {
        match kill_listed(target, &variable, &mut is_over) {
            Ok(0) if found_none => return,
            Ok(left) => found_none = left == 0,
            Err(error) => {
                if !failure_is_logged {
                    tracing::error!(%error, "cannot read /proc: processes of the command may be left; retrying");
                }
                failure_is_logged = true;
                found_none = false;
            }
        }
        std::thread::sleep(KILL_AGAIN);
    }
}

/// Kills the processes whose environment has a variable that starts with `variable`. Returns how many of them and of
/// `target` are left; none if the work `is_over`, as seen after the processes were listed. So a process that was started
/// after that is not among them.
///
/// # Errors
/// Fails if some processes could not be read, so that others may be left.
fn kill_listed(target: SignalTarget, variable: &[u8], is_over: &mut impl FnMut() -> bool) -> std::io::Result<usize> {
    let mut left = 0;
    let mut unknown = None;
    let listed = processes::all()?;
    if is_over() {
        return Ok(0);
    }
    for process in listed.iter().filter(|process| !process.has_ended) {
        match process.has_variable(variable) {
            Ok(true) => {
                let _ = kill_process(process.pid, Signal::KILL);
                left += 1;
            }
            Ok(false) => left += usize::from(target.includes(process)),
            Err(error) => unknown = Some(error),
        }
    }
    unknown.map_or(Ok(left), Err)
}

/// Waits until messages arrive or `left` has passed. Returns false once the pipe is closed.
fn receive(pipe: impl AsFd, left: Option<Duration>, unread: &mut Vec<u8>) -> rustix::io::Result<bool> {
    let wait = left.and_then(|left| Timespec::try_from(left).ok()).map_or(LONGEST_WAIT, |left| left.min(LONGEST_WAIT));
    let mut polled = [PollFd::new(&pipe, PollFlags::IN)];
    match poll(&mut polled, Some(&wait)) {
        Ok(0) | Err(Errno::INTR) => return Ok(true),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let mut buffer = vec![0; PIPE_CAPACITY];
    match read(&pipe, &mut buffer) {
        Ok(0) => Ok(false),
        Ok(count) => {
            if unread.len() > LONGEST_LINE {
                unread.clear();
            }
            unread.extend(buffer.iter().take(count));
            Ok(true)
        }
        Err(Errno::INTR | Errno::AGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

impl Message {
    fn read(line: &str) -> Option<Self> {
        let mut messages = line.split_whitespace();
        let kind = match messages.next()? {
            "free" => return Some(Self::Free),
            "end" => return Some(Self::End),
            kind => kind,
        };
        let pid = messages.next()?.parse().ok().filter(|pid| *pid > 1).and_then(Pid::from_raw)?;
        let moment = Moment::from_micros(messages.next()?.parse().ok()?);
        let target = match kind {
            "group" => SignalTarget::Group(pid),
            "process" => SignalTarget::Process(pid),
            _ => return None,
        };
        Some(Self::Guard(target, moment))
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(target, moment) => {
                let (kind, pid) = match target {
                    SignalTarget::Group(pid) => ("group", pid),
                    SignalTarget::Process(pid) => ("process", pid),
                };
                write!(f, "{kind} {} {}", pid.as_raw_nonzero(), moment.as_micros())
            }
            Self::Free => f.write_str("free"),
            Self::End => f.write_str("end"),
        }
    }
}

#[cfg(test)]
mod tests;
