//! The command before it is itself: a process that has the kernel kill it when the wrapper dies, and then becomes the
//! command. What is set here survives that, unless the command's file gives it another user or capabilities.

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::program::{NOT_EXECUTABLE, NOT_FOUND};

/// Becomes `command`, as a child of the process `parent`. It returns only where that failed.
pub fn become_command(parent: i32, command: &[OsString]) -> ExitCode {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // Whoever died before cannot tell us any more.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return ExitCode::FAILURE;
    }
    if let Err(error) = bound {
        report(&format!("the command cannot be bound to the life of its wrapper: {error}"));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    let Some((program, arguments)) = command.split_first() else { return ExitCode::from(NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    report(&format!("{} cannot be started: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Where nobody reads, the code says enough.
fn report(error: &str) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}
