//! Renders the outcome of a simulated upgrade as text.

use comfy_table::{ContentArrangement, Table, presets};

use super::outcome::{UpgradeOutcome, What};
use super::upgrade::LIMIT;
use crate::base::terminal::{Styles, visible};

/// Renders the outcome, with a newline at its end.
pub(super) fn render(outcome: &UpgradeOutcome, styles: Styles) -> String {
    let UpgradeOutcome { lease, to, replicas, .. } = outcome;
    let count = if *replicas == 1 { "1 replica".to_owned() } else { format!("{replicas} replicas") };
    let of_lease = lease.as_ref().map_or_else(String::new, |lease| format!(" of Lease {lease}"));
    let title = format!("Simulated upgrade{of_lease} to {to}, {count}");
    let blocks = [
        styles.heading(&visible(&title)),
        format!("{}\n{}", styles.heading("What happens"), timeline(outcome)),
        format!("{}\n{}", styles.heading("Who leads"), leaders(outcome)),
        summary(outcome),
    ];
    blocks.join("\n\n") + "\n"
}

fn timeline(outcome: &UpgradeOutcome) -> String {
    let mut table = plain();
    for entry in &outcome.timeline {
        let what = match entry.event {
            What::Created => "is created",
            What::Ready => "is ready and stands",
            What::AskedToStop => "is asked to stop",
            What::Ended => "has ended",
            What::Leads => "leads",
            What::Follows => "no longer leads",
            What::Reported => &entry.message,
        };
        let who = if entry.event == What::Reported { "controller" } else { &entry.replica };
        table.add_row([seconds(entry.at_seconds), visible(who), visible(what)]);
    }
    trimmed(&table)
}

/// A table of the terms and the gaps between them, in order.
fn leaders(outcome: &UpgradeOutcome) -> String {
    let mut table = plain();
    table.set_header(["LEADER", "VERSION", "FROM", "UNTIL", "FOR"]);
    let terms = outcome.terms.iter().map(|term| {
        let until = term.until_seconds;
        (
            term.from_seconds,
            until,
            visible(&term.holder),
            visible(&term.version),
            until.map(|until| until - term.from_seconds),
        )
    });
    let gaps = outcome.gaps.iter().map(|gap| {
        (gap.from_seconds, Some(gap.from_seconds + gap.seconds), "nobody".to_owned(), "-".to_owned(), Some(gap.seconds))
    });
    let mut rows: Vec<_> = terms.chain(gaps).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (from, until, who, version, lasts) in rows {
        let or_dash = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), self::seconds);
        table.add_row([who, version, seconds(from), or_dash(until), or_dash(lasts)]);
    }
    trimmed(&table)
}

fn summary(outcome: &UpgradeOutcome) -> String {
    let UpgradeOutcome { changes, without_leader_seconds, longest_gap_seconds, gaps, newer_leads_beside_older, .. } =
        outcome;
    let times = |count: usize| match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let mut sentences = Vec::new();
    if let Some(pause) = &outcome.pause {
        sentences.push(format!("When the upgrade begins, elections are paused: {}.", visible(pause)));
    }
    sentences.extend(outcome.pre_release.as_ref().map(|note| format!("{note}.")));
    sentences.push(match outcome.seconds {
        Some(taken) => format!("The upgrade takes {}.", seconds(taken)),
        None => format!("The upgrade does not end within {}.", seconds(LIMIT.as_secs_f64())),
    });
    sentences.push(match changes {
        0 => "The leader does not change.".to_owned(),
        changes => format!("The leader changes {}.", times(*changes)),
    });
    sentences.push(if gaps.is_empty() {
        "A replica leads at every moment.".to_owned()
    } else {
        format!(
            "Nobody leads for {} in all, and for at most {} at a time.",
            seconds(*without_leader_seconds),
            seconds(*longest_gap_seconds)
        )
    });
    sentences.push(if *newer_leads_beside_older {
        "A replica leads while one of an older version is live.".to_owned()
    } else {
        "No replica leads while one of an older version is live.".to_owned()
    });
    if outcome.terms.last().is_none_or(|term| term.until_seconds.is_some()) {
        sentences.push("Nobody leads in the end.".to_owned());
    }
    sentences.join("\n")
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table
}

fn trimmed(table: &Table) -> String {
    table.lines().map(|line| format!(" {}", line.trim_end())).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::rollout::UpgradeTerm;

    #[test]
    fn a_summary_without_a_gap_and_without_an_end_says_so() {
        let term =
            UpgradeTerm { holder: "a".to_owned(), version: "1.1".to_owned(), from_seconds: 0.0, until_seconds: None };
        let outcome = UpgradeOutcome { terms: vec![term], ..UpgradeOutcome::default() };
        let expected = format!(
            "The upgrade does not end within {}.\nThe leader does not change.\nA replica leads at every moment.\n\
             No replica leads while one of an older version is live.",
            seconds(LIMIT.as_secs_f64())
        );
        assert_eq!(summary(&outcome), expected);
    }
}
