//! The problems of a Lease, for people.
//!
//! The sentence of a problem contains no time. The times shown next to it are fixed when the problem begins. So a
//! problem does not change the view while it lasts.

use std::time::Duration;

use hustings_client::api::MicroTime;
use hustings_core::election::{CandidateVerdict, Election, Event, Ineligible, LeaseVerdict, Reason};
use hustings_core::model::{CandidateState, Hold, LeaseActs, Now, WireTime};

use super::words;
use crate::base::terminal::visible;
use crate::serve::page::{CandidateView, Problem, Severity};

/// How long a Lease may be free before the page calls that critical. An election takes less than a second among live
/// candidates, and 10 s among dead ones.
const LONGEST_ELECTION: Duration = Duration::from_secs(12);

/// The most candidates that one kind of problem names.
const MOST_NAMED: usize = 3;

/// The facts from which the problems of a Lease follow.
pub(super) struct ProblemFacts<'a> {
    pub(super) now: Now,
    pub(super) election: &'a Election,
    pub(super) lease: &'a LeaseVerdict,
    pub(super) candidates: &'a [CandidateVerdict],
    /// The same candidates as the page shows them.
    pub(super) shown: &'a [CandidateView],
    /// Whether another candidate could lead.
    pub(super) has_next: bool,
    pub(super) is_silent: bool,
    /// When the record last changed.
    pub(super) changed_at: Option<WireTime>,
    /// When the current gap began, if the Lease has no holder.
    pub(super) gap_since: Option<WireTime>,
    /// What keeps the label of the Lease from the Pod of its holder.
    pub(super) label_problem: Option<&'a str>,
    /// Whether the server refuses to show the Lease and its candidates.
    pub(super) is_refused: bool,
}

impl ProblemFacts<'_> {
    /// Returns the problems, the most severe first.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<_> = self.of_lease().into_iter().collect();
        problems.extend(self.silence());
        problems.extend(self.ignored_request());
        problems.extend(self.of_candidates());
        problems.extend(self.malformed_acts());
        problems.extend(self.label_problem.map(|text| Problem::new(Severity::Warning, visible(text))));
        problems.extend(self.ineffective_writes());
        // The sort is stable: problems of one severity keep the order above.
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.severity));
        problems
    }

    fn of_lease(&self) -> Option<Problem> {
        let (severity, text) = match self.lease {
            LeaseVerdict::OnHold { hold, .. } => {
                let severity = match hold {
                    Hold::Disagreement => Severity::Critical,
                    Hold::Pause(_) => Severity::Warning,
                    Hold::ThirdPartyStrategy(_) => Severity::Info,
                };
                (severity, words::vacancy(self.lease))
            }
            LeaseVerdict::NoLiveCandidate { .. } => (Severity::Critical, self.no_live_candidate().to_string()),
            LeaseVerdict::Unheld { since, .. } if !self.candidates.is_empty() => {
                let age = self.now.moment.since(*since);
                let severity = if age > LONGEST_ELECTION { Severity::Critical } else { Severity::Warning };
                (severity, "Nobody leads. An election is running.".to_owned())
            }
            LeaseVerdict::Held { taken_up: false, .. } => {
                (Severity::Info, "The elected candidate has not taken up the Lease yet.".to_owned())
            }
            LeaseVerdict::Reserved { .. } => (Severity::Warning, words::vacancy(self.lease)),
            LeaseVerdict::Assisted { unprovable: Some(doubt), .. } => {
                (Severity::Warning, format!("Nothing would prove the death of the assisted holder: {doubt}."))
            }
            LeaseVerdict::Unread if self.is_refused => {
                let text = "The controller may no longer list the Leases and LeaseCandidates of this namespace.";
                return Some(Problem::new(Severity::Warning, text));
            }
            LeaseVerdict::Foreign { .. } => {
                return Some(Problem::new(Severity::Info, words::vacancy(self.lease)));
            }
            LeaseVerdict::Held { taken_up: true, .. } if !self.has_next => {
                return Some(Problem::new(Severity::Info, "No other candidate could take over."));
            }
            _ => return None,
        };
        Some(Problem { since: self.gap_since.map(MicroTime), ..Problem::new(severity, text) })
    }

    fn no_live_candidate(&self) -> Event {
        let count = |is: fn(&Reason) -> bool| self.candidates.iter().filter(|verdict| is(&verdict.reason)).count();
        let inadmissible = count(|reason| matches!(reason, Reason::Ineligible(Ineligible::Inadmissible(_))));
        let excluded = count(|reason| matches!(reason, Reason::Ineligible(Ineligible::Excluded(_))));
        Event::NoLiveCandidate { silent: self.candidates.len() - inadmissible - excluded, inadmissible, excluded }
    }

    /// The holder has not renewed for a while.
    fn silence(&self) -> Option<Problem> {
        let observed = self.election.lease().filter(|_| self.is_silent)?;
        let (since, holder) = (self.changed_at?, observed.record().holder.as_deref()?);
        let text = format!("The holder {} has stopped renewing. The Lease expires unless it renews.", visible(holder));
        let (since, until) = (Some(MicroTime(since)), Some(MicroTime(since.after(observed.lasts()))));
        let is_held = matches!(
            self.lease,
            LeaseVerdict::Held { .. } | LeaseVerdict::Foreign { .. } | LeaseVerdict::Assisted { .. }
        );
        is_held.then(|| Problem { since, until, ..Problem::new(Severity::Warning, text) })
    }

    /// The holder was asked to hand over and has ignored the request for too long.
    fn ignored_request(&self) -> Option<Problem> {
        let LeaseVerdict::Held { holder, preferred: Some(preferred), .. } = self.lease else { return None };
        let event = Event::HolderIgnoresPreferred { holder: holder.clone(), preferred: preferred.clone() };
        self.election.ignores_request(self.now.moment).then(|| warning(&event))
    }

    fn malformed_acts(&self) -> impl Iterator<Item = Problem> {
        let lease = self.election.lease().map(|observed| &observed.record().acts);
        let of_lease = lease.into_iter().flat_map(LeaseActs::malformed).map(warning);
        let of_candidates = self
            .election
            .candidates()
            .filter_map(|record| Some(visible(&format!("{}: {}", record.name, record.acts.malformed()?))));
        of_lease.chain(named(of_candidates, |rest| format!("{rest} more candidates have malformed acts.")))
    }

    fn ineffective_writes(&self) -> impl Iterator<Item = Problem> {
        self.election.ineffective_writes().map(|(candidate, write, why)| {
            // The sentence does not show the uid.
            let candidate = candidate.map(|candidate| (candidate.clone(), "".into()));
            warning(&Event::WriteHasNoEffect { write, why, candidate })
        })
    }

    /// The candidates that cannot lead, by state.
    fn of_candidates(&self) -> impl Iterator<Item = Problem> {
        // A damped candidate is not a problem: it lost the Lease recently, and the timeline shows that.
        let states = [CandidateState::Invalid, CandidateState::Unresponsive];
        states.into_iter().flat_map(|state| {
            let of_state = self.shown.iter().filter(move |shown| shown.state == state.as_str());
            let of_state = of_state.map(|shown| format!("{}: {}", shown.name, shown.reason));
            named(of_state, move |rest| format!("{rest} more candidates are {}.", state.as_str()))
        })
    }
}

