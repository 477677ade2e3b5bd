//! The process that becomes the command. It first asks the kernel to kill it when the wrapper dies, and waits until the
//! guardian knows it.
//!
//! That request survives `exec`, unless the command's file is setuid, setgid or has file capabilities.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::program::{NOT_EXECUTABLE, NOT_FOUND};
use super::start::wait_for_go;
use crate::serve::logging::print_last;

/// Replaces this process, a child of the process `parent`, with `command`, as soon as the wrapper lets it go through
/// `gate`. It returns only if that failed.
pub fn become_command(parent: i32, gate: &str, command: &[OsString]) -> ExitCode {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // If the parent died before the request took effect, no signal will come.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != Some(parent) {
        return ExitCode::FAILURE;
    }
    if let Err(error) = bound {
        print_last(format!("error: cannot bind the command to the life of its wrapper: {error}"));
        return ExitCode::from(NOT_EXECUTABLE);
    }
    match wait_for_go(gate) {
        Ok(true) => {}
        // The wrapper is gone, or the term is over.
        Ok(false) | Err(_) => return ExitCode::FAILURE,
    }
    let Some((program, arguments)) = command.split_first() else { return ExitCode::from(NOT_FOUND) };
    let error = Command::new(program).args(arguments).exec();
    print_last(format!("error: cannot start {}: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}
