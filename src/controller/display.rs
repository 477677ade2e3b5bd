//! Makes the view of one Lease for the page.
//!
//! The view shows the verdicts of the last decision. A standby decides on a copy of its election and carries out
//! nothing. For each candidate it shows the state that the leading controller recorded, if there is one. Nothing here
//! influences an election.
//!
//! This module makes a new view only if it may differ from the last one. A renewal alone makes none.

mod problems;
mod timeline;
mod words;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hustings_client::api::MicroTime;
use hustings_core::election::{CandidateVerdict, Decision, Election, LeaseVerdict, Reason, Report};
use hustings_core::model::{
    CandidateKind, CandidateRecord, Ending, LeaseRecord, LeaseStage, Moment, Now, Observed, RecordedStatus, Step,
    Unheld, WireTime,
};

use self::problems::ProblemFacts;
use self::timeline::{Gap, HolderTerm, Timeline};
use super::key::LeaseKey;
use super::stores::Stores;
use crate::base::terminal::visible;
use crate::predict::forecast::{HolderForecast, Objects, forecast};
use crate::predict::order::place;
use crate::serve::page::{ActView, CandidateView, ElectionView, NextView, Problem};

/// The state that the view needs in addition to the election itself.
pub(super) struct Display {
    timeline: Timeline,
    /// When the record last changed, by both clocks.
    changed: Option<(Moment, WireTime)>,
    /// The newest observed version of the Lease; 0 while there is none.
    version: u64,
    /// The UID of the last observed version.
    uid: String,
    /// When the watch lost the Lease.
    lost_at: Option<WireTime>,
    /// The verdicts of the last decision.
    lease: LeaseVerdict,
    candidates: Vec<CandidateVerdict>,
    /// Where the verdicts come from.
    origin: Origin,
    /// When the next decision on a copy may differ, although nothing new is observed.
    decide_again: Moment,
    /// Whether anything that the view shows may have changed since the last view.
    is_stale: bool,
    /// Whether the passing of time could change the last view.
    was_changing: bool,
    /// When the first act in the last view ends.
    first_end: Option<WireTime>,
    /// The candidate that would get the Lease if its holder died; without a holder, the one that gets it next.
    successor: Option<String>,
    /// What keeps the label of the Lease from the Pod of its holder.
    label_problem: Option<String>,
}

/// Where the verdicts of a [`Display`] come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A decision that was carried out.
    Decision,
    /// A decision on a copy of the election.
    Copy,
    /// There are none: the server refuses to show the Lease and its candidates.
    Refusal,
}

impl Display {
    /// A Lease that has not been observed yet.
    pub(super) fn new() -> Self {
        let (timeline, candidates) = (Timeline::default(), Vec::new());
        Self {
            timeline,
            changed: None,
            version: 0,
            uid: String::new(),
            lost_at: None,
            lease: LeaseVerdict::Unread,
            candidates,
            origin: Origin::Copy,
            decide_again: Moment::from_micros(0),
            is_stale: true,
            was_changing: false,
            first_end: None,
            successor: None,
            label_problem: None,
        }
    }

    /// Takes what keeps the label of the Lease from the Pod of its holder.
    pub(super) fn label(&mut self, problem: Option<&str>) {
        self.label_problem = problem.map(str::to_owned);
        self.is_stale = true;
    }

