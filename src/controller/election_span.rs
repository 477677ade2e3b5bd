//! Traces each election as one span, from its cause to the start of the term (feature `otlp`).
//!
//! An election begins when the Lease has no holder although it should have one, or when its holder is asked to hand
//! over. It ends when a term begins. The span names the candidates and why each leads or does not. Only the leading
//! controller decides, so each election has one span.

use std::time::{Duration, SystemTime};

use hustings_core::election::{Action, CandidateVerdict, Decision, LeaseVerdict};
use hustings_core::model::{Moment, Now};
use opentelemetry::trace::{Event, Span as _, Tracer as _};
use opentelemetry::{KeyValue, global};

use super::key::LeaseKey;
use crate::ops::metrics::{Kind, UnheldCause};

/// The most candidates that a span names, best first.
const CANDIDATES: usize = 64;

/// The election of one Lease, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct ElectionSpan {
    /// When the election began, and its cause.
    began: Option<(Moment, UnheldCause)>,
    /// Why the controller chose the electee, from the controller's event.
    choice: Option<String>,
    /// The holder whose term has begun.
    holder: Option<String>,
}

impl ElectionSpan {
    /// Follows a decision. Exports the span if a term has begun since the last one.
    pub(super) fn follow(&mut self, now: Now, lease: &LeaseKey, transitions: u32, decision: &Decision) {
        let choice = decision.actions.iter().find_map(choice);
        if choice.is_some() {
            self.choice.clone_from(&choice);
        }
        match &decision.lease {
            LeaseVerdict::Unheld { since, cause } | LeaseVerdict::NoLiveCandidate { since, cause } => {
                self.began.get_or_insert((*since, UnheldCause::from(*cause)));
            }
            LeaseVerdict::Held { taken_up: false, .. } => {
                self.began.get_or_insert((now.moment, UnheldCause::HandedOver));
            }
            LeaseVerdict::Held { holder, preferred, taken_up: true } => {
                let is_new = self.holder.as_deref() != Some(&*holder.name);
                match self.began {
                    Some((since, cause)) if is_new || cause != UnheldCause::HandedOver => {
                        let mut attributes = vec![
                            KeyValue::new("k8s.namespace.name", lease.namespace().to_string()),
                            KeyValue::new("hustings.lease", lease.name().to_string()),
                            KeyValue::new("hustings.cause", cause.as_str()),
                            KeyValue::new("hustings.holder", holder.name.to_string()),
                            KeyValue::new("hustings.transitions", i64::from(transitions)),
                        ];
                        let former = self.holder.take().map(|former| KeyValue::new("hustings.former_holder", former));
                        let choice = self.choice.take().map(|choice| KeyValue::new("hustings.choice", choice));
                        attributes.extend(former.into_iter().chain(choice));
                        export(now, now.moment.since(since), attributes, &decision.candidates);
                        self.began = None;
                    }
                    _ if preferred.is_some() => {
                        self.began.get_or_insert((now.moment, UnheldCause::HandedOver));
                    }
                    // No request to hand over stands. This decision may make one.
                    _ => (self.began, self.choice) = (None, choice),
                }
                self.holder = Some(holder.name.to_string());
            }
            LeaseVerdict::Reserved { .. } | LeaseVerdict::Unread => {}
            LeaseVerdict::OutOfBounds | LeaseVerdict::Foreign { .. } | LeaseVerdict::OnHold { .. } => {
                *self = Self::default();
            }
        }
    }
}

/// The event of an action that elects a candidate or asks the holder to hand over.
fn choice(action: &Action) -> Option<String> {
    match action {
        Action::WriteLease { event: Some(event), .. } => Some(event.to_string()),
        _ => None,
    }
}

