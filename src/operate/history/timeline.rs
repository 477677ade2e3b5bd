//! Draws the terms of a Lease as a bar. Time runs from left to right, and each holder has a letter.

use std::time::Duration;

use hustings_core::model::WireTime;

use super::terms::TermRow;
use crate::base::terminal::{Styles, visible};

/// The narrowest bar that shows anything.
const NARROWEST: usize = 20;

/// The shortest gap that the bar always shows, however narrow its columns are.
const VISIBLE_GAP: Duration = Duration::from_secs(1);

/// The character for a column without a holder.
const GAP: char = '.';

/// The letters of the holders. Further holders share the last letter.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A term in the bar.
struct Bar {
    letter: char,
    since: WireTime,
    until: WireTime,
}

/// Renders the bar and its legend. Returns an empty text if the width is below 20 columns, or if no duration is known.
pub(super) fn render(terms: &[TermRow], now: WireTime, width: usize, styles: Styles) -> String {
    let mut holders: Vec<&str> = Vec::new();
    let mut bars = Vec::new();
    for term in terms {
        let Some((since, until)) = term.since.map(|since| since.0).zip(term.until(now)) else { continue };
        let place = holders.iter().position(|holder| *holder == term.holder).unwrap_or_else(|| {
            holders.push(&term.holder);
            holders.len() - 1
        });
        bars.push(Bar { letter: letter(place), since, until });
    }
    let Some(start) = bars.iter().map(|bar| bar.since).min().filter(|start| *start < now) else { return String::new() };
    if width < NARROWEST {
        return String::new();
    }
    let bar: String = (0..width).map(|column| cell(&bars, start, now, column, width)).collect();
    let legend: Vec<String> = holders
        .iter()
        .enumerate()
        .map(|(place, holder)| format!("{} {}", letter(place), visible(holder)))
        .chain(bar.contains(GAP).then(|| format!("{GAP} no holder")))
        .collect();
    let bar = bar.replace(GAP, &styles.alert(&GAP.to_string()));
    format!("{bar}\nthe last {}: {}\n\n", length(start.until(now)), legend.join(", "))
}

/// One column of the bar: its newest holder, or a gap if it has none. A gap of at least a second always marks the
/// column in which it ends, so that every bar shows it.
fn cell(bars: &[Bar], start: WireTime, end: WireTime, column: usize, width: usize) -> char {
    let (from, to) = (instant(start, end, column, width), instant(start, end, column + 1, width));
    let ends_gap = bars.iter().filter(|bar| (from..to).contains(&bar.since)).any(|bar| {
        let before = bars.iter().filter(|other| other.since < bar.since).map(|other| other.until).max();
        before.is_some_and(|before| before.until(bar.since) >= VISIBLE_GAP)
    });
    let held = bars.iter().filter(|bar| bar.since < to && bar.until > from);
    held.max_by_key(|bar| bar.since).filter(|_| !ends_gap).map_or(GAP, |bar| bar.letter)
}

/// The time at which a column begins.
fn instant(start: WireTime, end: WireTime, column: usize, width: usize) -> WireTime {
    let share = u32::try_from(column).unwrap_or(0);
    start.after(start.until(end) / u32::try_from(width).unwrap_or(1) * share)
}

fn letter(place: usize) -> char {
    LETTERS.chars().nth(place).or_else(|| LETTERS.chars().last()).unwrap_or('?')
}

/// A length of time with two units, such as `3h 12m`, or milliseconds if it is short.
pub(crate) fn length(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}.{}s", millis / 100),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::api::MicroTime;
    use hustings_core::model::{Ending, History, LeaseRecord, PastTerm};

    use super::super::PastTerms;
    use super::*;

    fn at(seconds: i64) -> WireTime {
        WireTime::from_micros(seconds * 1_000_000)
    }

    /// The bar and the legend of these past terms, at 100 s.
    fn bar(terms: &[(&str, i64, i64)], width: usize) -> String {
        let terms = terms
            .iter()
            .map(|(holder, since, until)| PastTerm::new(1, holder, (at(*since), at(*until)), Ending::Expired));
        let history = terms.fold(History::new(), |history, term| history.with(&term));
        let record = LeaseRecord { history, ..LeaseRecord::default() };
        render(&PastTerms::new("n", "l", &record, &[]).terms, at(100), width, Styles::none())
    }

    #[test]
    fn lengths_have_two_units() {
        let lengths = [0, 20, 1_250, 59_999, 61_000, 3_600_000, 200_000_000];
        let texts = lengths.map(|millis| length(Duration::from_millis(millis)));
        assert_eq!(texts, ["0ms", "20ms", "1.2s", "59.9s", "1m 1s", "1h 0m", "2d 7h"]);
    }

    #[test]
    fn the_newest_holder_has_the_first_letter_and_a_gap_is_visible() {
        assert_eq!(bar(&[("a", 0, 50), ("b", 50, 100)], 20), "BBBBBBBBBBAAAAAAAAAA\nthe last 1m 40s: A b, B a\n\n");
        assert!(bar(&[("a", 0, 52), ("b", 52, 100)], 20).starts_with("BBBBBBBBBBAAAAAAAAAA\n"), "the newer one shows");
        // A column of five seconds shows a gap of one second.
        assert!(bar(&[("a", 0, 49), ("b", 50, 100)], 20).starts_with("BBBBBBBBBB.AAAAAAAAA\n"));
        assert_eq!(
            bar(&[("a", 0, 48), ("b", 50, 80)], 20),
            "BBBBBBBBBB.AAAAA....\nthe last 1m 40s: A b, B a, . no holder\n\n"
        );
    }

    #[test]
    fn nothing_is_drawn_without_room_or_a_duration() {
        assert_eq!(bar(&[("a", 0, 50)], 19), "");
        assert_eq!(bar(&[("a", 100, 100)], 80), "");
        assert_eq!(bar(&[], 80), "");
    }

    #[test]
    fn holders_beyond_the_alphabet_share_its_last_letter() {
        let holders: Vec<String> = (0..30).map(|index| format!("web-{index}")).collect();
        let terms: Vec<TermRow> = holders
            .iter()
            .map(|holder| {
                let record =
                    LeaseRecord { holder: Some(holder.clone()), acquire_time: Some(at(0)), ..LeaseRecord::default() };
                PastTerms::new("n", "l", &record, &[]).terms.remove(0)
            })
            .map(|term| TermRow { until: Some(MicroTime(at(50))), ..term })
            .collect();
        assert!(render(&terms, at(100), 20, Styles::none()).ends_with("Z web-28, Z web-29, . no holder\n\n"));
    }
}
