//! A process that does the least that the protocol demands: it answers pings, takes up a grant, renews, and hands over
//! when it is asked to. Its reads and writes take no time.

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
    /// Whether it has a candidate, or needs none.
    pub stands: bool,
    /// Whether it answers pings.
    pub answers: bool,
    /// Whether it takes grants up.
    pub takes_up: bool,
    /// Whether it hands over to a preferred holder.
    pub hands_over: bool,
    /// Its lease duration.
    pub lease_seconds: u32,
    /// Its interval between two renewals.
    pub renews_every: Duration,
    /// The mark of its current or last term.
    pub mark: SessionMark,
    /// When it last renewed.
    pub renewed_at: i64,
    /// When it releases the Lease, if it is stopping and nobody takes over before.
    pub leaves_at: Option<i64>,
    /// The last ping that it has answered.
    pub answered: Option<WireTime>,
    /// When it answered it.
    pub answered_at: Option<i64>,
}

impl Bare {
    /// A process that does all of that from now on.
    pub fn new(candidate: CandidateKey, session: &str, now_micros: i64) -> Self {
        Self {
            process: Process::new(&candidate.name),
            candidate,
            stands: true,
            answers: true,
            takes_up: true,
            hands_over: true,
            lease_seconds: 15,
            renews_every: Duration::from_secs(2),
            mark: SessionMark::Term(SessionStamp { session: session.to_owned(), term: 0, seconds: 15 }),
            renewed_at: now_micros,
            leaves_at: None,
            answered: None,
            answered_at: None,
        }
    }

    /// Whether the Lease is in its term.
    pub fn holds(&self, lease: &LeaseRecord) -> bool {
        lease.holder.as_deref() == Some(&*self.candidate.name) && !lease.is_open() && lease.session == self.mark
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
        if pinged.is_some() && pinged != *answered && *answers {
            self.answer_ping(index);
        }
        self.play_term(index);
        let bare = &self.bare[index];
        let holds = self.server.lease().is_some_and(|lease| bare.holds(lease));
        let renews_at = bare.renewed_at.saturating_add(micros(bare.renews_every));
        let next = [Some(renews_at), bare.leaves_at].into_iter().flatten().min();
        let next = next.filter(|_| holds).map(|at| bare.process.local(at).moment);
        self.wake_at(Who::Bare(index), next);
    }

    /// Answers the ping of a candidate, however late.
    pub fn answer_ping(&mut self, index: usize) {
        let now_micros = self.now_micros;
        let bare = &mut self.bare[index];
        let key = bare.candidate.clone();
        let wall = bare.process.local(now_micros).wall;
        let edited = self.server.store.edit_candidate(key.clone(), |record| {
            let renew_time = wall.later_than(record.renew_time);
            record.renew_time = Some(record.ping_time.map_or(renew_time, |ping| renew_time.max(ping)));
        });
        if let Some(record) = edited {
            bare.answered = record.ping_time;
            bare.answered_at = Some(now_micros);
            self.note(Who::Bare(index), News::Does("answers", None));
            self.candidate_changed(key);
        }
    }

    fn play_term(&mut self, index: usize) {
        let Some(lease) = self.server.lease().cloned() else { return };
        let now = self.now_micros;
        let bare = &mut self.bare[index];
        let name = bare.candidate.name.clone();
        let is_named = lease.holder.as_deref() == Some(&*name);
        if !is_named || !bare.stands && bare.leaves_at.is_none() {
            return;
        }
        let wall = bare.process.local(now).wall;
        let renewed = LeaseRecord { renew_time: Some(wall.later_than(lease.renew_time)), ..lease.clone() };
        let preferred = lease.preferred_holder.clone().filter(|preferred| **preferred != *name && bare.hands_over);
        let (does, written) = if lease.is_open() && bare.takes_up {
            let SessionMark::Term(stamp) = &bare.mark else { return };
            let term = stamp.term.saturating_add(1);
            bare.mark = SessionMark::Term(SessionStamp { term, seconds: bare.lease_seconds, ..stamp.clone() });
            bare.renewed_at = now;
            let taken_up = LeaseRecord {
                duration_seconds: bare.lease_seconds,
                acquire_time: Some(wall),
                session: bare.mark.clone(),
                token: Some(lease.resource_version),
                preferred_holder: None,
                hold: None,
                leaving: false,
                enrolled: true,
                ..renewed
            };
            ("takes up", taken_up)
        } else if !bare.holds(&lease) {
            return;
        } else if preferred.is_some() {
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
        } else if bare.leaves_at.is_some_and(|at| at <= now) {
            ("releases", released(renewed))
        } else if now >= bare.renewed_at.saturating_add(micros(bare.renews_every)) {
            bare.renewed_at = now;
            ("renews", LeaseRecord { duration_seconds: bare.lease_seconds, ..renewed })
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
