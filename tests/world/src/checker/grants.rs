//! S4: a grant goes to the best candidate that proved itself live in that election. The check uses only what is visible
//! from outside: the pings of the controller, and the answers that the controller must have observed.
//!
//! The check compares the electee of a grant with the candidates for which all of this holds:
//!
//! - The same controller has pinged the candidate since the last term began.
//! - The candidate answered within the window.
//! - It answered so long before the grant that a healthy controller must have observed the answer.
//!
//! None of them may outrank the electee by priority or version, unless it ranks last because of its history. A
//! candidate ranks last if its status says so, if it has just let the Lease expire, or if it left a grant unused.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::model::{
    CandidateRecord, CandidateState, Condition, LeaseRecord, RecordedStatus, SessionMark, Version,
};
use tokio::time::Instant;

/// The longest time in which an answer counts.
const WINDOW: Duration = Duration::from_secs(5);

/// The longest time until a healthy controller has observed an answer.
pub(super) const OBSERVED_WITHIN: Duration = Duration::from_millis(500);

/// The longest time between the electee's last sign of life and the grant: an election ahead of expiry lasts that long.
const PROVES_FOR: Duration = Duration::from_secs(30);

/// How long a controller must have been healthy before earlier trouble no longer affects it.
pub const WELL_FOR: Duration = Duration::from_secs(75);

/// The longest time until a status reports that a candidate ranks last. No status is written during an election.
const REPORTED_WITHIN: Duration = Duration::from_mins(1);

/// The merit of a candidate: priority, emulation version, binary version. The least merit is the best. The order is
/// implemented here a second time, because the product's own order is under test.
type Merit = (Reverse<u32>, Version, Version);

/// What is known about the candidates of one Lease.
#[derive(Default)]
pub struct Grants {
    pub(super) candidates: BTreeMap<String, Candidate>,
    /// The last sign of life of candidates that are gone: an electee may have created its candidate again before its
    /// grant.
    gone: BTreeMap<String, Instant>,
    /// When a holder last lost the Lease without giving it up.
    lost_at: BTreeMap<String, Instant>,
    /// When the last term began, or ended by deletion.
    began_at: Option<Instant>,
    pub(super) former: Option<LeaseRecord>,
    /// When an administrator last had a transfer, a pin or an exclusion in force, which changes the order.
    administered_at: Option<Instant>,
    /// When the order of the candidates last changed.
    pub(super) ranked_at: Option<Instant>,
    /// The number of grants and claims that were checked.
    pub judged: u64,
    /// What went wrong.
    pub violations: Vec<String>,
}

pub(super) struct Candidate {
    pub(super) record: CandidateRecord,
    /// When the candidate got its present merit.
    ranked_at: Instant,
    /// When it last showed a sign of life.
    renewed_at: Option<Instant>,
    ping: Option<Ping>,
    /// The number of pings since they were last counted.
    pings: u32,
}

struct Ping {
    by: String,
    at: Instant,
    answered_at: Option<Instant>,
}

