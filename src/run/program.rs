//! Whether there is a program to be started, found out before this replica stands: one that cannot do the work shall
//! not take the Lease from those who can.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The exit code that shells have for a program that is not there.
pub const NOT_FOUND: u8 = 127;

/// The exit code that shells have for a file that is no program.
pub const NOT_EXECUTABLE: u8 = 126;

/// Where programs are looked for if `PATH` is not set, as `execvp` does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program that cannot be started.
#[derive(Debug, PartialEq, Eq)]
pub enum Unstartable {
    /// There is no such file.
    NotFound(OsString),
    /// There is one, but it is no program.
    NotExecutable(PathBuf),
}

impl Unstartable {
    /// The code with which the process ends.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => NOT_FOUND,
            Self::NotExecutable(_) => NOT_EXECUTABLE,
        }
    }

    /// The way out.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "give the path of a program, or the name of one in PATH",
            Self::NotExecutable(_) => "give a file that this user may execute",
        }
    }
}

impl fmt::Display for Unstartable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(name) => write!(f, "there is no program {}", name.to_string_lossy()),
            Self::NotExecutable(path) => write!(f, "{} cannot be executed", path.display()),
        }
    }
}

impl std::error::Error for Unstartable {}

/// Fails where `program` certainly cannot be started.
pub fn check(program: &OsStr) -> Result<(), Unstartable> {
    check_in(program, std::env::var_os("PATH").as_deref().unwrap_or(OsStr::new(DEFAULT_PATH)))
}

fn check_in(program: &OsStr, path: &OsStr) -> Result<(), Unstartable> {
    let candidates: Vec<PathBuf> = if program.as_encoded_bytes().contains(&b'/') {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(path).map(|folder| folder.join(program)).collect()
    };
    let there: Vec<PathBuf> = candidates.into_iter().filter(|path| path.exists()).collect();
    if there.iter().any(|path| is_program(path)) {
        return Ok(());
    }
    Err(match there.into_iter().next() {
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
    fn a_program_is_looked_for_as_a_shell_does() {
        let check = |program: &str| check_in(OsStr::new(program), OsStr::new("/nowhere:/proc:/bin"));
        assert_eq!(check("sh"), Ok(()));
        assert_eq!(check("/bin/sh"), Ok(()));
        assert_eq!(check("no-such-program"), Err(Unstartable::NotFound("no-such-program".into())));
        assert_eq!(check("/bin/no-such-program").unwrap_err().exit_code(), 127);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(check(file), Err(Unstartable::NotExecutable(file.into())));
        assert_eq!(check("/bin"), Err(Unstartable::NotExecutable("/bin".into())), "a folder is no program");
        let unreadable = check_in(OsStr::new("uptime"), OsStr::new("/proc"));
        assert_eq!(unreadable, Err(Unstartable::NotExecutable("/proc/uptime".into())));
    }
}