/// Warnings with the first of these texts, and one with the number of the others.
fn named(mut texts: impl Iterator<Item = String>, more: impl FnOnce(usize) -> String) -> impl Iterator<Item = Problem> {
    let mut named: Vec<_> = texts.by_ref().take(MOST_NAMED).collect();
    let rest = texts.count();
    named.extend((rest > 0).then(|| more(rest)));
    named.into_iter().map(|text| Problem::new(Severity::Warning, text))
}

fn warning(what: &impl ToString) -> Problem {
    Problem::new(Severity::Warning, visible(&what.to_string()))
}

#[cfg(test)]
mod tests {
    use hustings_client::api::{ReadCandidate, ReadLease};
    use hustings_core::election::{Config, Observation, Source};
    use hustings_core::model::{CandidateKey, Cause, Ending, Moment, Unheld};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_state_of_a_lease_has_its_severity() {
        let election = Election::new(Config::default(), "n", "l");
        let (since, holder) = (Moment::from_micros(0), CandidateKey::hustings("a"));
        let on_hold = |hold| LeaseVerdict::OnHold { since, hold };
        for (lease, expected) in [
            (on_hold(Hold::Disagreement), Severity::Critical),
            (on_hold(Hold::Pause("works".to_owned())), Severity::Warning),
            (on_hold(Hold::ThirdPartyStrategy("theirs".to_owned())), Severity::Info),
            (LeaseVerdict::Held { holder, preferred: None, taken_up: false }, Severity::Info),
            (LeaseVerdict::Reserved { until: since }, Severity::Warning),
        ] {
            let facts = ProblemFacts {
                now: Now { moment: since, wall: WireTime::from_micros(0) },
                election: &election,
                lease: &lease,
                candidates: &[],
                shown: &[],
                has_next: true,
                is_silent: false,
                changed_at: None,
                gap_since: None,
                label_problem: None,
                is_refused: false,
            };
            let severities: Vec<_> = facts.problems().iter().map(|problem| problem.severity).collect();
            assert_eq!(severities, [expected], "{lease:?}");
        }
    }

    #[test]
    fn an_election_is_critical_once_it_takes_longer_than_any_may() {
        let mut election = Election::new(Config::default(), "n", "l");
        let now =
            |seconds: i64| Now { moment: Moment::from_micros(seconds * 1_000_000), wall: WireTime::from_micros(0) };
        let spec = json!({ "leaseName": "l", "binaryVersion": "1.0", "emulationVersion": "1.0" });
        let metadata = json!({ "name": "a", "namespace": "n", "uid": "u" });
        let record = ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).record;
        election.observe(now(0), Observation::Candidate { record, source: Source::Watch });
        let metadata = json!({ "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "labels": { "hustings.io/enrolled": "true" }, "annotations": { "hustings.io/session": "open" } });
        let spec = json!({ "holderIdentity": "", "leaseDurationSeconds": 1 });
        let record = ReadLease::from_json(json!({ "metadata": metadata, "spec": spec })).record;
        election.observe(now(0), Observation::Lease { record, source: Source::Watch });
        let candidates = election.decide(now(0)).candidates;
        let lease =
            LeaseVerdict::Unheld { since: now(0).moment, cause: Unheld::Ended(Ending::Released(Cause::Unknown)) };
        for (candidates, seconds, expected) in
            [(&*candidates, 12, Some(Severity::Warning)), (&*candidates, 13, Some(Severity::Critical)), (&[], 13, None)]
        {
            let facts = ProblemFacts {
                now: now(seconds),
                election: &election,
                lease: &lease,
                candidates,
                shown: &[],
                has_next: false,
                is_silent: false,
                changed_at: None,
                gap_since: None,
                label_problem: None,
                is_refused: false,
            };
            assert_eq!(facts.problems().first().map(|problem| problem.severity), expected, "after {seconds} s");
        }
    }
}
