//! One Lease, and the processes that stand for it.

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_client::{FailOpen, Timing};
use hustings_core::model::{LeaseRecord, LeaseView, UNDECLARED_DURATION_SECONDS};
use rand::RngExt;
use tokio::time::Instant;

use crate::checker::Checker;
use crate::checker::grants::Grants;
use crate::checker::ranges::Ranges;
use crate::process::{Habits, Process, Stands};

use super::foreign::Foreign;
use super::rivals::Reverting;
use super::setup::{Mode, Setup};

/// The longest time that the work of a term continues after it was asked to stop, when all is well.
pub(super) const LONGEST_DRAIN: Duration = Duration::from_secs(6);

/// The bound of the processes that fail open.
const FAILS_OPEN_FOR: Duration = Duration::from_mins(1);

/// One Lease, and the processes that stand for it.
pub(super) struct Field {
    /// Its number among the Leases of the world.
    pub(super) number: usize,
    /// The name of the Lease.
    pub(super) lease: String,
    /// The timing of all processes.
    pub(super) timing: Timing,
    pub(super) processes: Vec<Process>,
    /// Processes that are still stopping, and that others have already replaced.
    pub(super) leaving: Vec<Process>,
    /// Processes that want another strategy, until no task of them is left.
    pub(super) dissenters: Vec<Process>,
    /// The Lease as the third party has observed it.
    pub(super) view_of_third_party: LeaseView,
    /// The foreign elector, which has no candidate.
    pub(super) foreign: Option<Foreign>,
    pub(super) checker: Checker,
    pub(super) grants: Grants,
    pub(super) ranges: Ranges,
    /// How long a process may rely on the Lease when the faults stop.
    lasts: Duration,
    /// The writes while all is well.
    pub(super) writes: Writes,
    pub(super) last_start: Instant,
    pub(super) no_start_before: Instant,
    /// No decision of a controller is checked before this time: the controller may know more or less than is visible.
    pub(super) unjudged_until: Instant,
    /// Before this time, a holder may lose its term without a violation.
    pub(super) upset_until: Instant,
    /// An operator reverts what the controllers or the candidates write.
    pub(super) reverting: Option<Reverting>,
    /// The UIDs of the pods, by name.
    pods: BTreeMap<String, Option<String>>,
    started: u64,
    /// The Lease was deleted, and has not been created again.
    pub(super) is_deleted: bool,
}

/// The number of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) renewals: u32,
    /// Writes of the Lease other than renewals.
    pub(super) lease: u32,
    pub(super) pings: u32,
    pub(super) statuses: u32,
}

impl Field {
    pub(super) fn new(number: usize, setup: &Setup) -> Self {
        let now = Instant::now();
        Self {
            number,
            lease: format!("l{number}"),
            timing: setup.timing(number),
            processes: Vec::new(),
            leaving: Vec::new(),
            dissenters: Vec::new(),
            view_of_third_party: LeaseView::new(),
            foreign: None,
            checker: Checker::default(),
            grants: Grants::default(),
            ranges: Ranges::default(),
            // A Lease that declares nothing, or is missing, counts as held for this long.
            lasts: Duration::from_secs(u64::from(UNDECLARED_DURATION_SECONDS)),
            writes: Writes::default(),
            last_start: now,
            no_start_before: now,
            unjudged_until: now,
            upset_until: now,
            reverting: None,
            pods: BTreeMap::new(),
            started: 0,
            is_deleted: false,
        }
    }

    /// The name of the next process of this number, how it stands, and its habits in this world.
    pub(super) fn next(
        &mut self,
        index: usize,
        is_new: bool,
        rng: &mut impl RngExt,
        (setup, world): (&Setup, &str),
    ) -> (String, Stands, Habits) {
        self.started += 1;
        let lease = &self.lease;
        let keeps_name = !is_new && rng.random_bool(0.7);
        let name = if keeps_name { format!("{lease}-p{index}") } else { format!("{lease}-p{index}-{}", self.started) };
        let stands = match setup.mode {
            Mode::Direct => Stands::Direct,
            Mode::Preferring => Stands::Preferring(rng.random_range(0..3)),
            Mode::Coordinated | Mode::Alone => Stands::As(format!("1.{}.0", rng.random_range(30..33))),
        };
        let drain = if rng.random_bool(0.5) { rng.random_range(Duration::ZERO..LONGEST_DRAIN) } else { Duration::ZERO };
        let is_container = keeps_name && rng.random_bool(0.8);
        let pod_uid = format!("{world}-{}-{}", self.number, self.started);
        let pod_uid = rng.random_bool(0.7).then_some(pod_uid);
        let former = self.pods.get(&name).filter(|_| is_container).cloned();
        let pod_uid = former.unwrap_or(pod_uid);
        self.pods.insert(name.clone(), pod_uid.clone());
        let fail_open = if rng.random_bool(0.3) { FailOpen::Bounded(FAILS_OPEN_FOR) } else { FailOpen::Off };
        (name, stands, Habits { drain, pod_uid, fail_open })
    }

