//! The processes of this machine, as `/proc` lists them.
//!
//! This rule must hold: a process that could not be read is never reported as absent. Callers release a Lease once no
//! process is left. If this process runs out of file descriptors or memory, they must get an error, not an empty list.
//!
//! This module therefore does not use the crate procfs, with which `ops` reads the metrics of this process:
//!
//! - procfs 0.18 silently skips each thread of a process that it cannot open, even for a lack of file descriptors.
//! - It reads the environment of a process only from the first thread, which may have ended.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpgid, getpid, waitid};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildProcess {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    /// Whether the process is a zombie without a running thread. Other threads may outlive the first one.
    pub(super) has_ended: bool,
}

impl ChildProcess {
    /// Whether its id is one of these.
    pub(super) fn is_among(&self, ids: &[u32]) -> bool {
        ids.contains(&self.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Whether the environment has a variable that starts with `beginning`. A process may clear or overwrite its
    /// environment.
    pub(super) fn has_variable(&self, beginning: &[u8]) -> io::Result<bool> {
        let threads = PathBuf::from(format!("/proc/{}/task", self.pid.as_raw_nonzero()));
        // Threads that have ended have no environment.
        for thread in present(fs::read_dir(threads))?.into_iter().flatten() {
            let Some(thread) = present(thread)? else { break };
            let environment = read_file(&thread.path().join("environ"))?.unwrap_or_default();
            if !environment.is_empty() {
                return Ok(environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(beginning)));
            }
        }
        Ok(false)
    }
}

/// Lists every process that this user can see. A process that starts or ends in the meantime may or may not be listed.
///
/// # Errors
/// Fails if any other process might be missing from the list.
pub(super) fn all() -> io::Result<Vec<ChildProcess>> {
    all_in(Path::new("/proc"))
}

/// Adds the children of this process that `all` lacks: those that have started since, and those that `/proc` hides,
/// such as another user's processes under `hidepid`. Every descendant becomes a child once its ancestors have ended, so
/// none stays hidden.
///
/// The caller must not reap children during this call.
pub(super) fn add_children(all: &mut Vec<ChildProcess>) -> io::Result<()> {
    for thread in fs::read_dir("/proc/self/task")? {
        let path = thread?.path().join("children");
        // The file is missing if the thread has ended, or if the kernel does not provide it.
        let children = read_file(&path)?.unwrap_or_default();
        for child in String::from_utf8_lossy(&children).split_whitespace() {
            let pid = child.parse().ok().and_then(Pid::from_raw).ok_or_else(|| unknown_form(&path))?;
            if all.iter().any(|process| process.pid == pid) {
                continue;
            }
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(pid), options) {
                Ok(ended) => all.push(ChildProcess {
                    pid,
                    parent: Some(getpid()),
                    group: getpgid(Some(pid)).ok(),
                    has_ended: ended.is_some(),
                }),
                // It was a credential program, and the Kubernetes client has reaped it.
                Err(Errno::CHILD) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Checks that `/proc` shows this process's own process namespace: process ids differ in another.
pub(super) fn check_namespace() -> io::Result<()> {
    let number = fs::read_link("/proc/self")?;
    let is_own = number == Path::new(&getpid().as_raw_nonzero().to_string());
    if is_own { Ok(()) } else { Err(io::Error::other("/proc shows the processes of another namespace")) }
}

fn all_in(folder: &Path) -> io::Result<Vec<ChildProcess>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if !name.as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let path = folder.join(name).join("stat");
        if let Some(stat) = read_file(&path)? {
            // A program's name may contain any bytes.
            let process = parse(&String::from_utf8_lossy(&stat));
            found.push(process.ok_or_else(|| unknown_form(&path))?);
        }
    }
    Ok(found)
}

fn unknown_form(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} has an unknown form", path.display()))
}

/// Reads a file below `/proc/PID`; `None` as for [`present`].
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    present(fs::read(path))
}

