//! The command line: the flags of every command, and their conversion to its configuration.
//!
//! - Every flag has an environment variable: `HUSTINGS_` and the flag's name. The code derives it from the flag, so no
//!   flag lacks one.
//! - clap parses every value into its final type with `base::parsers`. The methods `read` check the rules that concern
//!   several flags. No later code validates a flag again.
//! - A command reports all mistakes at once, with exit code 2 (see `mistakes`).

mod acts;
mod campaign;
mod candidacy;
mod check;
mod completion;
mod controller;
mod copy_binary;
mod explain;
mod history;
mod mistakes;
mod rollout;
#[cfg(target_os = "linux")]
mod run;
mod sidecar;
mod status;
mod survey;
#[cfg(test)]
pub(crate) mod testing;
mod timing;
#[cfg(test)]
mod transcripts;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::builder::Resettable;
use clap::{ArgAction, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use self::acts::ActTask;
use self::acts::LeasePath;
pub use self::campaign::CampaignFlags;
pub use self::check::CheckFlags;
pub use self::completion::{CompleteFlags, CompletionFlags};
pub use self::controller::ControllerFlags;
pub use self::copy_binary::CopyBinaryFlags;
pub use self::explain::ExplainFlags;
pub use self::history::HistoryFlags;
pub use self::mistakes::{Mistakes, UnparsedArgument};
pub use self::rollout::RolloutFlags;
#[cfg(target_os = "linux")]
pub use self::run::{GuardianFlags, RunFlags, WrappedFlags};
pub use self::status::StatusFlags;
pub use self::survey::SurveyFlags;
use crate::base::access::Access;
use crate::base::environment::variable_name;
use crate::base::hint::Hinted;
use crate::base::parsers::{namespace_or_nothing, one_of, switch, value};
use crate::base::program::Program;
use crate::serve::logging::{LogFormat, LogLevel, ProcessLog};
use crate::stand;

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
    /// The kubeconfig file; by default the command tries KUBECONFIG, the pod's service account and ~/.kube/config, in
    /// this order
    #[arg(long, global = true, value_name = "PATH")]
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig file
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of this process and of its Leases; by default that of the service account or context
    #[arg(long, short, global = true, value_name = "NAME", value_parser = value(namespace_or_nothing))]
    pub namespace: Option<String>,
    /// The format of log lines: text or json
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text",
        value_parser = one_of("a log format", &LogFormat::NAMES))]
    pub log_format: LogFormat,
    /// The log level: error, warn, info, debug, trace or off, or directives such as `info,hustings=debug`
    #[arg(long, global = true, value_name = "LEVEL", default_value = "info", value_parser = value(LogLevel::read))]
    pub log_level: LogLevel,
}

impl Cli {
    /// The settings for access to the cluster, in the namespace that LEASE names if it names one.
    ///
    /// # Errors
    /// Fails if LEASE contradicts `--namespace`.
    pub fn access(&self) -> Result<Access, Hinted> {
        Mistakes::check(|mistakes| {
            let access = self.global.access();
            let Some(named) = self.task.lease().and_then(|lease| lease.namespace.clone()) else { return Some(access) };
            if let Some(other) = access.namespace.filter(|other| *other != named) {
                mistakes.add(
                    "LEASE",
                    format!("is in namespace {named}, but --namespace or HUSTINGS_NAMESPACE is {other}: name only one"),
                );
            }
            Some(Access { namespace: Some(named), ..access })
        })
    }
}

impl Task {
    /// The Lease that the command is about.
    fn lease(&self) -> Option<&LeasePath> {
        match self {
            Self::Status(flags) => flags.lease.as_ref(),
            Self::Explain(flags) => Some(&flags.lease),
            Self::History(flags) => Some(&flags.lease),
            Self::Rollout(flags) => flags.lease.as_ref(),
            Self::Act(act) => act.lease(),
            _ => None,
        }
    }
}

