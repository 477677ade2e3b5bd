//! The processes of the candidates. They answer pings, take up grants, renew, hand over, release and die.

use std::time::Duration;

use hustings_core::model::{
    CandidateKind, CandidateRecord, CandidateState, LeaseRecord, Moment, NativeFields, SessionMark, SessionStamp,
    Strategy, WireTime,
};
use hustings_core::ranking::Rank;
use hustings_lab::client_go::Stands;

use super::World;

const RENEW_EVERY: Duration = Duration::from_secs(2);

/// How long a stopping holder waits for a preferred holder.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// The process of one candidate, and its behaviour.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is what a process does or does not, apart from the others")]
pub(crate) struct Process {
    pub(crate) live: bool,
    pub(crate) takes_up: bool,
    pub(crate) hands_over: bool,
    /// The API server rejects writes of its pings, as it does if the object would become too large.
    pub(crate) refuses_pings: bool,
    pub(crate) lease_seconds: u32,
    /// The error of its wall clock.
    pub(crate) clock_seconds: i64,
    /// It is stopping. It releases the Lease at this time if it has not handed over before.
    pub(super) leaves_at: Option<Moment>,
    pub(super) terms: u64,
    pub(super) lives: u64,
    pub(super) answered: Option<WireTime>,
    pub(super) answered_at: Option<Moment>,
    pub(super) renewed_at: Option<Moment>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            live: true,
            takes_up: true,
            hands_over: true,
            refuses_pings: false,
            lease_seconds: 15,
            clock_seconds: 0,
            leaves_at: None,
            terms: 0,
            lives: 1,
            answered: None,
            answered_at: None,
            renewed_at: None,
        }
    }
}

impl World {
    /// Lets the candidate answer its ping, however late.
    pub(crate) fn ack(&mut self, name: &str) {
        let key = self.key(name);
        let Some(record) = self.store.candidate(&key) else { return };
        if key.kind == CandidateKind::Native {
            let now = self.now_of(name);
            if let Some(native) = self.natives.get_mut(name) {
                native.answered_at = Some(now.moment);
            }
            return self.edit_key(&key, |record| record.renew_time = Some(now.wall));
        }
        let Some(process) = self.processes.get_mut(name) else { return };
        process.answered = record.ping_time;
        process.answered_at = Some(self.now);
        let off_seconds = process.clock_seconds;
        let wall = self.wall(off_seconds);
        self.edit_candidate(name, |record| {
            record.renew_time = Some(wall.later_than(record.renew_time).max(record.ping_time.unwrap_or_default()));
        });
    }

    /// Lets the candidate answer its ping in a way of its own.
    pub(crate) fn answer(&mut self, name: &str, edit: impl FnOnce(&mut CandidateRecord)) {
        if let Some(process) = self.processes.get_mut(name) {
            process.answered_at = Some(self.now);
        }
        self.edit_candidate(name, edit);
    }

    /// Starts a new process of the same name.
    pub(crate) fn revive(&mut self, name: &str) {
        if let Some(process) = self.processes.get_mut(name) {
            process.live = true;
            process.lives += 1;
            process.terms = 0;
            let session = format!("{name}.c.n.{}", process.lives);
            self.store.edit_candidate(name, |record| record.session = Some(session));
        }
        self.ack(name);
    }

    /// Stops the holder: it announces that, deletes its candidate, and hands over as soon as there is a preferred
    /// holder.
    pub(crate) fn leave(&mut self, name: &str) {
        let leaves_at = self.now.after(LEAVES_WITHIN);
        let Some(lease) = self.lease().cloned().filter(|lease| lease.holder.as_deref() == Some(name)) else { return };
        let Some(process) = self.processes.get_mut(name) else { return };
        process.leaves_at = Some(leaves_at);
        let renew_time = Some(self.wall(0).later_than(lease.renew_time));
        self.put_lease(LeaseRecord { leaving: true, renew_time, ..lease });
        self.delete_candidate(name);
    }

    /// Lets the holder give up the Lease.
    pub(crate) fn release(&mut self, name: &str) {
        let Some(lease) = self.lease().cloned().filter(|lease| lease.holder.as_deref() == Some(name)) else { return };
        let renew_time = Some(self.wall(0).later_than(lease.renew_time));
        self.relied_until = self.now;
        self.put_lease(LeaseRecord {
            holder: None,
            duration_seconds: 1,
            session: SessionMark::Open,
            preferred_holder: None,
            leaving: false,
            renew_time,
            ..lease
        });
    }

    /// Lets the live candidates act at this instant. Returns whether one of them did.
    pub(super) fn react(&mut self) -> bool {
        let mut reacted = false;
        let unanswered: Vec<String> = self
            .store
            .candidates()
            .filter(|record| {
                let process = self.processes.get(&record.name).filter(|_| record.kind == CandidateKind::Hustings);
                process.is_some_and(|process| {
                    process.live && record.ping_time.is_some() && process.answered != record.ping_time
                })
            })
            .map(|record| record.name.clone())
            .collect();
        if !unanswered.is_empty() {
            reacted = true;
            for name in &unanswered {
                self.ack(name);
            }
            let text = match unanswered.as_slice() {
                [first, .., last] if unanswered.len() > 8 => format!("ack: {first} to {last}"),
                names => format!("ack: {}", names.join(", ")),
            };
            self.say(&text);
        }
        reacted | self.play_natives() | self.play_holder()
    }

