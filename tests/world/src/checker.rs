//! Checks the invariants at every event, and describes each violation.

pub mod grants;
pub mod ranges;
mod strategy;

use std::time::Duration;

use hustings_core::model::{
    CandidateKind, Hold, LeaseRecord, LeaseStage, SessionMark, SessionStamp, Step, UNDECLARED_DURATION_SECONDS,
};
use tokio::time::Instant;

/// How many thousandths of a duration certainly pass while a clock, which may be wrong by 1 in 1000, measures it. This
/// includes a margin.
const RATE_MARGIN_PER_MILLE: u32 = 997;

/// Observes the versions of one Lease.
#[derive(Default)]
pub struct Checker {
    former: Option<(LeaseRecord, Instant)>,
    /// The longest duration in seconds that the Lease has declared since it was last given up.
    declared_seconds: u32,
    greatest_token: u64,
    /// An event has happened that may end the term.
    may_end: bool,
    /// The process of the term is dead, so evidence may have ended it.
    pub holder_is_dead: bool,
    /// How many times the holder changed.
    pub changes_of_holder: u64,
    holder: Option<String>,
    /// The holder and the transitions when the session was written.
    session_began: (Option<String>, u32),
    /// The value of `changes_of_holder` after which no further change is expected.
    expected_changes: u64,
    /// What went wrong.
    pub violations: Vec<String>,
}

impl Checker {
    /// From now on the holder must not change.
    pub fn expect_no_change(&mut self) {
        self.expected_changes = self.changes_of_holder;
    }

    /// Whether the holder has changed although it must not.
    pub fn has_changed(&self) -> bool {
        self.changes_of_holder != self.expected_changes
    }

    /// Records a version that was written at `now`. `is_edited` says that its writer takes no part in the election.
    pub fn see(&mut self, record: LeaseRecord, now: Instant, is_edited: bool) {
        if !is_edited {
            self.check_token(&record);
        }
        let is_asked = record.preferred_holder.is_some();
        // A late release by client-go costs a holder nothing.
        let is_emptied =
            self.former.as_ref().is_some_and(|(former, _)| Step::between(former, &record, |_| None) == Step::Emptied);
        self.may_end = is_edited && !is_emptied || is_asked || self.may_end && !self.begins_term(&record);
        if !is_edited
            && let Some((former, changed_at)) = &self.former
            && former.uid == record.uid
        {
            let since = now - *changed_at;
            let (holder, transitions) = &self.session_began;
            // A write of the name alone is not a claim.
            let is_its_session = former.holder == *holder || former.transitions <= *transitions;
            self.violations.extend(deposed(former, is_its_session, &record, since).filter(|_| !self.holder_is_dead));
            self.violations.extend(ignores_pause(former, &record));
        }
        if matches!(record.session, SessionMark::Term(_)) && record.holder.is_some() && record.holder != self.holder {
            self.changes_of_holder += 1;
            self.holder.clone_from(&record.holder);
        }
        if self.former.as_ref().is_none_or(|(former, _)| former.session != record.session) {
            self.session_began = (record.holder.clone(), record.transitions);
        }
        let declared = declared_seconds(&record);
        let is_anew = record.is_open() || record.is_given_up() || self.is_renewal_of_term(&record);
        self.declared_seconds = if is_anew { declared } else { self.declared_seconds.max(declared) };
        let changed_at = match &self.former {
            Some((former, changed_at)) if !is_change(former, &record) => *changed_at,
            _ => now,
        };
        self.former = Some((record, changed_at));
    }

    /// The newest version of the Lease, unless the Lease is gone.
    pub fn newest(&self) -> Option<&LeaseRecord> {
        self.former.as_ref().map(|(record, _)| record)
    }

    /// Whether this version shows only that the holder is live.
    pub fn is_renewal(&self, record: &LeaseRecord) -> bool {
        let Some((former, _)) = &self.former else { return false };
        let renewed =
            LeaseRecord { resource_version: record.resource_version, renew_time: record.renew_time, ..former.clone() };
        renewed == *record
    }

    /// Whether this version extends the term, so that its holder relies on it.
    fn is_renewal_of_term(&self, record: &LeaseRecord) -> bool {
        let of_term = |record: &LeaseRecord| (record.uid.clone(), record.holder.clone(), record.session.clone());
        self.sets_time(record)
            && record.session.stamp().is_some()
            && self.former.as_ref().is_some_and(|(former, _)| of_term(former) == of_term(record))
    }

    /// Whether no process may rely on the Lease any more: the term of its holder expired at least `margin` ago.
    /// `record` is the newest version.
    pub fn is_free(&self, record: &LeaseRecord, now: Instant, margin: Duration) -> bool {
        let lasts = Duration::from_secs(u64::from(declared_seconds(record)));
        let has_run_out = |(former, changed_at): &(LeaseRecord, Instant)| {
            former.resource_version == record.resource_version && now - *changed_at > lasts + margin
        };
        record.is_given_up() || self.former.as_ref().is_some_and(has_run_out)
    }

    /// How long a process may rely on the Lease, present or missing, if no process renews it.
    pub fn lasts(&self) -> Duration {
        let least = if self.former.is_some() { 0 } else { UNDECLARED_DURATION_SECONDS };
        Duration::from_secs(u64::from(self.declared_seconds.max(least)))
    }

