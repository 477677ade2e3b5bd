//! Renders Leases as tables for people.

use std::fmt::Write as _;

use comfy_table::Cell;

use super::AssistanceState;
use super::color::{color_of, color_of_candidate};
use super::snapshot::{CandidateRow, LeaseRow};
use crate::base::table::{colored, plain, trimmed};
use crate::base::terminal::{Styles, visible};

/// How a table is rendered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Whether to show each Lease with its candidates, instead of one line per Lease.
    pub(super) is_in_full: bool,
    /// Whether to show more columns.
    pub(super) is_wide: bool,
    /// Whether the column names come first.
    pub(super) has_header: bool,
    /// The styles.
    pub(super) styles: Styles,
}

/// Renders the rows, without a newline at the end.
pub(super) fn render(rows: &[LeaseRow], form: Form) -> String {
    if rows.is_empty() {
        let nothing = if form.is_in_full {
            "the Lease does not exist and has no candidates"
        } else {
            "no Lease here is enrolled or has candidates"
        };
        return nothing.to_owned();
    }
    if form.is_in_full {
        rows.iter().map(|row| full(row, form.styles)).collect::<Vec<_>>().join("\n\n")
    } else {
        overview(rows, form)
    }
}

fn overview(rows: &[LeaseRow], form: Form) -> String {
    let mut header = vec!["NAMESPACE", "LEASE", "STATE", "HOLDER", "SINCE", "EXPIRES", "PREFERRED", "CANDIDATES"];
    if form.is_wide {
        header.extend(["TERM", "TOKEN", "STRATEGY", "ACTS", "REASON"]);
    }
    let mut table = plain(header.into_iter().filter(|_| form.has_header));
    for row in rows {
        let mut cells = vec![
            row.namespace.clone(),
            row.lease.clone(),
            row.state.as_str().to_owned(),
            or_dash(row.holder.as_deref()),
            since(row),
            expires(row),
            or_dash(row.preferred.as_deref()),
            candidates_or_assistance(row),
        ];
        if form.is_wide {
            cells.extend([
                row.term.to_string(),
                row.token.map_or_else(|| "-".to_owned(), |token| token.to_string()),
                or_dash(row.strategy.as_deref()),
                acts(row),
                or_dash(row.reason.as_deref()),
            ]);
        }
        let cells = cells.iter().enumerate().map(|(column, cell)| match column {
            2 => colored(cell, Some(color_of(row.state))),
            _ => Cell::new(visible(cell)),
        });
        table.add_row(cells);
    }
    trimmed(&mut table, form.styles)
}

/// How many candidates the Lease has; of an assisted Lease, what is known of its holder instead.
fn candidates_or_assistance(row: &LeaseRow) -> String {
    match row.assist.as_ref().map(|assist| assist.state) {
        None => row.candidates.len().to_string(),
        Some(AssistanceState::Identified | AssistanceState::NoHolder) => "assisted".to_owned(),
        Some(AssistanceState::NoEffect) if !row.candidates.is_empty() => row.candidates.len().to_string(),
        Some(state) => format!("assisted: {}", state.as_str()),
    }
}

/// The acts of administrators in force on the Lease.
fn acts(row: &LeaseRow) -> String {
    let until = row.hold_until.as_ref().map_or_else(String::new, |until| format!(" until {until}"));
    let hold = row.hold.as_ref().map(|hold| format!("hold {hold}{until}"));
    let transfer = row.transfer.as_ref().map(|to| format!("transfer to {to}"));
    let pin = row.pin.as_ref().map(|pin| format!("pin {pin}"));
    let acts: Vec<_> = [hold, transfer, pin].into_iter().flatten().collect();
    if acts.is_empty() { "-".to_owned() } else { acts.join(", ") }
}

fn full(row: &LeaseRow, styles: Styles) -> String {
    let title = format!("Lease {} in namespace {}: ", row.lease, row.namespace);
    let state = styles.colored(row.state.as_str(), Some(color_of(row.state)));
    let mut text = format!("{}{state}", styles.heading(&visible(&title)));
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
        ("label", row.leader_label.clone()),
        ("assisted", row.assist.as_ref().map(|assist| format!("{}: {}", assist.state.as_str(), assist.reason))),
        ("options", row.assist.as_ref().map(|assist| assist.options.to_string()).filter(|text| !text.is_empty())),
        ("pod", row.assist.as_ref().and_then(|assist| assist.pod.clone())),
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
        text.push_str(&candidates(&row.candidates, styles));
    }
    text
}

fn candidates(rows: &[CandidateRow], styles: Styles) -> String {
    let mut table = plain(["RANK", "CANDIDATE", "BINARY", "EMULATION", "PRIORITY", "STATE", "REASON"]);
    for row in rows {
        let cells = [
            row.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            row.key().to_string(),
            row.binary_version.clone(),
            or_dash(row.emulation_version.as_deref()),
            row.priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string()),
            or_dash(row.state),
            reason(row),
        ];
        let cells = cells.iter().enumerate().map(|(column, cell)| match column {
            5 => colored(cell, color_of_candidate(cell)),
            _ => Cell::new(visible(cell)),
        });
        table.add_row(cells);
    }
    trimmed(&mut table, styles)
}

