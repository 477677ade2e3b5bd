//! The command line: commands, flags, and the report of a failure.
//!
//! - Data goes to standard output, everything else to standard error.
//! - Every flag has an environment variable: `HUSTINGS_` and the flag's name. It is derived from the flag, so no flag
//!   can lack it.
//! - Commands parse the values of their flags themselves, since clap would stop at the first mistake. A command reports
//!   all mistakes at once and exits with 2.

mod campaign;
mod candidacy;
mod controller;
mod install;
#[cfg(target_os = "linux")]
mod run;
mod sidecar;
mod status;
mod timing;
mod values;

use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::builder::{BoolishValueParser, StringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::campaign::CampaignFlags;
pub use self::candidacy::CandidacyFlags;
pub use self::controller::ControllerFlags;
pub use self::install::InstallFlags;
#[cfg(target_os = "linux")]
pub use self::run::{GuardianFlags, RunFlags, WrappedFlags};
pub use self::sidecar::SidecarFlags;
pub use self::status::StatusFlags;
pub use self::values::{Hinted, Refused, Values, duration};
use crate::ops::logging::{self, LogFormat};

/// Coordinated leader election for Kubernetes
#[derive(Debug, Parser)]
#[command(name = "hustings", version, about, propagate_version = true)]
pub struct Cli {
    /// The flags of every command.
    #[command(flatten)]
    pub global: GlobalFlags,
    /// The command.
    #[command(subcommand)]
    pub task: Task,
}

/// The flags of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalFlags {
    /// The kubeconfig file; without it, the command tries KUBECONFIG, the pod's service account and ~/.kube/config, in this order
    #[arg(long, global = true, value_name = "PATH")]
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig file
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of this process and of its Leases; without it, the namespace of the service account or context
    #[arg(long, short, global = true, value_name = "NAME", value_parser = StringValueParser::new().map(|text| text.trim().to_owned()))]
    pub namespace: Option<String>,
    /// The format of log lines: text or json
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: String,
    /// The log level: error, warn, info, debug, trace or off, or directives such as `info,hustings=debug`
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run the controller, which elects
    Controller(Box<ControllerFlags>),
    /// Stand for a Lease as one replica, and print a line for every change
    Campaign(Box<CampaignFlags>),
    /// Run a command only while this replica leads
    #[cfg(target_os = "linux")]
    Run(Box<RunFlags>),
    /// Stand for a Lease on behalf of a program, and report to it over HTTP whether it leads
    Sidecar(Box<SidecarFlags>),
    /// Print the CustomResourceDefinitions
    Crds,
    /// Copy this binary, for example from its image into a volume
    Install(InstallFlags),
    /// Show who leads, and why the others do not; exit code 1 if a Lease has no holder, 2 if the state is unknown
    Status(StatusFlags),
    /// Replace this process with the command of `hustings run`
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Wrapped(WrappedFlags),
    /// Kill the command of `hustings run` if the wrapper no longer can
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Guardian(GuardianFlags),
}

/// Runs the command line `arguments`, the first of which is the program's name. Returns the exit code of the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        // clap returns help and version as errors too. It knows the stream and the exit code of each.
        Err(error) => error.exit(),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match execute(cli) {
        Ok(code) => code,
        Err(error) => report(&error, ExitCode::FAILURE),
    }
}

/// The command line's definition, with the environment variable of every flag.
pub fn command() -> Command {
    with_environment_variables(Cli::command())
}

fn execute(Cli { global, task }: Cli) -> anyhow::Result<ExitCode> {
    let mut values = Values::default();
    let format = values.take("log-format", &global.log_format, LogFormat::read);
    let filter = values.take("log-level", &global.log_level, logging::filter);
    match task {
        Task::Controller(flags) => {
            let config = flags.read(&global, &mut values);
            let (format, filter, config) = values.accept((format, filter, config))?;
            logging::install(format, filter);
            runtime()?.block_on(crate::controller::run(&global, config)).map(|()| ExitCode::SUCCESS)
        }
        Task::Campaign(flags) => {
            let config = flags.read(&global, &mut values);
            let (format, filter, config) = values.accept((format, filter, config))?;
            logging::install(format, filter);
            runtime()?.block_on(crate::campaign::run(&global, config)).map(|()| ExitCode::SUCCESS)
        }
        Task::Sidecar(flags) => {
            let config = flags.read(&global, &mut values);
            let (format, filter, config) = values.accept((format, filter, config))?;
            logging::install(format, filter);
            runtime()?.block_on(crate::sidecar::run(&global, config)).map(|()| ExitCode::SUCCESS)
        }
        Task::Crds => {
            values.accept((format, filter))?;
            print(crate::controller::CRDS)?;
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(target_os = "linux")]
        Task::Run(flags) => {
            let config = flags.read(&global, &mut values);
            let (format, filter, config) = values.accept((format, filter, config))?;
            logging::install(format, filter);
            config.command.first().map_or(Ok(()), |program| crate::run::program::check(program))?;
            runtime()?.block_on(crate::run::run(&global, config))
        }
        #[cfg(target_os = "linux")]
        Task::Wrapped(WrappedFlags { parent, command }) => Ok(crate::run::wrapped::become_command(parent, &command)),
        #[cfg(target_os = "linux")]
        Task::Guardian(GuardianFlags { folder }) => {
            let (format, filter) = values.accept((format, filter))?;
            logging::install(format, filter);
            Ok(crate::run::guardian::guard(&folder))
        }
        Task::Install(flags) => {
            values.accept((format, filter))?;
            flags.install()?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Status(flags) => {
            let config = flags.read(&global, &mut values);
            let (format, filter, config) = values.accept((format, filter, config))?;
            logging::install(format, filter);
            // Exit code 1 would tell a script that a Lease has no holder.
            let code = runtime()?.block_on(crate::status::run(&global, config));
            Ok(code.unwrap_or_else(|error| report(&error, ExitCode::from(2))))
        }
    }
}

/// Prints data to standard output and flushes it.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Escapes the control and bidirectional characters in a text from an object.
///
/// A user who may write a Lease must not be able to move the cursor on an operator's terminal, start a new line, or
/// change the direction of the text.
pub(crate) fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => seen.extend(character.escape_unicode()),
            _ if character.is_control() => seen.extend(character.escape_default()),
            _ => seen.push(character),
        }
    }
    seen
}

