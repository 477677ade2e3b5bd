//! One Lease, and those who want it.

use rand::RngExt;
use tokio::time::Instant;

use crate::checker::Checker;
use crate::checker::grants::Grants;
use crate::process::{Process, Stands};

use super::setup::{Mode, Setup};

/// One Lease, and those who want it.
pub(super) struct Field {
    /// Which of the Leases of the world it is.
    pub(super) number: usize,
    /// The name of the Lease.
    pub(super) lease: String,
    pub(super) processes: Vec<Process>,
    /// Those that were told to stop, have not, and whose places are taken.
    pub(super) leaving: Vec<Process>,
    pub(super) checker: Checker,
    pub(super) grants: Grants,
    /// What is written while all is well.
    pub(super) writes: Writes,
    pub(super) last_start: Instant,
    pub(super) no_start_before: Instant,
    started: u64,
}

/// How often something was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) renewals: u32,
    /// Of the Lease, other than renewals.
    pub(super) lease: u32,
    pub(super) pings: u32,
}

impl Field {
    pub(super) fn new(number: usize) -> Self {
        let now = Instant::now();
        Self {
            number,
            lease: format!("l{number}"),
            processes: Vec::new(),
            leaving: Vec::new(),
            checker: Checker::default(),
            grants: Grants::default(),
            writes: Writes::default(),
            last_start: now,
            no_start_before: now,
            started: 0,
        }
    }

    /// The name of the next process of this number, and how it stands.
    pub(super) fn next(
        &mut self,
        index: usize,
        is_new: bool,
        rng: &mut impl RngExt,
        setup: &Setup,
    ) -> (String, Stands) {
        self.started += 1;
        let lease = &self.lease;
        let keeps_name = !is_new && rng.random_bool(0.7);
        let name = if keeps_name { format!("{lease}-p{index}") } else { format!("{lease}-p{index}-{}", self.started) };
        let stands = match setup.mode {
            Mode::Direct => Stands::Direct,
            Mode::Preferring => Stands::Preferring(rng.random_range(0..3)),
            Mode::Coordinated | Mode::Alone => Stands::As(format!("1.{}.0", rng.random_range(30..33))),
        };
        (name, stands)
    }

    /// How many processes were started before.
    pub(super) const fn started(&self) -> u64 {
        self.started
    }

    /// Takes a process in. Whoever had its place goes on leaving, if it has not ended.
    pub(super) fn enter(&mut self, index: usize, process: Process) {
        self.last_start = Instant::now();
        if index < self.processes.len() {
            let former = std::mem::replace(&mut self.processes[index], process);
            if !former.machine.link.is_dead() {
                self.leaving.push(former);
            }
        } else {
            self.processes.push(process);
        }
    }

    /// S1: asks everybody at this instant. Says who has ended without having been told to.
    pub(super) fn look(&mut self) {
        for process in self.leaving.extract_if(.., |process| process.is_over()) {
            // What it has sent arrives some time.
            process.machine.link.heal();
        }
        let everybody = self.processes.iter().chain(&self.leaving);
        let leaders: Vec<_> = everybody.filter(|process| process.leads()).map(|process| &*process.name).collect();
        self.checker.check_leaders(&leaders);
    }

    /// Whoever died of its own accord is dropped as a whole: what it has sent may still arrive.
    pub(super) fn bury(&mut self) -> Vec<String> {
        let all = self.processes.iter_mut().chain(&mut self.leaving);
        let dead = all.filter(|process| process.machine.link.is_dead() && !process.has_ended());
        dead.map(|process| {
            process.kill();
            process.name.clone()
        })
        .collect()
    }

    pub(super) fn leader(&self) -> Option<&Process> {
        self.processes.iter().chain(&self.leaving).find(|process| process.leads())
    }

    /// Whether one of the best leads, of those that run.
    pub(super) fn best_leads(&self) -> Result<(), String> {
        let leads = self.leader().and_then(|process| process.stands.merit());
        let running = self.processes.iter().filter(|process| !process.has_ended());
        let best = running.filter_map(|process| process.stands.merit()).min();
        if leads == best { Ok(()) } else { Err(format!("{leads:?} leads although {best:?} stands")) }
    }

    /// Whether one of the best ranks last for a while, or may not be preferred, for what it did before.
    pub(super) fn best_is_excused(&self) -> bool {
        let running = || self.processes.iter().filter(|process| !process.has_ended());
        let best = running().filter_map(|process| process.stands.merit()).min();
        running().filter(|process| process.stands.merit() == best).all(|process| self.grants.is_damped(&process.name))
    }
}