impl GlobalFlags {
    /// The settings for access to the cluster. An empty value, as from an empty environment variable, counts as absent.
    pub fn access(&self) -> Access {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Access { kubeconfig: given(&self.kubeconfig), context: given(&self.context), namespace: given(&self.namespace) }
    }

    /// The log of the process.
    pub fn log(&self) -> ProcessLog {
        ProcessLog { format: self.log_format, level: self.log_level.clone() }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Run the controller, which elects the leaders
    Controller(Box<ControllerFlags>),
    /// Stand for a Lease as one replica, and print a line for every change
    Campaign(Box<CampaignFlags>),
    /// Run a command only while this replica leads
    #[cfg(target_os = "linux")]
    Run(Box<RunFlags>),
    /// Stand for a Lease on behalf of a program, and report to it over HTTP whether it leads
    Sidecar(Box<stand::sidecar::Config>),
    /// Print the CustomResourceDefinitions
    Crds,
    /// Copy this binary, for example from its image into a volume
    CopyBinary(CopyBinaryFlags),
    /// Show every lock of a cluster, before anything is installed: what a crash costs, with and without assistance; exit
    /// code 1 if a lock is stuck, 2 if not all could be read
    Survey(SurveyFlags),
    /// Show who leads, and why the others do not; exit code 1 if a Lease has no holder, 2 if the state is unknown
    Status(StatusFlags),
    /// Explain in sentences who leads and why, and what would happen if the holder died now; exit codes as for status
    Explain(ExplainFlags),
    /// Show who held a Lease when, how each term ended, and the gaps between terms; exit code 2 if it cannot be read
    History(HistoryFlags),
    /// Simulate a rolling upgrade: who will lead when, and how long nobody will; exit code 1 if nobody leads in the end
    Rollout(RolloutFlags),
    /// Check a cluster before or after the installation; exit code 1 if there is a problem, 2 if a check was not
    /// possible
    Check(CheckFlags),
    /// An act of an administrator
    #[command(flatten)]
    Act(ActTask),
    /// Print a completion script for a shell or for kubectl, which also completes names in the cluster
    Completion(CompletionFlags),
    /// Print what completes the words of kubectl
    #[command(name = "__complete", hide = true)]
    Complete(CompleteFlags),
    /// Replace this process with the command of `hustings run`
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Wrapped(WrappedFlags),
    /// Kill the command of `hustings run` if the wrapper no longer can
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Guardian(GuardianFlags),
}

/// Parses the command line `arguments`, the first of which is the program's name.
///
/// # Errors
/// Fails with all invalid values, or with the output that clap prints.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, UnparsedArgument> {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let program = arguments.first().map_or(Program::Hustings, |path| Program::of(path));
    let matches = mistakes::matches(command(program), &arguments)?;
    Cli::from_arg_matches(&matches).map_err(UnparsedArgument::ByClap)
}

/// Reads the configuration of a controller from the arguments and the environment `variables` of its container.
///
/// # Errors
/// Fails with the reason if these are not the arguments of a controller, or if a flag is invalid.
pub fn controller_config(
    arguments: Vec<OsString>,
    variables: &BTreeMap<String, String>,
) -> Result<crate::controller::Config, String> {
    let arguments: Vec<_> = std::iter::once("hustings".into()).chain(arguments).collect();
    let command = with_variables_of(command(Program::Hustings), variables);
    let matches = mistakes::matches(command, &arguments);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches).map_err(UnparsedArgument::ByClap));
    let cli = cli.map_err(|error| match error {
        // The first line names the flag; the rest is help.
        UnparsedArgument::ByClap(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        UnparsedArgument::Invalid(error) => error.to_string(),
    })?;
    let Task::Controller(flags) = cli.task else { return Err("its first argument is not `controller`".to_owned()) };
    Mistakes::check(|mistakes| flags.read(mistakes)).map_err(|error| error.to_string())
}

/// The command line's definition, with the environment variable of every flag.
pub fn command(program: Program) -> Command {
    with_environment_variables(Cli::command()).bin_name(program.name())
}

