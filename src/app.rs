//! Runs the command that the command line names, and reports its failure.
//!
//! Data goes to standard output, everything else to standard error.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use crate::base::cluster::Stopped;
use crate::base::hint::Hinted;
use crate::base::program::Program;
use crate::base::terminal::{print, visible};
use crate::cli::{
    self, CheckFlags, Cli, CompleteFlags, CompletionFlags, CopyBinaryFlags, ExplainFlags, HistoryFlags, Mistakes,
    SurveyFlags, Task, UnparsedArgument,
};
use crate::controller;
use crate::operate::{acts, check, completion, explain, history, rollout, status, survey};
use crate::serve::logging::{ProcessLog, print_last, report_panic};
use crate::stand::{campaign, copy_binary, sidecar};
#[cfg(target_os = "linux")]
use crate::{
    cli::{GuardianFlags, WrappedFlags},
    stand::run,
};

/// The exit code after a panic, as of every Rust program.
const PANICKED: i32 = 101;

/// Runs the command line `arguments`, the first of which is the program's name. Returns the exit code of the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    end_on_panic();
    let arguments: Vec<_> = arguments.into_iter().collect();
    match completion::answer(|| cli::command(Program::current()), &arguments) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => error.exit(),
    }
    let cli = match cli::parse(arguments) {
        Ok(cli) => cli,
        // clap chooses the stream and the exit code for help, the version and each mistake.
        Err(UnparsedArgument::ByClap(error)) => error.exit(),
        Err(UnparsedArgument::Invalid(error)) => return report(&error.into(), ExitCode::FAILURE),
    };
    match execute(cli) {
        Ok(code) => code,
        Err(error) => report(&error, ExitCode::FAILURE),
    }
}

fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let (access, log) = (cli.access()?, cli.global.log());
    let Cli { task, .. } = cli;
    match task {
        Task::Controller(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(mistakes))?;
            logged(log, controller::run(&access, config))?;
        }
        Task::Campaign(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(mistakes))?;
            logged(log, campaign::run(&access, config))?;
        }
        Task::Sidecar(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(mistakes))?;
            logged(log, sidecar::run(&access, config))?;
        }
        #[cfg(target_os = "linux")]
        Task::Run(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(log.clone(), mistakes))?;
            return logged(log, run::run(&access, config));
        }
        Task::Status(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(mistakes))?;
            return answer(log, status::run(&access, config));
        }
        Task::Explain(ExplainFlags { lease, watch_for, output }) => {
            return answer(log, explain::run(&access, &lease.name, watch_for, output, cli::controller_config));
        }
        Task::History(HistoryFlags { lease, output }) => {
            return answer(log, history::run(&access, &lease.name, output));
        }
        Task::Rollout(flags) => {
            let config = Mistakes::check(|mistakes| flags.read(mistakes))?;
            return answer(log, rollout::run(&access, config));
        }
        Task::Survey(SurveyFlags { watch_for, output }) => return answer(log, survey::run(&access, output, watch_for)),
        Task::Check(CheckFlags { output }) => return answer(log, check::run(&access, output, cli::controller_config)),
        Task::Act(act) => {
            let config = Mistakes::check(|mistakes| act.read(mistakes))?;
            return logged(log, acts::run(&access, config, cli::controller_config));
        }
        Task::Crds => print(controller::CRDS)?,
        Task::Completion(CompletionFlags { shell }) => print(&completion::script(shell, Program::current())?)?,
        Task::Complete(CompleteFlags { words }) => {
            print(&completion::for_kubectl(cli::command(Program::Plugin), words)?)?;
        }
        Task::CopyBinary(CopyBinaryFlags { path }) => copy_binary::copy_binary(&path)?,
        #[cfg(target_os = "linux")]
        Task::Wrapped(WrappedFlags { parent, gate, command }) => {
            return Ok(run::wrapped::become_command(parent, &gate, &command));
        }
        #[cfg(target_os = "linux")]
        Task::Guardian(GuardianFlags { folder }) => {
            let _log = log.install();
            return Ok(run::guardian::guard(&folder));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a panic of any thread end the process. Otherwise a process whose task has died could live on and do nothing.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        report_panic(panic);
        std::process::exit(PANICKED);
    }));
}

/// Runs a command that only reads. Its exit code 1 is an answer, for example that a Lease has no holder. A failure
/// exits with 2.
fn answer(log: ProcessLog, command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    logged(log, async { Ok(command.await.unwrap_or_else(|error| report(&error, ExitCode::from(2)))) })
}

/// Installs the log, and runs a command on two threads: while one parses a large answer, the other keeps the timers
/// running.
fn logged<T>(log: ProcessLog, command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let _log = log.install();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(command)
}

/// Prints the error, its causes and a hint to standard error. Returns the exit code of the process.
fn report(error: &anyhow::Error, code: ExitCode) -> ExitCode {
    // A stop is no failure. A reader that closes the pipe, such as `head`, needs no more output.
    if error.is::<Stopped>()
        || error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    print_last(Program::current().rename(&message(error)).into_owned());
    error.downcast_ref::<Hinted>().and_then(Hinted::exit_code).map_or(code, ExitCode::from)
}

/// The error, its causes and its hint, each on a line. They may quote an object, so control characters are escaped.
fn message(error: &anyhow::Error) -> String {
    let mut lines = vec![format!("error: {error}")];
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many errors already end with the text of their cause.
        if !lines.last().is_some_and(|line| line.ends_with(&cause)) {
            lines.push(format!("  caused by: {cause}"));
        }
    }
    lines.extend(error.downcast_ref::<Hinted>().map(|hinted| format!("hint: {}", hinted.hint())));
    lines.join("\n").lines().map(visible).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_each_cause_once_and_its_hint_last() {
        let cause = || anyhow::anyhow!("refused (403)");
        let hinted = || Hinted::new("cannot list Leases", "grant the verb list");
        for (error, expected) in [
            (cause(), "error: refused (403)"),
            (cause().context("cannot read"), "error: cannot read\n  caused by: refused (403)"),
            (cause().context("cannot read: refused (403)"), "error: cannot read: refused (403)"),
            (hinted().into(), "error: cannot list Leases\nhint: grant the verb list"),
            (anyhow::anyhow!("held by a\x1b[2J"), "error: held by a\\u{1b}[2J"),
            (
                cause().context(hinted()),
                "error: cannot list Leases\n  caused by: refused (403)\nhint: grant the verb list",
            ),
        ] {
            assert_eq!(message(&error), expected);
        }
    }

    #[test]
    fn the_code_of_an_error_is_its_own_and_a_closed_pipe_is_no_error() {
        let code = |error: anyhow::Error| report(&error, ExitCode::from(2));
        let closed = std::io::Error::from(ErrorKind::BrokenPipe);
        assert_eq!(code(closed.into()), ExitCode::SUCCESS);
        assert_eq!(code(anyhow::anyhow!("planned")), ExitCode::from(2));
        assert_eq!(code(Hinted::new("planned", "hint").into()), ExitCode::from(2));
        let refused = Hinted::new("planned", "hint").with_exit_code(3);
        assert_eq!(code(anyhow::anyhow!("cause").context(refused)), ExitCode::from(3));
    }
}
