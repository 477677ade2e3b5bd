//! What goes wrong, and how often.

use std::time::Duration;

use rand::RngExt;
use rand::seq::{IndexedRandom, IteratorRandom};
use tokio::time::Instant;

use super::World;
use crate::process::Process;
use crate::trouble::Profile;

/// How long it is quiet between two faults, at the most.
const LONGEST_QUIET: Duration = Duration::from_mins(1);

/// Everything that the nemesis does, as often as it stands here.
const FAULTS: [Fault; 24] = [
    Fault::Crash,
    Fault::Crash,
    Fault::CrashHolder,
    Fault::CrashHolder,
    Fault::Stop,
    Fault::StopHolder,
    Fault::Freeze,
    Fault::FreezeHolder,
    Fault::FreezeHolder,
    Fault::Cut,
    Fault::CutHolder,
    Fault::Trouble,
    Fault::Trouble,
    Fault::Outage,
    Fault::Compact,
    Fault::SetDate,
    Fault::Delete,
    Fault::Edit,
    Fault::CrashController,
    Fault::CrashController,
    Fault::StopController,
    Fault::FreezeController,
    Fault::TroubleController,
    Fault::DeleteCandidate,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Crash,
    CrashHolder,
    Stop,
    StopHolder,
    Freeze,
    FreezeHolder,
    Cut,
    CutHolder,
    Trouble,
    Outage,
    Compact,
    SetDate,
    Delete,
    Edit,
    CrashController,
    StopController,
    FreezeController,
    TroubleController,
    DeleteCandidate,
}

impl Fault {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Crash | Self::CrashHolder => "crash",
            Self::Stop | Self::StopHolder => "stop",
            Self::Freeze | Self::FreezeHolder => "freeze",
            Self::Cut | Self::CutHolder => "partition",
            Self::Trouble => "trouble",
            Self::Outage => "outage",
            Self::Compact => "compaction",
            Self::SetDate => "date",
            Self::Delete => "deletion",
            Self::Edit => "edit",
            Self::CrashController => "crash of a controller",
            Self::StopController => "stop of a controller",
            Self::FreezeController => "freeze of a controller",
            Self::TroubleController => "trouble of a controller",
            Self::DeleteCandidate => "deletion of a candidate",
        }
    }
}

impl World {
    /// Does something bad, mends something of what was done before, and says after which time to come back.
    pub(super) async fn fault(&mut self) -> Duration {
        self.mend();
        let fault = FAULTS.choose(&mut self.rng).copied().unwrap_or(Fault::Compact);
        if self.inflict(fault).await {
            *self.report.faults.entry(fault.as_str()).or_default() += 1;
        }
        self.rng.random_range(Duration::from_millis(10)..LONGEST_QUIET)
    }

    /// Mends each trouble with an even chance, and starts what is not running.
    fn mend(&mut self) {
        for index in 0..self.processes.len() {
            if self.rng.random_bool(0.6) {
                self.mend_one(index);
            }
        }
        for index in 0..self.controllers.len() {
            if self.rng.random_bool(0.6) {
                self.mend_controller(index);
            }
        }
    }

    fn mend_controller(&mut self, index: usize) {
        let machine = &self.controllers[index].machine;
        machine.link.thaw();
        machine.link.heal();
        machine.dial.set(Profile::default());
        if self.controllers[index].has_ended() {
            self.start_controller(index);
        }
    }

    fn mend_one(&mut self, index: usize) {
        let machine = &self.processes[index].machine;
        machine.link.thaw();
        machine.link.heal();
        machine.dial.set(Profile::default());
        if self.processes[index].has_ended() && Instant::now() >= self.no_start_before {
            self.start(index);
        }
        self.look();
    }

    /// Everything is well from now on.
    pub(super) fn calm(&mut self) {
        self.tell("the nemesis rests");
        for index in 0..self.processes.len() {
            self.mend_one(index);
        }
        for index in 0..self.controllers.len() {
            self.mend_controller(index);
        }
    }

    async fn inflict(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Compact => {
                self.server.compact();
                self.tell("compaction");
                return true;
            }
            Fault::Outage => {
                self.tell("outage");
                self.processes.iter().for_each(|process| process.machine.link.cut());
                self.controllers.iter().for_each(|controller| controller.machine.link.cut());
                return true;
            }
            Fault::Delete => return self.delete().await,
            Fault::Edit => return self.edit().await,
            Fault::DeleteCandidate => return self.delete_candidate().await,
            Fault::CrashController | Fault::StopController | Fault::FreezeController | Fault::TroubleController => {
                return self.inflict_on_controller(fault);
            }
            _ => {}
        }
        let of_holder =
            matches!(fault, Fault::CrashHolder | Fault::StopHolder | Fault::FreezeHolder | Fault::CutHolder);
        let runs = |process: &Process| !process.has_ended() && (!of_holder || process.leads());
        let running = self.processes.iter().enumerate().filter(|(_, process)| runs(process));
        let Some(index) = running.map(|(index, _)| index).choose(&mut self.rng) else { return false };
        let line = format!("{} of {}", fault.as_str(), self.processes[index].name);
        self.tell(&line);
        let process = &mut self.processes[index];
        match fault {
            Fault::Crash | Fault::CrashHolder => process.kill(),
            Fault::Stop | Fault::StopHolder => drop(tokio::spawn(process.stop())),
            Fault::Freeze | Fault::FreezeHolder => process.machine.link.freeze(),
            Fault::Cut | Fault::CutHolder => process.machine.link.cut(),
            Fault::SetDate => {
                let day = 24 * 3600 * 1_000_000;
                process.machine.clock.set_wall_offset_micros(self.rng.random_range(-day..=day));
            }
            _ => process.machine.dial.set(Profile::random(&mut self.rng)),
        }
        true
    }

    fn inflict_on_controller(&mut self, fault: Fault) -> bool {
        let running = self.controllers.iter().enumerate().filter(|(_, controller)| !controller.has_ended());
        let Some(index) = running.map(|(index, _)| index).choose(&mut self.rng) else { return false };
        self.tell(&format!("{} c{index}", fault.as_str()));
        let controller = &mut self.controllers[index];
        match fault {
            Fault::CrashController => controller.kill(),
            Fault::StopController => controller.stop(),
            Fault::FreezeController => controller.machine.link.freeze(),
            _ => controller.machine.dial.set(Profile::random(&mut self.rng)),
        }
        true
    }

    /// Whether a third party may delete the Lease: everybody who runs has seen who holds it, and nobody is new.
    pub(super) fn may_delete(&self) -> bool {
        let Some(holder) = self.processes.iter().find(|process| process.leads()).map(|process| process.name.clone())
        else {
            return false;
        };
        let settled = Duration::from_mins(1);
        Instant::now() - self.last_start > settled
            && self
                .processes
                .iter()
                .all(|process| process.has_ended() || process.leadership.holder().as_deref() == Some(holder.as_str()))
    }
}
