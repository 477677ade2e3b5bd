//! Decides which faults happen, and when.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use tokio::time::Instant;

use super::fault::{FAULTS, Fault};
use super::field::Field;
use super::{Act, World, purpose};
use crate::link::ProcessFault;
use crate::machine::Machine;
use crate::process::{ControllerProcess, Process};
use crate::server::cache::Lags;
use crate::trouble::Profile;

/// The longest time between two faults of one Lease. Each world uses one of these values.
const LONGEST_QUIET: [Duration; 4] =
    [Duration::from_mins(1), Duration::from_mins(3), Duration::from_mins(6), Duration::from_mins(10)];

/// A short time between two faults, so that they interact.
const SHORT_QUIET: Duration = Duration::from_secs(3);

/// The longest lag of an instance of the API server.
const LONGEST_LAG: Duration = Duration::from_secs(20);

/// How long work that does not stop continues: longer than any process waits for it.
const HANGS_FOR: Duration = Duration::from_secs(45);

/// Faults of the whole world are as frequent as in a world with this number of Leases, in which they count as faults of
/// each Lease.
const LEASES_OF_A_WORLD: f64 = 4.0;

/// The largest number of dealings with the outside world before a process is struck.
const LATEST_BLOW: u32 = 60;

/// The most requests in a row that a proxy answers. A term survives this number of failed renewals.
const MOST_FORGED: u32 = 2;

/// The most writes in a row that are delivered twice.
const MOST_REPEATED: u32 = 8;

/// The limits of a step of the date, forward or back. One of these values is chosen each time.
const LONGEST_STEPS: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(30),
    Duration::from_mins(10),
    Duration::from_hours(1),
    Duration::from_hours(24),
];

impl World {
    /// Injects one fault, mends some earlier ones, and returns when to come back.
    pub(super) async fn fault(&mut self) -> Duration {
        let number = self.report.numbers;
        self.report.numbers += 1;
        let mut rng = self.setup.rng([purpose::FAULT, number, 0]);
        let lease = rng.random_range(0..self.setup.mode.leases());
        let field = self.fields.iter().position(|field| field.number == lease);
        if let Some(field) = field {
            self.mend(field, &mut rng);
        }
        let leases = u32::try_from(self.setup.mode.leases()).unwrap_or(1);
        let is_spared = !rng.random_bool((LEASES_OF_A_WORLD / f64::from(leases)).min(1.0));
        let faults = FAULTS.iter().filter(|fault| !(is_spared && fault.is_of_world()));
        let fault = faults.choose(&mut rng).copied().unwrap_or(Fault::Compact);
        let of_world = self.setup.rng([purpose::QUIET, 0, 0]).random_range(0..LONGEST_QUIET.len());
        let longest = if rng.random_bool(0.2) { SHORT_QUIET } else { LONGEST_QUIET[of_world] / leases };
        let quiet = rng.random_range(Duration::from_millis(10)..longest);
        if let Some(field) = field.or(fault.is_of_world().then_some(0))
            && !self.setup.without.contains(&number)
            && self.inflict(fault, field, number, &mut rng).await
        {
            self.count(fault.as_str());
        }
        quiet
    }

    /// Mends each trouble with a probability of one half, and starts processes that do not run.
    fn mend(&mut self, field: usize, rng: &mut StdRng) {
        for index in 0..self.fields[field].processes.len() {
            if rng.random_bool(0.6) {
                self.mend_one(field, index);
            }
        }
        self.fields[field].leaving.iter_mut().for_each(Process::mend);
        self.fields[field].dissenters.iter_mut().filter(|_| rng.random_bool(0.6)).for_each(Process::mend);
        // A world with several Leases calls this more often, so the probability is divided by their number.
        let leases = u32::try_from(self.setup.mode.leases()).unwrap_or(1);
        let share = 0.6 / f64::from(leases).min(LEASES_OF_A_WORLD);
        for index in 0..self.controllers.len() {
            if rng.random_bool(share) {
                self.mend_controller(index);
            }
        }
        self.site.instances.iter().filter(|_| rng.random_bool(share)).for_each(|cache| cache.set(Lags::default()));
        self.look(field);
    }

