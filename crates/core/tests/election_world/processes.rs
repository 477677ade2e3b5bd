//! What the candidates' processes do: answer pings, take grants up, renew, hand over, release, die.

use std::time::Duration;

use hustings_core::model::{
    CandidateRecord, CandidateState, LeaseRecord, Moment, NativeFields, SessionMark, SessionStamp, WireTime,
};
use hustings_core::ranking::Rank;

use super::World;

const RENEW_EVERY: Duration = Duration::from_secs(2);

/// How long a stopping holder waits for a preferred holder.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);

/// What one candidate's process does.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is what a process does or does not, apart from the others")]
pub(crate) struct Process {
    pub(crate) live: bool,
    pub(crate) takes_up: bool,
    pub(crate) hands_over: bool,
    /// The API server refuses to write its pings, as it does when the object would grow too large.
    pub(crate) refuses_pings: bool,
    /// It is client-go.
    pub(crate) native: Option<ClientGo>,
    pub(crate) lease_seconds: u32,
    /// How far its wall clock is off.
    pub(crate) clock_seconds: i64,
    /// It stops, and releases the Lease at that time if nobody is preferred before.
    pub(super) leaves_at: Option<Moment>,
    pub(super) terms: u64,
    pub(super) lives: u64,
    pub(super) answered: Option<WireTime>,
    pub(super) answered_at: Option<Moment>,
    pub(super) renewed_at: Option<Moment>,
}

/// How an elector of client-go is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientGo {
    /// It stops renewing while `spec.preferredHolder` is set, and releases the Lease at its renew deadline.
    Coordinated,
    /// It does not know the native fields, and each of its renewals removes them.
    Plain,
}

/// The renew deadline of client-go.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

