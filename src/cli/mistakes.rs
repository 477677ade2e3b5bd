//! Reports all mistakes in a command line at once.
//!
//! clap stops at the first invalid value. [`matches()`] therefore parses again without the parser of that flag, until it
//! knows every invalid value. The rules that concern several flags apply only if every value is valid.

use std::collections::HashSet;
use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};

use crate::base::hint::Hinted;

/// The exit code of the process for an invalid command line.
const INVALID_COMMAND_LINE: u8 = 2;

/// The mistakes in one command line, each with its flag.
#[derive(Debug, Default)]
pub struct Mistakes(Vec<String>);

/// Why a command line was not parsed.
#[derive(Debug)]
pub enum UnparsedArgument {
    /// Output that clap prints itself: help, the version, or a mistake such as an unknown flag.
    ByClap(clap::Error),
    /// Values of flags are invalid.
    Invalid(Hinted),
}

/// Parses the `arguments` of the command line that `command` defines. The first argument is the program's name.
///
/// # Errors
/// Fails with all invalid values, or with the output that clap prints.
pub(super) fn matches(mut command: Command, arguments: &[OsString]) -> Result<ArgMatches, UnparsedArgument> {
    let mut mistakes = Mistakes::default();
    let mut names = HashSet::new();
    loop {
        let error = match command.clone().try_get_matches_from(arguments) {
            Ok(matches) if mistakes.is_empty() => return Ok(matches),
            Ok(_) => return Err(UnparsedArgument::Invalid(mistakes.into_error())),
            Err(error) => error,
        };
        match invalid_flag(&error) {
            Some((name, reason)) if names.insert(name.clone()) => {
                mistakes.add(&name, reason);
                command = accept_any(command, &name);
            }
            _ if mistakes.is_empty() => return Err(UnparsedArgument::ByClap(error)),
            _ => return Err(UnparsedArgument::Invalid(mistakes.into_error())),
        }
    }
}

impl Mistakes {
    /// Returns the configuration that `read` makes of flags, if it finds no mistake.
    ///
    /// # Errors
    /// Fails with all mistakes.
    pub fn check<T>(read: impl FnOnce(&mut Self) -> Option<T>) -> Result<T, Hinted> {
        let mut mistakes = Self::default();
        match read(&mut mistakes) {
            Some(config) if mistakes.is_empty() => Ok(config),
            _ => Err(mistakes.into_error()),
        }
    }

    /// Adds a mistake in `flag`, such as `--lease`, or in a positional argument, such as `COMMAND`.
    pub fn add(&mut self, flag: &str, reason: impl AsRef<str>) {
        self.0.push(format!("{flag}: {}", reason.as_ref()));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn into_error(self) -> Hinted {
        let lines: Vec<_> = std::iter::once("the command line is invalid".to_owned()).chain(self.0).collect();
        let hint = "`hustings help` and `hustings COMMAND --help` describe each flag";
        Hinted::new(lines.join("\n  "), hint).with_exit_code(INVALID_COMMAND_LINE)
    }
}

/// The flag with an invalid value and the reason; `None` if the error is a different one.
fn invalid_flag(error: &clap::Error) -> Option<(String, String)> {
    let reason = error.source().filter(|_| error.kind() == ErrorKind::ValueValidation)?.to_string();
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    // clap shows `--flag <VALUE>`, or `[VALUE]` and `[VALUE]...` for a positional argument.
    let name = argument.split(' ').next()?.trim_matches(['[', ']', '<', '>', '.']);
    Some((name.to_owned(), reason))
}

/// Makes the argument accept any value.
fn accept_any(command: Command, name: &str) -> Command {
    command
        .mut_args(|argument| {
            let is_named = match (name.strip_prefix("--"), argument.get_long()) {
                (Some(name), Some(long)) => name == long,
                (None, None) => argument.get_value_names().is_some_and(|names| names.iter().any(|own| own == name)),
                _ => false,
            };
            if is_named { argument.value_parser(ValueParser::os_string()) } else { argument }
        })
        .mut_subcommands(|subcommand| accept_any(subcommand, name))
}
