//! The folder and the process group of one run, for example of a control plane, and the guardian that removes both.
//!
//! A test run may return, panic, or be ended by Ctrl-C or by SIGKILL from a CI at its time limit. After SIGKILL none of
//! its code runs. So the guardian, a small shell, reads a pipe of which only this process has the other end. When the
//! pipe closes, the guardian kills the process group and removes the folder. The parent-death signal of Linux would be
//! simpler, but wrong: it fires when the *thread* that started the child ends, and every test has its own thread.

use std::{
    fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context, Result};

use crate::{process::Process, tools::scratch};

/// The script of the guardian. Arguments: the process group, the folder. After a line on the pipe, it keeps the logs.
/// SIGKILL also ends processes that are stopped. The guardian always removes the folder `data`, which holds tens of
/// megabytes without diagnostic value, such as etcd's data. A script `cleanup` in the folder removes what the processes
/// left elsewhere.
const GUARDIAN: &str = r#"
trap '' INT TERM HUP
keep=
while read -r word; do keep=$word; done
kill -s KILL -- "-$1"
for attempt in 1 2 3 4 5; do
    { [ ! -e "$2/cleanup" ] || sh "$2/cleanup"; } && rm -rf -- "$2/data" && { [ -n "$keep" ] || rm -rf -- "$2"; } && exit
    sleep 1
done
"#;

/// A folder and a process group that end when this value is dropped or the process ends.
pub struct Run {
    folder: PathBuf,
    /// The leader of the process group. While it exists, the group exists, and no other group can get its ID.
    anchor: Child,
    /// Its standard input is the pipe. The pipe is close-on-exec, so that no other child keeps it open.
    guardian: Mutex<Child>,
}

impl Run {
    /// An empty folder, and a group without processes.
    pub fn new() -> Result<Self> {
        let folder = create_folder()?;
        let mut anchor = shell("read -r _").spawn().context("cannot start the process group")?;
        let guardian = shell(GUARDIAN).args(["guardian", &anchor.id().to_string()]).arg(&folder).spawn();
        match guardian {
            Ok(guardian) => Ok(Self { folder, anchor, guardian: Mutex::new(guardian) }),
            Err(error) => {
                let _ = anchor.kill().and_then(|()| anchor.wait());
                Err(error).context("cannot start the guardian")
            }
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The ID of the process group. A process that joins the group ends with it.
    pub(crate) fn process_group(&self) -> i32 {
        self.anchor.id().cast_signed()
    }

    /// Starts a command in the process group, with a log of its own in the folder.
    pub fn spawn(&self, name: &str, mut command: Command) -> Result<Process> {
        command.process_group(self.process_group());
        Process::spawn(name, command, self.folder.join(format!("{name}.log")))
    }

    /// Makes the guardian keep the logs, and prints where they are.
    pub(crate) fn keep(&self) {
        let mut guardian = self.guardian.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = &mut guardian.stdin
            && pipe.write_all(b"keep\n").is_ok()
        {
            eprintln!("the logs of the control plane are kept in {}", self.folder.display());
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // `wait` closes the pipe first.
        let _ = self.guardian.get_mut().unwrap_or_else(PoisonError::into_inner).wait();
        let _ = self.anchor.wait();
    }
}

/// A shell in a process group of its own that reads a pipe from this process. It must not keep the test's output open,
/// because a reader may wait for the end of the output.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

/// Creates a new folder. An earlier run with the same process ID may have kept its folder.
fn create_folder() -> Result<PathBuf> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let runs = scratch().join("runs");
    let cannot_create = || format!("cannot create {}", runs.display());
    fs::create_dir_all(&runs).with_context(cannot_create)?;
    // A pod cannot mount a path with `..` in it.
    let runs = fs::canonicalize(&runs).with_context(cannot_create)?;
    loop {
        let folder = runs.join(format!("{}-{}", process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", folder.display())),
        }
    }
}
