//! Completion of command lines: the scripts for the shells, and the answers to the scripts.
//!
//! A script asks this binary for the words that may come next, and the binary asks the cluster for names. The answers
//! appear in a command line that a user is writing. So a failure prints nothing, and every answer has a short time
//! limit.

mod names;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;

use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use clap_complete::env::{CompleteEnv, Shells};

use crate::base::program::Program;

/// The environment variable with which a script asks this binary for words.
const VARIABLE: &str = "HUSTINGS_COMPLETE";

/// The program with which kubectl completes the words after `kubectl hustings`.
const KUBECTL_SCRIPT: &str = "\
#!/bin/sh
# Completes `kubectl hustings`. Save it as kubectl_complete-hustings in a folder of PATH, and make it executable.
exec kubectl hustings __complete -- \"$@\"
";

/// Tells kubectl not to complete the word with file names: `ShellCompDirectiveNoFileComp` of cobra.
const NO_FILES: &str = ":4";

/// The shell, or other program, for which a script is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash.
    Bash,
    /// elvish.
    Elvish,
    /// fish.
    Fish,
    /// PowerShell.
    PowerShell,
    /// zsh.
    Zsh,
    /// kubectl, which completes `kubectl hustings` in every shell.
    Kubectl,
}

impl Shell {
    /// The names on the command line.
    pub const NAMES: [(&str, Self); 6] = [
        ("bash", Self::Bash),
        ("elvish", Self::Elvish),
        ("fish", Self::Fish),
        ("powershell", Self::PowerShell),
        ("zsh", Self::Zsh),
        ("kubectl", Self::Kubectl),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::PowerShell => "powershell",
            Self::Zsh => "zsh",
            Self::Kubectl => "kubectl",
        }
    }
}

/// Answers if a completion script has started this process. Returns whether one has. `command` defines the command
/// line.
///
/// # Errors
/// Fails if the script names an unknown shell, or if standard output is closed.
pub fn answer(command: impl Fn() -> Command, arguments: &[OsString]) -> clap::error::Result<bool> {
    CompleteEnv::with_factory(|| with_names(command())).var(VARIABLE).try_complete(arguments.to_owned(), None)
}

/// The script for a shell.
///
/// # Errors
/// Fails if the script cannot be generated.
pub fn script(shell: Shell, program: Program) -> io::Result<String> {
    let shells = Shells::builtins();
    let Some(completer) = shells.completer(shell.name()) else { return Ok(KUBECTL_SCRIPT.to_owned()) };
    let mut script = Vec::new();
    let file = program.file();
    completer.write_registration(VARIABLE, file, file, file, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The completions of the last of the `words` after `kubectl hustings`, in the form that kubectl reads: each on a line,
/// with its meaning after a tab. `command` defines the command line.
///
/// # Errors
/// Fails if clap cannot parse the words before the last one.
pub fn for_kubectl(command: Command, words: Vec<OsString>) -> io::Result<String> {
    let mut command = with_names(command);
    let index = words.len();
    let words = std::iter::once(OsString::from(Program::Plugin.file())).chain(words).collect();
    let mut lines = String::new();
    for candidate in complete(&mut command, words, index, None)?.iter().filter(|candidate| !candidate.is_hide_set()) {
        let (value, meaning) = (candidate.get_value().to_string_lossy(), meaning(candidate));
        let _ = writeln!(lines, "{value}{meaning}");
    }
    Ok(lines + NO_FILES + "\n")
}

fn meaning(candidate: &CompletionCandidate) -> String {
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    help.lines().next().map(|line| format!("\t{line}")).unwrap_or_default()
}

/// Adds the names in the cluster to the completions of the arguments that take them.
fn with_names(command: Command) -> Command {
    let leases: fn() -> Vec<CompletionCandidate> = match command.get_name() {
        "assist" => names::assistable_leases,
        "unassist" => names::assisted_leases,
        _ => names::leases,
    };
    let command = command.mut_args(|argument| {
        let value = argument.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        let names: fn() -> Vec<CompletionCandidate> = match (argument.get_long(), value.as_deref()) {
            (Some("namespace"), _) => names::namespaces,
            (Some("context"), _) => names::contexts,
            (Some("lease"), _) | (_, Some("LEASE")) => leases,
            (_, Some("CANDIDATE")) => names::candidates,
            (_, Some("NODE")) => names::nodes,
            (Some("kubeconfig"), _) => return argument.value_hint(clap::ValueHint::FilePath),
            _ => return argument,
        };
        argument.add(ArgValueCandidates::new(names))
    });
    command.mut_subcommands(with_names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command;

    fn completed(words: &[&str]) -> Vec<String> {
        let text = for_kubectl(command(Program::Plugin), words.iter().map(OsString::from).collect()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn kubectl_gets_commands_with_their_meaning_and_no_hidden_ones() {
        let commands = completed(&[""]);
        assert!(commands.iter().any(|line| line.starts_with("status\tShow who leads")), "{commands:?}");
        assert!(!commands.iter().any(|line| line.starts_with("__complete") || line.starts_with("guardian")));
        assert_eq!(commands.last().unwrap(), NO_FILES);
        assert_eq!(completed(&["guard"]), [NO_FILES]);
        assert_eq!(completed(&["sta"])[0].split('\t').next(), Some("status"));
    }

    #[test]
    fn named_values_complete_their_flag() {
        assert_eq!(completed(&["status", "--output", "t"]), ["table", NO_FILES]);
        assert_eq!(completed(&["completion", "z"]), ["zsh", NO_FILES]);
    }

    #[test]
    fn each_shell_gets_a_script_that_calls_the_file_of_the_program() {
        for (name, shell) in Shell::NAMES {
            assert_eq!(shell.name(), name);
            let script = script(shell, Program::Hustings).unwrap();
            assert!(script.contains("hustings"), "{name}: {script}");
            assert_eq!(script.contains(VARIABLE), shell != Shell::Kubectl, "{name}: {script}");
        }
        assert!(
            script(Shell::Bash, Program::Plugin)
                .unwrap()
                .contains("-F _clap_complete_kubectl_hustings kubectl-hustings")
        );
    }
}
