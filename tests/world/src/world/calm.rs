//! What must and what must not happen once the faults have stopped.

use std::time::Duration;

use rand::RngExt;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::field::{LONGEST_DRAIN, Writes};
use super::{Mode, World, purpose};
use crate::process::Process;
use crate::server::cache::Lags;

/// L1: how soon after the last fault a process leads, in addition to the term of the last leader.
const LEADER_WITHIN: Duration = Duration::from_secs(35);

/// L2: how soon the best process leads, once the work of the former holder has ended.
const BEST_WITHIN: Duration = Duration::from_mins(1).saturating_add(LONGEST_DRAIN);

/// L2: how soon it leads if it may be damped.
const DAMPED_WITHIN: Duration = Duration::from_mins(12);

/// How soon the faults no longer have an effect: a request may be under way for half a minute, and a watch silent for a
/// minute.
const SETTLES_WITHIN: Duration = Duration::from_secs(100);

/// How long the world must stay unchanged while nothing happens.
const RESTS_FOR: Duration = Duration::from_mins(1);

/// How long a healthy holder is observed after its controllers have died.
const CONTROLLERS_DEAD_FOR: Duration = Duration::from_mins(2);

/// How often the state is checked.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// W1: a holder at rest renews its Lease at most as often as its retry period fits into this time.
const RENEWS_AS_IN: Duration = RESTS_FOR.saturating_add(Duration::from_secs(20));

/// W1: the most statuses at rest of all candidates of a Lease. Two controllers that contradict each other repeat them
/// after ever longer pauses.
const MOST_STATUSES: u32 = 6;

/// S6: the most tasks of a process when all is well.
const MOST_TASKS_OF_PROCESS: usize = 60;

/// The progress of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Faults,
    /// There have been no faults since this time.
    AwaitLeader(Instant),
    AwaitBest(Instant),
    /// The best processes have led since this time. Effects of the faults may still be under way.
    Settles(Instant),
    /// The world has been at rest since this time, and must stay so.
    Rest(Instant),
    /// The controllers were restarted at this time.
    Restarted(Instant),
    /// There have been no controllers since this time.
    ControllersDead(Instant),
    Over,
}

impl World {
    /// Checks the state. Returns the next stage, and when to check it.
    pub(super) fn go_on(&mut self, stage: Stage) -> (Stage, Duration) {
        let now = Instant::now();
        let next = match stage {
            Stage::Faults => {
                self.dismiss();
                let starts_at = self.fields.iter().map(|field| field.no_start_before.max(field.unjudged_until));
                let starts_at = starts_at.max().unwrap_or(now);
                if now < starts_at || !self.acts.is_empty() {
                    return (stage, Duration::from_secs(1));
                }
                self.calm();
                Stage::AwaitLeader(now)
            }
            Stage::AwaitLeader(since) => self.await_leader(since),
            Stage::AwaitBest(since) => self.await_best(since),
            Stage::Settles(since) if now - since >= SETTLES_WITHIN => self.begin_rest(),
            Stage::Rest(since) if now - since >= RESTS_FOR => self.end_rest(),
            Stage::Restarted(since) if now - since >= RESTS_FOR => {
                self.check_pings("S5: after a restart of the controllers");
                for controller in &mut self.controllers {
                    controller.kill();
                }
                self.trace(None, "the controllers are dead for good");
                Stage::ControllersDead(now)
            }
            Stage::ControllersDead(since) if now - since >= CONTROLLERS_DEAD_FOR => Stage::Over,
            Stage::Rest(_) | Stage::Restarted(_) | Stage::ControllersDead(_) => {
                self.check_holders(stage);
                stage
            }
            Stage::Settles(_) | Stage::Over => stage,
        };
        (next, LOOKS_EVERY)
    }

    /// Ends all faults. Sometimes a crashed process is not started again.
    fn calm(&mut self) {
        self.trace(None, "the nemesis rests");
        let mut rng = self.setup.rng([purpose::CALM, 0, 0]);
        self.site.instances.iter().for_each(|cache| cache.set(Lags::default()));
        for field in 0..self.fields.len() {
            self.fields[field].calm();
            let spared = rng.random_range(0..2 * self.fields[field].processes.len());
            for index in 0..self.fields[field].processes.len() {
                let process = &mut self.fields[field].processes[index];
                if process.machine.link.is_dead() && index == spared {
                    process.kill();
                    // The requests that it has sent arrive eventually.
                    process.machine.link.heal();
                } else {
                    self.mend_one(field, index);
                }
            }
            self.fields[field].leaving.iter_mut().for_each(Process::mend);
            self.look(field);
        }
        for index in 0..self.controllers.len() {
            self.mend_controller(index);
        }
    }

