//! The output format of the commands that print either texts for people or JSON for scripts.

use serde::Serialize;

use crate::base::terminal::print;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl Output {
    /// The formats with their names on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];

    /// Prints the value as JSON, or the text that describes it to people.
    pub(crate) fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        let text = match self {
            Self::Text => text(),
            Self::Json => serde_json::to_string_pretty(value)? + "\n",
        };
        Ok(print(&text)?)
    }
}