    pub(super) fn mend_controller(&mut self, index: usize) {
        let controller = &mut self.controllers[index];
        controller.machine.mend();
        if controller.machine.link.is_dead() {
            controller.kill();
        }
        // A process that starts while another relies on a deleted Lease has not observed the term.
        let may_start = self.fields.iter().all(|field| Instant::now() >= field.no_start_before);
        if may_start && self.controllers[index].has_ended() {
            self.start_controller(index);
        }
    }

    pub(super) fn mend_one(&mut self, field: usize, index: usize) {
        let here = &mut self.fields[field];
        here.processes[index].mend();
        if here.processes[index].has_ended() && Instant::now() >= here.no_start_before {
            self.start(field, index, false);
        }
    }

    async fn inflict(&mut self, fault: Fault, field: usize, number: u64, rng: &mut StdRng) -> bool {
        match fault {
            Fault::Compact => {
                self.site.server.compact();
                self.trace(None, &format!("#{number} compaction"));
                true
            }
            Fault::Outage => {
                self.trace(None, &format!("#{number} outage"));
                self.machines().for_each(|machine| machine.spoil().link.cut());
                true
            }
            Fault::HangWrites => self.hang_writes(number, rng),
            Fault::TakeBack => self.take_back(number, rng),
            Fault::Delete => self.delete(field, number, rng).await,
            Fault::Edit => self.edit(field, number, rng).await,
            Fault::Foreign => self.invite(field, number, rng),
            Fault::SecondController => self.start_second(number, rng),
            Fault::Revert => self.revert(field, number, rng),
            Fault::Pause | Fault::Transfer | Fault::Pin | Fault::Exclude => {
                self.administer(fault, field, number, rng).await
            }
            Fault::DeleteCandidate => self.delete_candidate(field, number, rng).await,
            Fault::EditCandidate => self.edit_candidate(field, number, rng).await,
            Fault::Dissent => self.dissent(field, number, rng).await,
            Fault::Upgrade => self.upgrade(field, number, rng),
            Fault::CrashController
            | Fault::CrashControllerMidway
            | Fault::StopController
            | Fault::FreezeController
            | Fault::TroubleController
            | Fault::FailOverController
            | Fault::ForgeController
            | Fault::RepeatController
            | Fault::SetDateController => self.inflict_on_controller(fault, number, rng),
            Fault::Lag => {
                let (index, lag) = (rng.random_range(0..self.site.instances.len()), some_lag(rng));
                self.site.instances[index].set(lag);
                self.trace(None, &format!("#{number} instance {index} of the API server lags behind: {lag:?}"));
                true
            }
            Fault::RestartServer => {
                let index = rng.random_range(0..self.site.instances.len());
                self.machines().for_each(|machine| {
                    machine.hit();
                });
                self.site.instances[index].restart(&self.site.server);
                self.trace(None, &format!("#{number} instance {index} of the API server restarts"));
                true
            }
            _ => self.inflict_on_one(fault, field, number, rng),
        }
    }

    /// The machines of all running processes.
    fn machines(&mut self) -> impl Iterator<Item = &mut Machine> {
        let processes = self.fields.iter_mut().flat_map(Field::standing_mut).map(|process| &mut process.machine);
        processes.chain(self.controllers.iter_mut().map(|controller| &mut controller.machine))
    }

    fn inflict_on_one(&mut self, fault: Fault, field: usize, number: u64, rng: &mut StdRng) -> bool {
        let runs = |process: &Process| !process.has_ended() && (!fault.is_of_holder() || process.leads());
        let running = self.fields[field].standing_mut().filter(|process| runs(process));
        let Some(process) = running.choose(rng) else { return false };
        let inflicted = format!("#{number} {} of {}", fault.as_str(), process.name);
        if !fault.is_slight() {
            process.machine.spoil();
        }
        let link = process.machine.link.clone();
        match fault {
            Fault::FailOver | Fault::FailOverHolder => process.machine.fail_over(),
            Fault::Forge | Fault::ForgeHolder => {
                process.machine.hit().dial.forge_next(rng.random_range(1..=MOST_FORGED));
            }
            Fault::Crash | Fault::CrashHolder => process.kill(),
            Fault::CrashMidway | Fault::CrashHolderMidway => link.strike_after(dealings(rng), ProcessFault::Kill),
            Fault::FreezeHolderMidway => link.strike_after(dealings(rng), ProcessFault::Freeze),
            Fault::CutHolderMidway => link.strike_after(dealings(rng), ProcessFault::Cut),
            Fault::Stop | Fault::StopHolder => drop(tokio::spawn(process.stop())),
            Fault::CrashStopping => {
                link.strike_after(rng.random_range(0..12), ProcessFault::Kill);
                tokio::spawn(process.stop());
            }
            Fault::Freeze | Fault::FreezeHolder => link.freeze(),
            Fault::Cut | Fault::CutHolder => link.cut(),
            Fault::HangHolder => process.works.set_drain(HANGS_FOR),
            Fault::Stall | Fault::StallHolder => process.works.set_stalled(true),
            Fault::Repeat | Fault::RepeatHolder => {
                process.machine.hit().dial.repeat_next(rng.random_range(1..=MOST_REPEATED));
            }
            Fault::SetDate | Fault::SetDateHolder => {
                process.machine.clock.step_wall(some_step(rng));
                self.site.server.kubelet().set_date(&process.name, &process.machine.clock);
            }
            _ => process.machine.dial.set(Profile::random(rng)),
        }
        self.trace(Some(field), &inflicted);
        true
    }

