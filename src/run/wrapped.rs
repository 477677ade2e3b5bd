//! The process that becomes the command. It first asks the kernel to kill it when the wrapper dies.
//!
//! That request survives `exec`, unless the command's file is setuid, setgid or has file capabilities.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::program::{NOT_EXECUTABLE, NOT_FOUND};

/// Replaces this process, a child of the process `parent`, with `command`. It returns only if that failed.
pub fn become_command(parent: i32, command: &[OsString]) -> ExitCode {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // If the parent died before the request took effect, no signal will come.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return ExitCode::FAILURE;
    }
    if let Err(error) = bound {
        report(&format!("cannot bind the command to the life of its wrapper: {error}"));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let Some((program, arguments)) = command.split_first() else { return ExitCode::from(NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    report(&format!("cannot start {}: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Prints an error. If standard error is closed, the exit code alone reports it.
fn report(error: &str) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}
