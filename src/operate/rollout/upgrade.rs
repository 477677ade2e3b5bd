//! Simulates a rolling upgrade of the group, by the rules of a Deployment:
//!
//! - It creates new replicas while fewer run than the wanted number plus the surge. A replica that is stopping does not
//!   count.
//! - It stops an old replica while more are available than the wanted number less those that may be unavailable.
//! - The [`Order`] determines which old replica stops next.

use std::time::Duration;

use hustings_core::election;
use hustings_core::model::{LeaseRecord, WireTime};
use hustings_lab::{Lab, micros};

use super::config::{Config, Order};
use super::outcome::{Recorder, RolloutStep, UpgradeOutcome};
use crate::predict::simulation::group::{Group, REST, ReplicaSpec};
use crate::predict::simulation::{self, between, run};

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
pub(super) struct RunningUpgrade {
    /// Its number in the lab; `None` while it starts.
    number: Option<usize>,
    /// The position among the new replicas, from 1; `None` for an old replica.
    new: Option<usize>,
    /// When it stands and is ready, in the time of the lab.
    ready_at: i64,
    is_stopping: bool,
}

/// Simulates the upgrade.
pub(super) fn simulate(upgrade: &Upgrade<'_>) -> UpgradeOutcome {
    let group = &upgrade.group;
    let controller = (!group.is_direct).then(election::Config::default);
    let mut lab = simulation::lab(&group.lease, controller, upgrade.wall);
    let old = |number| RunningUpgrade { number: Some(number), new: None, ready_at: 0, is_stopping: false };
    let running = group.start(&mut lab).into_iter().map(old).collect();
    // Drop the news from before the upgrade.
    lab.take_news();
    let leader = lab.leader().map(|leader| lab.replicas[leader].process.name.clone());
    let began = lab.now_micros;
    let recorder = Recorder::new(&group.replicas, &upgrade.config.to, leader);
    let record = LeaseRecord { hold: group.hold.clone(), acts: group.acts.clone(), ..LeaseRecord::default() };
    let pause = record.pause(upgrade.wall).and(record.hold);
    UpgradeOutcome { pause, ..Rollout { upgrade, lab, running, created: 0, began, recorder }.run() }
}

struct Rollout<'a> {
    upgrade: &'a Upgrade<'a>,
    lab: Lab,
    running: Vec<RunningUpgrade>,
    /// How many new replicas have been created.
    created: usize,
    /// When the upgrade began, in the time of the lab.
    began: i64,
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
                run(&mut self.lab, REST, |_| false);
                self.record();
                let until = self.elapsed();
                return self.recorder.outcome(ended, until);
            }
            // Run until the next replica is ready, or until one has ended.
            let starting = self.running.iter().filter(|replica| replica.number.is_none());
            let ready_in = starting.map(|replica| between(self.lab.now_micros, replica.ready_at)).min();
            let stopping: Vec<_> = self.running.iter().filter_map(|replica| replica.number).collect();
            let is_gone = |lab: &Lab, number: usize| lab.replicas[number].process.crashed;
            let is_one_gone = |lab: &Lab| stopping.iter().any(|number| is_gone(lab, *number));
            run(&mut self.lab, ready_in.unwrap_or(KILL_AFTER), is_one_gone);
            self.running.retain(|replica| replica.number.is_none_or(|number| !is_gone(&self.lab, number)));
            self.record();
        }
    }

    fn elapsed(&self) -> Duration {
        between(self.began, self.lab.now_micros)
    }

    fn record(&mut self) {
        for entry in self.lab.take_news() {
            let name = self.lab.process(entry.who).name.clone();
            self.recorder.news(between(self.began, entry.at_micros), &entry.news, &name);
        }
    }

    /// Starts the new replicas that are ready.
    fn start_ready(&mut self) {
        let now = self.lab.now_micros;
        for index in 0..self.running.len() {
            if let RunningUpgrade { new: Some(count), number: None, ready_at, .. } = self.running[index]
                && ready_at <= now
            {
                let name = self.upgrade.new_name(count);
                self.recorder.step(self.elapsed(), RolloutStep::Ready(name.clone()));
                self.running[index].number = Some(self.upgrade.add(&mut self.lab, name));
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
                let ready_at = self.lab.now_micros.saturating_add(micros(config.readiness));
                self.running.push(RunningUpgrade {
                    number: None,
                    new: Some(self.created),
                    ready_at,
                    is_stopping: false,
                });
            } else if available > least
                && let Some((index, number)) = self.next_to_stop()
            {
                self.running[index].is_stopping = true;
                self.recorder.step(self.elapsed(), RolloutStep::Stops(self.lab.replicas[number].process.name.clone()));
                self.lab.stop(number, KILL_AFTER);
            } else {
                return;
            }
        }
    }

    /// The position in `running` of the old replica that stops next, and its number in the lab.
    fn next_to_stop(&self) -> Option<(usize, usize)> {
        let leader = self.lab.leader();
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

    /// Starts a new replica. Returns its number in the lab.
    fn add(&self, lab: &mut Lab, name: String) -> usize {
        let Config { to, emulates, .. } = self.config;
        let spec = ReplicaSpec {
            name,
            binary_version: to.clone(),
            emulation_version: Some(emulates.as_ref().unwrap_or(to).clone()),
            ..ReplicaSpec::default()
        };
        self.group.add(lab, spec)
    }
}
