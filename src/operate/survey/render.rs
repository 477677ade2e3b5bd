//! The text for people: a summary, a table, and what to do about the locks that are not ready.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use comfy_table::Cell;

use super::lock::{Lock, LockState, assisted_seconds};
use crate::base::table::{colored, plain, trimmed};
use crate::base::terminal::{Styles, visible};

/// The longest identity of a holder in the table, in characters.
const LONGEST_HOLDER: usize = 48;

/// The states that need an explanation, with a heading.
const EXPLAINED: [(&[LockState], &str); 4] = [
    (&[LockState::Stuck], "Stuck: the holder does not renew the Lease, and no other replica takes it"),
    (&[LockState::Ambiguous], "Ambiguous: the option container=NAME must name the container that holds the Lease"),
    (&[LockState::Unidentified], "Unidentified: a crash costs the rest of the lease, also with Hustings"),
    (&[LockState::Ready, LockState::Assisted, LockState::Unread], "Clocks that differ"),
];

/// The summary, the table and the explanations.
pub(super) fn render(locks: &[Lock], styles: Styles) -> String {
    let mut text = styles.heading(&summary(locks)) + "\n";
    if locks.is_empty() {
        return text;
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{}\n", table(locks, styles));
    for (states, heading) in EXPLAINED {
        let explained = locks.iter().filter(|lock| states.contains(&lock.state));
        let rows: Vec<_> = explained.filter_map(|lock| Some((path(lock), lock.reason.as_ref()?, lock))).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{}\n", styles.heading(heading));
        let width = rows.iter().map(|(path, ..)| path.chars().count()).max().unwrap_or_default();
        for (path, reason, lock) in rows {
            let likely = lock.options.container.as_ref().map(|name| format!("; likely container={name}"));
            let likely = likely.filter(|_| lock.state == LockState::Ambiguous).unwrap_or_default();
            let _ = writeln!(text, "  {:width$}  {}", visible(&path), visible(&format!("{reason}{likely}")));
        }
    }
    if locks.iter().any(|lock| lock.state == LockState::Ready) {
        text.push_str(
            "\n`hustings survey -o values` prints the values of the chart that assist the locks that are ready.\n",
        );
    }
    text
}

/// What a crash costs, and in a second line how many locks are in the other states.
pub(super) fn summary(locks: &[Lock]) -> String {
    let count = |state| locks.iter().filter(|lock| lock.state == state).count();
    let mut parts = vec![match locks.len() {
        0 => "no locks: there is no Lease here but heartbeats of nodes and API servers".to_owned(),
        1 => "1 lock".to_owned(),
        count => format!("{count} locks"),
    }];
    let unassisted = locks.iter().filter(|lock| lock.state != LockState::Assisted);
    let mut costs: Vec<(u32, usize)> = Vec::new();
    for seconds in unassisted.filter_map(|lock| lock.crash_seconds) {
        match costs.last_mut() {
            Some((last, count)) if *last == seconds => *count += 1,
            _ => costs.push((seconds, 1)),
        }
    }
    match &costs[..] {
        [] => {}
        [(seconds, _)] if locks.len() == 1 => parts.push(format!("a crash costs about {seconds} s")),
        few @ ([_] | [_, _] | [_, _, _]) => {
            let each: Vec<_> = few.iter().map(|(seconds, count)| format!("{seconds} s in {count}")).collect();
            parts.push(format!("a crash costs about {}", each.join(", ")));
        }
        [(most, _), .., (least, _)] => {
            let count: usize = costs.iter().map(|(_, count)| count).sum();
            parts.push(format!("a crash costs about {least} to {most} s in {count}"));
        }
    }
    match count(LockState::Ready) {
        0 => {}
        1 if locks.len() == 1 => parts.push(format!("with assistance about {} s", assisted_seconds())),
        ready => parts.push(format!("with assistance about {} s in {ready}", assisted_seconds())),
    }
    let others = LockState::ALL.into_iter().filter_map(|state| {
        let words = match state {
            LockState::Ready => return None,
            LockState::Unread => "not examined",
            LockState::Assisted => "assisted already",
            LockState::Elected => "elected by a controller already",
            LockState::Ambiguous | LockState::Unidentified | LockState::Free | LockState::Stuck => state.as_str(),
        };
        match count(state) {
            0 => None,
            1 => Some(format!("1 is {words}")),
            several => Some(format!("{several} are {words}")),
        }
    });
    let others: Vec<_> = others.collect();
    let lines = [parts.join("; "), others.join(", ")];
    lines.iter().filter(|line| !line.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn table(locks: &[Lock], styles: Styles) -> String {
    let header = [
        "CRASH",
        "ASSISTED",
        "STATE",
        "NAMESPACE",
        "LEASE",
        "COMPONENT",
        "HOLDER",
        "DURATION",
        "TRANSITIONS",
        "OPTIONS",
    ];
    // Most locks need no option.
    let has_options = locks.iter().any(|lock| lock.state == LockState::Ready && !lock.options.to_string().is_empty());
    let columns = if has_options { header.len() } else { header.len() - 1 };
    let mut table = plain(header[..columns].iter().copied());
    for lock in locks {
        let seconds = |seconds: Option<u32>| seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s"));
        let options =
            Some(lock.options.to_string()).filter(|text| !text.is_empty() && lock.state != LockState::Ambiguous);
        let cells = [
            seconds(lock.crash_seconds),
            seconds(lock.assisted_seconds),
            lock.state.as_str().to_owned(),
            lock.namespace.clone(),
            lock.lease.clone(),
            lock.component.clone(),
            lock.pod.clone().or_else(|| lock.holder.as_deref().map(short)).unwrap_or_else(|| "-".to_owned()),
            seconds(lock.duration_seconds),
            lock.transitions.to_string(),
            options.unwrap_or_else(|| "-".to_owned()),
        ];
        table.add_row(cells.iter().take(columns).enumerate().map(|(column, cell)| match column {
            2 => colored(cell, color(lock.state)),
            _ => Cell::new(visible(cell)),
        }));
    }
    trimmed(&mut table, styles)
}

/// Red needs a person; yellow may need one.
const fn color(state: LockState) -> Option<AnsiColor> {
    match state {
        LockState::Ready | LockState::Assisted | LockState::Elected => Some(AnsiColor::Green),
        LockState::Ambiguous | LockState::Unidentified | LockState::Unread => Some(AnsiColor::Yellow),
        LockState::Stuck => Some(AnsiColor::Red),
        LockState::Free => None,
    }
}

/// The namespace and the name of the Lease.
pub(super) fn path(lock: &Lock) -> String {
    format!("{}/{}", lock.namespace, lock.lease)
}

/// The beginning of an identity. The rest is a UUID in most.
fn short(identity: &str) -> String {
    let mut short: String = identity.chars().take(LONGEST_HOLDER).collect();
    if let Some((host, _)) = short.split_once('_') {
        short = format!("{host}_");
    }
    if short.len() < identity.len() { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::super::lock::tests::lock;
    use super::*;

    #[test]
    fn a_summary_lists_at_most_three_costs() {
        let of = |costs: &[u32]| {
            let locks = costs.iter().map(|cost| Lock { crash_seconds: Some(*cost), ..lock("l", LockState::Unread) });
            summary(&locks.collect::<Vec<_>>())
        };
        assert_eq!(of(&[17]), "1 lock; a crash costs about 17 s\n1 is not examined");
        assert_eq!(
            of(&[139, 62, 17, 17]),
            "4 locks; a crash costs about 139 s in 1, 62 s in 1, 17 s in 2\n4 are not examined"
        );
        assert_eq!(of(&[139, 62, 32, 17]), "4 locks; a crash costs about 17 to 139 s in 4\n4 are not examined");
    }

    #[test]
    fn states_have_colours_on_a_terminal_and_a_row_stays_on_one_line() {
        let locks = [lock("a", LockState::Ready), lock("b", LockState::Ambiguous), lock("c\n", LockState::Stuck)];
        let text = render(&locks, Styles::all());
        for (code, state) in [("10m", "ready"), ("11m", "ambiguous"), ("9m", "stuck")] {
            assert!(text.contains(&format!("\u{1b}[38;5;{code} {state}")), "{text:?}");
        }
        let plain = render(&locks, Styles::none());
        assert!(!plain.contains('\u{1b}') && plain.matches("c\\n").count() == 3, "{plain}");
        assert_eq!(
            (short("web-0_5e7c"), short("me"), short(&"é".repeat(50))),
            ("web-0_…".to_owned(), "me".to_owned(), "é".repeat(48) + "…")
        );
    }
}
