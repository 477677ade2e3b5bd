//! Renders Leases as tables for people.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};
use hustings_client::api::names;

use super::snapshot::{CandidateRow, LeaseRow};
use crate::terminal::visible;

/// Renders each Lease with its candidates if `in_full`, otherwise one line per Lease.
pub(super) fn render(rows: &[LeaseRow], in_full: bool) -> String {
    if rows.is_empty() {
        let nothing = if in_full {
            "the Lease does not exist and has no candidates"
        } else {
            "no Lease here is enrolled or has candidates"
        };
        return nothing.to_owned();
    }
    if in_full { rows.iter().map(full).collect::<Vec<_>>().join("\n\n") } else { overview(rows) }
}

fn overview(rows: &[LeaseRow]) -> String {
    let mut table = plain(["NAMESPACE", "LEASE", "STATE", "HOLDER", "SINCE", "EXPIRES", "PREFERRED", "CANDIDATES"]);
    for row in rows {
        let cells = [
            row.namespace.clone(),
            row.lease.clone(),
            row.state.as_str().to_owned(),
            or_dash(row.holder.as_deref()),
            since(row),
            expires(row),
            or_dash(row.preferred.as_deref()),
            row.candidates.len().to_string(),
        ];
        table.add_row(cells.map(|cell| visible(&cell)));
    }
    trimmed(&table)
}

fn full(row: &LeaseRow) -> String {
    let mut text = format!("Lease {} in namespace {}: {}", row.lease, row.namespace, row.state.as_str());
    let token = row.token.map(|token| token.to_string());
    let facts = [
        ("holder", row.holder.clone()),
        ("term", Some(row.term.to_string())),
        ("token", token),
        ("key", row.key.map(|key| key.to_string())),
        ("since", row.since.map(|_| since(row))),
        ("expires", row.expires_within_seconds.map(|_| expires(row))),
        ("preferred", row.preferred.clone()),
        ("strategy", row.strategy.clone()),
        ("hold", row.hold.clone()),
        ("until", row.hold_until.clone()),
        ("transfer", row.transfer.clone()),
        ("pin", row.pin.clone()),
        ("asked by", row.asked_by.clone()),
        ("reason", row.reason.clone()),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {name:<10} {}", visible(&value));
        }
    }
    if row.candidates.is_empty() {
        text.push_str("\n\nno candidates");
    } else {
        text.push_str("\n\n");
        text.push_str(&candidates(&row.candidates));
    }
    text
}

fn candidates(rows: &[CandidateRow]) -> String {
    let mut table = plain(["RANK", "CANDIDATE", "BINARY", "EMULATION", "PRIORITY", "STATE", "REASON"]);
    for row in rows {
        let cells = [
            row.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            name(row),
            row.binary_version.clone(),
            or_dash(row.emulation_version.as_deref()),
            row.priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string()),
            or_dash(row.state),
            reason(row),
        ];
        table.add_row(cells.map(|cell| visible(&cell)));
    }
    trimmed(&table)
}

/// Why it does or does not lead, and until when an administrator excludes it.
fn reason(row: &CandidateRow) -> String {
    let reason = row.reason.clone();
    row.exclude.as_ref().map_or_else(|| reason.clone(), |exclude| format!("{reason} [excluded until {exclude}]"))
}

/// The name, and the API group of a native candidate, as in events.
fn name(row: &CandidateRow) -> String {
    let is_native = row.api_group == names::NATIVE_GROUP;
    if is_native { format!("{} ({})", row.name, row.api_group) } else { row.name.clone() }
}

fn plain<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    // Never wrap: a row stays one line, and a name one word, however narrow the terminal is.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn since(row: &LeaseRow) -> String {
    let time = row.since.and_then(|time| jiff::Timestamp::from_microsecond(time.0.as_micros()).ok());
    time.map_or_else(|| "-".to_owned(), |time| format!("{time:.0}"))
}

fn expires(row: &LeaseRow) -> String {
    row.expires_within_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("within {seconds} s"))
}

fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}