    /// Takes the report of an observation.
    pub(super) fn observed(&mut self, now: Now, report: &Report, election: &Election) {
        if report.had_expired {
            // A Lease without a holder is in a gap already, so this changes nothing.
            self.timeline.vacate(self.last_change(now), Unheld::Ended(Ending::Expired).into());
        }
        self.is_stale |= report.had_expired || !matches!(report.step, Some(Step::Renewed | Step::Same));
        let Some(observed) = election.lease() else {
            // Whether it was deleted, or has only lost its label, shows in the next version, if there is one.
            if std::mem::take(&mut self.version) > 0 {
                self.lost_at = Some(now.wall);
            }
            return;
        };
        if self.changed.is_none_or(|(at, _)| at != observed.changed_at()) {
            self.changed = Some((observed.changed_at(), wall(observed.changed_at(), now)));
        }
        let record = observed.record();
        if std::mem::replace(&mut self.version, record.resource_version) == record.resource_version {
            return;
        }
        self.is_stale |= report.step != Some(Step::Renewed);
        let lost_at = self.lost_at.take().filter(|_| self.uid != record.uid);
        if let Some(lost_at) = lost_at {
            self.timeline.vacate(lost_at, Unheld::Missing.into());
        }
        self.uid.clone_from(&record.uid);
        self.timeline.recall(&record.history);
        let ended = report.step.as_ref().and_then(Step::ended).cloned();
        match (&record.holder, election.stage()) {
            // A late release by client-go does not end the term.
            (None, _) if report.step == Some(Step::Emptied) => {}
            (Some(holder), Some(LeaseStage::InTerm)) => {
                let term = HolderTerm { holder: holder.clone(), number: record.transitions, token: record.token };
                self.timeline.hold(term, now.wall, record.acquire_time);
            }
            // If no holder came before, a gap is open, and its cause stays.
            _ => self.timeline.vacate(now.wall, ended.map_or(Unheld::New, Unheld::Ended).into()),
        }
    }

    /// Takes the verdicts of a decision of this controller.
    pub(super) fn decided(&mut self, now: Now, decision: &Decision) {
        self.judge(now, decision, Origin::Decision);
    }

    fn judge(&mut self, now: Now, Decision { lease, candidates, .. }: &Decision, origin: Origin) {
        match lease {
            LeaseVerdict::Unheld { since, cause } | LeaseVerdict::NoLiveCandidate { since, cause } => {
                let at = match cause {
                    Unheld::Ended(Ending::Expired | Ending::ProvenDead(_)) => self.last_change(now),
                    _ => wall(*since, now),
                };
                self.timeline.vacate(at, cause.clone().into());
            }
            LeaseVerdict::OnHold { since, .. } => self.timeline.vacate(wall(*since, now), Gap::OnHold),
            LeaseVerdict::OutOfBounds
            | LeaseVerdict::Unread
            | LeaseVerdict::Held { .. }
            | LeaseVerdict::Foreign { .. }
            | LeaseVerdict::Assisted { .. }
            | LeaseVerdict::Reserved { .. } => {}
        }
        if (&self.lease, &self.candidates, self.origin) != (lease, candidates, origin) {
            (self.lease, self.candidates, self.origin) = (lease.clone(), candidates.clone(), origin);
            self.is_stale = true;
        }
    }

    /// The server refuses to show the Lease and its candidates any longer, so nothing is known of them.
    pub(super) fn refused(&mut self) {
        if self.origin != Origin::Refusal {
            (self.lease, self.origin, self.is_stale) = (LeaseVerdict::Unread, Origin::Refusal, true);
            self.candidates.clear();
        }
    }

    /// Decides on a copy of the election, unless the last such decision is still current.
    pub(super) fn judge_copy(&mut self, now: Now, election: &Election) {
        if self.is_copy_outdated(now.moment) || self.may_differ(now, election) {
            let decision = election.clone().decide(now);
            self.decide_again = decision.deadline;
            self.judge(now, &decision, Origin::Copy);
        }
    }

    /// When the record last changed. No process is known to have led after that.
    fn last_change(&self, now: Now) -> WireTime {
        self.changed.map_or(now.wall, |(_, wall)| wall)
    }

    /// Whether something that the view shows may have changed since the last view.
    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Whether the view may change although nothing new is observed.
    fn changes_with_time(&self, now: Moment, election: &Election) -> bool {
        let rests = match &self.lease {
            LeaseVerdict::Held { taken_up, preferred, .. } => *taken_up && preferred.is_none(),
            LeaseVerdict::Unheld { .. } => self.candidates.is_empty(),
            LeaseVerdict::Foreign { .. }
            | LeaseVerdict::Assisted { .. }
            | LeaseVerdict::OnHold { .. }
            | LeaseVerdict::NoLiveCandidate { .. } => true,
            LeaseVerdict::OutOfBounds | LeaseVerdict::Reserved { .. } => false,
            LeaseVerdict::Unread => self.origin == Origin::Refusal,
        };
        !rests || election.lease().is_some_and(|observed| is_silent(observed, now))
    }

