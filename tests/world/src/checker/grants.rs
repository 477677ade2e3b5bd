//! S4: a grant goes to the best candidate that proved itself live in that election, as far as that can be seen from
//! outside: by what the controller itself has asked for and could not miss.
//!
//! Held against a grant are the candidates that the same controller has pinged since the last term began, that have
//! answered within the window, long enough before the grant for a controller with which nothing is wrong to have heard
//! of it. None of them may outrank the electee by priority or version, unless it ranks last for what it did before: its
//! status says so, or it has just let the Lease lapse, or left a grant unused.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::model::{
    CandidateRecord, CandidateState, Condition, LeaseRecord, RecordedStatus, SessionMark, Version,
};
use tokio::time::Instant;

/// How long an answer may take that counts.
const WINDOW: Duration = Duration::from_secs(5);

/// How long an answer may take to a controller with which nothing is wrong.
pub(super) const HEARD_WITHIN: Duration = Duration::from_millis(500);

/// How long before a grant the electee may have shown that it lives: an election ahead of time lasts so long.
const PROVES_FOR: Duration = Duration::from_secs(30);

/// How long nothing must have been wrong with a controller so that nothing of it is left.
pub const WELL_FOR: Duration = Duration::from_secs(75);

/// How long a status takes at the most that says for what a candidate ranks last: it is not written during an election.
const TOLD_WITHIN: Duration = Duration::from_mins(1);

/// What one candidate has over another, the least being the best: priority, emulation version, binary version. Told here
/// anew, since the product's own order is what is checked.
type Merit = (Reverse<u32>, Version, Version);

/// What is known of the candidates of one Lease.
#[derive(Default)]
pub struct Grants {
    pub(super) candidates: BTreeMap<String, Candidate>,
    /// When those whose candidates are gone last showed that they live: who was granted the Lease may stand anew by then.
    gone: BTreeMap<String, Instant>,
    /// When the Lease was last taken from somebody who had not given it up.
    lost_at: BTreeMap<String, Instant>,
    /// When the last term began, or ended by deletion.
    began_at: Option<Instant>,
    pub(super) former: Option<LeaseRecord>,
    /// When somebody came or went last, or came to have another merit.
    pub(super) ranked_at: Option<Instant>,
    /// How many grants were judged, and claims.
    pub judged: u64,
    /// What went wrong.
    pub violations: Vec<String>,
}

pub(super) struct Candidate {
    pub(super) record: CandidateRecord,
    /// When it came to have its merit.
    ranked_at: Instant,
    /// When it last showed that it lives.
    renewed_at: Option<Instant>,
    ping: Option<Ping>,
    /// How often it was pinged, of late.
    pings: u32,
}

struct Ping {
    by: String,
    at: Instant,
    answered_at: Option<Instant>,
}

impl Grants {
    /// Says what is new in this version of a candidate, and whether that is a ping.
    pub fn see_candidate(&mut self, record: CandidateRecord, by: &str, at: Instant) -> (&'static str, bool) {
        let former = self.candidates.remove(&record.name);
        let former = former.filter(|former| former.record.uid == record.uid);
        let Some(mut candidate) = former else {
            let renewed_at = self.gone.remove(&record.name);
            let candidate = Candidate { record, ranked_at: at, renewed_at, ping: None, pings: 0 };
            self.candidates.insert(candidate.record.name.clone(), candidate);
            self.ranked_at = Some(at);
            return ("created", false);
        };
        let is_ping = record.ping_time != candidate.record.ping_time;
        // Somebody who takes the time out shows nothing.
        let is_answer = record.renew_time > candidate.record.renew_time;
        let is_status = record.status != candidate.record.status;
        if is_ping {
            candidate.pings += 1;
            candidate.ping = Some(Ping { by: by.to_owned(), at, answered_at: None });
        } else if is_answer && let Some(ping) = &mut candidate.ping {
            ping.answered_at.get_or_insert(at);
        }
        if is_answer {
            candidate.renewed_at = Some(at);
        }
        let former_merit = candidate.merit();
        candidate.record = record;
        if candidate.merit() != former_merit {
            candidate.ranked_at = at;
            self.ranked_at = Some(at);
        }
        self.candidates.insert(candidate.record.name.clone(), candidate);
        let what = match (is_ping, is_answer, is_status) {
            (true, ..) => "pinged",
            (_, true, _) => "renewed",
            (_, _, true) => "status written",
            _ => "written",
        };
        (what, is_ping)
    }

    /// The status of a candidate.
    pub fn status(&self, name: &str) -> Option<&RecordedStatus> {
        self.candidates.get(name).map(|candidate| &candidate.record.status)
    }

    /// A candidate is gone.
    pub fn lose_candidate(&mut self, name: &str, at: Instant) {
        let Some(gone) = self.candidates.remove(name) else { return };
        self.ranked_at = Some(at);
        self.gone.extend(gone.renewed_at.map(|renewed_at| (name.to_owned(), renewed_at)));
    }

