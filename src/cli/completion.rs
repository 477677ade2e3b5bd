//! The flags of `hustings completion`, and of the command that kubectl's completion runs.

use std::ffi::OsString;

use clap::Args;

use crate::base::parsers::one_of;
use crate::operate::completion::Shell;

/// The flags of `hustings completion`.
#[derive(Args, Clone, Debug)]
pub struct CompletionFlags {
    /// The shell: bash, elvish, fish, powershell or zsh; or kubectl, which completes `kubectl hustings` in each of them
    #[arg(value_name = "SHELL", value_parser = one_of("a shell", &Shell::NAMES))]
    pub shell: Shell,
}

/// The words that kubectl completes.
#[derive(Args, Clone, Debug)]
pub struct CompleteFlags {
    /// The words after `kubectl hustings`; the last one is incomplete
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}
