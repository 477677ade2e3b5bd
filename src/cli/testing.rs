//! Reads command lines for the tests of flags.

use super::{Cli, Mistakes, Task, parse};
use crate::controller::Config;
use crate::stand::sidecar;

/// The configuration that `read` makes of a parsed command line, or all mistakes.
pub(crate) fn configuration<'a, T>(
    words: impl IntoIterator<Item = &'a str>,
    read: impl FnOnce(Cli, &mut Mistakes) -> Option<T>,
) -> Result<T, String> {
    let cli = parse(words.into_iter().map(Into::into)).map_err(|error| format!("{error:?}"))?;
    Mistakes::check(|mistakes| read(cli, mistakes)).map_err(|error| error.to_string())
}

/// The configuration of a controller with these flags, or all mistakes.
pub(crate) fn controller(flags: &str) -> Result<Config, String> {
    let line = format!("hustings controller {flags}");
    configuration(line.split_whitespace(), |cli, mistakes| {
        let Task::Controller(flags) = cli.task else { panic!("{line}") };
        flags.read(mistakes)
    })
}

/// The configuration of a sidecar with these flags, or all mistakes.
pub(crate) fn sidecar(flags: &str) -> Result<sidecar::Config, String> {
    let line = format!("hustings sidecar {flags}");
    configuration(line.split_whitespace(), |cli, mistakes| {
        let Task::Sidecar(flags) = cli.task else { panic!("{line}") };
        flags.read(mistakes)
    })
}
