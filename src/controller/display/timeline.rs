//! The timeline of a Lease: its terms and the gaps between them, as this controller has observed them.
//!
//! The times are those of this controller's wall clock. The Lease itself supplies two things: the terms before the
//! first observation, from its recorded history, and the beginning of the first observed term, from `acquireTime`. The
//! timeline is for people, and no election reads it.

use std::collections::VecDeque;

use hustings_client::api::MicroTime;
use hustings_core::model::{History, PastTerm, Unheld, WireTime};

use crate::base::terminal::visible;
use crate::serve::page::{Span, SpanKind};

/// The most terms and gaps that a timeline keeps.
const MOST_SPANS: usize = 32;

/// The terms and the gaps, the oldest first. Only the last one may still be open.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    spans: VecDeque<StoredSpan>,
    /// Whether this controller has observed anything itself.
    has_observed: bool,
}

#[derive(Debug)]
struct StoredSpan {
    from: WireTime,
    until: Option<WireTime>,
    what: StoredKind,
}

#[derive(Debug)]
enum StoredKind {
    Term(HolderTerm),
    Gap(Gap),
}

/// A holder's term. A renewal changes none of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HolderTerm {
    pub(super) holder: String,
    pub(super) number: u32,
    pub(super) token: Option<u64>,
}

/// What began a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// The Lease has lost its holder, or has never had one.
    Vacant(Unheld),
    /// A hold keeps the Lease without a holder on purpose.
    OnHold,
}

impl Timeline {
    /// Adds the past terms that the Lease records. This has an effect only before the first observation.
    pub(super) fn recall(&mut self, history: &History) {
        if !self.spans.is_empty() {
            return;
        }
        let mut past: Vec<_> = history.terms().collect();
        past.reverse();
        for PastTerm { number, holder, since, until, ending } in past {
            self.begin(since, StoredKind::Term(HolderTerm { holder, number, token: None }));
            self.begin(until, StoredKind::Gap(Gap::Vacant(Unheld::Ended(ending))));
        }
    }

    /// Records a holder's term, observed at `now`. `acquired` is its beginning as the holder wrote it.
    pub(super) fn hold(&mut self, term: HolderTerm, now: WireTime, acquired: Option<WireTime>) {
        if matches!(self.spans.back(), Some(StoredSpan { until: None, what: StoredKind::Term(open), .. }) if *open == term)
        {
            return;
        }
        let began_before = !std::mem::replace(&mut self.has_observed, true);
        let from = if began_before { acquired.map_or(now, |acquired| acquired.min(now)) } else { now };
        self.begin(from, StoredKind::Term(term));
    }

    /// Records that the Lease has had no holder since `at`. If a gap is open already, it stays.
    pub(super) fn vacate(&mut self, at: WireTime, gap: Gap) {
        self.has_observed = true;
        if !matches!(self.spans.back(), Some(StoredSpan { until: None, what: StoredKind::Gap(_), .. })) {
            self.begin(at, StoredKind::Gap(gap));
        }
    }

    /// When the current gap began, if the Lease has no holder.
    pub(super) fn gap_since(&self) -> Option<WireTime> {
        self.spans.back().filter(|entry| matches!(entry.what, StoredKind::Gap(_))).map(|entry| entry.from)
    }

    /// Returns the terms and gaps, the newest first.
    pub(super) fn spans(&self) -> Vec<Span> {
        let span = |entry: &StoredSpan| Span {
            from: MicroTime(entry.from),
            until: entry.until.map(MicroTime),
            kind: match &entry.what {
                StoredKind::Term(HolderTerm { holder, number, token }) => SpanKind::Term {
                    holder: visible(holder),
                    number: *number,
                    token: token.map(|token| token.to_string()),
                },
                StoredKind::Gap(Gap::Vacant(unheld)) => SpanKind::Gap { cause: visible(&unheld.to_string()) },
                StoredKind::Gap(Gap::OnHold) => SpanKind::Gap { cause: "the Lease is on hold".to_owned() },
            },
        };
        self.spans.iter().rev().map(span).collect()
    }

    fn begin(&mut self, from: WireTime, what: StoredKind) {
        // No span may have a negative length, even if the clock was set back.
        let from = self.spans.back().map_or(from, |last| from.max(last.from));
        if let Some(last) = self.spans.back_mut() {
            last.until = Some(from);
        }
        self.spans.push_back(StoredSpan { from, until: None, what });
        if self.spans.len() > MOST_SPANS {
            self.spans.pop_front();
        }
    }
}

