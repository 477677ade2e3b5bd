//! The processes of the candidates: what tests change about them, and who leads.

use std::time::Duration;

use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, CandidateState, LeaseRecord, Strategy};
use hustings_core::ranking::Rank;
use hustings_lab::client_go::Stands;
use hustings_lab::{Bare, Native, News, Who, micros, released};

use super::World;

/// How long a stopping holder waits for a preferred holder.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

impl World {
    pub(crate) fn process(&self, name: &str) -> Option<&Bare> {
        self.lab.bare.iter().find(|bare| bare.process.name == name)
    }

    pub(crate) fn native(&self, name: &str) -> Option<&Native> {
        self.lab.natives.iter().find(|native| native.process.name == name)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.lab.bare.iter().position(|bare| bare.process.name == name)
    }

    /// The processes whose candidates exist.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &Bare> {
        self.lab.bare.iter().filter(|bare| self.lab.server.store.candidate(&bare.candidate).is_some())
    }

    /// The process with this name whose candidate exists.
    fn standing_index(&self, name: &str) -> Option<usize> {
        self.index(name).filter(|_| self.standing().any(|bare| bare.process.name == name))
    }

    /// Creates or changes a candidate and its process.
    pub(crate) fn put_candidate(&mut self, mut record: CandidateRecord, change: impl FnOnce(&mut Bare)) {
        let key = record.key();
        let index = self.index(&record.name).unwrap_or_else(|| {
            let session = Some(format!("{}.c.n.1", record.name));
            self.lab.add_bare(Bare { session, ..Bare::new(key.clone()) })
        });
        let bare = &mut self.lab.bare[index];
        // A process that was stopping has a successor.
        bare.leaves_at = bare.leaves_at.filter(|_| self.lab.server.store.candidate(&key).is_some());
        change(bare);
        if record.uid.is_empty() {
            record.creation_time = self.lab.wall();
        }
        self.lab.server.store.put_candidate(record);
        self.lab.candidate_changed(key);
    }

    /// Kills a process, if there is one of this name.
    pub(crate) fn kill(&mut self, name: &str) {
        if let Some(who) = self.lab.find(name) {
            self.lab.process(who).crashed = true;
        }
    }

    /// Lets the candidate answer its ping, however late.
    pub(crate) fn ack(&mut self, name: &str) {
        self.answered.insert(name.to_owned(), self.lab.now_micros);
        if let Some(index) = self.index(name) {
            self.lab.answer_ping(index);
        } else if let Some(native) = self.native(name) {
            let wall = native.process.local(self.lab.now_micros).wall;
            self.lab.edit_candidate(CandidateKey::native(name), |record| record.renew_time = Some(wall));
        }
        self.forget_news();
    }

    /// Lets the candidate answer its ping in a way of its own.
    pub(crate) fn answer(&mut self, name: &str, edit: impl FnOnce(&mut CandidateRecord)) {
        self.answered.insert(name.to_owned(), self.lab.now_micros);
        self.edit_candidate(name, edit);
    }

    /// Starts a new process of the same name.
    pub(crate) fn revive(&mut self, name: &str) {
        if let Some(index) = self.standing_index(name) {
            let bare = &mut self.lab.bare[index];
            // It knows nothing of the former process's term.
            (bare.process.crashed, bare.term) = (false, None);
            let lives = bare.session.as_ref().and_then(|session| session.rsplit('.').next()?.parse::<u64>().ok());
            bare.session = Some(format!("{name}.c.n.{}", lives.unwrap_or_default() + 1));
            let session = bare.session.clone();
            self.lab.server.store.edit_candidate(name, |record| record.session = session);
        }
        self.ack(name);
    }

    /// Stops the holder: it announces that, deletes its candidate, and hands over as soon as there is a preferred
    /// holder.
    pub(crate) fn leave(&mut self, name: &str) {
        let Some(lease) = self.held_by(name) else { return };
        let Some(index) = self.standing_index(name) else { return };
        self.lab.bare[index].leaves_at = Some(self.lab.now_micros + micros(LEAVES_WITHIN));
        self.put_lease(LeaseRecord { leaving: true, ..lease });
        self.delete_candidate(name);
    }

    /// Lets the holder give up the Lease.
    pub(crate) fn release(&mut self, name: &str) {
        if let Some(lease) = self.held_by(name) {
            self.relied_until = self.lab.now_micros;
            self.put_lease(released(lease));
        }
    }

    /// The Lease with a new `renewTime`, if it names this holder.
    fn held_by(&self, name: &str) -> Option<LeaseRecord> {
        let lease = self.lease().filter(|lease| lease.holder.as_deref() == Some(name))?;
        Some(LeaseRecord { renew_time: Some(self.lab.wall().later_than(lease.renew_time)), ..lease.clone() })
    }

    /// Stops a process as on SIGTERM: it releases the Lease if it holds it, and exits. Its candidate stays.
    pub(crate) fn stop_native(&mut self, name: &str) {
        let Some(Who::Native(index)) = self.lab.find(name) else { return };
        if self.lab.natives[index].process.crashed {
            return;
        }
        let before = self.lease().cloned();
        self.lab.stop_native(index);
        let is_released =
            before.is_some_and(|before| before.holder.as_deref() == Some(name) || before.session.stamp().is_none());
        if is_released && self.lab.news.iter().any(|entry| matches!(entry.news, News::Does(_, Some(_)))) {
            self.relied_until = self.lab.now_micros;
        }
        self.forget_news();
    }

    /// What a person makes a process do is not shown.
    fn forget_news(&mut self) {
        self.lab.take_news();
    }

    /// Whether the candidate that the Lease names as holder has the state Holder in its status.
    pub(crate) fn status_tells_of_holder(&self) -> bool {
        self.lease()
            .and_then(|lease| self.candidate(lease.holder.as_ref()?))
            .is_some_and(|record| record.status.state == Some(CandidateState::Holder))
    }

    /// The live candidates that are better by merit than the live leader.
    pub(crate) fn better_than_holder(&self) -> Vec<String> {
        let rank = |record: &CandidateRecord| record.standing().ok().map(|standing| Rank::new(&standing, record));
        let leading = self.candidates().find(|record| self.is_leading(&record.name));
        let Some(holder) = leading.and_then(rank) else { return Vec::new() };
        let strategy = self.lease().and_then(|lease| Strategy::read(lease.strategy.as_deref()).ok());
        let strategy = strategy.unwrap_or(Strategy::OldestEmulationVersion);
        let live = self.candidates().filter(|record| self.is_live(record));
        live.filter(|record| rank(record).is_some_and(|rank| rank.is_better_than_holder(&holder, &strategy)))
            .map(|record| record.name.clone())
            .collect()
    }

    /// Whether the Lease is in a term of this live process.
    pub(crate) fn is_leading(&self, name: &str) -> bool {
        let Some(lease) = self.lease().filter(|lease| lease.holder.as_deref() == Some(name)) else {
            return false;
        };
        self.native(name).is_some_and(|native| native.reads_leading(self.lab.now_micros))
            || self.standing().any(|bare| bare.process.name == name && !bare.process.crashed && bare.holds(lease))
    }

    /// Whether the process of this candidate is live.
    pub(crate) fn is_live(&self, record: &CandidateRecord) -> bool {
        match record.kind {
            CandidateKind::Hustings => self.process(&record.name).is_some_and(|bare| !bare.process.crashed),
            CandidateKind::Native => self
                .native(&record.name)
                .is_some_and(|native| !native.process.crashed && native.elector.stands() == Stands::Coordinated),
        }
    }
}