impl Grants {
    /// Returns what is new in this version of a candidate, and whether that is a ping.
    pub fn see_candidate(&mut self, record: CandidateRecord, by: &str, at: Instant) -> (&'static str, bool) {
        let former = self.candidates.remove(&record.name);
        if record.acts.exclude.is_some() || former.as_ref().is_some_and(|former| former.record.acts.exclude.is_some()) {
            self.administered_at = Some(at);
        }
        let former = former.filter(|former| former.record.uid == record.uid);
        let Some(mut candidate) = former else {
            let renewed_at = self.gone.remove(&record.name);
            let candidate = Candidate { record, ranked_at: at, renewed_at, ping: None, pings: 0 };
            self.candidates.insert(candidate.record.name.clone(), candidate);
            self.ranked_at = Some(at);
            return ("created", false);
        };
        let is_ping = record.ping_time != candidate.record.ping_time;
        // A candidate that sets its `renewTime` to null shows no sign of life.
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

    /// Records a version of the Lease. `well_for` is how long the controller that wrote it has been healthy; `None` if
    /// no controller wrote it. `live` are the candidates that are certainly live and want another strategy.
    pub fn see_lease(
        &mut self,
        record: &LeaseRecord,
        by: &str,
        at: Instant,
        well_for: Option<Duration>,
        live: &[&str],
    ) {
        self.notice_acts(record, at);
        let is_judged = well_for.is_some_and(|well_for| well_for >= WELL_FOR);
        if is_judged {
            self.check_strategy(record, by, at, live);
        }
        let is_administered = self.administered_at.is_some_and(|last| at - last < WELL_FOR);
        if is_judged && !is_administered {
            self.check_preference(record, by, at);
        }
        let former = self.former.replace(record.clone());
        let begins =
            former.as_ref().is_none_or(|former| former.session != record.session || former.holder != record.holder);
        let holder = former.and_then(|former| former.holder);
        if let Some(loser) = holder.filter(|holder| begins && Some(holder) != record.holder.as_ref() && holder != by) {
            self.lost_at.insert(loser, at);
        }
        let is_grant = begins && record.session == SessionMark::Open && record.holder.is_some();
        if let (true, Some(electee)) = (is_grant && is_judged && !is_administered, &record.holder) {
            self.judge(electee, by, at);
        }
        if begins {
            self.began_at = Some(at);
        }
    }

    fn notice_acts(&mut self, record: &LeaseRecord, at: Instant) {
        let acts = [Some(record), self.former.as_ref()].into_iter().flatten().map(|record| &record.acts);
        let mut excluded = self.candidates.values().map(|candidate| candidate.record.acts.exclude.is_some());
        if acts.into_iter().any(|acts| acts.transfer.is_some() || acts.pin.is_some())
            || excluded.any(|excluded| excluded)
        {
            self.administered_at = Some(at);
        }
    }

    /// Whether this candidate ranks last, or must not be preferred, because of its history.
    pub fn is_damped(&self, name: &str) -> bool {
        self.candidates.get(name).is_none_or(Candidate::is_damped)
    }

    /// How many times each candidate was pinged since [`forget_pings`](Self::forget_pings).
    pub fn pings(&self) -> Vec<(String, u32)> {
        self.candidates.iter().map(|(name, candidate)| (name.clone(), candidate.pings)).collect()
    }

    /// Starts counting pings from zero.
    pub fn forget_pings(&mut self) {
        self.candidates.values_mut().for_each(|candidate| candidate.pings = 0);
    }

    /// L2: a holder is asked to hand over only to a candidate that outranks it by priority or version, unless the
    /// holder is about to stop. A candidate that has just changed its version may still have had the former one when
    /// the controller decided.
    fn check_preference(&mut self, record: &LeaseRecord, by: &str, at: Instant) {
        let Some(former) = &self.former else { return };
        let (Some(holder), Some(preferred)) = (&record.holder, &record.preferred_holder) else { return };
        if former.preferred_holder.as_ref() == Some(preferred) || record.leaving {
            return;
        }
        let settled = |candidate: &&Candidate| at - candidate.ranked_at >= OBSERVED_WITHIN;
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
                .push(format!("S4: {by} grants the Lease to {electee}, which has not shown a sign of life for long"));
        }
        let proven = self.candidates.values().filter(|other| {
            other.ping.as_ref().is_some_and(|ping| {
                let is_of_election = ping.by == by && self.began_at.is_some_and(|began| ping.at > began);
                let is_answered = ping.answered_at.is_some_and(|answered| {
                    answered - ping.at + OBSERVED_WITHIN < WINDOW && at - answered > OBSERVED_WITHIN
                });
                // A ping older than two windows belongs to an election that was abandoned.
                is_of_election && is_answered && at - ping.at < WINDOW * 2
            })
        });
        let has_lost =
            |other: &Candidate| self.lost_at.get(&other.record.name).is_some_and(|lost| at - *lost < REPORTED_WITHIN);
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
    /// The merit; `None` if Hustings' strategy does not admit the candidate. Without an emulation version, a candidate
    /// can only stand under another strategy.
    fn merit(&self) -> Option<Merit> {
        let standing = self.record.standing().ok()?;
        let emulation = standing.emulation_version?;
        Some((Reverse(standing.priority), emulation, standing.binary_version))
    }

    fn is_damped(&self) -> bool {
        let status = &self.record.status;
        let has_missed = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
        status.state == Some(CandidateState::Damped) || status.damping_count > 0 || has_missed
    }
}
