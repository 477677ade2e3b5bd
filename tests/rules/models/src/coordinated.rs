//! The world of coordinated elections: real controllers, real electors, one Lease, and a server that enforces the
//! conditions of writes.
//!
//! True time passes in ticks of 5 s. The product's own durations are then few ticks: a lease of 15 s, a window and a
//! grant of 5 s each. Within a tick, all pending events happen, in any order: deadlines, watch events, requests and
//! their answers. Delay, loss, sleep and death are faults, of which a [`Scenario`] allows a few. Each fault may last
//! any length of time, or forever.

mod controller;
mod kubelet;
mod ledger;
mod replica;
mod scenario;
mod steps;
mod store;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election;
use hustings_core::elector::{Action, Durations, ElectorMode, Observation};
use hustings_core::model::Reply;

pub use controller::{ControllerRule, ControllerSeat};
pub use scenario::{Faults, Scenario};
pub use steps::{Step, Who};

use crate::canonical::{CanonicalHasher, Times};
use crate::exploration::{Bounds, State, Verdict};
use crate::process::{Clock, Flight, Process, Seat};
use controller::Controller;
use kubelet::{CONTAINER, Kubelet};
use replica::Replica;
use store::{Sent, Store};

/// The unit of true time.
const TICK_MICROS: i64 = 5_000_000;

/// The identities of the candidates, in the order of their ranks.
const IDENTITIES: [&str; 3] = ["a", "b", "c"];

/// The lease duration of the electors: client-go's, and the default for a record that declares none.
const LEASE_SECONDS: u32 = 15;

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    scenario: Arc<Scenario>,
    /// True time.
    ticks: i64,
    store: Store,
    kubelet: Kubelet,
    replicas: Vec<Arc<Replica>>,
    controllers: Vec<Arc<Controller>>,
    /// Requests whose sender no longer waits for an answer. They may still succeed.
    strays: Vec<Sent>,
    left: Faults,
    /// How many processes have been started.
    lives: u8,
    highest_token: u64,
    verdict: Verdict,
    /// How many ticks have passed without a leader although nothing was wrong.
    vacant: i64,
}

impl State for Cluster {
    type Scenario = Scenario;
    type Step = Step;

    fn begin(scenario: &Arc<Scenario>) -> Self {
        let identities: Vec<_> = scenario.seats.iter().map(|seat| seat.identity).collect();
        assert_eq!(identities, IDENTITIES[..identities.len()], "the seats are in the order of their ranks");
        let store = Store::new(scenario.seats.len(), scenario.are_equal);
        let mut cluster = Self {
            scenario: Arc::clone(scenario),
            ticks: 0,
            store,
            kubelet: Kubelet::new(scenario.seats.len()),
            replicas: Vec::new(),
            controllers: Vec::new(),
            strays: Vec::new(),
            left: scenario.faults,
            lives: 0,
            highest_token: 0,
            verdict: Verdict::default(),
            vacant: 0,
        };
        for seat in &scenario.seats {
            let process = cluster.start(seat);
            cluster.replicas.push(Arc::new(Replica::new(process)));
        }
        for seat in &scenario.controllers {
            let controller = Controller::start(seat, scenario.watches_pods, 0, &cluster.store);
            cluster.controllers.push(Arc::new(controller));
        }
        cluster.lead(0, true);
        cluster
    }

    fn bounds(scenario: &Scenario) -> Bounds {
        let Scenario { vacant_at_most_ticks, horizon_ticks, .. } = *scenario;
        let second_leads = scenario.seats.len() > 1 && scenario.faults != Faults::NONE;
        Bounds { vacant_at_most_ticks, horizon_ticks, second_leads, evidence_counts: scenario.watches_pods }
    }

    fn steps(&self) -> Vec<Step> {
        self.what_may_happen()
    }

    fn take(&mut self, step: Step) {
        self.happen(step);
        if self.scenario.is_prompt {
            self.show_all();
        }
    }

    fn ticks(&self) -> i64 {
        self.ticks
    }

    fn leading(&self) -> impl Iterator<Item = usize> {
        let alive = self.replicas.iter().enumerate().filter(|(_, replica)| !replica.is_dead);
        alive.filter_map(|(index, replica)| replica.process.reads_leading(self.ticks).map(|_| index))
    }

    fn vacant_ticks(&self) -> i64 {
        self.vacant
    }

