//! Simulates a rolling upgrade of the group, by the rules of a Deployment:
//!
//! - It creates new replicas while fewer run than the wanted number plus the surge. A replica that is stopping does not
//!   count.
//! - It stops an old replica while more are available than the wanted number less those that may be unavailable.
//! - The [`Order`] determines which old replica stops next.

use std::time::Duration;

use hustings_core::election;
use hustings_core::elector::{self, FailOpen, Mode, Timing};
use hustings_core::model::{CandidateRecord, LeaseActs, Nomination, Strategy, WireTime};

use super::outcome::{Outcome, Recorder};
use super::simulation::{NewReplica, Simulation};

/// How long the group may take to get a leader after its start.
const SETTLING: Duration = Duration::from_mins(1);

/// How long the group runs before the upgrade and after it, so that the outcome includes late effects.
const REST: Duration = Duration::from_secs(30);

/// How long after the request to stop Kubernetes kills a process.
const KILL_AFTER: Duration = Duration::from_secs(30);

/// The longest upgrade, in virtual time. A longer one would keep the command busy for minutes.
pub(super) const LIMIT: Duration = Duration::from_hours(6);

/// The order in which the old replicas stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The youngest first, as a Deployment prefers.
    #[default]
    YoungestFirst,
    /// The leader first.
    LeaderFirst,
    /// The leader last.
    LeaderLast,
}

/// An upgrade to simulate.
#[derive(Clone, Debug)]
pub(super) struct Upgrade {
    /// The name of the Lease.
    pub(super) lease: String,
    /// The old replicas, in the order of their creation.
    pub(super) old: Vec<OldReplica>,
    /// The replica that leads before the upgrade.
    pub(super) leader: Option<String>,
    /// The hold on the Lease.
    pub(super) hold: Option<String>,
    /// The acts on the Lease.
    pub(super) acts: LeaseActs,
    /// `spec.binaryVersion` of the new replicas.
    pub(super) to: String,
    /// `spec.emulationVersion` of the new replicas.
    pub(super) emulates: String,
    /// Whether the replicas elect among themselves.
    pub(super) is_direct: bool,
    /// The timing of every elector.
    pub(super) timing: Timing,
    /// The wall-clock time of the start.
    pub(super) wall: WireTime,
    /// How many replicas may run beyond the wanted number.
    pub(super) surge: usize,
    /// How many of the wanted replicas may be unavailable.
    pub(super) unavailable: usize,
    /// How long a new replica takes until it stands and is ready.
    pub(super) readiness: Duration,
    /// How long a replica's work takes to stop.
    pub(super) shutdown: Duration,
    /// The order in which the old replicas stop.
    pub(super) order: Order,
}

/// A replica before the upgrade.
#[derive(Clone, Debug, Default)]
pub(super) struct OldReplica {
    pub(super) name: String,
    pub(super) binary_version: String,
    pub(super) emulation_version: Option<String>,
    pub(super) priority: Option<i32>,
    /// Its candidate in the cluster, if any.
    pub(super) candidate: Option<CandidateRecord>,
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

/// A step of the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new replica is created.
    Created(String),
    /// A new replica stands and is ready.
    Ready(String),
    /// An old replica is asked to stop.
    Stops(String),
}

/// Simulates the upgrade.
pub(super) fn simulate(upgrade: &Upgrade) -> Outcome {
    let controller = (!upgrade.is_direct).then(election::Config::default);
    let mut simulation = Simulation::new(&upgrade.lease, controller, upgrade.wall);
    let running = begin(upgrade, &mut simulation);
    // Drop the news from before the upgrade.
    simulation.take_news();
    let leader = simulation.leader().map(|leader| simulation.name(leader).to_owned());
    let began = simulation.now();
    let recorder = Recorder::new(upgrade, leader);
    Rollout { upgrade, simulation, running, created: 0, began, recorder }.run()
}

struct Rollout<'a> {
    upgrade: &'a Upgrade,
    simulation: Simulation,
    running: Vec<Running>,
    /// How many new replicas have been created.
    created: usize,
    began: Duration,
    recorder: Recorder,
}

