//! The world of coordinated elections: real controllers, real electors, one Lease, and a server that honours
//! conditions.
//!
//! True time passes in ticks of 5 s, so that the product's own times are few ticks: a lease of 15 s, a window and a
//! grant of 5 s. Within a tick everything that can happen does, in any order: deadlines, watch events, requests and
//! their answers. Delay, loss, sleep and death are faults, of which a [`Scenario`] allows a few. Each of them may last
//! for any time, also for ever.

mod chair;
mod ledger;
mod scenario;
mod steps;
mod store;
mod voter;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election;
use hustings_core::elector::{Action, Durations, Observation};
use hustings_core::model::Reply;

pub use chair::{ChairRule, ChairSeat};
pub use scenario::{Faults, Scenario};
pub use steps::{Step, Who};

use crate::canonical::{Speller, Times};
use crate::exploration::{Bounds, State, Verdict};
use crate::process::{Clock, Flight, Process, Seat};
use chair::Chair;
use store::{Sent, Store};
use voter::Voter;

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
    voters: Vec<Arc<Voter>>,
    chairs: Vec<Arc<Chair>>,
    /// Requests whose sender no longer waits for an answer: they may still land.
    strays: Vec<Sent>,
    left: Faults,
    /// How many processes have been started.
    lives: u8,
    highest_token: u64,
    verdict: Verdict,
    /// For how many ticks no process has led although nothing was wrong.
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
            voters: Vec::new(),
            chairs: Vec::new(),
            strays: Vec::new(),
            left: scenario.faults,
            lives: 0,
            highest_token: 0,
            verdict: Verdict::default(),
            vacant: 0,
        };
        for seat in &scenario.seats {
            let process = cluster.start(seat);
            let nomination = cluster.store.nomination(cluster.voters.len());
            cluster.voters.push(Arc::new(Voter::new(process, nomination)));
        }
        for seat in &scenario.chairs {
            cluster.chairs.push(Arc::new(Chair::start(seat, TICK_MICROS, 0, &cluster.store)));
        }
        cluster.lead(0, true);
        cluster
    }

    fn bounds(scenario: &Scenario) -> Bounds {
        let Scenario { vacant_at_most_ticks, horizon_ticks, .. } = *scenario;
        let second_leads = scenario.seats.len() > 1 && scenario.faults != Faults::NONE;
        Bounds { vacant_at_most_ticks, horizon_ticks, second_leads }
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
        let alive = self.voters.iter().enumerate().filter(|(_, voter)| !voter.is_dead);
        alive.filter_map(|(index, voter)| voter.process.reads_leading(self.ticks).map(|_| index))
    }

    fn vacant_ticks(&self) -> i64 {
        self.vacant
    }

    fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl Cluster {
    fn start(&mut self, seat: &Seat) -> Process {
        self.lives += 1;
        Process::start(seat, format!("s{}", self.lives), durations(), TICK_MICROS, self.ticks)
    }

    fn voter(&mut self, who: usize) -> &mut Voter {
        Arc::make_mut(&mut self.voters[who])
    }

    fn chair(&mut self, who: usize) -> &mut Chair {
        Arc::make_mut(&mut self.chairs[who])
    }

    fn pass_tick(&mut self) {
        let awake: Vec<_> = self.leading().filter(|who| !self.voters[*who].is_asleep).collect();
        self.ticks += 1;
        if self.scenario.faults.losses == 0 && self.store.lease().is_some() {
            let lost = awake.into_iter().any(|who| self.leading().all(|leading| leading != who));
            self.verdict.has_run_out |= lost;
        }
        let (ticks, timeout) = (self.ticks, durations().request_timeout);
        for voter in &mut self.voters {
            if !voter.process.flights.is_empty() && !voter.is_asleep {
                Arc::make_mut(voter).process.drop_late_flights(ticks, timeout);
            }
        }
        for chair in &mut self.chairs {
            if chair.is_waiting() {
                Arc::make_mut(chair).time_out();
            }
        }
        let is_undisturbed = self.voters.iter().all(|voter| voter.is_dead || !voter.is_asleep && !voter.is_silenced)
            && self.chairs.iter().all(|chair| !chair.is_asleep && !chair.is_silenced);
        let is_vacant = is_undisturbed && self.leading().next().is_none();
        let most = self.scenario.vacant_at_most_ticks.map_or(0, |bound| bound + 1);
        self.vacant = if is_vacant { (self.vacant + 1).min(most) } else { 0 };
    }

    fn wake(&mut self, who: Who) {
        let ticks = self.ticks;
        match who {
            Who::Voter(who) => self.voter(who).process.decide(ticks),
            Who::Chair(who) => {
                let misgrants = self.chair(who).decide(ticks);
                self.verdict.is_misgranted |= misgrants;
            }
        }
    }

    fn tell(&mut self, who: Who) {
        match who {
            Who::Voter(who) => {
                for observation in self.voters[who].news(who, &self.store) {
                    self.tell_voter(who, observation);
                }
            }
            Who::Chair(who) => {
                let (ticks, news) = (self.ticks, self.chairs[who].news(&self.store));
                let misgrants = self.chair(who).observe(ticks, news);
                self.verdict.is_misgranted |= misgrants;
            }
        }
    }

    fn tell_voter(&mut self, who: usize, observation: Observation) {
        let ticks = self.ticks;
        let former = self.voters[who].process.reads_leading(ticks).map(|leading| leading.token);
        self.voter(who).observe(ticks, observation);
        let token = self.voters[who].process.reads_leading(ticks).map_or(0, |leading| leading.token);
        if token != 0 && former != Some(token) {
            self.verdict.has_token_fallen |= token <= self.highest_token;
            self.highest_token = token;
            let do_two_lead = self.leading().count() > 1;
            self.verdict.do_two_lead |= do_two_lead;
        }
    }

    /// Healthy watches show everything at once, in scenarios that say so.
    fn show_all(&mut self) {
        for who in 0..self.voters.len() {
            if self.voters[who].is_shown_news(who, &self.store) {
                self.tell(Who::Voter(who));
            }
        }
        for who in 0..self.chairs.len() {
            if self.chairs[who].is_shown_news(&self.store) {
                self.tell(Who::Chair(who));
            }
        }
    }

    /// The server executes a request.
    fn execute(&mut self, who: Who, index: usize) {
        match who {
            Who::Voter(who) => self.execute_voter(who, index),
            Who::Chair(who) if self.scenario.is_prompt => {
                let sent: Vec<_> = self.chairs[who].sent().collect();
                for index in sent {
                    self.execute_chair(who, index);
                }
                if self.chairs[who].is_answered() && !self.chairs[who].is_asleep {
                    self.hear(who);
                }
            }
            Who::Chair(who) => self.execute_chair(who, index),
        }
    }

    fn execute_chair(&mut self, who: usize, index: usize) {
        let Some(sent) = self.chairs[who].request(index) else { return };
        let request = sent.request.clone();
        let reply = self.reply(None, sent);
        let observed = election::Observation::of_reply(&request, reply, self.chairs[who].sent_at());
        let observed = observed.or_else(|read| {
            let now = self.chairs[who].now(self.ticks).moment;
            election::Observation::of_reply(&read, self.reply(None, read.clone().into()), now)
        });
        if let Ok(observation) = observed {
            self.chair(who).answer(index, observation);
        }
    }

    fn hear(&mut self, who: usize) {
        let ticks = self.ticks;
        let misgrants = self.chair(who).hear(ticks);
        self.verdict.is_misgranted |= misgrants;
    }

    fn execute_voter(&mut self, who: usize, index: usize) {
        let Some(Flight::Sent { action, at }) = self.voters[who].process.flights.get(index).cloned() else { return };
        self.voter(who).process.flights.remove(index);
        let observation = match self.voters[who].request(&action) {
            Some(request) => action.observation(self.reply(Some(who), request)),
            None => (action == Action::StopWork).then_some(Observation::WorkStopped),
        };
        match observation {
            Some(observation) if self.voters[who].is_asleep => {
                self.voter(who).process.flights.insert(index, Flight::Answered { observation, at });
            }
            Some(observation) => self.tell_voter(who, observation),
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
            Who::Voter(who) => {
                let seat = self.scenario.seats[who].clone();
                let successor = self.start(&seat);
                let nomination = self.store.nomination(who);
                let former = std::mem::replace(&mut self.voters[who], Arc::new(Voter::new(successor, nomination)));
                self.strays.extend(former.requests());
            }
            Who::Chair(who) => {
                let seat = self.scenario.chairs[who].clone();
                let leads = self.chairs[who].leads();
                let successor = Chair::start(&seat, TICK_MICROS, ticks, &self.store);
                let former = std::mem::replace(&mut self.chairs[who], Arc::new(successor));
                let requests: Vec<_> = former.sent().filter_map(|index| former.request(index)).collect();
                self.strays.extend(requests);
                self.lead(who, leads);
            }
        }
        let store = &self.store;
        self.strays.retain(|stray| store.may_land(stray));
    }

    fn lose(&mut self, who: Who, index: usize) {
        let request = match who {
            Who::Voter(who) => {
                let Flight::Sent { action, .. } = self.voter(who).process.flights.remove(index) else { return };
                self.voters[who].request(&action)
            }
            Who::Chair(who) => {
                self.chair(who).lose(index);
                self.chairs[who].request(index)
            }
        };
        let store = &self.store;
        self.strays.extend(request.filter(|request| store.may_land(request)));
    }

    fn lead(&mut self, who: usize, leads: bool) {
        let ticks = self.ticks;
        let misgrants = self.chair(who).lead(ticks, leads);
        self.verdict.is_misgranted |= misgrants;
    }
}

fn index_of(identity: &str) -> usize {
    IDENTITIES.iter().position(|known| *known == identity).unwrap_or(IDENTITIES.len())
}

/// The longest deadline that a lease of 15 s allows, and one renewal in each tick.
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
        let mut speller = Speller::new(Times::Ordered, wall.as_micros(), TICK_MICROS, self.scenario.memory_micros);
        let server = speller.of("", 0, 1);
        (&self.store, &self.strays, self.left, self.lives, self.highest_token, self.verdict).hash(server);
        self.vacant.hash(server);
        for voter in &self.voters {
            voter.spell(&mut speller, self.ticks);
        }
        for (name, chair) in ["first", "second"].iter().zip(&self.chairs) {
            chair.spell(name, &mut speller, self.ticks);
        }
        speller.tell(hasher);
    }
}