impl From<Unheld> for Gap {
    fn from(unheld: Unheld) -> Self {
        Self::Vacant(unheld)
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{Cause, Ending};

    use super::*;

    const RELEASED: Ending = Ending::Released(Cause::Unknown);

    fn ended(ending: Ending) -> Gap {
        Unheld::Ended(ending).into()
    }

    const fn at(second: i64) -> WireTime {
        WireTime::from_micros(second * 1_000_000)
    }

    fn term(holder: &str, number: u32) -> HolderTerm {
        HolderTerm { holder: holder.to_owned(), number, token: Some(u64::from(number)) }
    }

    /// Each span as `FROM-UNTIL WHAT`.
    fn shown(timeline: &Timeline) -> Vec<String> {
        let seconds = |time: MicroTime| time.0.as_micros() / 1_000_000;
        let shown = |span: Span| {
            let what = match span.kind {
                SpanKind::Term { holder, number, .. } => format!("{holder}/{number}"),
                SpanKind::Gap { cause } => cause,
            };
            let until = span.until.map(|until| seconds(until).to_string()).unwrap_or_default();
            format!("{}-{until} {what}", seconds(span.from))
        };
        timeline.spans().into_iter().map(shown).collect()
    }

    #[test]
    fn terms_and_gaps_follow_each_other_without_overlap() {
        let mut timeline = Timeline::default();
        timeline.hold(term("a", 1), at(10), Some(at(4)));
        timeline.hold(term("a", 1), at(12), Some(at(4)));
        assert_eq!((shown(&timeline), timeline.gap_since()), (vec!["4- a/1".to_owned()], None));
        timeline.vacate(at(20), ended(Ending::Expired));
        timeline.vacate(at(21), ended(RELEASED));
        assert_eq!(timeline.gap_since(), Some(at(20)));
        timeline.hold(term("b", 2), at(22), Some(at(1)));
        timeline.hold(term("c", 3), at(30), None);
        assert_eq!(shown(&timeline), ["30- c/3", "22-30 b/2", "20-22 the holder stopped renewing", "4-20 a/1"]);

        let mut timeline = Timeline::default();
        timeline.vacate(at(20), Unheld::New.into());
        timeline.hold(term("a", 1), at(22), Some(at(21)));
        assert_eq!(shown(&timeline), ["22- a/1", "20-22 no holder before"], "by this controller's clock");
    }

    #[test]
    fn terms_before_the_first_observation_come_from_the_history_of_the_lease() {
        let times = |since, until| (at(since), at(until));
        let history = History::default()
            .with(&PastTerm::new(1, "a", times(1, 5), Ending::Expired))
            .with(&PastTerm::new(2, "b", times(7, 9), Ending::Other("<b>".to_owned())));
        let mut timeline = Timeline::default();
        timeline.recall(&history);
        timeline.hold(term("c", 3), at(100), Some(at(9)));
        timeline.recall(&history);
        timeline.vacate(at(110), ended(RELEASED));
        let expected = [
            "110- the holder released the Lease",
            "9-110 c/3",
            "9-9 <b>",
            "7-9 b/2",
            "5-7 the holder stopped renewing",
            "1-5 a/1",
        ];
        assert_eq!(shown(&timeline), expected);
    }

    #[test]
    fn a_late_renewal_after_the_expiry_is_shown_as_the_same_term_after_a_gap() {
        let mut timeline = Timeline::default();
        timeline.hold(term("a", 1), at(0), None);
        timeline.vacate(at(15), ended(Ending::Expired));
        timeline.hold(term("a", 1), at(16), None);
        assert_eq!(shown(&timeline), ["16- a/1", "15-16 the holder stopped renewing", "0-15 a/1"]);
    }

    #[test]
    fn a_clock_set_back_makes_no_negative_span_and_old_spans_are_dropped() {
        let mut timeline = Timeline::default();
        timeline.hold(term("a", 1), at(100), Some(at(500)));
        timeline.vacate(at(50), ended(RELEASED));
        timeline.hold(term("b", 2), at(40), None);
        assert_eq!(shown(&timeline), ["100- b/2", "100-100 the holder released the Lease", "100-100 a/1"]);
        for number in 0..100 {
            timeline.hold(term("c", number), at(200), None);
        }
        assert_eq!((timeline.spans().len(), &*shown(&timeline)[0]), (MOST_SPANS, "200- c/99"));
    }
}
