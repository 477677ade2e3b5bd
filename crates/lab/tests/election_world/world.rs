//! An election in a lab, with what tests ask of it: the processes of its candidates are bare ones or those of
//! client-go, a controller decides, and the transcript shows what happens.
//!
//! The world tracks by itself which process may rely on the Lease, and fails the test when a grant ignores that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(dead_code, reason = "each test file uses its part")]

mod log;
mod picture;
mod pods;
mod processes;
mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hustings_core::election::{Config, Decision, Election, Observation};
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, Now, Purpose, ReferenceStore, Set, WireTime};
use hustings_lab::{Controller, Lab, Who, micros};

use log::Log;
pub(crate) use picture::describe;

/// The largest number of decisions until the elections have no action left, whatever has happened.
const MOST_DECISIONS: usize = 24;

/// The name of the Lease.
const LEASE: &str = "l";

pub(crate) const WALL_START: i64 = 1_767_225_600_000_000;

/// One election and its environment.
pub(crate) struct World {
    pub(crate) lab: Lab,
    start_micros: i64,
    config: Config,
    namespace: String,
    /// The delay of the watches.
    pub(crate) lag: Duration,
    /// Until when some process may rely on the Lease. It counts from each write itself, not from its observation.
    relied_until: i64,
    /// When each process last answered a ping.
    answered: BTreeMap<String, i64>,
    pub(crate) pings: usize,
    pub(crate) lease_writes: usize,
    pub(crate) status_patches: usize,
    log: Log,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self::in_namespace(config, "default", Duration::ZERO)
    }

    /// A world in which the watches have this delay.
    pub(crate) fn in_namespace(config: Config, namespace: &str, lag: Duration) -> Self {
        let mut lab = Lab::new(LEASE, WireTime::from_micros(WALL_START));
        lab.records_requests = true;
        let start_micros = lab.now_micros;
        let mut world = Self {
            lab,
            start_micros,
            config,
            namespace: namespace.to_owned(),
            lag,
            relied_until: start_micros,
            answered: BTreeMap::new(),
            pings: 0,
            lease_writes: 0,
            status_patches: 0,
            log: Log::default(),
        };
        let controller = world.controller("first", true);
        // Its watches have not shown anything yet.
        world.lab.controllers.push(controller);
        world.lab.nudge(Who::Controller(0));
        world
    }

    fn controller(&self, name: &str, leads: bool) -> Controller {
        let election = Election::new(self.config.clone(), &self.namespace, LEASE);
        let mut controller = Controller::new(name, election, leads);
        controller.process.watch_delay = Some(self.lag);
        controller
    }

    /// The number of the controller that leads.
    fn leading(&self) -> usize {
        self.lab.controllers.iter().position(|controller| controller.leads).unwrap_or(0)
    }

    /// The last decision of the controller that leads.
    pub(crate) fn last(&self) -> Option<&Decision> {
        self.lab.controllers[self.leading()].decision.as_ref()
    }

    pub(crate) fn now(&self) -> Now {
        self.lab.controllers[self.leading()].process.local(self.lab.now_micros)
    }

    fn store(&self) -> &ReferenceStore {
        &self.lab.server.store
    }

    pub(crate) fn lease(&self) -> Option<&LeaseRecord> {
        self.lab.lease()
    }

    pub(crate) fn candidates(&self) -> impl Iterator<Item = &CandidateRecord> {
        self.store().candidates()
    }

    pub(crate) fn candidate(&self, name: &str) -> Option<&CandidateRecord> {
        self.store().candidate(self.lab.candidate_of(name))
    }

    /// Changes a candidate if it exists.
    pub(crate) fn edit_candidate(&mut self, name: &str, edit: impl FnOnce(&mut CandidateRecord)) {
        let key = self.lab.candidate_of(name);
        self.lab.edit_candidate(key, edit);
    }

    pub(crate) fn delete_candidate(&mut self, name: &str) {
        let key = self.lab.candidate_of(name);
        self.lab.delete_candidate(key);
    }

    /// Writes the Lease as a writer other than the controller.
    pub(crate) fn put_lease(&mut self, record: LeaseRecord) {
        self.lab.edit_lease(|lease| *lease = record);
    }

    /// A new controller, which knows only the state of the API, takes over.
    pub(crate) fn restart(&mut self) {
        let index = self.leading();
        let name = self.lab.controllers[index].process.name.clone();
        let controller = self.controller(&name, true);
        self.lab.replace_controller(index, controller);
    }

    /// Starts another controller, which stands by from now on.
    pub(crate) fn stand_by(&mut self) {
        let controller = self.controller("standby", false);
        self.lab.add_controller(controller);
    }

    /// Lets the standby controller take over. The former leader stands by from now on.
    pub(crate) fn take_over(&mut self) {
        let standby = self.lab.controllers.iter().find(|controller| !controller.leads).expect("a controller stands by");
        let name = standby.process.name.clone();
        self.lab.take_over(&name);
    }

    /// Starts a second controller that decides, too.
    pub(crate) fn lead_twice(&mut self, config: Config, clock_seconds: i64) {
        let mut controller = Controller::new("second", Election::new(config, &self.namespace, LEASE), true);
        controller.process.set_clock(0, 0, clock_seconds * 1_000_000);
        controller.process.watch_delay = Some(self.lag);
        self.lab.add_controller(controller);
    }

    /// Lets a controller observe this.
    pub(crate) fn inform(&mut self, observation: Observation) {
        let index = self.leading();
        let now = self.now();
        self.lab.controllers[index].election.observe(now, observation);
        self.lab.nudge(Who::Controller(index));
    }

    /// Reverts these fields from now on.
    pub(crate) fn undo(&mut self, what: BTreeSet<String>) {
        self.lab.revert_from_now_on(what);
    }

    /// Lets `duration` pass.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.lab.now_micros + micros(duration);
        let mut decided = (0, 0);
        loop {
            let before = self.lease().cloned();
            let is_over = self.lab.run_until(end, 1, |_| false);
            let at = self.lab.now_micros;
            for entry in self.lab.take_news() {
                self.show(entry, before.as_ref());
            }
            if at > decided.0 + 1 {
                decided = (at, self.decisions());
            }
            let decisions = self.decisions() - decided.1;
            assert!(decisions <= MOST_DECISIONS, "the election does not settle:\n{}", self.take_log());
            if decisions == MOST_DECISIONS * 3 / 4 {
                // Requests take time. The election never counts a read at the instant of the last watch event.
                self.lab.now_micros = decided.0 + 1;
            }
            self.check_deadlines();
            if is_over {
                // A decision may come at any time.
                (0..self.lab.controllers.len()).for_each(|index| self.lab.nudge(Who::Controller(index)));
                return;
            }
        }
    }

    /// Checks that each controller decides again within the requeue interval.
    fn check_deadlines(&self) {
        for controller in self.lab.controllers.iter().filter(|controller| controller.leads) {
            let latest = controller.process.local(self.lab.now_micros).moment.after(self.config.requeue);
            let is_bounded = controller.decision.as_ref().is_none_or(|decision| decision.deadline <= latest);
            assert!(is_bounded, "a deadline lies beyond the requeue interval");
        }
    }

    fn decisions(&self) -> usize {
        self.lab.controllers.iter().map(|controller| controller.decisions).sum()
    }

    /// Checks a write of a controller before it is shown.
    fn check_write(&mut self, index: usize, write: &LeaseWrite, lease: &LeaseRecord) {
        let now = self.lab.now_micros;
        if write.purpose == Purpose::Grant {
            let is_free = self.relied_until <= now || self.is_holder_dead(lease);
            assert!(is_free, "a grant while {} is relied upon\n{}", describe(lease), self.take_log());
        }
        if write.purpose == Purpose::Release {
            let lives = |name: &String| self.native(name).is_some_and(|native| !native.process.crashed);
            let is_dead = !lease.holder.as_ref().is_some_and(lives);
            assert!(is_dead, "a release while the holder lives\n{}", self.take_log());
        }
        let named = match write.purpose {
            Purpose::Grant => &write.holder,
            Purpose::Prefer => &write.preferred_holder,
            _ => return,
        };
        let Set::To(name) = named else { return };
        // A candidate that has just been deleted has no process, so it is not checked.
        let stands = self.standing().any(|bare| bare.process.name == *name) || self.native(name).is_some();
        let lasts = micros((self.config.window * self.config.answer_windows).saturating_add(self.lag));
        let is_fresh = !stands || self.answered.get(name).is_some_and(|at| now - at <= lasts);
        assert!(is_fresh, "{name} has not proved itself live\n{}", self.take_log());
        // The controller does not know changes that a late watch has not shown yet.
        if self.lag.is_zero() {
            let wall = self.lab.controllers[index].process.local(now).wall;
            let is_excluded = self.candidate(name).is_some_and(|record| record.acts.exclusion(wall).is_some());
            assert!(!is_excluded, "{name} is excluded\n{}", self.take_log());
            assert!(lease.pause(wall).is_none(), "elections are paused\n{}", self.take_log());
        }
    }
}
