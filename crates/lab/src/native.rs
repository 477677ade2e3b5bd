//! One process of client-go in the lab. Its reads and writes take no time: the lab does not test client-go's own
//! network and watches.

use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, WireTime};

use crate::client_go::{ClientGo, Stands, Step};
use crate::lab::Lab;
use crate::news::{News, Who};
use crate::process::Process;

/// A process of client-go.
pub struct Native {
    /// Its clocks.
    pub process: Process,
    /// Its elector.
    pub elector: ClientGo,
}

impl Native {
    /// Whether it believes that it leads.
    pub fn reads_leading(&self, true_micros: i64) -> bool {
        !self.process.crashed && self.elector.leads(self.process.local(true_micros).moment)
    }
}

impl Lab {
    /// Starts a process of client-go; a coordinated one creates its candidate with this version.
    pub fn add_native(&mut self, name: &str, stands: Stands, version: &str, wall_offset_micros: i64) {
        let mut process = Process::new(name);
        process.set_clock(0, 0, wall_offset_micros);
        let now = process.local(self.now_micros);
        self.natives.push(Native { elector: ClientGo::new(name, stands, 15, now), process });
        let index = self.natives.len() - 1;
        if stands == Stands::Coordinated {
            let candidate = CandidateRecord {
                kind: CandidateKind::Native,
                name: name.to_owned(),
                creation_time: self.wall(),
                lease_name: self.server.lease_name.clone(),
                binary_version: version.to_owned(),
                emulation_version: Some(version.to_owned()),
                // Some time passes until the first ping.
                renew_time: Some(WireTime::from_micros(now.wall.as_micros() - 1000)),
                ..CandidateRecord::default()
            };
            self.server.store.put_candidate(candidate);
            self.note(Who::Native(index), News::Does("creates its candidate", None));
            self.candidate_changed(CandidateKey::native(name));
        }
        self.nudge(Who::Native(index));
    }

    /// A process of client-go stops on SIGTERM.
    pub fn stop_native(&mut self, index: usize) {
        let lease = self.server.lease().cloned();
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        let step = native.elector.stop(lease.as_ref(), now);
        self.carry_out(index, step);
    }

    pub(crate) fn play_native(&mut self, index: usize) {
        self.keep_candidate(index);
        let lease = self.server.lease().cloned();
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        let step = native.elector.poll(lease.as_ref(), now);
        self.carry_out(index, step);
        if !self.natives[index].process.crashed {
            let next = self.natives[index].elector.next_at();
            self.wake_at(Who::Native(index), Some(next));
        }
    }

    fn keep_candidate(&mut self, index: usize) {
        let native = &mut self.natives[index];
        let now = native.process.local(self.now_micros);
        let name = native.process.name.clone();
        let key = CandidateKey::native(&name);
        let Some(record) = self.server.store.candidate(&key) else { return };
        if let Some(renew_time) = native.elector.renews_candidate(record, now) {
            self.server.store.edit_candidate(&key, |record| record.renew_time = Some(renew_time));
            self.note(Who::Native(index), News::Does("renews its candidate", None));
            self.candidate_changed(key);
        }
    }

    fn carry_out(&mut self, index: usize, step: Step) {
        let stands = self.natives[index].elector.stands();
        let (record, does) = match step {
            Step::Wait => return,
            Step::Renew(record) => (Some(record), "renews"),
            Step::Begin(record) if stands == Stands::Coordinated => (Some(record), "takes up"),
            Step::Begin(record) => (Some(record), "claims"),
            Step::Release(record) => (Some(record), "releases and exits"),
            Step::Exit => (None, "exits"),
        };
        self.natives[index].process.crashed = does.ends_with("exits");
        match record {
            Some(record) => self.write_lease(Who::Native(index), does, record),
            None => self.note(Who::Native(index), News::Does(does, None)),
        }
    }
}