    fn await_leader(&mut self, since: Instant) -> Stage {
        let without: Vec<_> = (0..self.fields.len()).filter(|field| self.fields[*field].leader().is_none()).collect();
        for field in &without {
            let within = self.fields[*field].longest_term() + LEADER_WITHIN;
            if since.elapsed() > within {
                self.violate(Some(*field), format!("L1: no process leads {} s after the last fault", within.as_secs()));
            }
        }
        if without.is_empty() { Stage::AwaitBest(since) } else { Stage::AwaitLeader(since) }
    }

    fn await_best(&mut self, since: Instant) -> Stage {
        let worse = self.worse();
        for (field, why) in &worse {
            let is_excused = self.fields[*field].best_is_excused();
            let beside = if is_excused { DAMPED_WITHIN } else { BEST_WITHIN };
            let within = self.fields[*field].longest_term() + beside;
            if since.elapsed() > within {
                self.violate(Some(*field), format!("L2: {why}, {} s after the last fault", within.as_secs()));
            }
        }
        if worse.is_empty() { Stage::Settles(Instant::now()) } else { Stage::AwaitBest(since) }
    }

    /// The Leases that none of the best processes leads, and why that is wrong.
    fn worse(&self) -> Vec<(usize, String)> {
        // Without a controller, no version takes the Lease from a live holder.
        let fields = self.fields.iter().enumerate().filter(|_| self.setup.mode != Mode::Alone);
        fields.filter_map(|(field, here)| Some((field, here.best_leads().err()?))).collect()
    }

    fn begin_rest(&mut self) -> Stage {
        for (field, why) in self.worse() {
            self.violate(Some(field), format!("L2: {why} after it had settled"));
        }
        self.count_anew();
        Stage::Rest(Instant::now())
    }

    fn count_anew(&mut self) {
        for field in &mut self.fields {
            field.writes = Writes::default();
            field.grants.forget_pings();
            field.checker.expect_no_change();
        }
    }

    fn end_rest(&mut self) -> Stage {
        for field in 0..self.fields.len() {
            let Writes { renewals, lease, statuses, .. } = self.fields[field].writes;
            if statuses > MOST_STATUSES {
                self.violate(Some(field), format!("W1: at rest {statuses} statuses were written"));
            }
            let most = RENEWS_AS_IN.as_millis() / self.fields[field].timing.retry_period().as_millis().max(1);
            if u128::from(renewals) > most || lease > 0 {
                let violation = format!("W1: at rest the Lease was renewed {renewals} times and written {lease} times");
                self.violate(Some(field), violation);
            }
        }
        self.check_pings("W1: at rest");
        self.end_second();
        let processes = self.fields.len() * self.setup.processes + self.controllers.len() + 1;
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks > processes * MOST_TASKS_OF_PROCESS {
            self.violate(None, format!("S6: {processes} processes have {tasks} tasks"));
        }
        if self.setup.mode != Mode::Coordinated {
            return Stage::Over;
        }
        self.count_anew();
        for index in 0..self.controllers.len() {
            self.controllers[index].kill();
            self.start_controller(index);
        }
        Stage::Restarted(Instant::now())
    }

    /// A candidate that does not answer is pinged only once, and no candidate is pinged often.
    fn check_pings(&mut self, when: &str) {
        for field in 0..self.fields.len() {
            for (name, pings) in self.fields[field].grants.pings() {
                if pings > 1 {
                    self.violate(Some(field), format!("{when} {name} was pinged {pings} times"));
                }
            }
        }
    }

    /// L2, S5, L3: the leader at rest keeps leading, whatever happens to the controllers.
    fn check_holders(&mut self, stage: Stage) {
        for field in 0..self.fields.len() {
            if self.fields[field].checker.has_changed() || self.fields[field].leader().is_none() {
                let violation = match stage {
                    Stage::Restarted(_) => "S5: a restart of the controllers cost the holder its Lease",
                    Stage::ControllersDead(_) => "L3: the end of the controllers cost the holder its Lease",
                    _ => "L2: the holder changed although nothing had",
                };
                self.violate(Some(field), violation.to_owned());
            }
        }
    }
}
