//! One process of client-go in the lab. Its reads and writes take no time: the lab does not test client-go's own
//! network and watches.

use hustings_core::model::{CandidateKey, CandidateRecord, LeaseRecord, WireTime};

use crate::client_go::{ClientGo, Move, RETRY_PERIOD, Stands};
use crate::lab::Lab;
use crate::news::{News, Who};
use crate::process::Process;

/// A process of client-go.
pub struct Native {
    /// Its clocks.
    pub process: Process,
    /// Its elector.
    pub elector: ClientGo,
    /// Whether it reads the Lease, and so takes grants up.
    pub takes_up: bool,
    /// The candidate that it creates, also after a deletion.
    pub nominated: Option<CandidateRecord>,
}

impl Native {
    /// Whether it believes that it leads.
    pub fn reads_leading(&self, true_micros: i64) -> bool {
        !self.process.crashed && self.elector.leads(self.process.local(true_micros).moment)
    }
}

impl Lab {
    /// Starts a process of client-go, in place of a process of this name. Returns its number.
    pub fn start_native(&mut self, name: &str, stands: Stands, lease_seconds: u32, wall_offset_micros: i64) -> usize {
        let mut process = Process::new(name);
        process.set_clock(0, 0, wall_offset_micros);
        let elector = ClientGo::new(name, stands, lease_seconds, process.local(self.now_micros));
        let mut started = Native { process, elector, takes_up: true, nominated: None };
        let index = self.natives.iter().position(|native| native.process.name == name).unwrap_or(self.natives.len());
        if let Some(former) = self.natives.get_mut(index) {
            started.nominated = former.nominated.take();
            *former = started;
        } else {
            self.natives.push(started);
        }
        self.nudge(Who::Native(index));
        index
    }

    /// Creates or changes the candidate of a process. As with client-go, a new one has a `renewTime` just before now.
    pub fn put_native_candidate(&mut self, index: usize, mut record: CandidateRecord) {
        if self.server.store.candidate(record.key()).is_none() {
            let wall = self.natives[index].process.local(self.now_micros).wall;
            // Some time passes until the first ping.
            record.renew_time = record.renew_time.or(Some(WireTime::from_micros(wall.as_micros() - 1000)));
            self.note(Who::Native(index), News::Does("creates its candidate", None));
        }
        if record.uid.is_empty() {
            record.creation_time = self.wall();
        }
        let key = self.server.store.put_candidate(record.clone()).key();
        self.natives[index].nominated = Some(CandidateRecord { ping_time: None, ..record });
        self.candidate_changed(key);
    }

    /// A process of client-go stops on SIGTERM.
    pub fn stop_native(&mut self, index: usize) {
        let lease = self.server.lease().cloned();
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        let step = native.elector.stop(lease.as_ref(), now);
        self.carry_out(index, lease.as_ref(), step);
    }

    pub(crate) fn play_native(&mut self, index: usize) {
        self.keep_candidate(index);
        let lease = self.server.lease().cloned();
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        if native.takes_up {
            let step = native.elector.poll(lease.as_ref(), now);
            self.carry_out(index, lease.as_ref(), step);
        }
        let Native { elector, process, takes_up, .. } = &self.natives[index];
        if !process.crashed {
            let next = if *takes_up { elector.next_at() } else { now.moment.after(RETRY_PERIOD) };
            self.wake_at(Who::Native(index), Some(next));
        }
    }

    fn keep_candidate(&mut self, index: usize) {
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        let key = CandidateKey::native(&native.process.name);
        let Some(record) = self.server.store.candidate(&key) else {
            let nominated = native.nominated.clone().filter(|_| native.elector.next_at() <= now.moment);
            if let Some(nominated) = nominated
                && native.elector.renews_candidate(&nominated, now).is_some()
            {
                let created = CandidateRecord { uid: String::new(), renew_time: None, ..nominated };
                self.put_native_candidate(index, created);
            }
            return;
        };
        let does = if record.ping_time > record.renew_time { "answers" } else { "renews its candidate" };
        if let Some(renew_time) = native.elector.renews_candidate(record, now) {
            self.server.store.edit_candidate(&key, |record| record.renew_time = Some(renew_time));
            self.note(Who::Native(index), News::Does(does, None));
            self.candidate_changed(key);
        }
    }

    fn carry_out(&mut self, index: usize, lease: Option<&LeaseRecord>, step: Move) {
        let Native { elector, process, .. } = &mut self.natives[index];
        let holder = lease.and_then(|lease| lease.holder.as_deref());
        let is_named = holder == Some(&process.name);
        let (record, does) = match step {
            Move::Wait => return,
            Move::Renew(record) => (Some(record), "renews"),
            Move::Begin(record) => {
                let does = match elector.stands() {
                    Stands::Coordinated => "takes up",
                    Stands::Plain if is_named => "leads by its name",
                    Stands::Plain if holder.is_none() => "claims the free Lease",
                    Stands::Plain => "claims the expired Lease",
                };
                (Some(record), does)
            }
            Move::Release(record) if is_named => (Some(record), "releases and exits"),
            Move::Release(record) => (Some(record), "releases the Lease of its successor and exits"),
            Move::Exit => (None, "exits"),
        };
        process.crashed = does.ends_with("exits");
        match record {
            Some(record) => self.write_lease(Who::Native(index), does, record),
            None => self.note(Who::Native(index), News::Does(does, None)),
        }
    }
}
