//! Joins the terms of a Lease in one list: the running one, the recorded ones, and older ones from events.

use hustings_client::api::MicroTime;
use hustings_core::model::{Cause, LeaseRecord, LeaseStage, PastTerm, WireTime};
use serde::Serialize;

use super::events::Start;

/// The terms of one Lease, newest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PastTerms {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// When the Lease lost its holder; `None` if it has one, or if that time is unknown.
    pub unheld_since: Option<MicroTime>,
    /// Why the holder is asked to hand over; `None` if it is not.
    pub asked_to_hand_over: Option<&'static str>,
    /// The terms.
    pub terms: Vec<TermRow>,
    /// The lines of the annotation that do not parse.
    pub malformed: Vec<String>,
}

/// One term.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermRow {
    /// `leaseTransitions` during the term.
    pub number: Option<u32>,
    /// The holder.
    pub holder: String,
    /// When the term began.
    pub since: Option<MicroTime>,
    /// When the term ended: with the release or hand-over, or with the last known renewal. `None` while it runs, and
    /// for a term that is known only from an event.
    pub until: Option<MicroTime>,
    /// From `since` to `until`.
    pub duration_seconds: Option<f64>,
    /// How long the Lease had no holder before this term.
    pub gap_seconds: Option<f64>,
    /// How the term ended, as one word; `None` while it runs, or if that is unknown.
    pub ending: Option<&'static str>,
    /// Why the holder gave up the Lease, or what proved it dead, as one word.
    pub cause: Option<&'static str>,
    /// How the term ended, for people.
    #[serde(skip)]
    pub ended: String,
    /// The source of this information.
    pub source: TermSource,
}

/// The source of the information on a term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TermSource {
    /// The Lease names the holder.
    #[default]
    Lease,
    /// The annotation of the Lease.
    History,
    /// An event.
    Event,
}

impl PastTerms {
    /// Joins the terms of this record and of these events.
    pub(super) fn new(namespace: &str, lease: &str, record: &LeaseRecord, events: &[Start]) -> Self {
        let current = record.holder.as_ref().map(|holder| TermRow::running(record, holder));
        let past: Vec<PastTerm> = record.history.terms().collect();
        let recorded = current.into_iter().chain(past.iter().map(TermRow::past));
        let mut terms: Vec<TermRow> = recorded.collect();
        let oldest = terms.iter().filter_map(|term| term.since).min_by_key(|since| since.0);
        terms.extend(older(events, oldest.map(|since| since.0)));
        for index in 1..terms.len() {
            let ended_at = terms.get(index).and_then(|older| older.until);
            if let Some(newer) = terms.get_mut(index - 1) {
                newer.gap_seconds = ended_at.zip(newer.since).map(|(until, since)| seconds(until, since));
            }
        }
        let running = record.running_term().filter(|_| record.preferred_holder.is_some());
        let request = running.and_then(|term| term.request);
        let last_end =
            record.history.newest(record.transitions).map(|term| term.until).or(record.renew_time).map(MicroTime);
        Self {
            namespace: namespace.to_owned(),
            lease: lease.to_owned(),
            unheld_since: last_end.filter(|_| record.holder.is_none()),
            asked_to_hand_over: request.map(Cause::as_str),
            terms,
            malformed: record.history.malformed().map(str::to_owned).collect(),
        }
    }
}

/// The terms that are known only from events, newest first.
fn older(events: &[Start], oldest_recorded: Option<WireTime>) -> Vec<TermRow> {
    let is_older = |start: &&Start| oldest_recorded.is_none_or(|oldest| start.at < oldest);
    let mut starts: Vec<&Start> = events.iter().filter(is_older).collect();
    starts.sort_by(|one, other| other.at.cmp(&one.at).then_with(|| one.holder.cmp(&other.holder)));
    starts.into_iter().map(TermRow::of_event).collect()
}

impl TermRow {
    /// The end of the term, or `now` while it runs; `None` if the end is unknown.
    pub(super) fn until(&self, now: WireTime) -> Option<WireTime> {
        let is_running = self.source == TermSource::Lease;
        self.until.map(|until| until.0).or_else(|| is_running.then_some(now))
    }

    fn running(record: &LeaseRecord, holder: &str) -> Self {
        let is_grant = record.stage(None) == LeaseStage::Granted;
        Self {
            number: Some(record.transitions),
            holder: holder.to_owned(),
            since: record.running_term().map(|term| MicroTime(term.since)),
            ended: if is_grant { "granted, not taken up yet" } else { "on the Lease now" }.to_owned(),
            source: TermSource::Lease,
            ..Self::default()
        }
    }

