//! The process that kills the command when the wrapper cannot.
//!
//! A wrapper may be killed, and it may stand still: stopped by a signal, starved, or caught in a system call. The guardian
//! is told with each renewal whom to kill at what moment, and kills at that moment unless it has been told otherwise
//! meanwhile; also when its pipe is closed, which is when the wrapper is gone. Only a command that stands still together
//! with its guardian and goes on before it, as after a suspension of the machine, is killed too late.
//!
//! It kills the command's group, and whatever has left that and still has the environment which the command was given:
//! there is no other way to know the descendants of a process that is dead. Until all are, it keeps the lock of the elector
//! instance, which it has inherited.
//!
//! On the pipe: `group PID MICROSECONDS`, `process PID MICROSECONDS` (by the clock that counts suspension), `free`,
//! or `end` from a wrapper that goes in order.

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

use super::children::{Children, Target};
use super::processes;
use super::validity_file::VALID_UNTIL_FILE;

/// How much later than the wrapper it kills, so that a wrapper that lives does it in order.
const LATENESS: Duration = Duration::from_millis(150);

/// The longest wait: after a suspension nothing is later by more.
const LONGEST_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long the guardian may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long it goes on to kill. No Lease lasts longer.
const KILL_LIMIT: Duration = Duration::from_hours(1);

/// How often it looks who is left.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// The longest line.
const LONGEST_LINE: usize = 128;

/// What a pipe holds. All of it is read at once: a guardian that stood still judges by the newest message, not by the oldest.
const PIPE_CAPACITY: usize = 64 * 1024;

/// The wrapper's end.
pub(super) struct Guardian {
    child: Child,
    children: Children,
    log: LogFlags,
    folder: PathBuf,
}

/// How it writes its log: as the wrapper does.
#[derive(Clone, Debug)]
pub(super) struct LogFlags {
    pub(super) format: String,
    pub(super) level: String,
}

/// What a guardian is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Guard(Target, Moment),
    Free,
    End,
}

impl Guardian {
    /// Starts it. When the wrapper is gone it removes `folder`.
    pub(super) fn start(children: &Children, log: LogFlags, folder: &Path) -> std::io::Result<Self> {
        let child = spawn(children, &log, folder)?;
        Ok(Self { child, children: children.clone(), log, folder: folder.to_owned() })
    }

    /// Has `target` killed soon after `moment`, unless it is told otherwise before.
    pub(super) fn guard(&mut self, target: Target, moment: Moment) {
        self.send(Message::Guard(target, moment.after(LATENESS)));
    }

    /// Nothing is to be killed any more.
    pub(super) fn free(&mut self) {
        self.send(Message::Free);
    }

    fn send(&mut self, message: Message) {
        let line = format!("{message}\n");
        if self.write(&line).is_ok() {
            return;
        }
        let anew = spawn(&self.children, &self.log, &self.folder).and_then(|child| {
            end(std::mem::replace(&mut self.child, child));
            self.write(&line)
        });
        match anew {
            Ok(()) => tracing::warn!("the guardian was gone and has been started again"),
            Err(error) => {
                tracing::error!(%error, "there is no guardian: a wrapper that stands still lets the command go on");
            }
        }
    }

    fn write(&mut self, line: &str) -> std::io::Result<()> {
        let pipe = self.child.stdin.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        pipe.write_all(line.as_bytes())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // Whoever goes in a panic leaves what is guarded to the guardian. One that is not there need not be told.
        if !std::thread::panicking() {
            let _ = self.write(&format!("{}\n", Message::End));
        }
        drop(self.child.stdin.take());
        wait(&mut self.child);
    }
}

fn spawn(children: &Children, log: &LogFlags, folder: &Path) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["guardian", "--log-format", &log.format, "--log-level", &log.level]).arg(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let child = children.start_guardian(&mut command)?;
    // A guardian that does not read must not hold up the wrapper.
    if let Some(pipe) = &child.stdin {
        ioctl_fionbio(pipe, true)?;
    }
    Ok(child)
}