impl Default for Process {
    fn default() -> Self {
        Self {
            live: true,
            takes_up: true,
            hands_over: true,
            refuses_pings: false,
            native: None,
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
    /// The candidate answers its ping, however late.
    pub(crate) fn ack(&mut self, name: &str) {
        let key = self.key(name);
        let (Some(record), Some(process)) = (self.store.candidate(&key), self.processes.get_mut(name)) else { return };
        let is_native = process.native.is_some();
        process.answered = record.ping_time;
        process.answered_at = Some(self.now);
        let off_seconds = process.clock_seconds;
        let wall = self.wall(off_seconds);
        self.edit_candidate(name, |record| {
            // client-go writes its own time.
            let least = record.ping_time.filter(|_| !is_native).unwrap_or_default();
            record.renew_time = Some(wall.later_than(record.renew_time).max(least));
        });
    }

    /// A new process of the same name.
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

    /// The holder stops: it announces that, deletes its candidate, and hands over as soon as there is a preferred
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

    /// The holder gives the Lease up.
    pub(crate) fn release(&mut self, name: &str) {
        let Some(lease) = self.lease().cloned().filter(|lease| lease.holder.as_deref() == Some(name)) else { return };
        let renew_time = Some(self.wall(0).later_than(lease.renew_time));
        self.relied_until = self.now;
        let is_native = self.processes.get(name).is_some_and(|process| process.native.is_some());
        let session = if is_native { lease.session.clone() } else { SessionMark::Open };
        self.put_lease(LeaseRecord {
            holder: None,
            duration_seconds: 1,
            session,
            preferred_holder: None,
            leaving: false,
            renew_time,
            ..lease
        });
    }

    /// What the live candidates do at this instant. Returns whether anybody did anything.
    pub(super) fn react(&mut self) -> bool {
        let mut reacted = false;
        let unanswered: Vec<String> = self
            .store
            .candidates()
            .filter(|record| {
                let process = &self.processes[&record.name];
                process.live && record.ping_time.is_some() && process.answered != record.ping_time
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
        reacted | self.play_holder()
    }

    fn play_holder(&mut self) -> bool {
        let Some(lease) = self.lease().cloned() else { return false };
        let Some(holder) = lease.holder.clone() else { return false };
        let now = self.now;
        let stands = self.processes.get_mut(&holder);
        let leaves = self.orphans.get_mut(&holder).filter(|process| process.leaves_at.is_some());
        let process = stands.or(leaves);
        let Some(process) = process.filter(|process| process.live) else { return false };
        if let Some(elector) = process.native {
            return self.play_native(&holder, elector, lease);
        }
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

    /// client-go goes by the name of the holder. It keeps acquireTime, annotations and labels.
    fn play_native(&mut self, holder: &str, elector: ClientGo, lease: LeaseRecord) -> bool {
        let now = self.now;
        let wall = self.wall(self.processes[holder].clock_seconds);
        let process = self.processes.get_mut(holder).unwrap();
        let since = process.renewed_at.filter(|_| !lease.is_native_grant());
        let (is_due, takes_up) = (since.is_none_or(|at| now >= at.after(RENEW_EVERY)), process.takes_up);
        if elector == ClientGo::Coordinated && lease.native.preferred_holder.is_some() {
            let gives_up = since.is_some_and(|at| now >= at.after(RENEW_DEADLINE)) && process.hands_over;
            if gives_up {
                process.live = false;
                self.relied_until = now;
                self.say(&format!("{holder} releases and exits"));
                let (native, renew_time) = (NativeFields::default(), Some(wall));
                self.put_lease(LeaseRecord { holder: None, duration_seconds: 1, renew_time, native, ..lease });
            }
            return gives_up;
        }
        if !is_due || !takes_up {
            return false;
        }
        process.renewed_at = Some(now);
        let duration_seconds = process.lease_seconds;
        if lease.is_native_grant() {
            self.say(&format!("{holder} takes up"));
        }
        self.relied_until = now.after(Duration::from_secs(u64::from(duration_seconds)));
        let strategy = lease.native.strategy.clone().filter(|_| elector == ClientGo::Coordinated);
        let native = NativeFields { strategy, preferred_holder: None };
        self.put_lease(LeaseRecord { renew_time: Some(wall), duration_seconds, native, ..lease });
        true
    }

    /// Whether the status of the identity on the Lease says that it holds the Lease.
    pub(crate) fn status_tells_of_holder(&self) -> bool {
        self.lease()
            .and_then(|lease| self.candidate(lease.holder.as_ref()?))
            .is_some_and(|record| record.status.state == Some(CandidateState::Holder))
    }

    /// The live candidates that are better by merit than the live one that leads.
    pub(crate) fn better_than_holder(&self) -> Vec<String> {
        let rank = |record: &CandidateRecord| record.standing().ok().map(|standing| Rank::new(&standing, record));
        let leading = self.store.candidates().find(|record| self.is_leading(&record.name));
        let Some(holder) = leading.and_then(rank) else { return Vec::new() };
        let live = self.store.candidates().filter(|record| self.processes[&record.name].live);
        live.filter(|record| rank(record).is_some_and(|rank| rank.is_better_than_holder(&holder)))
            .map(|record| record.name.clone())
            .collect()
    }

    /// Whether the Lease is in a term of this live process.
    pub(crate) fn is_leading(&self, name: &str) -> bool {
        let Some(lease) = self.lease().filter(|lease| lease.holder.as_deref() == Some(name)) else {
            return false;
        };
        let Some(process) = self.processes.get(name).filter(|process| process.live) else { return false };
        lease.session.stamp().is_some_and(|stamp| {
            stamp.session == format!("{name}.c.n.{}", process.lives) && stamp.term == process.terms
        })
    }

    pub(super) fn next_renewal(&self) -> Moment {
        let holder = self.lease().and_then(|lease| lease.holder.clone()).unwrap_or_default();
        let stands = self.processes.get(&holder);
        let leaves = self.orphans.get(&holder).filter(|process| process.leaves_at.is_some());
        let Some(process) = stands.or(leaves).filter(|process| process.live) else { return Moment::NEVER };
        let renewal = process.renewed_at.map(|at| at.after(RENEW_EVERY));
        let deadline = process.renewed_at.filter(|_| process.native.is_some()).map(|at| at.after(RENEW_DEADLINE));
        let ahead = [renewal, deadline, process.leaves_at].into_iter().flatten().filter(|at| *at > self.now);
        ahead.min().unwrap_or(Moment::NEVER)
    }
}