    /// The token of the term that this version gives up.
    pub fn given_up(&self, record: &LeaseRecord) -> Option<u64> {
        let (former, _) = self.former.as_ref()?;
        former.token.filter(|_| record.is_open() && former.session.stamp().is_some())
    }

    /// Whether a term begins with this version.
    pub fn begins_term(&self, record: &LeaseRecord) -> bool {
        let is_new = self.former.as_ref().is_none_or(|(former, _)| former.session != record.session);
        is_new && record.session.stamp().is_some()
    }

    /// Whether the renew time differs from that of the version before.
    pub fn sets_time(&self, record: &LeaseRecord) -> bool {
        self.former.as_ref().is_none_or(|(former, _)| former.renew_time != record.renew_time)
    }

    /// The Lease is gone.
    pub fn lose(&mut self) {
        self.former = None;
    }

    /// S3: `name` led in the term with this token, which has just ended, and nothing has happened that may cost a
    /// holder its term.
    pub fn check_end(&mut self, name: &str, token: u64) {
        let Some((record, _)) = &self.former else { return };
        let is_of_term = record.token == Some(token) && record.session.stamp().is_some();
        let is_of_holder = record.holder.as_deref() == Some(name) || record.has_release_form();
        if is_of_term && is_of_holder && !self.may_end {
            self.violations.push(format!("S3: {name} lost its term although nothing happened that may cost one"));
        }
    }

    /// S1: `is_leader()` is true in all `leaders` at this instant.
    pub fn check_leaders(&mut self, leaders: &[String]) {
        if leaders.len() > 1 {
            self.violations.push(format!("S1: {} lead at the same instant", leaders.join(" and ")));
        }
    }

    /// S2: tokens grow with every term, also across deletion.
    fn check_token(&mut self, record: &LeaseRecord) {
        let begins = self.former.as_ref().is_none_or(|(former, _)| former.session != record.session);
        let (SessionMark::Term(stamp), true) = (&record.session, begins) else { return };
        let token = record.token.unwrap_or(0);
        if token <= self.greatest_token {
            let greatest = self.greatest_token;
            self.violations.push(format!("S2: token {token} of session {} does not exceed {greatest}", stamp.session));
        }
        self.greatest_token = self.greatest_token.max(token);
    }
}

/// The duration in seconds that this version declares.
fn declared_seconds(record: &LeaseRecord) -> u32 {
    let undeclared = if record.is_open() || record.is_given_up() { 0 } else { UNDECLARED_DURATION_SECONDS };
    record.duration_seconds.max(record.session.stamp().map_or(undeclared, |stamp| stamp.seconds))
}

/// L2: while elections are paused, only the former holder, electee or preferred holder may become the holder.
fn ignores_pause(former: &LeaseRecord, record: &LeaseRecord) -> Option<String> {
    let Some(Hold::Pause(_)) = Hold::read(former.hold.as_deref()) else { return None };
    let holder = record.holder.as_ref()?;
    let is_known = record.holder == former.holder || record.holder == former.preferred_holder;
    (!is_known).then(|| format!("L2: {holder} becomes the holder although the elections of the Lease are paused"))
}

/// Whether waiting processes count this as a change of the record.
fn is_change(former: &LeaseRecord, record: &LeaseRecord) -> bool {
    let counted = |record: &LeaseRecord| {
        let LeaseRecord { uid, holder, duration_seconds, acquire_time, renew_time, transitions, session, .. } = record;
        let times = (*acquire_time, *renew_time);
        (uid.clone(), holder.clone(), *duration_seconds, times, *transitions, session.clone())
    };
    counted(former) != counted(record)
}

/// S3: a holder that renews in time loses its Lease only by a hand-over. An elector of another kind keeps the session
/// of the former holder. The record then lasts as long as its own duration declares.
fn deposed(former: &LeaseRecord, is_its_session: bool, record: &LeaseRecord, since: Duration) -> Option<String> {
    let SessionMark::Term(term) = &former.session else { return None };
    // After a late release, the term of the session goes on.
    let is_emptied = former.has_release_form() && is_its_session;
    let holder = former.holder.as_deref().or(is_emptied.then_some("an elector"))?;
    // An elector may reclaim its own Lease, and a container may reclaim the Lease of its former process.
    let is_same = record.session.stamp().is_some_and(|stamp| {
        let place = SessionStamp::place(&stamp.session);
        stamp.session == term.session || place.is_some() && place == SessionStamp::place(&term.session)
    });
    let goes_on = is_same && (is_emptied || record.holder.as_deref() == Some(holder));
    let is_given_up =
        record.session == SessionMark::Open && (record.holder.is_none() || record.holder == former.preferred_holder);
    let least = if is_its_session { term.seconds } else { UNDECLARED_DURATION_SECONDS };
    let lasts = Duration::from_secs(u64::from(former.duration_seconds.max(least)));
    let has_run_out = since >= lasts / 1000 * RATE_MARGIN_PER_MILLE;
    (!goes_on && !is_given_up && !has_run_out).then(|| {
        format!(
            "S3: {holder} held the Lease and had renewed it {} ms ago, when {:?} under {:?} was written",
            since.as_millis(),
            record.holder,
            record.session
        )
    })
}

/// Whether this version is a grant or a hand-over that its electee has not taken up yet.
pub(crate) fn is_grant(record: &LeaseRecord) -> bool {
    record.stage(Some(CandidateKind::Hustings)) == LeaseStage::Granted
}
