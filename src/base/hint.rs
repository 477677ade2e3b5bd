//! Errors with a hint on how to fix them.

use std::fmt;

/// An error with a hint on how to fix it.
#[derive(Debug)]
pub struct Hinted {
    message: String,
    hint: String,
    exit_code: Option<u8>,
}

impl Hinted {
    /// An error with this message and this hint.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), exit_code: None }
    }

    /// Sets the exit code of the process. Otherwise the command uses its usual exit code for a failure.
    #[must_use]
    pub fn with_exit_code(self, exit_code: u8) -> Self {
        Self { exit_code: Some(exit_code), ..self }
    }

    /// The hint.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The exit code of the process, if this error sets one.
    pub const fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}