fn end(mut child: Child) {
    drop(child.stdin.take());
    // It holds nothing that it could not leave.
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

/// The guardian: goes on until its standard input, the pipe, is closed.
pub fn guard(folder: &Path) -> ExitCode {
    let clock = SystemClock;
    let pipe = std::io::stdin();
    let mut guarded: Option<(Target, Moment)> = None;
    let mut unread = Vec::new();
    loop {
        let is_open = match receive(pipe.as_fd(), guarded.map(|(_, moment)| moment.since(clock.now())), &mut unread) {
            Ok(is_open) => is_open,
            Err(error) => {
                tracing::error!(%error, "the guardian cannot hear the wrapper");
                false
            }
        };
        // Only the newest message counts.
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            match Message::read(&String::from_utf8_lossy(&line)) {
                Some(Message::Guard(target, moment)) => guarded = Some((target, moment)),
                Some(Message::Free) => guarded = None,
                Some(Message::End) => return ExitCode::SUCCESS,
                None => tracing::error!("the guardian does not understand the wrapper"),
            }
        }
        if let Some((target, moment)) = guarded
            && (!is_open || clock.now() >= moment)
        {
            tracing::error!(
                reason = if is_open { "the wrapper stands still" } else { "the wrapper is gone" },
                "the guardian kills the command"
            );
            kill(target, folder);
            guarded = None;
        }
        if !is_open {
            // Whoever is dead leaves it behind.
            let _ = std::fs::remove_dir_all(folder);
            return ExitCode::SUCCESS;
        }
    }
}

/// Kills the command and the processes that it has started, until none is left. While processes cannot be listed, it is
/// not known whether any is.
fn kill(target: Target, folder: &Path) {
    let started = Instant::now();
    let given = [VALID_UNTIL_FILE.as_bytes(), b"=", folder.as_os_str().as_bytes(), b"/"].concat();
    let mut failure_is_logged = false;
    // Once: what is killed starts no other process, and later this number may be another's. It fails only where no process
    // is left.
    let _ = target.signal(Signal::KILL);
    while started.elapsed() <= KILL_LIMIT {
        match kill_listed(target, &given) {
            Ok(0) => return,
            Err(error) if !failure_is_logged => {
                tracing::error!(%error, "/proc cannot be read: processes of the command may be left");
                failure_is_logged = true;
            }
            Ok(_) | Err(_) => {}
        }
        std::thread::sleep(KILL_AGAIN);
    }
}

/// Kills the processes that have the variable `given`, and returns how many of them and of `target` are left. Fails where
/// there may be others.
fn kill_listed(target: Target, given: &[u8]) -> std::io::Result<usize> {
    let mut left = 0;
    let mut unknown = None;
    for process in processes::all()?.iter().filter(|process| !process.has_ended) {
        match process.has_variable(given) {
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

/// Waits for messages or for the time to pass; false once the pipe is closed.
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
            "group" => Target::Group(pid),
            "process" => Target::Process(pid),
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
                    Target::Group(pid) => ("group", pid),
                    Target::Process(pid) => ("process", pid),
                };
                write!(f, "{kind} {} {}", pid.as_raw_nonzero(), moment.as_micros())
            }
            Self::Free => f.write_str("free"),
            Self::End => f.write_str("end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        let pid = Pid::from_raw(77).unwrap();
        for message in [
            Message::Guard(Target::Group(pid), Moment::from_micros(12)),
            Message::Guard(Target::Process(pid), Moment::from_micros(13)),
            Message::Free,
            Message::End,
        ] {
            assert_eq!(Message::read(&format!("{message}\n")), Some(message));
        }
        for broken in ["", "group", "group 0 1", "group -1 5", "group 1 5", "group 77", "kill 77 5"] {
            assert_eq!(Message::read(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn whoever_stood_still_hears_the_newest_word_at_once() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let target = Target::Group(Pid::from_raw(77).unwrap());
        let messages = (0..1_000).map(|moment| format!("{}\n", Message::Guard(target, Moment::from_micros(moment))));
        let messages: String = messages.collect();
        writer.write_all(messages.as_bytes()).unwrap();
        let mut unread = Vec::new();
        assert!(receive(&reader, None, &mut unread).unwrap());
        assert!(unread.ends_with(b"77 999\n"), "{} bytes of {}", unread.len(), messages.len());
    }
}
