//! Checks that the command can be started, before this replica stands for the Lease. A replica that cannot do the work
//! must not take the Lease from one that can.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::hint::Hinted;

/// The exit code of shells for a program that does not exist.
pub(super) const NOT_FOUND: u8 = 127;

/// The exit code of shells for a file that is not executable.
pub(super) const NOT_EXECUTABLE: u8 = 126;

/// The search path if `PATH` is not set, as for `execvp`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program that cannot be started.
#[derive(Debug, PartialEq, Eq)]
enum Unstartable {
    /// The file does not exist.
    NotFound(OsString),
    /// The file exists but is not executable.
    NotExecutable(PathBuf),
}

impl Unstartable {
    /// The exit code of the wrapper.
    const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => NOT_FOUND,
            Self::NotExecutable(_) => NOT_EXECUTABLE,
        }
    }

    /// How to fix it.
    const fn hint(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "pass the path of a program, or the name of one in PATH",
            Self::NotExecutable(_) => "pass a file that this user may execute",
        }
    }
}

impl fmt::Display for Unstartable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) => write!(f, "program {} was not found", name.to_string_lossy()),
            Self::NotExecutable(path) => write!(f, "{} is not executable", path.display()),
        }
    }
}

/// Fails with a hint and an exit code if `program` certainly cannot be started.
pub(super) fn check(program: &OsStr) -> Result<(), Hinted> {
    let path = std::env::var_os("PATH");
    check_in(program, path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH))).map_err(|unstartable| {
        Hinted::new(unstartable.to_string(), unstartable.hint()).with_exit_code(unstartable.exit_code())
    })
}

fn check_in(program: &OsStr, path: &OsStr) -> Result<(), Unstartable> {
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(path).map(|folder| folder.join(program)).collect()
    };
    let existing: Vec<PathBuf> = candidates.into_iter().filter(|path| path.exists()).collect();
    if existing.iter().any(|path| is_program(path)) {
        return Ok(());
    }
    Err(match existing.into_iter().next() {
        Some(path) => Unstartable::NotExecutable(path),
        None => Unstartable::NotFound(program.to_owned()),
    })
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let check = |program: &str| check_in(OsStr::new(program), OsStr::new("/nowhere:/proc:/bin"));
        assert_eq!(check("sh"), Ok(()));
        assert_eq!(check("/bin/sh"), Ok(()));
        assert_eq!(check("no-such-program"), Err(Unstartable::NotFound("no-such-program".into())));
        assert_eq!(check("/bin/no-such-program").unwrap_err().exit_code(), 127);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(check(file), Err(Unstartable::NotExecutable(file.into())));
        assert_eq!(check("/bin"), Err(Unstartable::NotExecutable("/bin".into())), "a directory is not executable");
        let unreadable = check_in(OsStr::new("uptime"), OsStr::new("/proc"));
        assert_eq!(unreadable, Err(Unstartable::NotExecutable("/proc/uptime".into())));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sh"), "").unwrap();
        let path = std::env::join_paths([folder.path(), Path::new("/bin")]).unwrap();
        assert_eq!(check_in(OsStr::new("sh"), &path), Ok(()), "a later folder has an executable file");
    }
}
