//! What an elector does about its Lease when no controller elects.
//!
//! If a Lease has had no holder for a long time, the candidates claim it themselves, in the order in which a controller
//! would choose them. Each elector lists the candidates once and finds its own place among those that show signs of
//! life. The worse that place, the longer it waits. Safety does not depend on that order. It depends on the claim
//! alone, whose rule is the same for every elector: a conditional write on a Lease that is free by the elector's own
//! observation.
//!
//! Signs of life are compared with the newest one of the same list, never with a clock. So every elector that reads the
//! same list gets the same order. A candidate with a wrong clock is misplaced, or misplaces the others, by at most 5 s.
//!
//! An elector does not claim the Lease if its own candidate is not admissible. Neither does it claim the Lease if the
//! candidates ask for a third party's strategy, or disagree on the strategy. The fallback pings no candidate. So only
//! the age of its last sign of life distinguishes a dead dissenter from a live one. A candidate determines the strategy
//! only while it is valid: for half an hour after its last sign of life. After that time, Kubernetes deletes a
//! candidate. Electors that cannot agree renew their candidates before each list, so the validity of a dead dissenter
//! does end. If a candidate's clock is ahead by half an hour, the others have no say in the strategy.

use std::time::Duration;

use super::super::config::Config;
use super::super::plan::{Plan, PlannedRequest};
use super::super::timers::Timer;
use super::super::{AttemptId, Note, Withheld};
use super::vacancy::Vacancy;
use crate::model::{
    CandidateRecord, CandidateState, Hold, Inadmissible, LeaseRecord, Moment, Now, Request, Standing, Version, WireTime,
};
use crate::ranking::{Contender, Rank, Rule, with_a_say};

/// How long electors wait for a controller.
pub const CONTROLLER_WAIT: Duration = Duration::from_secs(25);

/// How long the candidates need to renew without a ping once the wait for a controller is over. An earlier list would
/// show old signs of life.
const SIGNS_OF_LIFE_TAKE: Duration = Duration::from_millis(250);

/// A candidate gets a place if its last sign of life is at most this much older than the newest one.
const RECENT: Duration = Duration::from_secs(30);

/// A candidate helps determine the strategy if its last sign of life is at most this much older than the newest one.
/// The protocol asks a candidate to renew only when it is pinged, so a short silence proves nothing. Upstream deletes a
/// candidate after the same time (`leaseCandidateValidDuration`).
const VALID: Duration = Duration::from_mins(30);

/// How long each candidate waits for the next better one.
const STEP: Duration = Duration::from_millis(500);

