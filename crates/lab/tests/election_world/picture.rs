//! The state of the world, as a transcript shows it.

use std::fmt::Write as _;

use hustings_core::election::LeaseVerdict;
use hustings_core::model::{Annotation, CandidateKind, Condition, LeaseRecord, NativeFields, SessionMark};

use super::World;

impl World {
    /// The Lease and the candidates, as in the API and in the last decision.
    pub(crate) fn picture(&self) -> String {
        let mut text = String::new();
        let lease = self.lease().map_or("missing".to_owned(), describe);
        writeln!(text, "      Lease {lease}").unwrap();
        let Some(decision) = self.last() else { return text };
        if let LeaseVerdict::Unheld { .. }
        | LeaseVerdict::NoLiveCandidate { .. }
        | LeaseVerdict::OnHold { .. }
        | LeaseVerdict::Reserved { .. } = decision.lease
        {
            writeln!(text, "      the controller calls it {}", decision.lease.as_str()).unwrap();
        }
        let shown = if decision.candidates.len() > 8 { 3 } else { decision.candidates.len() };
        let rest = decision.candidates.len() - shown;
        for (index, verdict) in decision.candidates.iter().enumerate() {
            if index >= shown && index + 1 < decision.candidates.len() && rest > 0 {
                continue;
            }
            let rank = verdict.rank.map_or("-".to_owned(), |rank| rank.to_string());
            // A native candidate has no status. The controller reports its verdict in other ways.
            let status = match verdict.candidate.kind {
                CandidateKind::Native => verdict.status(),
                CandidateKind::Hustings => {
                    self.store().candidate(&verdict.candidate).map(|record| record.status.clone()).unwrap_or_default()
                }
            };
            let state = status.state.map_or("-", |state| state.as_str());
            let damping =
                if status.damping_count > 0 { format!(" (damping {})", status.damping_count) } else { String::new() };
            let early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
            let early = if early { " (answered with a time before the ping)" } else { "" };
            writeln!(text, "   {rank:>4}  {} {state}{damping}{early}: {}", verdict.candidate, status.message).unwrap();
        }
        text
    }
}

fn describe_acts(lease: &LeaseRecord, text: &mut String) {
    if let Some(until) = &lease.acts.hold_until {
        match until {
            Annotation::Valid(until) => write!(text, " until {until}").unwrap(),
            Annotation::Malformed(end) => write!(text, " until {:?}", end.text).unwrap(),
        }
    }
    if let Some(transfer) = &lease.acts.transfer {
        write!(text, ", transfer={}", transfer.as_str()).unwrap();
    }
    match &lease.acts.assist {
        None => {}
        Some(Annotation::Valid(options)) => write!(text, ", assist={:?}", options.to_string()).unwrap(),
        Some(Annotation::Malformed(options)) => write!(text, ", malformed assist={:?}", options.text).unwrap(),
    }
    match &lease.acts.pin {
        None => {}
        Some(Annotation::Valid(pin)) => write!(text, ", pin={} until {}", pin.candidate, pin.until).unwrap(),
        Some(Annotation::Malformed(pin)) => write!(text, ", pin={:?}", pin.text).unwrap(),
    }
}

/// The Lease in one line.
pub(crate) fn describe(lease: &LeaseRecord) -> String {
    let mut text = match &lease.holder {
        Some(holder) => format!("holder={holder}"),
        None => "empty".to_owned(),
    };
    let mark = match &lease.session {
        SessionMark::Open => "open".to_owned(),
        SessionMark::Absent => "no mark".to_owned(),
        SessionMark::Term(stamp) => format!("term {}", stamp.term),
        SessionMark::Unreadable(_) => "unreadable mark".to_owned(),
    };
    write!(text, ", {mark}, {} s, transitions={}", lease.duration_seconds, lease.transitions).unwrap();
    for (word, value) in [("preferred", &lease.preferred_holder), ("hold", &lease.hold)] {
        if let Some(value) = value {
            write!(text, ", {word}={value:?}").unwrap();
        }
    }
    describe_acts(lease, &mut text);
    if lease.strategy.as_deref().is_some_and(|strategy| strategy != "OldestEmulationVersion") {
        write!(text, ", strategy={}", lease.strategy.as_deref().unwrap_or_default()).unwrap();
    }
    if lease.native.preferred_holder != lease.preferred_holder && lease.native != NativeFields::default() {
        write!(text, ", native preferred={:?}", lease.native.preferred_holder.as_deref().unwrap_or_default()).unwrap();
    }
    if lease.leaving {
        text.push_str(", leaving");
    }
    if !lease.enrolled {
        text.push_str(", not enrolled");
    }
    text
}