    fn past(term: &PastTerm) -> Self {
        let PastTerm { number, holder, since, until, ending } = term;
        let (since, until) = (MicroTime(*since), MicroTime(*until));
        Self {
            number: Some(*number),
            holder: holder.clone(),
            since: Some(since),
            until: Some(until),
            duration_seconds: Some(seconds(since, until)),
            gap_seconds: None,
            ending: Some(ending.as_str()),
            cause: ending.cause(),
            ended: ending.to_string(),
            source: TermSource::History,
        }
    }

    fn of_event(start: &Start) -> Self {
        Self {
            holder: start.holder.clone(),
            since: Some(MicroTime(start.at)),
            ended: "from an event".to_owned(),
            source: TermSource::Event,
            ..Self::default()
        }
    }
}

fn seconds(since: MicroTime, until: MicroTime) -> f64 {
    since.0.until(until.0).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{Ending, History, SessionMark};

    use super::*;

    fn at(seconds: i64) -> WireTime {
        WireTime::from_micros(seconds * 1_000_000)
    }

    /// A Lease with a running term and two past ones.
    pub(crate) fn record() -> LeaseRecord {
        let expired = PastTerm::new(1, "a", (at(100), at(160)), Ending::Expired);
        let transferred = PastTerm::new(2, "b", (at(174), at(200)), Ending::HandedOver(Cause::Transfer));
        LeaseRecord {
            holder: Some("c".to_owned()),
            transitions: 3,
            acquire_time: Some(at(200)),
            renew_time: Some(at(210)),
            session: SessionMark::read(Some("s/1/15")),
            history: History::new().with(&expired).with(&transferred),
            ..LeaseRecord::default()
        }
    }

    fn start(holder: &str, at_seconds: i64) -> Start {
        Start { holder: holder.to_owned(), at: at(at_seconds) }
    }

    #[test]
    fn the_gap_before_a_term_begins_with_the_end_of_the_older_one() {
        let terms = PastTerms::new("n", "l", &record(), &[]).terms;
        let shown: Vec<_> = terms.iter().map(|term| (term.holder.as_str(), term.gap_seconds)).collect();
        assert_eq!(shown, [("c", Some(0.0)), ("b", Some(14.0)), ("a", None)]);
        assert_eq!(terms[2].duration_seconds, Some(60.0));
        assert_eq!((terms[1].ending, terms[1].cause), (Some("handed-over"), Some("transfer")));
    }

    #[test]
    fn events_add_only_terms_older_than_the_recorded_ones() {
        let events = [start("z", 20), start("a", 100), start("a", 101), start("y", 50), start("b", 175)];
        let terms = PastTerms::new("n", "l", &record(), &events).terms;
        let older: Vec<_> = terms[3..].iter().map(|term| (term.holder.as_str(), term.source)).collect();
        assert_eq!(older, [("y", TermSource::Event), ("z", TermSource::Event)]);
    }

    #[test]
    fn a_lease_without_a_holder_shows_when_the_last_term_ended() {
        let released = LeaseRecord { holder: None, transitions: 2, ..record() };
        let terms = PastTerms::new("n", "l", &released, &[]);
        assert_eq!((terms.unheld_since, terms.terms.len()), (Some(MicroTime(at(200))), 2));
        // A program of client-go releases the Lease and leaves the history as it is.
        let unrecorded = LeaseRecord { transitions: 3, ..released };
        assert_eq!(PastTerms::new("n", "l", &unrecorded, &[]).unheld_since, Some(MicroTime(at(210))));
        assert_eq!(PastTerms::new("n", "l", &record(), &[]).unheld_since, None);
        assert_eq!(PastTerms::new("n", "l", &LeaseRecord::default(), &[start("a", 5)]).terms.len(), 1);
    }

    #[test]
    fn a_request_and_lines_that_do_not_parse_are_shown() {
        let history = History::read("3 c from 1970-01-01T00:03:20Z: asked to hand over (pin)\nnonsense");
        let asked = LeaseRecord { history, preferred_holder: Some("d".to_owned()), ..record() };
        let terms = PastTerms::new("n", "l", &asked, &[]);
        assert_eq!((terms.asked_to_hand_over, terms.malformed), (Some("pin"), vec!["nonsense".to_owned()]));
        let withdrawn = LeaseRecord { preferred_holder: None, ..asked };
        assert_eq!(PastTerms::new("n", "l", &withdrawn, &[]).asked_to_hand_over, None);
    }
}