impl Rollout<'_> {
    fn run(mut self) -> Outcome {
        loop {
            self.start_ready();
            self.reconcile();
            let is_over = self.running.iter().all(|replica| replica.new.is_some() && replica.number.is_some());
            if is_over || self.elapsed() > LIMIT {
                let ended = is_over.then(|| self.elapsed());
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
                self.recorder.step(self.elapsed(), Step::Ready(name.clone()));
                self.running[index].number = Some(self.simulation.start(self.upgrade.new_replica(&name)));
            }
        }
    }

    /// Creates and stops as many replicas as the rules allow now.
    fn reconcile(&mut self) {
        let wanted = self.upgrade.old.len();
        let (most, least) =
            (wanted.saturating_add(self.upgrade.surge), wanted.saturating_sub(self.upgrade.unavailable));
        // Each round creates or stops one replica.
        for _ in 0..wanted.saturating_mul(2) {
            let stays = || self.running.iter().filter(|replica| !replica.is_stopping);
            let available = stays().filter(|replica| replica.number.is_some()).count();
            if self.created < wanted && stays().count() < most {
                self.created += 1;
                self.recorder.step(self.elapsed(), Step::Created(self.upgrade.new_name(self.created)));
                let ready_at = self.simulation.now().saturating_add(self.upgrade.readiness);
                self.running.push(Running { number: None, new: Some(self.created), ready_at, is_stopping: false });
            } else if available > least
                && let Some((index, number)) = self.next_to_stop()
            {
                self.running[index].is_stopping = true;
                self.recorder.step(self.elapsed(), Step::Stops(self.simulation.name(number).to_owned()));
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
        match self.upgrade.order {
            Order::YoungestFirst => old.next_back(),
            Order::LeaderFirst => old.max_by_key(|(_, number)| Some(*number) == leader),
            Order::LeaderLast => old.max_by_key(|(_, number)| Some(*number) != leader),
        }
    }
}

/// Starts the old replicas, the leader first, and lets the group settle.
pub(super) fn begin(upgrade: &Upgrade, simulation: &mut Simulation) -> Vec<Running> {
    let mut order: Vec<usize> = (0..upgrade.old.len()).collect();
    // The others start once the leader leads, so that the same replica leads as in the cluster.
    order.sort_by_key(|index| Some(&upgrade.old[*index].name) != upgrade.leader.as_ref());
    let mut numbers = vec![0; upgrade.old.len()];
    for (position, index) in order.into_iter().enumerate() {
        let old = &upgrade.old[index];
        numbers[index] = simulation.start(upgrade.replica(old));
        if position == 0 {
            simulation.run_until(SETTLING, |simulation| simulation.leader().is_some());
            simulation.edit_lease(|lease| {
                lease.hold.clone_from(&upgrade.hold);
                lease.acts.clone_from(&upgrade.acts);
            });
        }
    }
    simulation.run_until(SETTLING, |simulation| simulation.leader().is_some());
    simulation.run_until(REST, |_| false);
    let replica = |number| Running { number: Some(number), new: None, ready_at: Duration::ZERO, is_stopping: false };
    numbers.into_iter().map(replica).collect()
}

impl Upgrade {
    fn replica(&self, old: &OldReplica) -> NewReplica {
        let OldReplica { name, binary_version, emulation_version, priority, candidate } = old;
        let candidate = candidate.clone().map(|candidate| CandidateRecord {
            uid: String::new(),
            lease_name: self.lease.clone(),
            status: hustings_core::model::RecordedStatus::default(),
            ..candidate
        });
        self.elector(name, binary_version, emulation_version.clone(), *priority, candidate)
    }

    /// The name of the `count`th new replica.
    fn new_name(&self, count: usize) -> String {
        let names = |name: &str| self.old.iter().any(|old| old.name == name);
        let name = format!("new-{count}");
        if names(&name) { format!("{}-new-{count}", self.lease) } else { name }
    }

    fn new_replica(&self, name: &str) -> NewReplica {
        self.elector(name, &self.to, Some(self.emulates.clone()), None, None)
    }

    fn elector(
        &self,
        name: &str,
        binary_version: &str,
        emulation_version: Option<String>,
        priority: Option<i32>,
        candidate: Option<CandidateRecord>,
    ) -> NewReplica {
        let session = format!("session-of-{name}");
        let strategy = Strategy::OldestEmulationVersion;
        let config = elector::Config {
            identity: name.to_owned(),
            lease_name: self.lease.clone(),
            session: session.clone(),
            mode: if self.is_direct { Mode::Direct } else { Mode::Coordinated },
            strategy: strategy.clone(),
            fallback: true,
            timing: self.timing,
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
        };
        let nomination = Nomination {
            name: name.to_owned(),
            lease_name: self.lease.clone(),
            binary_version: binary_version.to_owned(),
            emulation_version,
            strategy: Some(strategy.as_str().to_owned()),
            priority,
            lease_duration_seconds: self.timing.lease_duration_seconds(),
            session,
            pod: None,
        };
        NewReplica { config, nomination, shutdown: self.shutdown, candidate }
    }
}
