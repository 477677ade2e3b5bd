//! Tables for people.

use anstyle::AnsiColor;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};

use super::terminal::{Styles, visible};

/// A table with this header and one line for each row.
pub(crate) fn plain<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    // Never wrap: each row stays on one line, even on a narrow terminal.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let header: Vec<_> = header.into_iter().collect();
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

/// A cell in this color, if any.
pub(crate) fn colored(cell: &str, color: Option<AnsiColor>) -> Cell {
    let cell = Cell::new(visible(cell));
    match color {
        Some(AnsiColor::Green) => cell.fg(Color::Green),
        Some(AnsiColor::Yellow) => cell.fg(Color::Yellow),
        Some(AnsiColor::Red) => cell.fg(Color::Red),
        _ => cell,
    }
}

/// The text of a table, without spaces at the ends of its lines.
pub(crate) fn trimmed(table: &mut Table, styles: Styles) -> String {
    if styles.are_on() {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