    /// The Lease is gone.
    pub fn lose(&mut self) {
        self.former = None;
        self.began_at = None;
    }

    /// A version of the Lease. `well_for` says for how long nothing has been wrong with the controller that wrote it;
    /// nothing if none did. `live` are those candidates that live for sure and want another strategy.
    pub fn see_lease(
        &mut self,
        record: &LeaseRecord,
        by: &str,
        at: Instant,
        well_for: Option<Duration>,
        live: &[&str],
    ) {
        if well_for.is_some_and(|well_for| well_for >= WELL_FOR) {
            self.check_preference(record, by, at);
            self.check_strategy(record, by, at, live);
        }
        let former = self.former.replace(record.clone());
        let begins =
            former.as_ref().is_none_or(|former| former.session != record.session || former.holder != record.holder);
        let holder = former.and_then(|former| former.holder);
        if let Some(loser) = holder.filter(|holder| begins && Some(holder) != record.holder.as_ref() && holder != by) {
            self.lost_at.insert(loser, at);
        }
        let is_grant = begins && record.session == SessionMark::Open && record.holder.is_some();
        if let (true, Some(well_for), Some(electee)) = (is_grant, well_for, &record.holder)
            && well_for >= WELL_FOR
        {
            self.judge(electee, by, at);
        }
        if begins {
            self.began_at = Some(at);
        }
    }

    /// Whether this candidate ranks last, or may not be preferred, for what it did before.
    pub fn is_damped(&self, name: &str) -> bool {
        self.candidates.get(name).is_none_or(Candidate::is_damped)
    }

    /// How often each candidate was pinged since [`forget_pings`](Self::forget_pings).
    pub fn pings(&self) -> Vec<(String, u32)> {
        self.candidates.iter().map(|(name, candidate)| (name.clone(), candidate.pings)).collect()
    }

    /// Counts pings anew.
    pub fn forget_pings(&mut self) {
        self.candidates.values_mut().for_each(|candidate| candidate.pings = 0);
    }

    /// L2: a holder is asked to hand over to nobody but one who outranks it by priority or version, unless it is about
    /// to stop. Whoever came back by another version just now may still have had the former one when that was decided.
    fn check_preference(&mut self, record: &LeaseRecord, by: &str, at: Instant) {
        let Some(former) = &self.former else { return };
        let (Some(holder), Some(preferred)) = (&record.holder, &record.preferred_holder) else { return };
        if former.preferred_holder.as_ref() == Some(preferred) || record.leaving {
            return;
        }
        let settled = |candidate: &&Candidate| at - candidate.ranked_at >= HEARD_WITHIN;
        let merit = |name: &str| self.candidates.get(name).filter(settled).and_then(Candidate::merit);
        let (Some(holds), Some(wants)) = (merit(holder), merit(preferred)) else { return };
        if wants >= holds {
            self.violations.push(format!("L2: {by} prefers {preferred} to {holder}, which it does not outrank"));
        }
    }

    fn judge(&mut self, electee: &str, by: &str, at: Instant) {
        let Some(candidate) = self.candidates.get(electee) else { return };
        let Some(merit) = candidate.merit() else { return };
        self.judged += 1;
        if candidate.renewed_at.is_none_or(|renewed| at - renewed > PROVES_FOR) {
            self.violations
                .push(format!("S4: {by} grants the Lease to {electee}, which has long shown no sign of life"));
        }
        let proven = self.candidates.values().filter(|other| {
            other.ping.as_ref().is_some_and(|ping| {
                let is_of_election = ping.by == by && self.began_at.is_some_and(|began| ping.at > began);
                let is_answered = ping
                    .answered_at
                    .is_some_and(|answered| answered - ping.at + HEARD_WITHIN < WINDOW && at - answered > HEARD_WITHIN);
                // What is older than two windows belongs to an election that was given up.
                is_of_election && is_answered && at - ping.at < WINDOW * 2
            })
        });
        let has_lost =
            |other: &Candidate| self.lost_at.get(&other.record.name).is_some_and(|lost| at - *lost < TOLD_WITHIN);
        let better = proven
            .filter(|other| !other.is_damped() && !has_lost(other))
            .find(|other| other.merit().is_some_and(|other| other < merit));
        if let Some(better) = better {
            let violation =
                format!("S4: {by} grants the Lease to {electee} although {} has answered", better.record.name);
            self.violations.push(violation);
        }
    }
}

impl Candidate {
    fn merit(&self) -> Option<Merit> {
        let standing = self.record.standing().ok()?;
        let emulation = standing.emulation_version.unwrap_or_else(|| standing.binary_version.clone());
        Some((Reverse(standing.priority), emulation, standing.binary_version))
    }

    fn is_damped(&self) -> bool {
        let status = &self.record.status;
        let has_missed = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
        status.state == Some(CandidateState::Damped) || status.damping_count > 0 || has_missed
    }
}