/// The result of a read below `/proc/PID`; `None` if the process has ended or is hidden from this user.
fn present<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(content) => Ok(Some(content)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The descendants of `ancestor` among `all`.
pub(super) fn descendants(all: &[ChildProcess], ancestor: Pid) -> Vec<ChildProcess> {
    let mut children: HashMap<Pid, Vec<ChildProcess>> = HashMap::new();
    for process in all {
        if let Some(parent) = process.parent {
            children.entry(parent).or_default().push(*process);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![ancestor];
    while let Some(parent) = parents.pop() {
        // Remove the entry, so that the loop ends even if the list is inconsistent.
        for child in children.remove(&parent).unwrap_or_default() {
            parents.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// Parses `/proc/PID/stat`: pid, name in parentheses, state, parent and group. The 20th field is the number of threads.
fn parse(stat: &str) -> Option<ChildProcess> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let pid = head.split_once(' ')?.0.parse().ok().and_then(Pid::from_raw)?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    // Both are -1 while a process is being reaped.
    let mut number = || fields.next()?.parse().ok().map(|number: i32| Pid::from_raw(number.max(0)));
    let (parent, group) = (number()?, number()?);
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    Some(ChildProcess { pid, parent, group, has_ended: state == "Z" && threads <= 1 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::process::{Signal, kill_process};

    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    /// The content of `/proc/PID/stat`.
    fn stat(beginning: &str, threads: u32) -> String {
        format!("{beginning} 12 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 99")
    }

    #[test]
    fn a_name_may_contain_any_character() {
        let process = parse(&stat("12 (a) Z (b) 3 4) Z 7 12", 1)).unwrap();
        let expected = ChildProcess { pid: pid(12), parent: Some(pid(7)), group: Some(pid(12)), has_ended: true };
        assert_eq!(process, expected);
        assert_eq!(parse(&stat("1 (init) S 0 1", 1)).unwrap().parent, None);
        assert_eq!(parse(&stat("12 (a) Z 0 -1", 0)).unwrap().group, None);
        for broken in ["", "12", "12 (a", "12 (a) S", "x (a) S 1 1", "12 (a) S 1 1"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn process_whose_first_thread_has_ended_runs_while_another_thread_does() {
        for (state, threads, has_ended) in [("Z", 1, true), ("Z", 2, false), ("S", 1, false)] {
            let process = parse(&stat(&format!("12 (a) {state} 7 12"), threads)).unwrap();
            assert_eq!(process.has_ended, has_ended, "{state} {threads}");
        }
    }

    #[test]
    fn children_are_found_where_proc_hides_them() {
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let found = || {
            let mut all = Vec::new();
            add_children(&mut all).unwrap();
            all.into_iter().find(|process| process.pid == Pid::from_child(&child))
        };
        let (pid, parent) = (Pid::from_child(&child), Some(getpid()));
        assert_eq!(found(), Some(ChildProcess { pid, parent, group: Some(pid), has_ended: false }));
        kill_process(pid, Signal::KILL).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert_eq!(found(), Some(ChildProcess { pid, parent, group: Some(pid), has_ended: true }));
        child.wait().unwrap();
    }

    #[test]
    fn only_descendants_are_found_at_any_depth() {
        let process = |number, parent| ChildProcess {
            pid: pid(number),
            parent: Some(pid(parent)),
            group: None,
            has_ended: false,
        };
        // 8 and 9 name each other as parent.
        let all = [process(4, 3), process(3, 2), process(5, 1), process(8, 9), process(9, 8), process(6, 4)];
        let mut found: Vec<_> = descendants(&all, pid(2)).iter().map(|process| process.pid).collect();
        found.sort_by_key(|pid| pid.as_raw_nonzero());
        assert_eq!(found, [3, 4, 6].map(pid));
    }

    #[test]
    fn this_process_is_listed_with_its_environment() {
        let me = rustix::process::getpid();
        let me = all().unwrap().into_iter().find(|process| process.pid == me).unwrap();
        for (beginning, expected) in [("PATH=", true), ("ATH=", false), ("NO_SUCH_VARIABLE=", false)] {
            assert_eq!(me.has_variable(beginning.as_bytes()).unwrap(), expected, "{beginning}");
        }
    }

    #[test]
    fn ended_processes_are_skipped_and_unreadable_ones_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("12");
        for ignored in ["self", "13"] {
            fs::create_dir(folder.path().join(ignored)).unwrap();
        }
        fs::create_dir(&process).unwrap();
        fs::write(process.join("stat"), stat("12 (a) S 7 12", 1)).unwrap();
        assert_eq!(all_in(folder.path()).unwrap().len(), 1, "13 has ended");

        fs::write(process.join("stat"), "of another form").unwrap();
        assert!(all_in(folder.path()).unwrap_err().to_string().contains("12/stat has an unknown form"));
        fs::remove_file(process.join("stat")).unwrap();
        // No process can read a directory as a file, not even root.
        fs::create_dir(process.join("stat")).unwrap();
        assert!(all_in(folder.path()).is_err());
        assert!(all_in(&folder.path().join("nowhere")).is_err());
    }
}
