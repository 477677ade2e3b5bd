//! A process that does the least that the protocol demands. It answers pings and renews its term. If it has a session,
//! it also takes grants up, and hands over to a preferred holder. Its reads and writes take no time.

use std::time::Duration;

use hustings_core::model::{CandidateKey, LeaseRecord, NativeFields, SessionMark, SessionStamp, WireTime};

use crate::lab::Lab;
use crate::news::{News, Who};
use crate::process::{Process, micros};

/// A bare process.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is what a process does or does not, apart from the others")]
pub struct Bare {
    /// Its clocks.
    pub process: Process,
    /// Its candidate.
    pub candidate: CandidateKey,
    /// Whether it answers pings.
    pub answers: bool,
    /// The last ping that it has answered.
    pub answered: Option<WireTime>,
    /// The session of its terms, for which it needs its candidate; `None` if it begins none.
    pub session: Option<String>,
    /// Whether it takes grants up.
    pub takes_up: bool,
    /// Whether it hands over to a preferred holder.
    pub hands_over: bool,
    /// The lease duration of its next terms.
    pub lease_seconds: u32,
    /// When it releases the Lease, if it is stopping and nobody takes over before.
    pub leaves_at: Option<i64>,
    /// Its current or last term.
    pub term: Option<BareTerm>,
}

/// A term of a bare process.
#[derive(Clone, Debug)]
pub struct BareTerm {
    /// Its mark.
    pub mark: SessionMark,
    /// Its lease duration.
    pub lease_seconds: u32,
    /// Its interval between two renewals, which must not be zero.
    pub renews_every: Duration,
    /// When it was last renewed.
    pub renewed_at: i64,
}

impl BareTerm {
    fn renews_at(&self) -> i64 {
        self.renewed_at.saturating_add(micros(self.renews_every))
    }
}

impl Bare {
    /// A process that answers pings, in no term.
    pub fn new(candidate: CandidateKey) -> Self {
        Self {
            process: Process::new(&candidate.name),
            candidate,
            answers: true,
            answered: None,
            session: None,
            takes_up: true,
            hands_over: true,
            lease_seconds: 15,
            leaves_at: None,
            term: None,
        }
    }

    /// Whether the Lease is in its term.
    pub fn holds(&self, lease: &LeaseRecord) -> bool {
        let is_named = lease.holder.as_deref() == Some(&*self.candidate.name);
        is_named && !lease.is_open() && self.term.as_ref().is_some_and(|term| term.mark == lease.session)
    }

    /// Begins the next term of its session now. `None` if it has no session.
    fn begin_term(&mut self, now_micros: i64) -> Option<SessionMark> {
        let session = self.session.clone()?;
        let last = self.term.as_ref().and_then(|term| term.mark.stamp()).filter(|stamp| stamp.session == session);
        let term = last.map_or(1, |last| last.term.saturating_add(1));
        let (seconds, renews_every) = (self.lease_seconds, Duration::from_secs(2));
        let mark = SessionMark::Term(SessionStamp { session, term, seconds });
        self.term = Some(BareTerm { mark: mark.clone(), lease_seconds: seconds, renews_every, renewed_at: now_micros });
        Some(mark)
    }
}

impl Lab {
    /// Starts a bare process. Returns its number.
    pub fn add_bare(&mut self, bare: Bare) -> usize {
        self.bare.push(bare);
        let index = self.bare.len() - 1;
        self.nudge(Who::Bare(index));
        index
    }

    pub(crate) fn play_bare(&mut self, index: usize) {
        let Bare { candidate, answers, answered, .. } = &self.bare[index];
        let pinged = self.server.store.candidate(candidate.clone()).and_then(|record| record.ping_time);
        if *answers && pinged.is_some() && pinged != *answered {
            self.answer_ping(index);
        }
        self.play_term(index);
        let held = self.lease_of(index).is_some_and(|lease| self.bare[index].holds(&lease));
        let Bare { process, term, leaves_at, .. } = &self.bare[index];
        let renews_at = term.as_ref().map(BareTerm::renews_at);
        let next = [renews_at, *leaves_at].into_iter().flatten().min().filter(|_| held);
        let next = next.map(|at| process.local(at).moment);
        self.wake_at(Who::Bare(index), next);
    }

