//! Simulates a rolling upgrade of the group, by the rules of a Deployment:
//!
//! - It creates new replicas while fewer run than the wanted number plus the surge. A replica that is stopping does not
//!   count.
//! - It stops an old replica while more are available than the wanted number less those that may be unavailable.
//! - The [`Order`] determines which old replica stops next.

use std::time::Duration;

use hustings_core::election;
use hustings_core::model::{LeaseRecord, WireTime};

use super::config::{Config, Order};
use super::outcome::{Recorder, RolloutStep, UpgradeOutcome};
use crate::predict::simulation::group::{Group, REST, ReplicaSpec};
use crate::predict::simulation::{NewReplica, Simulation};

/// How long a process may take to stop before Kubernetes kills it.
const KILL_AFTER: Duration = Duration::from_secs(30);

/// The longest upgrade, in virtual time. A longer one would keep the command busy for minutes.
pub(super) const LIMIT: Duration = Duration::from_hours(6);

/// An upgrade to simulate.
#[derive(Clone, Debug)]
pub(super) struct Upgrade<'a> {
    pub(super) config: &'a Config,
    /// The group before the upgrade: the old replicas.
    pub(super) group: Group,
    /// The wall-clock time of the start.
    pub(super) wall: WireTime,
}

/// A replica during the upgrade.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// Its number in the simulation; `None` while it starts.
    number: Option<usize>,
    /// The position among the new replicas, from 1; `None` for an old replica.
    new: Option<usize>,
    ready_at: Duration,
    is_stopping: bool,
}

/// Simulates the upgrade.
pub(super) fn simulate(upgrade: &Upgrade<'_>) -> UpgradeOutcome {
    let group = &upgrade.group;
    let controller = (!group.is_direct).then(election::Config::default);
    let mut simulation = Simulation::new(&group.lease, controller, upgrade.wall);
    let old = |number| Running { number: Some(number), new: None, ready_at: Duration::ZERO, is_stopping: false };
    let running = group.start(&mut simulation).into_iter().map(old).collect();
    // Drop the news from before the upgrade.
    simulation.take_news();
    let leader = simulation.leader().map(|leader| simulation.name(leader).to_owned());
    let began = simulation.now();
    let recorder = Recorder::new(&group.replicas, &upgrade.config.to, leader);
    let record = LeaseRecord { hold: group.hold.clone(), acts: group.acts.clone(), ..LeaseRecord::default() };
    let pause = record.pause(upgrade.wall).and(record.hold);
    UpgradeOutcome { pause, ..Rollout { upgrade, simulation, running, created: 0, began, recorder }.run() }
}

struct Rollout<'a> {
    upgrade: &'a Upgrade<'a>,
    simulation: Simulation,
    running: Vec<Running>,
    /// How many new replicas have been created.
    created: usize,
    began: Duration,
    recorder: Recorder,
}

impl Rollout<'_> {
    fn run(mut self) -> UpgradeOutcome {
        loop {
            self.start_ready();
            self.reconcile();
            let is_over = self.running.iter().all(|replica| replica.new.is_some() && replica.number.is_some());
            if is_over || self.elapsed() > LIMIT {
                let ended = is_over.then(|| self.elapsed());
                // The outcome includes late effects.
                self.simulation.run_until(REST, |_| false);
                self.record();
                let until = self.elapsed();
                return self.recorder.outcome(ended, until);
            }
            // Run until the next replica is ready, or until one has ended.
            let starting = self.running.iter().filter(|replica| replica.number.is_none());
            let ready_in = starting.map(|replica| replica.ready_at.saturating_sub(self.simulation.now())).min();
            let stopping: Vec<_> = self.running.iter().filter_map(|replica| replica.number).collect();
            let is_one_gone = |simulation: &Simulation| stopping.iter().any(|number| simulation.is_gone(*number));
            self.simulation.run_until(ready_in.unwrap_or(KILL_AFTER), is_one_gone);
            let simulation = &self.simulation;
            self.running.retain(|replica| replica.number.is_none_or(|number| !simulation.is_gone(number)));
            self.record();
        }
    }

    fn elapsed(&self) -> Duration {
        self.simulation.now().saturating_sub(self.began)
    }

    fn record(&mut self) {
        for (at, news) in self.simulation.take_news() {
            let simulation = &self.simulation;
            let name = |number| simulation.name(number).to_owned();
            self.recorder.news(at.saturating_sub(self.began), news, name);
        }
    }

    /// Starts the new replicas that are ready.
    fn start_ready(&mut self) {
        let now = self.simulation.now();
        for index in 0..self.running.len() {
            if let Running { new: Some(count), number: None, ready_at, .. } = self.running[index]
                && ready_at <= now
            {
                let name = self.upgrade.new_name(count);
                self.recorder.step(self.elapsed(), RolloutStep::Ready(name.clone()));
                self.running[index].number = Some(self.simulation.start(self.upgrade.new_replica(name)));
            }
        }
    }

    /// Creates and stops as many replicas as the rules allow now.
    fn reconcile(&mut self) {
        let Upgrade { config, group, .. } = self.upgrade;
        let wanted = group.replicas.len();
        let (most, least) = (wanted.saturating_add(config.surge), wanted.saturating_sub(config.unavailable));
        // Each round creates or stops one replica.
        for _ in 0..wanted.saturating_mul(2) {
            let stays = || self.running.iter().filter(|replica| !replica.is_stopping);
            let available = stays().filter(|replica| replica.number.is_some()).count();
            if self.created < wanted && stays().count() < most {
                self.created += 1;
                self.recorder.step(self.elapsed(), RolloutStep::Created(self.upgrade.new_name(self.created)));
                let ready_at = self.simulation.now().saturating_add(config.readiness);
                self.running.push(Running { number: None, new: Some(self.created), ready_at, is_stopping: false });
            } else if available > least
                && let Some((index, number)) = self.next_to_stop()
            {
                self.running[index].is_stopping = true;
                self.recorder.step(self.elapsed(), RolloutStep::Stops(self.simulation.name(number).to_owned()));
                self.simulation.stop(number, KILL_AFTER);
            } else {
                return;
            }
        }
    }

    /// The position in `running` of the old replica that stops next, and its number in the simulation.
    fn next_to_stop(&self) -> Option<(usize, usize)> {
        let leader = self.simulation.leader();
        let old = self.running.iter().enumerate().filter(|(_, replica)| replica.new.is_none() && !replica.is_stopping);
        let mut old = old.filter_map(|(index, replica)| Some((index, replica.number?)));
        // The old replicas are in the order of their creation.
        match self.upgrade.config.order {
            Order::YoungestFirst => old.next_back(),
            Order::LeaderFirst => old.max_by_key(|(_, number)| Some(*number) == leader),
            Order::LeaderLast => old.max_by_key(|(_, number)| Some(*number) != leader),
        }
    }
}

impl Upgrade<'_> {
    /// The name of the `count`th new replica.
    fn new_name(&self, count: usize) -> String {
        let Group { lease, replicas, .. } = &self.group;
        let name = format!("new-{count}");
        if replicas.iter().any(|old| old.name == name) { format!("{lease}-new-{count}") } else { name }
    }

    fn new_replica(&self, name: String) -> NewReplica {
        let Config { to, emulates, .. } = self.config;
        self.group.replica(ReplicaSpec {
            name,
            binary_version: to.clone(),
            emulation_version: Some(emulates.as_ref().unwrap_or(to).clone()),
            ..ReplicaSpec::default()
        })
    }
}
