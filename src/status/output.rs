//! Prints rows in each output format.

use std::io::IsTerminal as _;

use super::snapshot::LeaseRow;
use super::{Config, Output, table};
use crate::terminal::{Styles, print};

/// Prints all rows at once.
pub(super) fn show(config: &Config, rows: &[LeaseRow]) -> anyhow::Result<()> {
    let text = match config.output {
        Output::Json if config.watch => serde_json::to_string(rows)? + "\n",
        Output::Json => serde_json::to_string_pretty(rows)? + "\n",
        // Each change is a separate document.
        Output::Yaml => format!("---\n{}", serde_saphyr::to_string(&rows)?),
        Output::Name => names(rows),
        Output::Table | Output::Wide => table::render(rows, form(config)) + "\n",
    };
    // Move the cursor home and clear the rest. Clearing the whole screen first would make it flicker.
    let clear = if shows_page(config) { "\x1b[H\x1b[J" } else { "" };
    Ok(print(&format!("{clear}{text}"))?)
}

/// Prints pages of rows as one output, each page as soon as it has been read.
pub(super) struct Printer<'a> {
    config: &'a Config,
    printed: usize,
}

impl<'a> Printer<'a> {
    pub(super) const fn new(config: &'a Config) -> Self {
        Self { config, printed: 0 }
    }

    /// Prints a page.
    pub(super) fn page(&mut self, rows: &[LeaseRow]) -> anyhow::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let is_first = self.printed == 0;
        self.printed += rows.len();
        let text = match self.config.output {
            Output::Json => {
                // Strip the brackets of the array.
                let array = serde_json::to_string_pretty(rows)?;
                let elements = array.trim_start_matches("[\n").trim_end_matches("\n]");
                format!("{}{elements}", if is_first { "[\n" } else { ",\n" })
            }
            Output::Yaml => serde_saphyr::to_string(&rows)?,
            Output::Name => names(rows),
            Output::Table | Output::Wide => {
                let form = form(self.config);
                table::render(rows, table::Form { has_header: is_first, ..form }) + "\n"
            }
        };
        Ok(print(&text)?)
    }

    /// Ends the output.
    pub(super) fn end(self) -> anyhow::Result<()> {
        let text = match (self.config.output, self.printed) {
            (Output::Json | Output::Yaml, 0) => "[]\n".to_owned(),
            (Output::Json, _) => "\n]\n".to_owned(),
            (Output::Table | Output::Wide, 0) => table::render(&[], form(self.config)) + "\n",
            (Output::Yaml | Output::Name | Output::Table | Output::Wide, _) => return Ok(()),
        };
        Ok(print(&text)?)
    }
}

/// Whether each change redraws the terminal instead of appending to it.
pub(super) fn shows_page(config: &Config) -> bool {
    config.watch && matches!(config.output, Output::Table | Output::Wide) && std::io::stdout().is_terminal()
}

fn form(config: &Config) -> table::Form {
    table::Form {
        is_in_full: config.lease.is_some(),
        is_wide: config.output == Output::Wide,
        has_header: true,
        styles: Styles::of_stdout(),
    }
}

/// The names as kubectl writes them.
fn names(rows: &[LeaseRow]) -> String {
    rows.iter().flat_map(|row| ["lease.coordination.k8s.io/", &row.lease, "\n"]).collect()
}