    fn play_holder(&mut self) -> bool {
        let Some(lease) = self.lease().cloned() else { return false };
        let Some(holder) = lease.holder.clone() else { return false };
        let now = self.now;
        let stands = self.processes.get_mut(&holder);
        let leaves = self.orphans.get_mut(&holder).filter(|process| process.leaves_at.is_some());
        let process = stands.or(leaves);
        let Some(process) = process.filter(|process| process.live) else { return false };
        let session = format!("{holder}.c.n.{}", process.lives);
        let mine = matches!(&lease.session, SessionMark::Term(stamp)
            if stamp.session == session && stamp.term == process.terms);
        if lease.is_open() && process.takes_up {
            process.terms += 1;
            process.renewed_at = Some(now);
            let (term, seconds, off) = (process.terms, process.lease_seconds, process.clock_seconds);
            let token = Some(lease.resource_version);
            self.relied_until = now.after(Duration::from_secs(u64::from(seconds)));
            let time = self.wall(off).later_than(lease.renew_time);
            self.put_lease(LeaseRecord {
                duration_seconds: seconds,
                acquire_time: Some(self.wall(off)),
                renew_time: Some(time),
                session: SessionMark::Term(SessionStamp { session, term, seconds }),
                token,
                preferred_holder: None,
                hold: None,
                leaving: false,
                enrolled: true,
                ..lease
            });
            self.say(&format!("{holder} takes up"));
            return true;
        }
        if !mine {
            return false;
        }
        if let Some(preferred) =
            lease.preferred_holder.clone().filter(|preferred| *preferred != holder && process.hands_over)
        {
            let time = self.wall(0).later_than(lease.renew_time);
            self.say(&format!("{holder} hands over to {preferred}"));
            self.relied_until = now;
            self.put_lease(LeaseRecord {
                holder: Some(preferred),
                duration_seconds: 5,
                renew_time: Some(time),
                acquire_time: Some(self.wall(0)),
                transitions: lease.transitions + 1,
                session: SessionMark::Open,
                preferred_holder: None,
                native: NativeFields { preferred_holder: None, ..lease.native.clone() },
                leaving: false,
                ..lease
            });
            return true;
        }
        if process.leaves_at.is_some_and(|at| at <= now) {
            self.say(&format!("{holder} releases"));
            self.release(&holder);
            return true;
        }
        if process.renewed_at.is_none_or(|at| now >= at.after(RENEW_EVERY)) {
            process.renewed_at = Some(now);
            let (off, seconds) = (process.clock_seconds, process.lease_seconds);
            self.relied_until = now.after(Duration::from_secs(u64::from(seconds)));
            let time = self.wall(off).later_than(lease.renew_time);
            self.put_lease(LeaseRecord { renew_time: Some(time), duration_seconds: seconds, ..lease });
            return true;
        }
        false
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
        let leading = self.store.candidates().find(|record| self.is_leading(&record.name));
        let Some(holder) = leading.and_then(rank) else { return Vec::new() };
        let strategy = self.lease().and_then(|lease| Strategy::read(lease.strategy.as_deref()).ok());
        let strategy = strategy.unwrap_or(Strategy::OldestEmulationVersion);
        let live = self.store.candidates().filter(|record| self.is_live(record));
        live.filter(|record| rank(record).is_some_and(|rank| rank.is_better_than_holder(&holder, &strategy)))
            .map(|record| record.name.clone())
            .collect()
    }

    /// Whether the Lease is in a term of this live process.
    pub(crate) fn is_leading(&self, name: &str) -> bool {
        let Some(lease) = self.lease().filter(|lease| lease.holder.as_deref() == Some(name)) else {
            return false;
        };
        if self.natives.get(name).is_some_and(|native| native.live && native.elector.leads(self.now)) {
            return true;
        }
        let Some(process) = self.processes.get(name).filter(|process| process.live) else { return false };
        lease.session.stamp().is_some_and(|stamp| {
            stamp.session == format!("{name}.c.n.{}", process.lives) && stamp.term == process.terms
        })
    }

    /// Whether the process of this candidate is live.
    pub(crate) fn is_live(&self, record: &CandidateRecord) -> bool {
        match record.kind {
            CandidateKind::Hustings => self.processes.get(&record.name).is_some_and(|process| process.live),
            CandidateKind::Native => self
                .natives
                .get(&record.name)
                .is_some_and(|native| native.live && native.elector.stands() == Stands::Coordinated),
        }
    }

    pub(super) fn next_renewal(&self) -> Moment {
        let natives = self.natives.values().filter(|native| native.live);
        let next = natives.map(|native| native.elector.next_at()).filter(|at| *at > self.now).min();
        self.next_renewal_of_holder().min(next.unwrap_or(Moment::NEVER))
    }

    fn next_renewal_of_holder(&self) -> Moment {
        let holder = self.lease().and_then(|lease| lease.holder.clone()).unwrap_or_default();
        let stands = self.processes.get(&holder);
        let leaves = self.orphans.get(&holder).filter(|process| process.leaves_at.is_some());
        let Some(process) = stands.or(leaves).filter(|process| process.live) else { return Moment::NEVER };
        let renewal = process.renewed_at.map(|at| at.after(RENEW_EVERY));
        let ahead = [renewal, process.leaves_at].into_iter().flatten().filter(|at| *at > self.now);
        ahead.min().unwrap_or(Moment::NEVER)
    }
}