    /// The Lease, if it names a process that writes it: one that stands, is stopping, or only renews its term.
    fn lease_of(&self, index: usize) -> Option<LeaseRecord> {
        let Bare { candidate, session, leaves_at, .. } = &self.bare[index];
        let writes = session.is_none() || leaves_at.is_some() || self.server.store.candidate(candidate).is_some();
        self.server.lease().filter(|lease| writes && lease.holder.as_deref() == Some(&*candidate.name)).cloned()
    }

    /// Answers the ping of a candidate, however late.
    pub fn answer_ping(&mut self, index: usize) {
        let bare = &mut self.bare[index];
        let key = bare.candidate.clone();
        let wall = bare.process.local(self.now_micros).wall;
        let edited = self.server.store.edit_candidate(key.clone(), |record| {
            record.renew_time = Some(wall.later_than(record.renew_time)).max(record.ping_time);
        });
        let Some(record) = edited else { return };
        bare.answered = record.ping_time;
        self.note(Who::Bare(index), News::Does("answers", None));
        self.candidate_changed(key);
    }

    /// Does what is due about the Lease that names it.
    fn play_term(&mut self, index: usize) {
        let now = self.now_micros;
        let Some(lease) = self.lease_of(index) else { return };
        let bare = &mut self.bare[index];
        let wall = bare.process.local(now).wall;
        let renewed = LeaseRecord { renew_time: Some(wall.later_than(lease.renew_time)), ..lease.clone() };
        if lease.is_open() && bare.takes_up {
            let Some(session) = bare.begin_term(now) else { return };
            let taken_up = LeaseRecord {
                duration_seconds: bare.lease_seconds,
                acquire_time: Some(wall),
                session,
                token: Some(lease.resource_version),
                preferred_holder: None,
                hold: None,
                leaving: false,
                enrolled: true,
                ..renewed
            };
            return self.write_lease(Who::Bare(index), "takes up", taken_up);
        }
        if !bare.holds(&lease) {
            return;
        }
        let hands_over = bare.hands_over && bare.session.is_some();
        let preferred = lease.preferred_holder.filter(|preferred| hands_over && **preferred != *bare.candidate.name);
        let leaves = bare.leaves_at.is_some_and(|at| at <= now);
        let Some(term) = &mut bare.term else { return };
        let (does, written) = if preferred.is_some() {
            let handed_over = LeaseRecord {
                holder: preferred,
                duration_seconds: 5,
                acquire_time: Some(wall),
                transitions: lease.transitions.saturating_add(1),
                session: SessionMark::Open,
                preferred_holder: None,
                native: NativeFields { preferred_holder: None, ..lease.native },
                leaving: false,
                ..renewed
            };
            ("hands over", handed_over)
        } else if leaves {
            ("releases", released(renewed))
        } else if now >= term.renews_at() {
            term.renewed_at = now;
            ("renews", LeaseRecord { duration_seconds: term.lease_seconds, ..renewed })
        } else {
            return;
        };
        self.write_lease(Who::Bare(index), does, written);
    }

    /// Writes the Lease as a process without a core.
    pub(crate) fn write_lease(&mut self, who: Who, does: &'static str, record: LeaseRecord) {
        let lease_name = self.server.lease_name.clone();
        let written = Box::new(self.server.store.put_lease(&lease_name, record).clone());
        self.note(who, News::Does(does, Some(written)));
        self.lease_changed();
    }
}

/// The Lease after its release.
pub fn released(lease: LeaseRecord) -> LeaseRecord {
    LeaseRecord {
        holder: None,
        duration_seconds: 1,
        session: SessionMark::Open,
        preferred_holder: None,
        leaving: false,
        ..lease
    }
}