/// Prints the error, its causes and a hint to standard error. Returns the exit code of the process.
fn report(error: &anyhow::Error, code: ExitCode) -> ExitCode {
    // A reader that closes the pipe, such as `head`, has all the output that it wants.
    if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    let (hint, code) = hint_and_code(error, code);
    let mut lines = vec![format!("error: {error}")];
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many errors already end with the text of their cause.
        if !lines.last().is_some_and(|line| line.ends_with(&cause)) {
            lines.push(format!("  caused by: {cause}"));
        }
    }
    lines.extend(hint.map(|hint| format!("hint: {hint}")));
    // If standard error is closed, the exit code remains.
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
    code
}

/// Returns the hint of an error, if it has one, and the exit code: the error's own, or else `code`.
fn hint_and_code(error: &anyhow::Error, code: ExitCode) -> (Option<String>, ExitCode) {
    if let Some(refused) = error.downcast_ref::<Refused>() {
        let hint = "`hustings help` and `hustings COMMAND --help` describe each flag";
        return (Some(hint.to_owned()), ExitCode::from(refused.exit_code()));
    }
    #[cfg(target_os = "linux")]
    if let Some(unstartable) = error.downcast_ref::<crate::run::program::Unstartable>() {
        return (Some(unstartable.hint().to_owned()), ExitCode::from(unstartable.exit_code()));
    }
    (error.downcast_ref::<Hinted>().map(|hinted| hinted.hint().to_owned()), code)
}

/// A runtime with two threads: while one parses a large answer, the other still runs the timers.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

fn with_environment_variables(command: Command) -> Command {
    command
        .mut_args(|argument| match argument.get_long() {
            Some(long) => {
                let variable = variable_name(long);
                // In the environment a switch needs a value, such as `true` or `0`.
                let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
                let argument = argument.env(variable);
                if is_switch { argument.value_parser(BoolishValueParser::new()) } else { argument }
            }
            None => argument,
        })
        .mut_subcommands(with_environment_variables)
}

fn variable_name(long: &str) -> String {
    format!("HUSTINGS_{}", long.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn whitespace_around_a_namespace_is_ignored() {
        let cli = Cli::try_parse_from(["hustings", "--namespace", " shop\n", "status"]).unwrap();
        assert_eq!(cli.global.namespace.as_deref(), Some("shop"));
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        fn check(command: &Command) {
            for argument in command.get_arguments().filter(|argument| !argument.is_positional()) {
                let long = argument.get_long().unwrap();
                assert_eq!(argument.get_env().unwrap().to_str().unwrap(), variable_name(long));
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    #[test]
    fn texts_from_objects_cannot_control_the_terminal() {
        assert_eq!(visible("web-0 日本語"), "web-0 日本語");
        assert_eq!(visible("a\x1b[31m\n\u{9b}b\u{202e}c"), r"a\u{1b}[31m\n\u{9b}b\u{202e}c");
    }

    const PROXIES: &str = "
## Proxies

A command that uses a kubeconfig reaches the API server through `proxy-url` of the cluster, or else through `HTTPS_PROXY`. The
schemes are `http`, `https` and `socks5`.

- `NO_PROXY` exempts API servers from `HTTPS_PROXY`: host names with their subdomains, IP addresses, ranges such as `10.0.0.0/8`,
  or `*` for all. As with kubectl, it does not apply to `proxy-url`.
- If `NO_PROXY` names the proxy itself, no proxy is used.
- In a pod, a command that uses its service account ignores these variables and connects directly.
- Behind a proxy, a command does not replace its pooled connections after a request without an answer. If connections fail
  silently there, a holder may lose its term although new connections work.
";

    #[test]
    fn the_table_of_flags_in_the_documentation_is_up_to_date() {
        let mut text = String::from(
            "# Flags\n\nGenerated by `REWRITE=1 cargo test -p hustings documentation`. Durations are written `500ms`, \
             `15s`, `5m`.\n",
        );
        let command = command();
        table(&mut text, "Every command", &command);
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            table(&mut text, &format!("hustings {}", subcommand.get_name()), subcommand);
        }
        text.push_str(PROXIES);
        crate::generated::assert_generated("docs/flags.md", &text);
    }

    fn table(text: &mut String, title: &str, command: &Command) {
        let mut rows = command.get_arguments().peekable();
        if rows.peek().is_none() {
            return;
        }
        write!(text, "\n## {title}\n\n| flag | environment | default | meaning |\n|---|---|---|---|\n").unwrap();
        for argument in rows {
            let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
            let default = argument.get_default_values().first().and_then(|value| value.to_str()).unwrap_or_default();
            let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
            let name = argument
                .get_long()
                .map_or_else(|| argument.get_id().to_string().to_uppercase(), |long| format!("--{long}"));
            let variable =
                argument.get_env().map(|variable| format!("`{}`", variable.to_str().unwrap())).unwrap_or_default();
            writeln!(
                text,
                "| {short}`{name}` | {variable} | {default} | {} |",
                argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|"),
            )
            .unwrap();
        }
    }
}