    fn inflict_on_controller(&mut self, fault: Fault, number: u64, rng: &mut StdRng) -> bool {
        let running = self.controllers.iter_mut().filter(|controller| !controller.has_ended());
        let Some(controller) = running.choose(rng) else { return false };
        let line = format!("#{number} {} {}", fault.as_str(), controller.name);
        if !fault.is_slight() {
            controller.machine.spoil();
        }
        let Machine { link, dial, .. } = controller.machine.clone();
        match fault {
            Fault::FailOverController => controller.machine.fail_over(),
            Fault::ForgeController => controller.machine.hit().dial.forge_next(rng.random_range(1..=MOST_FORGED)),
            Fault::RepeatController => controller.machine.hit().dial.repeat_next(rng.random_range(1..=MOST_REPEATED)),
            Fault::SetDateController => controller.machine.clock.step_wall(some_step(rng)),
            Fault::CrashController => controller.kill(),
            Fault::CrashControllerMidway => link.strike_after(dealings(rng), ProcessFault::Kill),
            Fault::StopController => controller.stop(),
            Fault::FreezeController => link.freeze(),
            _ => dial.set(Profile::random(rng)),
        }
        self.trace(None, &line);
        true
    }

    /// Replaces every process of a Lease by a new one, one after the other.
    fn upgrade(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        if self.acts.iter().any(|(_, act)| matches!(act, Act::Replace { field: busy, .. } if *busy == field)) {
            return false;
        }
        self.trace(Some(field), &format!("#{number} rolling upgrade"));
        let mut at = Instant::now();
        for index in 0..self.fields[field].processes.len() {
            at += rng.random_range(Duration::from_millis(100)..Duration::from_secs(20));
            self.acts.push((at, Act::Replace { field, index, is_new: rng.random_bool(0.7) }));
        }
        true
    }

    /// Whether a third party may delete the Lease: every running process has observed its holder, and none is new. The
    /// check does not read what a controller has observed, so it requires enough time for that.
    pub(super) fn may_delete(&self, field: usize) -> bool {
        let settled = Duration::from_mins(1);
        let knows = |controller: &ControllerProcess| controller.has_ended() || controller.machine.well_for() > settled;
        let field = &self.fields[field];
        let Some(holder) = field.leader().map(|process| process.name.clone()) else {
            return false;
        };
        Instant::now() - field.last_start > settled
            && self.controllers.iter().all(knows)
            && field
                .everybody()
                .all(|process| process.has_ended() || process.leadership.holder().as_deref() == Some(holder.as_str()))
    }
}

/// A random number of dealings, mostly small.
fn dealings(rng: &mut StdRng) -> u32 {
    let latest = rng.random_range(1..=LATEST_BLOW);
    rng.random_range(0..latest)
}

/// A random step of a date, forward or back, in microseconds.
fn some_step(rng: &mut StdRng) -> i64 {
    let longest = LONGEST_STEPS.choose(rng).map_or(0, Duration::as_micros);
    let longest = i64::try_from(longest).unwrap_or(i64::MAX);
    rng.random_range(-longest..=longest)
}

/// A random lag for each kind.
fn some_lag(rng: &mut StdRng) -> Lags {
    let mut some = || if rng.random_bool(0.6) { rng.random_range(Duration::ZERO..LONGEST_LAG) } else { Duration::ZERO };
    Lags { leases: some(), candidates: some() }
}
