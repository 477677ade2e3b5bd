//! Renders the terms of a Lease for people.

use std::fmt::Write as _;
use std::time::Duration;

use hustings_client::api::MicroTime;
use hustings_core::model::WireTime;

use super::terms::{PastTerms, TermRow};
use super::timeline::{self, length};
use crate::base::table::{plain, trimmed};
use crate::base::terminal::{Styles, visible};

/// Renders the terms at the wall-clock time `now`. The timeline takes at most `width` columns.
pub(super) fn render(terms: &PastTerms, now: WireTime, width: usize, styles: Styles) -> String {
    let PastTerms { namespace, lease, unheld_since, asked_to_hand_over, terms, malformed } = terms;
    let mut text = styles.heading(&format!("Lease {lease} in namespace {namespace}"));
    if let Some(since) = unheld_since {
        // Writing to a String cannot fail.
        let _ = write!(text, ": no holder for {}", length(since.0.until(now)));
    }
    if let Some(why) = asked_to_hand_over {
        let _ = write!(text, ": the holder is asked to hand over ({})", why.replace('-', " "));
    }
    text.push_str("\n\n");
    if terms.is_empty() {
        text.push_str("no terms are known\n");
    } else {
        text.push_str(&timeline::render(terms, now, width, styles));
        text.push_str(&table(terms, now, styles));
    }
    for line in malformed {
        let _ = writeln!(text, "\nthe annotation hustings.io/history has a line that does not parse: {line:?}");
    }
    text
}

fn table(terms: &[TermRow], now: WireTime, styles: Styles) -> String {
    let mut table = plain(["TERM", "HOLDER", "SINCE", "UNTIL", "DURATION", "GAP BEFORE", "ENDED"]);
    for term in terms {
        let duration = term.since.zip(term.until(now)).map(|(since, until)| length(since.0.until(until)));
        let cells = [
            term.number.map_or_else(dash, |number| number.to_string()),
            term.holder.clone(),
            term.since.map_or_else(dash, moment),
            term.until.map_or_else(dash, moment),
            duration.unwrap_or_else(dash),
            term.gap_seconds.map_or_else(dash, |gap| length(Duration::from_secs_f64(gap))),
            term.ended.clone(),
        ];
        table.add_row(cells.map(|cell| visible(&cell)));
    }
    trimmed(&mut table, styles) + "\n"
}

fn moment(time: MicroTime) -> String {
    format!("{:.3}", time.0)
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{Cause, Ending, History, LeaseRecord, PastTerm, SessionMark};

    use super::super::events::Start;
    use super::*;

    fn at(seconds: i64) -> WireTime {
        WireTime::from_micros(1_795_549_567_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn a_history_lists_the_newest_term_first() {
        let expired = PastTerm::new(1, "web-0", (at(0), at(3_600)), Ending::Expired);
        let transferred = PastTerm::new(2, "web-1", (at(3_614), at(7_000)), Ending::HandedOver(Cause::Transfer));
        let record = LeaseRecord {
            holder: Some("web-2".to_owned()),
            transitions: 3,
            acquire_time: Some(at(7_000)),
            history: History::read(&format!("{transferred}\n{expired}\nweb-\u{1b}[31m")),
            ..LeaseRecord::default()
        };
        let events = [Start { holder: "web\u{1b}".to_owned(), at: at(-60) }];
        let terms = PastTerms::new("n", "web", &record, &events);
        let expected = "\
Lease web in namespace n

\x20TERM  HOLDER     SINCE                     UNTIL                     DURATION  GAP BEFORE  ENDED
\x203     web-2      2026-11-24T21:42:47.000Z  -                         16m 40s   0ms         on the Lease now
\x202     web-1      2026-11-24T20:46:21.000Z  2026-11-24T21:42:47.000Z  56m 26s   14.0s       handed over (transfer)
\x201     web-0      2026-11-24T19:46:07.000Z  2026-11-24T20:46:07.000Z  1h 0m     -           expired
\x20-     web\\u{1b}  2026-11-24T19:45:07.000Z  -                         -         -           from an event

the annotation hustings.io/history has a line that does not parse: \"web-\\u{1b}[31m\"
";
        assert_eq!(render(&terms, at(8_000), 0, Styles::none()), expected);
    }

    #[test]
    fn a_missing_holder_and_missing_terms_are_reported() {
        let ended = PastTerm::new(1, "a", (at(0), at(10)), Ending::Released(Cause::ConnectionClosed));
        let history = History::new().with(&ended);
        let released = LeaseRecord { history, transitions: 1, ..LeaseRecord::default() };
        let text = |record: &LeaseRecord| render(&PastTerms::new("n", "l", record, &[]), at(15), 0, Styles::none());
        assert!(text(&released).starts_with("Lease l in namespace n: no holder for 5.0s\n"), "{}", text(&released));
        assert!(text(&released).contains("released (connection closed)"));
        assert_eq!(text(&LeaseRecord::default()), "Lease l in namespace n\n\nno terms are known\n");
    }

    #[test]
    fn a_term_that_only_an_event_reports_has_no_known_end() {
        let events = [Start { holder: "a".to_owned(), at: at(0) }];
        let expected = "\
Lease l in namespace n

\x20TERM  HOLDER  SINCE                     UNTIL  DURATION  GAP BEFORE  ENDED
\x20-     a       2026-11-24T19:46:07.000Z  -      -         -           from an event
";
        let terms = PastTerms::new("n", "l", &LeaseRecord::default(), &events);
        assert_eq!(render(&terms, at(15), 80, Styles::none()), expected);
    }

    #[test]
    fn the_reason_for_a_hand_over_is_shown_in_words() {
        let asked = LeaseRecord {
            holder: Some("a".to_owned()),
            preferred_holder: Some("b".to_owned()),
            acquire_time: Some(at(0)),
            session: SessionMark::read(Some("s/1/15")),
            ..LeaseRecord::default()
        };
        let history = asked.history_with_request(&History::new(), Some(Cause::BetterCandidate));
        let terms = PastTerms::new("n", "l", &LeaseRecord { history, ..asked }, &[]);
        let first = "Lease l in namespace n: the holder is asked to hand over (better candidate)\n";
        assert!(render(&terms, at(15), 0, Styles::none()).starts_with(first));
    }
}
