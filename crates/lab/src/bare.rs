//! A process that answers pings and renews, and does nothing else. Its reads and writes take no time.

use std::time::Duration;

use hustings_core::model::{CandidateKey, LeaseRecord, SessionMark, WireTime};

use crate::lab::Lab;
use crate::news::{News, Who};
use crate::process::{Process, micros};

/// A bare process.
#[derive(Clone, Debug)]
pub struct Bare {
    /// Its clocks.
    pub process: Process,
    /// Its candidate.
    pub candidate: CandidateKey,
    /// Whether it answers pings.
    pub answers: bool,
    /// The last ping that it has answered.
    pub answered: Option<WireTime>,
    /// The term that it renews.
    pub term: Option<Term>,
}

/// A term of a bare process.
#[derive(Clone, Debug)]
pub struct Term {
    /// Its mark.
    pub mark: SessionMark,
    /// Its lease duration.
    pub lease_seconds: u32,
    /// Its interval between two renewals, which must not be zero.
    pub renews_every: Duration,
    /// When it was last renewed.
    pub renewed_at: i64,
}

impl Term {
    fn renews_at(&self) -> i64 {
        self.renewed_at.saturating_add(micros(self.renews_every))
    }
}

impl Bare {
    /// A process that answers pings, in no term.
    pub fn new(candidate: CandidateKey) -> Self {
        Self { process: Process::new(&candidate.name), candidate, answers: true, answered: None, term: None }
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
        self.answer_ping(index);
        let renews_at = self.renew_term(index);
        let next = renews_at.map(|at| self.bare[index].process.local(at).moment);
        self.wake_at(Who::Bare(index), next);
    }

    fn answer_ping(&mut self, index: usize) {
        let bare = &mut self.bare[index];
        let key = bare.candidate.clone();
        let pinged = self.server.store.candidate(key.clone()).and_then(|record| record.ping_time);
        if !bare.answers || pinged.is_none() || pinged == bare.answered {
            return;
        }
        bare.answered = pinged;
        let wall = bare.process.local(self.now_micros).wall;
        self.server.store.edit_candidate(key.clone(), |record| {
            record.renew_time = Some(wall.later_than(record.renew_time)).max(pinged);
        });
        self.note(Who::Bare(index), News::Does("answers", None));
        self.candidate_changed(key);
    }

    /// Renews its term if that is due. Returns when the next renewal is due; `None` if the Lease is not in its term.
    fn renew_term(&mut self, index: usize) -> Option<i64> {
        let now = self.now_micros;
        let Bare { process, candidate, term, .. } = &mut self.bare[index];
        let term = term.as_mut()?;
        let lease = self.server.lease()?;
        if lease.holder.as_deref() != Some(&*candidate.name) || lease.is_open() || lease.session != term.mark {
            return None;
        }
        let renewed = (now >= term.renews_at()).then(|| {
            term.renewed_at = now;
            let renew_time = Some(process.local(now).wall.later_than(lease.renew_time));
            LeaseRecord { duration_seconds: term.lease_seconds, renew_time, ..lease.clone() }
        });
        let next = term.renews_at();
        if let Some(renewed) = renewed {
            self.write_lease(Who::Bare(index), "renews", renewed);
        }
        Some(next)
    }

    /// Writes the Lease as a process without a core.
    pub(crate) fn write_lease(&mut self, who: Who, does: &'static str, record: LeaseRecord) {
        let lease_name = self.server.lease_name.clone();
        let written = Box::new(self.server.store.put_lease(&lease_name, record).clone());
        self.note(who, News::Does(does, Some(written)));
        self.lease_changed();
    }
}