    fn is_freed_by_evidence(&self) -> bool {
        self.controllers.iter().any(|controller| controller.has_evidence())
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl Cluster {
    fn start(&mut self, seat: &Seat) -> Process {
        self.lives += 1;
        let session = match self.lives {
            // Each process has its own network namespace, so that it cannot reclaim the Lease of its predecessor.
            life if self.scenario.watches_pods => format!("{}.{CONTAINER}.{life}.s", seat.identity),
            life => format!("s{life}"),
        };
        let mode = ElectorMode::Coordinated(Box::new(self.store.candidate_config(seat.identity)));
        Process::start(&Seat { mode, ..seat.clone() }, session, durations(), TICK_MICROS, self.ticks)
    }

    fn replica(&mut self, who: usize) -> &mut Replica {
        Arc::make_mut(&mut self.replicas[who])
    }

    fn controller(&mut self, who: usize) -> &mut Controller {
        Arc::make_mut(&mut self.controllers[who])
    }

    fn pass_tick(&mut self) {
        let awake: Vec<_> = self.leading().filter(|who| !self.replicas[*who].is_asleep).collect();
        self.ticks += 1;
        if self.scenario.faults.losses == 0 && self.store.lease().is_some() {
            let lost = awake.into_iter().any(|who| self.leading().all(|leading| leading != who));
            self.verdict.has_run_out |= lost;
        }
        let (ticks, timeout) = (self.ticks, durations().request_timeout);
        for replica in &mut self.replicas {
            if !replica.process.flights.is_empty() && !replica.is_asleep {
                Arc::make_mut(replica).process.drop_late_flights(ticks, timeout);
            }
        }
        for controller in &mut self.controllers {
            if controller.is_waiting() {
                Arc::make_mut(controller).time_out();
            }
        }
        let is_undisturbed =
            self.replicas.iter().all(|replica| replica.is_dead || !replica.is_asleep && !replica.is_silenced)
                && self.controllers.iter().all(|controller| !controller.is_asleep && !controller.is_silenced);
        let is_vacant = is_undisturbed && self.leading().next().is_none();
        let most = self.scenario.vacant_at_most_ticks.map_or(0, |bound| bound + 1);
        self.vacant = if is_vacant { (self.vacant + 1).min(most) } else { 0 };
    }

    fn wake(&mut self, who: Who) {
        let ticks = self.ticks;
        match who {
            Who::Replica(who) => self.replica(who).process.decide(ticks),
            Who::Controller(who) => {
                let misgrants = self.controller(who).decide(ticks);
                self.verdict.is_misgranted |= misgrants;
            }
        }
    }

    fn show(&mut self, who: Who) {
        match who {
            Who::Replica(who) => {
                for observation in self.replicas[who].news(who, &self.store) {
                    self.observe_replica(who, observation);
                }
            }
            Who::Controller(who) => {
                let news = self.controllers[who].news(&self.store);
                self.inform(who, news);
            }
        }
    }

    /// Lets a controller observe `news` of Leases and candidates, and what it knows of their Pods.
    fn inform(&mut self, who: usize, mut news: Vec<election::Observation>) {
        news.extend(self.kubelet.ends());
        let ticks = self.ticks;
        let misgrants = self.controller(who).observe(ticks, news);
        self.verdict.is_misgranted |= misgrants;
    }

    fn observe_replica(&mut self, who: usize, observation: Observation) {
        let ticks = self.ticks;
        let former = self.replicas[who].process.reads_leading(ticks).map(|leading| leading.token);
        self.replica(who).observe(ticks, observation);
        let token = self.replicas[who].process.reads_leading(ticks).map_or(0, |leading| leading.token);
        if token != 0 && former != Some(token) {
            self.verdict.has_token_fallen |= token <= self.highest_token;
            self.highest_token = token;
            let do_two_lead = self.leading().count() > 1;
            self.verdict.do_two_lead |= do_two_lead;
        }
    }

    /// In prompt scenarios, healthy watches show everything at once.
    fn show_all(&mut self) {
        for who in 0..self.replicas.len() {
            if self.replicas[who].is_shown_news(who, &self.store) {
                self.show(Who::Replica(who));
            }
        }
        for who in 0..self.controllers.len() {
            if self.controllers[who].is_shown_news(&self.store) {
                self.show(Who::Controller(who));
            }
        }
    }

    /// The server executes a request.
    fn execute(&mut self, who: Who, index: usize) {
        match who {
            Who::Replica(who) => self.execute_replica(who, index),
            Who::Controller(who) if self.scenario.is_prompt => {
                let sent: Vec<_> = self.controllers[who].sent().collect();
                for index in sent {
                    self.execute_controller(who, index);
                }
                if self.controllers[who].is_answered() && !self.controllers[who].is_asleep {
                    self.receive_answers(who);
                }
            }
            Who::Controller(who) => self.execute_controller(who, index),
        }
    }

    fn execute_controller(&mut self, who: usize, index: usize) {
        let Some(sent) = self.controllers[who].request(index) else { return };
        let request = sent.request.clone();
        let reply = self.reply(None, sent);
        let observed = election::Observation::of_reply(&request, reply, self.controllers[who].sent_at());
        let observed = observed.or_else(|read| {
            let now = self.controllers[who].now(self.ticks).moment;
            election::Observation::of_reply(&read, self.reply(None, read.clone().into()), now)
        });
        if let Ok(observation) = observed {
            self.controller(who).answer(index, observation);
        }
    }

    fn receive_answers(&mut self, who: usize) {
        let ticks = self.ticks;
        let misgrants = self.controller(who).receive_answers(ticks);
        self.verdict.is_misgranted |= misgrants;
    }

    fn execute_replica(&mut self, who: usize, index: usize) {
        let Some(Flight::Sent { action, at }) = self.replicas[who].process.flights.get(index).cloned() else { return };
        self.replica(who).process.flights.remove(index);
        let observation = match (self.replicas[who].request(&action), &action) {
            (Some(sent), Action::Send { attempt, request }) => {
                Some(Observation::of_reply(*attempt, request, self.reply(Some(who), sent)))
            }
            _ => (action == Action::StopWork).then_some(Observation::WorkStopped),
        };
        match observation {
            Some(observation) if self.replicas[who].is_asleep => {
                self.replica(who).process.flights.insert(index, Flight::Answered { observation, at });
            }
            Some(observation) => self.observe_replica(who, observation),
            None => {}
        }
    }

    fn reply(&mut self, who: Option<usize>, request: Sent) -> Reply {
        let former = self.store.lease().cloned();
        let reply = self.store.execute(request);
        if let (Some(former), Some(lease)) = (former, self.store.lease())
            && (&former.holder, &former.session) != (&lease.holder, &lease.session)
        {
            let is_deposed = self.leading().any(|other| Some(other) != who);
            self.verdict.is_deposed |= is_deposed;
        }
        let store = &self.store;
        self.strays.retain(|stray| store.may_land(stray));
        reply
    }

    fn crash(&mut self, who: Who) {
        let ticks = self.ticks;
        match who {
            Who::Replica(who) => {
                self.end(who);
                let seat = self.scenario.seats[who].clone();
                let successor = self.start(&seat);
                let former = std::mem::replace(&mut self.replicas[who], Arc::new(Replica::new(successor)));
                self.strays.extend(former.requests());
            }
            Who::Controller(who) => {
                let seat = self.scenario.controllers[who].clone();
                let leads = self.controllers[who].leads();
                let successor = Controller::start(&seat, self.scenario.watches_pods, ticks, &self.store);
                let former = std::mem::replace(&mut self.controllers[who], Arc::new(successor));
                self.inform(who, Vec::new());
                let requests: Vec<_> = former.sent().filter_map(|index| former.request(index)).collect();
                self.strays.extend(requests);
                self.lead(who, leads);
            }
        }
        let store = &self.store;
        self.strays.retain(|stray| store.may_land(stray));
    }

    /// The container of a replica ends.
    fn end(&mut self, who: usize) {
        if self.scenario.watches_pods && !self.replicas[who].is_dead {
            self.kubelet.end(who, self.ticks);
        }
    }

    fn lose(&mut self, who: Who, index: usize) {
        let request = match who {
            Who::Replica(who) => {
                let Flight::Sent { action, .. } = self.replica(who).process.flights.remove(index) else { return };
                self.replicas[who].request(&action)
            }
            Who::Controller(who) => {
                self.controller(who).lose(index);
                self.controllers[who].request(index)
            }
        };
        let store = &self.store;
        self.strays.extend(request.filter(|request| store.may_land(request)));
    }

    fn lead(&mut self, who: usize, leads: bool) {
        let ticks = self.ticks;
        let misgrants = self.controller(who).lead(ticks, leads);
        self.verdict.is_misgranted |= misgrants;
    }
}

fn index_of(identity: &str) -> usize {
    IDENTITIES.iter().position(|known| *known == identity).unwrap_or(IDENTITIES.len())
}

/// The longest renew deadline that a lease of 15 s allows, with one renewal in each tick.
fn durations() -> Durations {
    Durations {
        lease_duration_seconds: LEASE_SECONDS,
        renew_deadline: Duration::from_millis(14_850),
        retry_period: Duration::from_millis(4_900),
        jitter_percent: 0,
        request_timeout: Duration::from_millis(4_900),
        stop_grace: Duration::from_millis(9_900),
    }
}

impl Hash for Cluster {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let wall = Clock { fast_ppm: 0, tick_micros: TICK_MICROS }.at(self.ticks).wall;
        let mut canonical =
            CanonicalHasher::new(Times::Ordered, wall.as_micros(), TICK_MICROS, self.scenario.memory_micros);
        let server = canonical.of("", 0, 1);
        (&self.store, &self.kubelet, &self.strays, self.left, self.lives, self.highest_token, self.verdict)
            .hash(server);
        self.vacant.hash(server);
        for replica in &self.replicas {
            replica.hash_into(&mut canonical, self.ticks);
        }
        for (name, controller) in ["first", "second"].iter().zip(&self.controllers) {
            controller.hash_into(name, &mut canonical, self.ticks);
        }
        canonical.pass_to(hasher);
    }
}