fn with_environment_variables(command: Command) -> Command {
    command
        .mut_args(|argument| {
            // The help text of an argument already names its values.
            let takes_value = argument.get_action().takes_values();
            let argument = if takes_value { argument.hide_possible_values(true) } else { argument };
            let takes_bool = argument.get_value_names().is_some_and(|names| names == ["BOOL"]);
            // In the environment, a switch has a value, such as `true` or `0`.
            let is_switch = takes_bool || matches!(argument.get_action(), ArgAction::SetTrue);
            let argument = if is_switch { argument.value_parser(value(switch)) } else { argument };
            let argument = if takes_bool { argument.num_args(0..=1).default_missing_value("true") } else { argument };
            match argument.get_long().map(variable_name) {
                // An empty format counts as absent.
                Some(variable) if argument.get_id() == "output" && is_empty(&variable) => argument,
                Some(variable) => argument.env(variable),
                None => argument,
            }
        })
        .mut_subcommands(with_environment_variables)
}

fn is_empty(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.is_empty())
}

/// Replaces the environment of this process by that of another one.
fn with_variables_of(command: Command, variables: &BTreeMap<String, String>) -> Command {
    command
        .mut_args(|argument| {
            let value = argument.get_env().and_then(|name| variables.get(name.to_str()?)).cloned();
            let argument = argument.env(Resettable::Reset);
            match value {
                Some(value) => argument.default_value(value),
                None => argument,
            }
        })
        .mut_subcommands(|subcommand| with_variables_of(subcommand, variables))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        command(Program::Hustings).debug_assert();
    }

    #[test]
    fn the_flags_of_another_process_are_not_in_the_environment_of_this_one() {
        fn check(command: &Command) {
            assert!(command.get_arguments().all(|argument| argument.get_env().is_none()), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&with_variables_of(command(Program::Hustings), &BTreeMap::new()));
    }

    #[test]
    fn an_empty_flag_for_the_cluster_counts_as_absent() {
        for (path, context, namespace) in [("", "", ""), ("/k", "", ""), ("", "c", ""), ("", "", "n"), ("/k", "c", "n")]
        {
            let arguments =
                ["hustings", "status", "--kubeconfig", path, "--context", context, "--namespace", namespace];
            let Access { kubeconfig, context: named, namespace: own } =
                parse(arguments.map(Into::into)).unwrap().global.access();
            let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            assert_eq!([kubeconfig, named, own], [path, context, namespace].map(given));
        }
    }

    #[test]
    fn whitespace_around_a_value_is_ignored() {
        let line = ["hustings", "--namespace", " shop\n", "--log-format= json\n", "status"];
        let global = parse(line.map(Into::into)).unwrap().global;
        assert_eq!((global.namespace.as_deref(), global.log_format), (Some("shop"), LogFormat::Json));
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
        check(&command(Program::Hustings));
    }

    const PROXIES: &str = "
## Kubeconfig and proxies

[Access](guides/access.md) describes how a command finds the API server, its credentials and its proxy. It reads `KUBECONFIG`,
`POD_NAMESPACE`, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` as kubectl does.
";

    #[test]
    fn the_table_of_flags_in_the_documentation_is_up_to_date() {
        let mut text = String::from(
            "# Flags\n\nGenerated by `REWRITE=1 cargo test -p hustings documentation`. Durations are written `500ms`, \
             `15s`, `5m`.\n",
        );
        let command = command(Program::Hustings);
        table(&mut text, "Every command", &command);
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            table(&mut text, &format!("hustings {}", subcommand.get_name()), subcommand);
        }
        text.push_str(PROXIES);
        crate::generated::assert_generated("docs/flags.md", &text);
    }

    fn table(text: &mut String, title: &str, command: &Command) {
        write!(text, "\n## {title}\n\n").unwrap();
        if command.get_arguments().next().is_none() {
            writeln!(text, "{}. It has no flags of its own.", command.get_about().unwrap()).unwrap();
            return;
        }
        text.push_str("| flag | environment | default | meaning |\n|---|---|---|---|\n");
        for argument in command.get_arguments() {
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
