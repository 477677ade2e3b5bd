//! The name by which this process was started: `hustings`, or `kubectl hustings` as a plugin of kubectl.
//!
//! kubectl runs a program named `kubectl-hustings` for `kubectl hustings`. Help and errors must then name commands that
//! the user can type.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// The name by which this process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `hustings`.
    Hustings,
    /// `kubectl hustings`.
    Plugin,
}

impl Program {
    /// The name from this process's arguments.
    pub fn current() -> Self {
        std::env::args_os().next().map_or(Self::Hustings, |path| Self::of(&path))
    }

    /// The name from the first argument of a command line.
    pub fn of(path: &OsStr) -> Self {
        match Path::new(path).file_stem() {
            Some(name) if name == Self::Plugin.file() => Self::Plugin,
            _ => Self::Hustings,
        }
    }

    /// The words that a user types.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hustings => "hustings",
            Self::Plugin => "kubectl hustings",
        }
    }

    /// The name of the executable file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Hustings => "hustings",
            Self::Plugin => "kubectl-hustings",
        }
    }

    /// Replaces the commands in a message with those that this user types. Messages quote commands as
    /// `` `hustings status` ``.
    pub fn rename(self, message: &str) -> Cow<'_, str> {
        match self {
            Self::Hustings => Cow::Borrowed(message),
            Self::Plugin => Cow::Owned(message.replace("`hustings ", "`kubectl hustings ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubectl_plugin_is_recognized_by_its_file_name() {
        for (path, program) in [
            ("hustings", Program::Hustings),
            ("/usr/bin/hustings", Program::Hustings),
            ("/home/a/.krew/bin/kubectl-hustings", Program::Plugin),
            ("kubectl-hustings.exe", Program::Plugin),
            ("", Program::Hustings),
        ] {
            assert_eq!(Program::of(OsStr::new(path)), program, "{path}");
        }
    }

    #[test]
    fn messages_of_a_plugin_quote_the_commands_of_kubectl() {
        let message = "run `hustings include a` first, or read about hustings";
        assert_eq!(Program::Hustings.rename(message), message);
        assert_eq!(Program::Plugin.rename(message), "run `kubectl hustings include a` first, or read about hustings");
    }
}