fn export(now: Now, lasted: Duration, attributes: Vec<KeyValue>, candidates: &[CandidateVerdict]) {
    let micros = u64::try_from(now.wall.as_micros()).unwrap_or_default();
    let end = SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
    let events = candidates.iter().take(CANDIDATES).map(|verdict| {
        let mut attributes = vec![
            KeyValue::new("hustings.candidate", verdict.candidate.name.to_string()),
            KeyValue::new("hustings.kind", Kind::of(&verdict.candidate).as_str()),
            KeyValue::new("hustings.state", verdict.state.as_str()),
            KeyValue::new("hustings.reason", verdict.reason.to_string()),
        ];
        let rank = verdict.rank.and_then(|rank| i64::try_from(rank).ok());
        attributes.extend(rank.map(|rank| KeyValue::new("hustings.rank", rank)));
        Event::new("candidate", end, attributes, 0)
    });
    let tracer = global::tracer("hustings");
    let span = tracer.span_builder("election").with_start_time(end.checked_sub(lasted).unwrap_or(end));
    let mut span = span.with_attributes(attributes).with_events(events.collect()).start(&tracer);
    span.end_with_timestamp(end);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use hustings_core::election::{Choice, Event as Report, Timer, Unheld};
    use hustings_core::model::{CandidateKey, CandidateState, LeaseRecord, LeaseWrite, Purpose, WireTime};
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

    use super::*;
    use crate::controller::elected_lease::tests::verdict;

    /// Follows a decision at `seconds`. Returns since when the election lasts, its cause, and the reason of the choice.
    fn follow(
        span: &mut ElectionSpan,
        seconds: i64,
        lease: LeaseVerdict,
        report: Option<Report>,
    ) -> (Option<(i64, &'static str)>, bool) {
        let moment = Moment::from_micros(seconds * 1_000_000);
        let record = LeaseRecord::default();
        let write = |event| Action::WriteLease { write: LeaseWrite::new(Purpose::Grant, &record), event: Some(event) };
        let actions = report.map(write).into_iter().collect();
        let decision = Decision { actions, deadline: moment, timer: Timer::Requeue, lease, candidates: Vec::new() };
        span.follow(Now { moment, wall: WireTime::default() }, &LeaseKey::new("n", "l"), 1, &decision);
        (span.began.map(|(since, cause)| (since.as_micros() / 1_000_000, cause.as_str())), span.choice.is_some())
    }

    fn held(holder: &str, preferred: Option<&str>, taken_up: bool) -> LeaseVerdict {
        LeaseVerdict::Held {
            holder: CandidateKey::hustings(holder),
            preferred: preferred.map(CandidateKey::hustings),
            taken_up,
        }
    }

    #[test]
    fn an_election_lasts_from_its_cause_to_the_term_that_it_leads_to() {
        let mut span = ElectionSpan::default();
        let elected =
            || Some(Report::Elected { candidate: CandidateKey::hustings("a"), why: Choice::Only, after: None });
        let free = || LeaseVerdict::Unheld { since: Moment::from_micros(1_000_000), cause: Unheld::Released };
        assert_eq!(follow(&mut span, 2, free(), None), (Some((1, "released")), false));
        assert_eq!(follow(&mut span, 3, free(), elected()), (Some((1, "released")), true));
        assert_eq!(follow(&mut span, 4, held("a", None, false), None), (Some((1, "released")), true));
        assert_eq!(follow(&mut span, 5, held("a", None, true), None), (None, false), "it is exported");
    }

    #[test]
    fn a_request_to_hand_over_that_is_withdrawn_leaves_no_trace() {
        let mut span = ElectionSpan::default();
        let asked = || {
            Some(Report::Preferred {
                holder: "a".into(),
                candidate: CandidateKey::hustings("b"),
                criterion: None,
                asked_by: None,
            })
        };
        assert_eq!(follow(&mut span, 1, held("a", None, true), None), (None, false));
        assert_eq!(follow(&mut span, 2, held("a", None, true), asked()), (None, true), "it is not written yet");
        for seconds in [3, 4] {
            assert_eq!(follow(&mut span, seconds, held("a", Some("b"), true), None), (Some((3, "handed-over")), true));
        }
        assert_eq!(follow(&mut span, 5, held("a", None, true), None), (None, false), "it was withdrawn");
        assert_eq!(follow(&mut span, 6, held("a", Some("b"), true), None), (Some((6, "handed-over")), false));
        assert_eq!(follow(&mut span, 7, held("b", None, true), None), (None, false), "it is exported");
    }

    /// The spans that were exported.
    #[derive(Clone, Debug, Default)]
    struct Spans(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Spans {
        async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(spans);
            Ok(())
        }
    }

    /// The attributes as `KEY=VALUE`, without `hustings.`.
    fn shown(attributes: &[KeyValue]) -> Vec<String> {
        let shown = |pair: &KeyValue| format!("{}={}", pair.key.as_str().replace("hustings.", ""), pair.value);
        attributes.iter().map(shown).collect()
    }

    #[test]
    fn a_span_shows_how_long_the_election_took_and_why_each_candidate_leads_or_does_not() {
        let spans = Spans::default();
        global::set_tracer_provider(SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build());
        let verdict = |number: usize| {
            let candidate = CandidateKey::hustings(&format!("c{number}"));
            CandidateVerdict { rank: Some(number), ..verdict(&candidate, CandidateState::Standby) }
        };
        let (mut span, key) = (ElectionSpan::default(), LeaseKey::new("of-span", "web"));
        let at = |second: i64| Moment::from_micros(second * 1_000_000);
        let unheld = || LeaseVerdict::Unheld { since: at(12), cause: Unheld::Expired };
        for (second, lease) in
            [(5, held("c1", None, true)), (12, unheld()), (13, unheld()), (15, held("c1", None, true)), (16, unheld())]
        {
            let candidates = (1..=CANDIDATES + 1).map(verdict).collect();
            let decision = Decision { actions: vec![], deadline: at(99), timer: Timer::Requeue, lease, candidates };
            let wall = WireTime::from_micros((1000 + second) * 1_000_000);
            span.follow(Now { moment: at(second), wall }, &key, 7, &decision);
        }
        let spans = spans.0.lock().unwrap().clone();
        // Other tests export spans, too.
        let is_own = |span: &&SpanData| shown(&span.attributes)[0] == "k8s.namespace.name=of-span";
        let own: Vec<_> = spans.iter().filter(is_own).collect();
        let [exported] = own[..] else { panic!("{own:?}") };
        let attributes = [
            "k8s.namespace.name=of-span",
            "lease=web",
            "cause=expired",
            "holder=c1",
            "transitions=7",
            "former_holder=c1",
        ];
        assert_eq!(shown(&exported.attributes), attributes);
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!((seconds(exported.start_time), seconds(exported.end_time)), (1012, 1015));
        let events = &exported.events.events;
        let expected = ["candidate=c1", "kind=hustings", "state=Standby", "reason=Holds the Lease.", "rank=1"];
        assert_eq!((events.len(), shown(&events[0].attributes)), (CANDIDATES, expected.map(str::to_owned).into()));
    }

    #[test]
    fn a_lease_that_is_not_elected_for_ends_the_election() {
        for lease in [LeaseVerdict::OutOfBounds, LeaseVerdict::Foreign { holder: "x".into() }] {
            let mut span = ElectionSpan::default();
            follow(&mut span, 1, held("a", Some("b"), true), None);
            assert_eq!(follow(&mut span, 2, LeaseVerdict::Unread, None).0, Some((1, "handed-over")));
            assert_eq!(follow(&mut span, 3, lease, None), (None, false));
            assert_eq!(span.holder, None);
        }
    }
}