    /// Whether the verdicts are not those of a decision on a copy, or such a decision is due again.
    pub(super) fn is_copy_outdated(&self, now: Moment) -> bool {
        self.origin != Origin::Copy || self.decide_again <= now
    }

    /// Whether the view of the same verdicts may differ from the last one.
    pub(super) fn may_differ(&self, now: Now, election: &Election) -> bool {
        self.is_stale
            || self.was_changing
            || self.first_end.is_some_and(|end| end <= now.wall)
            || self.changes_with_time(now.moment, election)
    }

    /// Makes the view of this Lease; `None` if the last view is still current.
    pub(super) fn view(
        &mut self,
        key: &LeaseKey,
        now: Now,
        election: &Election,
        stores: &Stores,
    ) -> Option<ElectionView> {
        if !self.may_differ(now, election) {
            return None;
        }
        if std::mem::take(&mut self.is_stale) {
            self.successor = self.successor(now.wall, election);
        }
        self.was_changing = self.changes_with_time(now.moment, election);
        let view = self.new_view(key, now, election, stores);
        self.first_end = view.acts.iter().filter_map(|act| Some(act.until?.0)).min();
        Some(view)
    }

    fn new_view(&self, key: &LeaseKey, now: Now, election: &Election, stores: &Stores) -> ElectionView {
        let record = election.lease().map(Observed::record);
        let watched = |verdict: &CandidateVerdict| stores.candidate(key.namespace(), &verdict.candidate);
        let watched: Vec<_> = self.candidates.iter().map(watched).collect();
        let candidates: Vec<_> = self
            .candidates
            .iter()
            .zip(&watched)
            .map(|(verdict, record)| self.candidate(verdict, record.as_deref()))
            .collect();
        let next = self.next();
        let facts = ProblemFacts {
            now,
            election,
            lease: &self.lease,
            candidates: &self.candidates,
            shown: &candidates,
            has_next: next.is_some() || self.is_left_alone(),
            is_silent: election.lease().is_some_and(|observed| is_silent(observed, now.moment)),
            changed_at: self.changed.map(|(_, wall)| wall),
            gap_since: self.timeline.gap_since(),
            label_problem: self.label_problem.as_deref(),
            is_refused: self.origin == Origin::Refusal,
        };
        let problems = facts.problems();
        let holds = !matches!(
            self.lease,
            LeaseVerdict::Unheld { .. }
                | LeaseVerdict::NoLiveCandidate { .. }
                | LeaseVerdict::OnHold { .. }
                | LeaseVerdict::Unread
        );
        let holder = record.filter(|_| holds).and_then(|record| record.holder.as_deref());
        ElectionView {
            namespace: key.namespace().to_string(),
            name: key.name().to_string(),
            state: words::state(&self.lease),
            severity: Problem::worst(&problems),
            holder: holder.map(visible),
            since: record.filter(|_| holder.is_some()).and_then(|record| record.acquire_time).map(MicroTime),
            why: self.why(now, election),
            term: record.map_or(0, |record| record.transitions),
            token: record.and_then(|record| record.token).map(|token| token.to_string()),
            strategy: record.and_then(|record| record.strategy.as_deref()).map(visible),
            next,
            acts: acts(now.wall, record, watched.iter().flatten()),
            problems,
            candidates,
            timeline: self.timeline.spans(),
        }
    }

    /// Why the holder leads, or why nobody does.
    fn why(&self, now: Now, election: &Election) -> String {
        let LeaseVerdict::Held { holder, taken_up, .. } = &self.lease else {
            return words::vacancy(&self.lease);
        };
        if !taken_up {
            return Reason::Granted.to_string();
        }
        let mut why = place(holder, election, now).unwrap_or_default();
        // A candidate that was deleted since the decision has no record.
        let exists =
            |verdict: &&CandidateVerdict| verdict.rank.is_some() && election.candidate(&verdict.candidate).is_some();
        if let Some(best) = self.candidates.iter().find(exists).filter(|best| best.candidate != *holder) {
            let _ = write!(why, " Why not {}? {}", best.candidate.name, best.reason);
        }
        visible(&why)
    }