    /// How many processes were started so far.
    pub(super) const fn started(&self) -> u64 {
        self.started
    }

    /// The longest wait of a process that has observed the beginning of a term but no later version.
    pub(super) fn longest_term(&self) -> Duration {
        self.timing.lease_duration().max(self.lasts) / 100 * 101
    }

    /// The faults stop. Records how long a process may rely on the Lease as it is now.
    pub(super) fn calm(&mut self) {
        self.lasts = self.checker.lasts();
    }

    /// Adds a process. The process that it replaces continues to stop, if it has not ended.
    pub(super) fn enter(&mut self, index: usize, process: Process) {
        self.last_start = Instant::now();
        if index < self.processes.len() {
            let former = std::mem::replace(&mut self.processes[index], process);
            if former.machine.link.is_dead() {
                // The requests that it has sent arrive eventually.
                former.machine.link.heal();
            } else {
                self.leaving.push(former);
            }
        } else {
            self.processes.push(process);
        }
    }

    /// S1: checks every process at this instant.
    pub(super) fn look(&mut self) {
        for goers in [&mut self.leaving, &mut self.dissenters] {
            for process in goers.extract_if(.., |process| process.is_over()) {
                // The requests that it has sent arrive eventually.
                process.machine.link.heal();
            }
        }
        let foreign = self.foreign.as_ref().filter(|foreign| foreign.leads()).map(|foreign| foreign.name.clone());
        let leaders = self.everybody().filter(|process| process.leads()).map(|process| process.name.clone());
        let leaders: Vec<_> = leaders.chain(foreign).collect();
        self.checker.check_leaders(&leaders);
        for process in self.processes.iter_mut().chain(&mut self.dissenters) {
            if let Some(token) = process.lost_term()
                && Instant::now() >= self.upset_until
            {
                self.checker.check_end(&process.name, token);
            }
        }
        self.ask_ranges();
    }

    /// Records what every process owns at this instant.
    pub(super) fn ask_ranges(&mut self) {
        let owned: Vec<_> = self.everybody().filter_map(Process::owns).collect();
        let found = owned.into_iter().filter_map(|owned| self.ranges.note(owned));
        self.checker.violations.extend(found);
    }

    /// Updates the order of the time ranges, before a version of the Lease is checked. The version may begin a term, or
    /// break the order.
    pub(super) fn order_ranges(&mut self, record: &LeaseRecord, is_edited: bool) {
        self.ask_ranges();
        if is_edited && self.checker.sets_time(record) {
            self.ranges.make_void();
        } else if self.checker.begins_term(record) {
            let known: Vec<_> = self.everybody().filter_map(Process::range_start).collect();
            self.ranges.begin(known.into_iter());
        }
    }

    /// Removes processes that died by themselves, and returns their names. Requests that they have sent may still
    /// arrive.
    pub(super) fn remove_dead(&mut self) -> Vec<String> {
        let all = self.processes.iter_mut().chain(&mut self.leaving).chain(&mut self.dissenters);
        let dead = all.filter(|process| process.machine.link.is_dead() && !process.has_ended());
        dead.map(|process| {
            process.kill();
            process.name.clone()
        })
        .collect()
    }

    /// Whether this version gives up a term of a process whose work continues.
    pub(super) fn is_too_early(&self, former_token: Option<u64>, by: &str) -> bool {
        let Some(token) = former_token else { return false };
        self.everybody().any(|process| process.name == by && process.works.goes_on(token))
    }

    /// The process that leads. One that relies on its term although the Lease on the server names another holder is
    /// about to stop, and does not count.
    pub(super) fn leader(&self) -> Option<&Process> {
        let holder = self.checker.newest()?.holder.as_deref()?;
        self.everybody().find(|process| process.leads() && process.name == holder)
    }

    /// All processes that have not ended completely.
    pub(super) fn everybody(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().chain(&self.leaving).chain(&self.dissenters)
    }

    /// The processes that a fault may hit.
    pub(super) fn standing_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut().chain(&mut self.dissenters)
    }

    /// Whether one of the best running processes leads.
    pub(super) fn best_leads(&self) -> Result<(), String> {
        let leads = self.leader().and_then(|process| process.stands.merit());
        let running = self.processes.iter().filter(|process| !process.has_ended());
        let best = running.filter_map(|process| process.stands.merit()).min();
        let is_best = best.is_none() || leads.is_some() && leads <= best;
        if is_best { Ok(()) } else { Err(format!("{leads:?} leads although {best:?} stands")) }
    }

    /// Whether one of the best processes ranks last for a while, or must not be preferred, because of its history.
    pub(super) fn best_is_excused(&self) -> bool {
        let running = || self.processes.iter().filter(|process| !process.has_ended());
        let best = running().filter_map(|process| process.stands.merit()).min();
        running().filter(|process| process.stands.merit() == best).all(|process| self.grants.is_damped(&process.name))
    }
}