/// Why the candidate does or does not lead, and until when an administrator excludes it.
fn reason(row: &CandidateRow) -> String {
    let reason = row.reason.clone();
    row.exclude.as_ref().map_or_else(|| reason.clone(), |exclude| format!("{reason} [excluded until {exclude}]"))
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

#[cfg(test)]
mod tests {
    use hustings_client::api::{ReadCandidate, ReadLease};
    use hustings_core::model::{Moment, Now, Observed, WireTime};
    use serde_json::json;

    use super::super::LeaseState::{Expired, Granted, Held, Hold, Missing, NoCandidate, Unheld};
    use super::super::snapshot::rows;
    use super::*;

    fn shown(is_in_full: bool, is_wide: bool) -> String {
        styled(is_in_full, is_wide, Styles::none())
    }

    fn styled(is_in_full: bool, is_wide: bool, styles: Styles) -> String {
        render(&[row()], Form { is_in_full, is_wide, has_header: true, styles })
    }

    /// A Lease with every fact.
    fn row() -> LeaseRow {
        let annotations = json!({
            "hustings.io/session": "s/1/15", "hustings.io/token": "77", "hustings.io/strategy": "OldestEmulationVersion",
            "hustings.io/preferred-holder": "b", "hustings.io/reason": "Why.", "hustings.io/key": "4",
            "hustings.io/hold": "works", "hustings.io/hold-until": "2026-01-02T04:00:00Z", "hustings.io/transfer": "b",
            "hustings.io/pin": "b until 2026-01-02T05:00:00Z", "hustings.io/asked-by": "ada\u{1b}",
        });
        let lease = ReadLease::from_json(json!({
            "metadata": { "name": "l", "namespace": "n", "annotations": annotations },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 7,
                "acquireTime": "2026-01-02T03:00:00.900000Z" },
        }));
        let candidate = ReadCandidate::from_json(json!({
            "metadata": { "name": "b", "namespace": "n", "annotations": { "hustings.io/exclude": "2026-01-02T06:00:00Z: drain" } },
            "spec": { "leaseName": "l", "binaryVersion": "1.32.0", "emulationVersion": "1.31.0", "priority": 3 },
            "status": { "state": "Preferred", "message": "Better." },
        }));
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
        let observed = Observed::first(lease.record.clone(), now.moment);
        let key = ("n".to_owned(), "l".to_owned());
        rows(vec![lease], vec![candidate], &[(key, observed)].into(), now, true).remove(0)
    }

    #[test]
    fn the_guide_describes_each_field_and_state() {
        let guide = include_str!("../../../docs/guides/status.md");
        let row = serde_json::to_value(row()).unwrap();
        for field in [&row, &row["candidates"][0]].into_iter().flat_map(|row| row.as_object().unwrap().keys()) {
            assert!(guide.contains(&format!("`{field}`")), "{field}");
        }
        for state in [Held, Granted, Expired, Unheld, NoCandidate, Hold, Missing] {
            let state = serde_json::to_value(state).unwrap();
            assert!(guide.contains(&format!("| `{}` |", state.as_str().unwrap())), "{state}");
        }
    }

    #[test]
    fn a_lease_in_full_shows_every_fact_and_its_candidates() {
        let expected = "\
Lease l in namespace n: held
  holder     a
  term       7
  token      77
  key        4
  since      2026-01-02T03:00:00Z
  expires    within 15 s
  preferred  b
  strategy   OldestEmulationVersion
  hold       works
  until      2026-01-02T04:00:00Z
  transfer   b
  pin        b until 2026-01-02T05:00:00Z
  asked by   ada\\u{1b}
  reason     Why.

 RANK  CANDIDATE  BINARY  EMULATION  PRIORITY  STATE      REASON
 1     b          1.32.0  1.31.0     3         Preferred  Better. [excluded until 2026-01-02T06:00:00Z: drain]";
        assert_eq!(shown(true, false), expected);
    }

    #[test]
    fn an_overview_has_a_line_for_each_lease() {
        let lines = |is_wide| shown(false, is_wide).lines().map(str::to_owned).collect::<Vec<_>>();
        let (header, line) = (
            " NAMESPACE  LEASE  STATE  HOLDER  SINCE                 EXPIRES      PREFERRED  CANDIDATES",
            " n          l      held   a       2026-01-02T03:00:00Z  within 15 s  b          1",
        );
        assert_eq!(lines(false), [header, line]);
        let wide = lines(true);
        let (more, acts) = (
            "  TERM  TOKEN  STRATEGY                ACTS",
            "hold works until 2026-01-02T04:00:00Z, transfer to b, pin b until 2026-01-02T05:00:00Z  Why.",
        );
        assert!(wide[0].starts_with(&format!("{header}{more}")) && wide[0].ends_with("  REASON"), "{wide:?}");
        assert!(wide[1].starts_with(line) && wide[1].ends_with(acts), "{wide:?}");
        assert!(wide[1].contains("  7     77     OldestEmulationVersion  "), "{wide:?}");
    }

    #[test]
    fn states_have_their_colours_on_a_terminal() {
        let lines = |is_in_full| styled(is_in_full, false, Styles::all());
        let (full, overview) = (lines(true), lines(false));
        assert!(full.contains("\u{1b}[32mheld\u{1b}[0m"), "{full:?}");
        // The table has codes of its own for the same colours.
        assert!(full.contains("\u{1b}[38;5;11m Preferred \u{1b}[39m"), "{full:?}");
        assert!(overview.contains("\u{1b}[38;5;10m held  \u{1b}[39m"), "{overview:?}");
    }

    #[test]
    fn a_lease_that_is_gone_is_said_to_be_missing() {
        let form = Form { is_in_full: true, is_wide: false, has_header: true, styles: Styles::none() };
        assert_eq!(render(&[], form), "the Lease does not exist and has no candidates");
        assert_eq!(render(&[], Form { is_in_full: false, ..form }), "no Lease here is enrolled or has candidates");
    }
}
