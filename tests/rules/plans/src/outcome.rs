//! The end of a run, in words that do not depend on times, counts or names: candidates of equal rank get the name of that
//! rank.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use hustings_client::api::ReadCandidate;
use hustings_client::model::{CandidateState, Condition, SessionMark};

use crate::cast::LEASE;
use crate::purpose::OWN_LEASE;
use crate::scenario::Scenario;
use crate::stage::Stage;

/// How long a state must last to be the end.
const STANDS: Duration = Duration::from_secs(3);

/// How long the end of an undisturbed run with elections must last, since all plans are compared with it. This is
/// longer than an election window and the pause between two statuses.
const RESTS: Duration = Duration::from_secs(7);

/// How long a candidate that did not use a grant stays before the run replaces it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long anything may take: more than an expiry, two dampings and an election, on a busy machine.
const LIMIT: Duration = Duration::from_mins(3);

const POLL: Duration = Duration::from_secs(1);

/// A state of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome(BTreeMap<String, String>);

impl Outcome {
    /// The present state.
    pub async fn read(stage: &Stage, scenario: Scenario) -> Result<Self> {
        let merit = |role: &str| match stage.stands(role) {
            _ if scenario.is_open() => "any candidate".to_owned(),
            Some(stands) => stands.merit(),
            None => format!("stranger {role}"),
        };
        let mut all = BTreeMap::new();
        let mut say = |what: &str, is: String| drop(all.insert(what.to_owned(), is));
        match stage.lease(LEASE).await? {
            None => say("Lease", "missing".to_owned()),
            Some(lease) => {
                let record = lease.record;
                say("holder", record.holder.as_deref().map_or_else(|| "nobody".to_owned(), merit));
                let session = match record.session {
                    SessionMark::Term(term) => format!("a term of {} s", term.seconds),
                    other => other.to_string(),
                };
                say("session", session);
                say("duration", record.duration_seconds.to_string());
                say("preferred holder", record.preferred_holder.unwrap_or_default());
                say("strategy", record.strategy.unwrap_or_default());
                say("hold", record.hold.unwrap_or_default());
                say("key", record.key.map(|key| key.to_string()).unwrap_or_default());
                say("leaving", record.leaving.to_string());
                say("enrolled", record.enrolled.to_string());
                let leaders = stage.leaders();
                let holds = leaders
                    .iter()
                    .all(|(role, token)| record.holder.as_deref() == Some(role) && record.token == Some(*token));
                let leads = match &leaders[..] {
                    [_] if holds => "the holder, by its token".to_owned(),
                    leaders => format!("{leaders:?}"),
                };
                say("leads", leads);
            }
        }
        let mut candidates: Vec<_> = stage
            .candidates()
            .await?
            .iter()
            .map(|candidate| {
                let name = &candidate.record.name;
                format!("{} {}", merit(name), state(candidate, stage.is_awake(name)))
            })
            .collect();
        candidates.sort();
        say("candidates", candidates.join(", "));
        if let Some(own) = stage.lease(OWN_LEASE).await? {
            let lives = own.record.holder.as_deref().is_some_and(|holder| stage.is_awake(holder));
            let is_term = matches!(own.record.session, SessionMark::Term(_));
            say("controllers' Lease", if lives && is_term { "held" } else { "not held" }.to_owned());
        }
        Ok(Self(all))
    }

    /// The state when nothing happens any more.
    pub async fn at_rest(stage: &Stage, scenario: Scenario) -> Result<Self> {
        let began = Instant::now();
        let rests = if scenario.has_candidates() { RESTS } else { STANDS };
        let (mut outcome, mut since) = (Self::read(stage, scenario).await?, Instant::now());
        while since.elapsed() < rests || outcome.will_pass() {
            anyhow::ensure!(began.elapsed() < LIMIT, "an undisturbed run never rests");
            tokio::time::sleep(POLL).await;
            let now = Self::read(stage, scenario).await?;
            if now != outcome {
                (outcome, since) = (now, Instant::now());
            }
        }
        Ok(outcome)
    }

    /// Whether a live candidate is damped. That ends by itself.
    fn will_pass(&self) -> bool {
        self.0.get("candidates").is_some_and(|candidates| candidates.contains(CandidateState::Damped.as_str()))
    }

    /// Waits until the run reaches this state. By rule, a candidate that did not use a grant is not preferred over a live
    /// holder for a while. The run deletes such a candidate once, as with its pod, and its process creates it again. Returns
    /// how many it deleted.
    pub async fn reached(&self, stage: &Stage, scenario: Scenario) -> Result<Result<usize, String>> {
        let began = Instant::now();
        let mut stands_since = None;
        let mut passed_over: BTreeMap<String, Instant> = BTreeMap::new();
        let mut replaced = BTreeSet::new();
        loop {
            let now = Self::read(stage, scenario).await?;
            if now == *self {
                let since: &mut Instant = stands_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= STANDS {
                    return Ok(Ok(replaced.len()));
                }
            } else {
                stands_since = None;
                if began.elapsed() > LIMIT {
                    return Ok(Err(self.difference(&now)));
                }
                for candidate in stage.candidates().await? {
                    let record = candidate.record;
                    let since = passed_over.entry(record.name.clone()).or_insert_with(Instant::now);
                    if record.status.leading.reason != Condition::GRANT_NOT_TAKEN_UP {
                        *since = Instant::now();
                    } else if since.elapsed() > PATIENCE && replaced.insert(record.name.clone()) {
                        stage.collect(&record.name).await?;
                    }
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// The differences of `other` from this.
    fn difference(&self, other: &Self) -> String {
        let names: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let differing = names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name));
        let shown = |all: &Self, name| all.0.get(name).cloned().unwrap_or_default();
        let lines = differing.map(|name| format!("{name} is {:?} and not {:?}", shown(other, name), shown(self, name)));
        lines.collect::<Vec<_>>().join("; ")
    }

    /// As a line.
    pub fn line(&self) -> String {
        let said = self.0.iter().filter(|(_, is)| !is.is_empty()).map(|(what, is)| format!("{what}: {is}"));
        said.collect::<Vec<_>>().join("; ")
    }
}

/// A candidate that stands by may or may not have been pinged lately, and the controller finds dead ones in time.
fn state(candidate: &ReadCandidate, is_awake: bool) -> &'static str {
    match candidate.record.status.state {
        Some(state @ (CandidateState::Holder | CandidateState::Preferred | CandidateState::Invalid)) => state.as_str(),
        _ if !is_awake => "is dead",
        Some(CandidateState::Standby | CandidateState::Unproven) => "stands by",
        Some(state) => state.as_str(),
        None => "unjudged",
    }
}