    /// Finds the candidate that would get the Lease if its holder died; without a holder, the one that gets it next. To
    /// do so, it runs the election's own decision.
    fn successor(&self, wall: WireTime, election: &Election) -> Option<String> {
        let lease = election.lease().map(Observed::record);
        let records = self.candidates.iter().filter_map(|verdict| {
            let record = election.candidate(&verdict.candidate)?.clone();
            let recorded = record.status.state.filter(|_| self.origin == Origin::Copy);
            // The forecast reads from the recorded state which candidates are dead.
            let status = RecordedStatus { state: recorded.or(Some(verdict.state)), ..record.status };
            Some(CandidateRecord { status, ..record })
        });
        let records: Vec<_> = records.collect();
        let has_holder = lease.is_some_and(|record| record.holder.is_some());
        let holder = if has_holder { HolderForecast::Dies { pod: None } } else { HolderForecast::Lives };
        let candidates = records.iter().collect();
        let objects = Objects { key: election.key(), lease, candidates, unchanged_for: Duration::ZERO };
        forecast(objects, holder, wall).named
    }

    /// Whether the election leaves a live holder alone, as during a pause. Another candidate may still lead after the
    /// holder's death.
    fn is_left_alone(&self) -> bool {
        self.candidates.iter().any(|verdict| matches!(verdict.reason, Reason::HolderLeftAlone(_)))
    }

    /// The preferred holder, or else the successor.
    fn next(&self) -> Option<NextView> {
        let preferred = match &self.lease {
            LeaseVerdict::Held { preferred, .. } => preferred.as_ref().map(|preferred| &*preferred.name),
            _ => None,
        };
        let name = preferred.or(self.successor.as_deref())?;
        let next = self.candidates.iter().find(|verdict| *verdict.candidate.name == *name)?;
        Some(NextView { name: visible(name), preferred: preferred.is_some(), live: next.responsive == Some(true) })
    }

    fn candidate(&self, verdict: &CandidateVerdict, record: Option<&CandidateRecord>) -> CandidateView {
        let mut view = CandidateView {
            rank: verdict.rank,
            name: visible(&verdict.candidate.name),
            native: verdict.candidate.kind == CandidateKind::Native,
            binary_version: String::new(),
            emulation_version: None,
            priority: 0,
            state: verdict.state.as_str(),
            reason: visible(&verdict.reason.to_string()),
        };
        if let Some(record) = record {
            view.binary_version = visible(&record.binary_version);
            view.emulation_version = record.emulation_version.as_deref().map(visible);
            view.priority = record.priority;
            // The leading controller's record includes the results of pings. A standby's copy has sent none.
            if let Some(state) = record.status.state.filter(|_| self.origin == Origin::Copy) {
                (view.state, view.reason) = (state.as_str(), visible(&record.status.message));
            }
        }
        view
    }
}

/// The acts of administrators on a Lease and its candidates.
fn acts<'c>(
    wall: WireTime,
    lease: Option<&LeaseRecord>,
    candidates: impl Iterator<Item = &'c Arc<CandidateRecord>>,
) -> Vec<ActView> {
    let on_lease = lease.into_iter().flat_map(|record| words::acts_on_lease(record, wall));
    on_lease.chain(candidates.filter_map(|record| words::exclusion(record, wall))).collect()
}

/// Whether the record has not changed for more than half of the lease, so that the holder may be dead.
fn is_silent(observed: &Observed, now: Moment) -> bool {
    now.since(observed.changed_at()) > observed.lasts() / 2
}

/// The wall-clock time of a moment.
fn wall(moment: Moment, now: Now) -> WireTime {
    let ago = now.moment.as_micros().saturating_sub(moment.as_micros());
    WireTime::from_micros(now.wall.as_micros().saturating_sub(ago))
}

#[cfg(test)]
mod tests;