/// How long the worst candidates wait, and those that are not in the list.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// When to list the candidates again if they did not agree.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What an elector knows about controllers and about the other candidates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::elector) struct Fallback {
    /// The wait for a controller is over, and none was observed since.
    is_alone: bool,
    controller_seen_at: Option<Moment>,
    listing: Option<Listing>,
    /// The result of the last list.
    last_list: Option<ListResult>,
    /// The last note, so that it is reported only once.
    last_reported: Option<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Listing {
    request: PlannedRequest,
    vacancy: Vacancy,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ListResult {
    vacancy: Vacancy,
    verdict: FallbackVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FallbackVerdict {
    ClaimAt(Moment),
    ListAt(Moment),
}

impl Fallback {
    /// Whether only the candidates themselves are expected to elect.
    pub(in crate::elector) const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A controller has written the Lease, so it elects.
    pub(in crate::elector) fn observe_controller(&mut self, now: Moment) {
        *self = Self { controller_seen_at: Some(now), ..Self::default() };
    }

    /// When this elector may claim a Lease with this vacancy, as far as the other candidates are concerned.
    pub(in crate::elector) fn claim_at(&self, vacancy: Vacancy) -> Option<Moment> {
        match self.verdict_on(vacancy)? {
            FallbackVerdict::ClaimAt(moment) => Some(moment),
            FallbackVerdict::ListAt(_) => None,
        }
    }

    /// The pending list.
    pub(in crate::elector) fn request(&self) -> Option<&PlannedRequest> {
        self.listing.as_ref().map(|listing| &listing.request)
    }

    /// Gives up a list that was not answered in time. Returns a note if there is news.
    pub(in crate::elector) fn pass_time(&mut self, now: Moment, config: &Config) -> Option<Note> {
        let late = self.listing.take_if(|listing| listing.request.until <= now)?;
        self.fail(late, config)
    }

    /// Plans the list of the candidates for this vacancy. `hold` is the Lease's.
    pub(in crate::elector) fn plan(
        &mut self,
        vacancy: Vacancy,
        hold: Option<&str>,
        config: &Config,
        now: Moment,
        plan: &mut Plan,
    ) {
        let due = self.due(vacancy);
        plan.wake_at(Timer::ControllerWait, due);
        if now < due {
            return;
        }
        let falls_back = config.candidate().is_some_and(|candidate| candidate.fallback);
        let withheld = if falls_back { withheld_by(hold) } else { Some(Withheld::TurnedOff) };
        if let Some(withheld) = withheld {
            plan.context.notes.extend(self.news(Note::Withheld(withheld)));
            return;
        }
        if !self.is_alone {
            self.is_alone = true;
            plan.note(Note::NoController);
        }
        if let Some(listing) = &self.listing {
            plan.await_answer(&listing.request);
            return;
        }
        let list_at = match self.verdict_on(vacancy) {
            Some(FallbackVerdict::ClaimAt(_)) => return,
            Some(FallbackVerdict::ListAt(at)) => at,
            None => now,
        };
        if plan.may_request(Timer::List, list_at) {
            let request = plan.send(Request::ListCandidates { lease_name: config.lease_name.clone() });
            self.listing = Some(Listing { request, vacancy });
        }
    }

    /// Records the list of the candidates; `None` if the cluster does not know the kind. `free_from` is when the Lease
    /// becomes free, as far as these candidates show. `lease` is the Lease, if it exists. Returns a note if there is
    /// news.
    pub(in crate::elector) fn observe_list(
        &mut self,
        now: Now,
        attempt: AttemptId,
        records: Option<&[CandidateRecord]>,
        lease: Option<&LeaseRecord>,
        free_from: Option<Moment>,
        config: &Config,
    ) -> Option<Note> {
        let Listing { request, vacancy } = self.listing.take_if(|listing| listing.request.id == attempt)?;
        let candidates = records.unwrap_or_default().iter().map(|record| (record, record.standing())).collect();
        let (verdict, note) = match wait(candidates, lease, now, config) {
            Ok(wait) => {
                let claim_at = request.sent.after(wait).max(free_from.unwrap_or(vacancy.free_from));
                (FallbackVerdict::ClaimAt(claim_at), records.is_none().then_some(Note::NoCandidates))
            }
            Err(withheld) => (FallbackVerdict::ListAt(now.moment.after(ASK_AGAIN)), Some(Note::Withheld(withheld))),
        };
        self.last_list = Some(ListResult { vacancy, verdict });
        self.news(note?)
    }

    /// Whether the candidates were listed without a result.
    pub(in crate::elector) fn must_list_again(&self) -> bool {
        matches!(self.last_list, Some(ListResult { verdict: FallbackVerdict::ListAt(_), .. }))
    }

    /// The list could not be read. Returns a note if there is news.
    pub(in crate::elector) fn observe_failure(&mut self, attempt: AttemptId, config: &Config) -> Option<Note> {
        let listing = self.listing.take_if(|listing| listing.request.id == attempt)?;
        self.fail(listing, config)
    }

    /// When to list the candidates.
    fn due(&self, vacancy: Vacancy) -> Moment {
        let due = if self.is_alone {
            vacancy.found_at.after(SIGNS_OF_LIFE_TAKE)
        } else {
            vacancy.found_at.max(self.controller_seen_at.unwrap_or(vacancy.found_at)).after(CONTROLLER_WAIT)
        };
        due.max(vacancy.free_from)
    }

    fn verdict_on(&self, vacancy: Vacancy) -> Option<FallbackVerdict> {
        self.last_list.as_ref().filter(|list| list.vacancy == vacancy).map(|list| list.verdict)
    }

    fn fail(&mut self, Listing { request, vacancy }: Listing, config: &Config) -> Option<Note> {
        let verdict = FallbackVerdict::ListAt(request.sent.after(config.timing.retry_period()));
        self.last_list = Some(ListResult { vacancy, verdict });
        self.news(Note::Withheld(Withheld::NoList))
    }

    fn news(&mut self, note: Note) -> Option<Note> {
        let is_news = self.last_reported.as_ref() != Some(&note);
        self.last_reported = Some(note);
        self.last_reported.clone().filter(|_| is_news)
    }
}

/// How long this elector waits for better candidates.
///
/// # Errors
/// Fails if the elector must not claim the Lease: the strategy is not ours, or its own candidate is not admissible.
fn wait(
    candidates: Vec<(&CandidateRecord, Result<Standing, Inadmissible>)>,
    lease: Option<&LeaseRecord>,
    now: Now,
    config: &Config,
) -> Result<Duration, Withheld> {
    let own = candidates.iter().find(|(record, _)| record.name == config.identity);
    let own = own.map(|(_, standing)| standing.clone()).transpose().map_err(Withheld::Inadmissible)?;
    let mut candidates: Vec<_> =
        candidates.into_iter().filter_map(|(record, standing)| Some((record, standing.ok()?))).collect();
    let is_in = |record: &CandidateRecord, state| record.status.state == Some(state);
    let newest = candidates.iter().filter_map(|(record, _)| record.renewed_at()).max().unwrap_or_default();
    let is_within = |limit, time: WireTime| time.until(newest) <= limit;
    // A candidate that was never asked to renew counts by its creation.
    let is_valid = |record: &CandidateRecord| is_within(VALID, record.renewed_at().unwrap_or(record.creation_time));
    let is_excluded = |record: &CandidateRecord| record.acts.exclusion(now.wall).is_some();
    let deciding =
        candidates.iter().filter(|(record, _)| !is_in(record, CandidateState::Unresponsive) && is_valid(record));
    let deciding = with_a_say(deciding.map(|(record, standing)| (is_excluded(record), standing)));
    let mut rule = Rule::of(deciding.map(|standing| (&standing.binary_version, &standing.strategy)));
    if rule == Rule::NoCandidates {
        let own = config.candidate().and_then(|candidate| candidate.strategy.clone()).unwrap_or_default();
        rule = Rule::of([(&Version::new(0, 0, 0), &own)]);
    }
    if let Some(hold) = rule.hold() {
        return Err(Withheld::Hold(hold));
    }
    own.map_or(Ok(()), |own| rule.admits(&own)).map_err(Withheld::Inadmissible)?;
    candidates.retain(|(_, standing)| rule.admits(standing).is_ok());
    candidates.retain(|(record, _)| record.renewed_at().is_some_and(|renewed| is_within(RECENT, renewed)));
    let ranks: Vec<_> = candidates.iter().map(|(record, standing)| (*record, Rank::new(standing, record))).collect();
    let contender = |(record, rank)| (Contender::recorded((record, rank), rule.strategy(), lease, now), &record.name);
    let mut live: Vec<_> = ranks.iter().map(|(record, rank)| contender((*record, rank))).collect();
    live.sort_by(|(one, _), (other, _)| one.order(other));
    let better = live.iter().position(|(_, name)| **name == config.identity);
    let place = better.and_then(|better| u32::try_from(better).ok()).map(|better| better.saturating_add(1));
    Ok(place.map_or(LONGEST_WAIT, |place| STEP.saturating_mul(place).min(LONGEST_WAIT)))
}

/// Why a Lease with this `hold` is left alone. A disagreement is checked against the list: it may be over.
fn withheld_by(hold: Option<&str>) -> Option<Withheld> {
    Hold::read(hold).filter(|hold| *hold != Hold::Disagreement).map(Withheld::Hold)
}

#[cfg(test)]
mod tests;
