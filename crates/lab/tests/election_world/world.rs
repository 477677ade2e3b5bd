//! A small world around one election: a Lease, its candidates, and an API server that enforces the conditions of
//! writes. It executes the actions of the election, simulates the processes of the candidates, and keeps a transcript.
//!
//! Candidates answer pings at once, take grants up, renew every two seconds and hand over when asked, unless a test
//! switches that off. The world tracks by itself which process may rely on the Lease, and fails the test when a grant
//! ignores that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(dead_code, reason = "each test file uses its part")]

mod natives;
pub(crate) mod others;
mod picture;
mod pods;
pub(crate) mod processes;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use hustings_core::election::{Config, Decision, Election, Observation, Source};
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidateRecord, LeaseRecord, Moment, NodeRecord, Now, PodRecord, ReferenceStore,
    WireTime,
};

use natives::Native;
use others::SecondController;
pub(crate) use picture::describe;
pub(crate) use processes::Process;

/// The largest number of decisions until an election has no action left, whatever has happened.
const STEPS: usize = 12;

/// The name of the Lease.
const LEASE: &str = "l";

const START: i64 = 1_000_000_000;
const WALL_START: i64 = 1_767_225_600_000_000;

/// One election and its environment.
pub(crate) struct World {
    pub(crate) election: Election,
    /// Another controller, which observes the watch but decides only if it is the `second` one.
    standby: Option<Election>,
    second: Option<SecondController>,
    /// The second controller is being played.
    is_second: bool,
    /// The error of the controller's wall clock.
    clock_seconds: i64,
    /// The fields that another client reverts as soon as it observes them.
    pub(crate) undoing: BTreeSet<String>,
    pub(crate) reverts: usize,
    config: Config,
    namespace: String,
    pub(crate) now: Moment,
    /// The delay of the watch.
    pub(crate) lag: Duration,
    /// The observations that the watch has not delivered yet, with the time of their delivery.
    pending: VecDeque<(Moment, Observation)>,
    store: ReferenceStore,
    /// Until when some process may rely on the Lease. It counts from each write itself, not from its observation.
    relied_until: Moment,
    /// The processes of the candidates.
    pub(crate) processes: BTreeMap<String, Process>,
    /// The processes of client-go.
    pub(crate) natives: BTreeMap<String, Native>,
    /// The processes whose candidates were deleted.
    orphans: BTreeMap<String, Process>,
    /// The Pods, with the ends that the kubelets reported.
    pub(crate) pods: BTreeMap<String, PodRecord>,
    pub(crate) nodes: BTreeMap<String, NodeRecord>,
    /// The Pods that the controller may not read.
    refused_pods: BTreeSet<String>,
    pub(crate) last: Option<Decision>,
    /// How many of the next requests fail.
    pub(crate) failing: usize,
    /// How many of the next writes of a status meet a conflict, although there is no newer version.
    pub(crate) conflicting: usize,
    /// The kinds of writes that succeed and have no effect.
    pub(crate) reverted: BTreeSet<String>,
    pub(crate) pings: usize,
    pub(crate) lease_writes: usize,
    pub(crate) status_patches: usize,
    log: String,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self::in_namespace(config, "default")
    }

    pub(crate) fn in_namespace(config: Config, namespace: &str) -> Self {
        Self {
            election: Election::new(config.clone(), namespace, LEASE),
            standby: None,
            second: None,
            is_second: false,
            clock_seconds: 0,
            undoing: BTreeSet::new(),
            reverts: 0,
            config,
            namespace: namespace.to_owned(),
            now: Moment::from_micros(START),
            lag: Duration::ZERO,
            pending: VecDeque::new(),
            store: ReferenceStore::new(),
            relied_until: Moment::from_micros(START),
            processes: BTreeMap::new(),
            natives: BTreeMap::new(),
            orphans: BTreeMap::new(),
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            refused_pods: BTreeSet::new(),
            last: None,
            failing: 0,
            conflicting: 0,
            reverted: BTreeSet::new(),
            pings: 0,
            lease_writes: 0,
            status_patches: 0,
            log: String::new(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now { moment: self.now, wall: self.wall(self.clock_seconds) }
    }

    fn wall(&self, off_seconds: i64) -> WireTime {
        WireTime::from_micros(WALL_START + self.now.as_micros() - START + off_seconds * 1_000_000)
    }

    /// The wall clock `since_start` after the start, truncated to seconds as a kubelet does.
    pub(crate) fn wall_at(since_start: Duration) -> WireTime {
        WireTime::from_micros(WALL_START).after(Duration::from_secs(since_start.as_secs()))
    }

    pub(crate) fn take_log(&mut self) -> String {
        std::mem::take(&mut self.log)
    }

    pub(crate) fn say(&mut self, text: &str) {
        let millis = (self.now.as_micros() - START) / 1000;
        let who = if self.is_second { "second: " } else { "" };
        writeln!(self.log, "{:>4}.{:03}  {who}{text}", millis / 1000, millis % 1000).unwrap();
    }

    pub(crate) fn lease(&self) -> Option<&LeaseRecord> {
        self.store.lease(LEASE)
    }

    pub(crate) fn candidates(&self) -> impl Iterator<Item = &CandidateRecord> {
        self.store.candidates()
    }

    pub(crate) fn candidate(&self, name: &str) -> Option<&CandidateRecord> {
        self.store.candidate(self.key(name))
    }

    /// The candidate with this name. If there are two, it is that of `hustings.io`.
    fn key(&self, name: &str) -> CandidateKey {
        let hustings = CandidateKey::hustings(name);
        let is_hustings = self.processes.contains_key(name) || self.orphans.contains_key(name);
        if is_hustings || !self.natives.contains_key(name) { hustings } else { CandidateKey::native(name) }
    }

    /// The clocks of a process of client-go.
    fn now_of(&self, native: &str) -> Now {
        let off_seconds = self.natives.get(native).map_or(0, |native| native.clock_seconds);
        Now { moment: self.now, wall: self.wall(off_seconds) }
    }

    pub(crate) fn record(&self, candidate: &CandidateKey) -> Option<&CandidateRecord> {
        self.store.candidate(candidate)
    }

    /// Switches the feature gate of the server on or off.
    pub(crate) const fn switch_gate(&mut self, is_on: bool) {
        self.store.keep_native_fields(is_on);
    }

    /// Creates or changes a candidate and shows it to the watch.
    pub(crate) fn put_candidate(&mut self, record: CandidateRecord, process: Process) {
        self.orphans.remove(&record.name);
        self.processes.insert(record.name.clone(), process);
        self.show_put(record);
    }

    fn show_put(&mut self, mut record: CandidateRecord) {
        if record.uid.is_empty() {
            record.creation_time = self.wall(0);
        }
        let record = self.store.put_candidate(record).clone();
        self.show(Observation::Candidate { record, source: Source::Watch });
    }

    /// Changes a candidate if it exists.
    pub(crate) fn edit_candidate(&mut self, name: &str, edit: impl FnOnce(&mut CandidateRecord)) {
        let key = self.key(name);
        self.edit_key(&key, edit);
    }

    fn edit_key(&mut self, key: &CandidateKey, edit: impl FnOnce(&mut CandidateRecord)) {
        if let Some(record) = self.store.edit_candidate(key, edit).cloned() {
            self.show(Observation::Candidate { record, source: Source::Watch });
        }
    }

    /// Lets the watch show this after its delay.
    fn show(&mut self, observation: Observation) {
        self.pending.push_back((self.now.after(self.lag), observation));
        self.deliver();
    }

    /// Delivers the observations of the watch that are due. Returns whether there were any.
    fn deliver(&mut self) -> bool {
        let mut delivered = false;
        while let Some((_, observation)) = self.pending.pop_front_if(|(due, _)| *due <= self.now) {
            let now = self.now();
            if let Some(standby) = &mut self.standby {
                standby.observe(now, observation.clone());
            }
            self.election.observe(self.now(), observation);
            delivered = true;
        }
        delivered
    }

    pub(crate) fn delete_candidate(&mut self, name: &str) {
        let candidate = self.key(name);
        self.store.delete_candidate(&candidate);
        self.orphan_process(&candidate);
        self.show(Observation::CandidateMissing { candidate, source: Source::Watch });
    }

    /// Separates a process from its deleted candidate. A process of client-go stays, because it notices the deletion
    /// late: see [`ClientGo`](hustings_lab::client_go::ClientGo).
    fn orphan_process(&mut self, candidate: &CandidateKey) {
        if candidate.kind == CandidateKind::Hustings
            && let Some(process) = self.processes.remove(&*candidate.name)
        {
            self.orphans.insert(candidate.name.to_string(), process);
        }
    }

    /// The process of this name whose candidate was deleted.
    pub(crate) fn orphan(&mut self, name: &str) -> Option<Process> {
        self.orphans.remove(name)
    }

    /// Writes the Lease as a writer other than the controller, and shows it to the watch.
    pub(crate) fn put_lease(&mut self, record: LeaseRecord) {
        let was_shown = self.lease().is_some_and(|lease| lease.enrolled);
        let record = self.store.put_lease(LEASE, record).clone();
        if record.enrolled {
            self.show(Observation::Lease { record, source: Source::Watch });
        } else if was_shown {
            self.show(Observation::LeaseMissing { source: Source::Watch });
        }
    }

    pub(crate) fn delete_lease(&mut self) {
        self.store.delete_lease(LEASE);
        self.show(Observation::LeaseMissing { source: Source::Watch });
    }

    /// A new controller, which knows only the state of the API, takes over.
    pub(crate) fn restart(&mut self) {
        self.election = self.newcomer();
        self.pending.clear();
    }

    /// Starts another controller, which stands by from now on.
    pub(crate) fn stand_by(&mut self) {
        self.standby = Some(self.newcomer());
    }

    /// Lets the standby controller take over. The former leader stands by from now on.
    pub(crate) fn take_over(&mut self) {
        let standby = self.standby.as_mut().expect("a controller stands by");
        std::mem::swap(&mut self.election, standby);
    }

    fn newcomer(&self) -> Election {
        let mut election = Election::new(self.config.clone(), &self.namespace, LEASE);
        let source = Source::Watch;
        election.observe(
            self.now(),
            match self.lease().cloned().filter(|lease| lease.enrolled) {
                Some(record) => Observation::Lease { record, source },
                None => Observation::LeaseMissing { source },
            },
        );
        for record in self.store.candidates() {
            election.observe(self.now(), Observation::Candidate { record: record.clone(), source });
        }
        election
    }

    /// Lets `duration` pass.
    pub(crate) fn run(&mut self, duration: Duration) {
        let end = self.now.after(duration);
        loop {
            let deadline = self.settle();
            let renewal = self.next_renewal();
            let event = self.pending.front().map_or(Moment::NEVER, |(due, _)| *due);
            let next = deadline.min(renewal).min(event);
            if next > end {
                self.now = end;
                self.settle();
                return;
            }
            assert!(next > self.now, "a deadline lies in the past");
            self.now = next;
        }
    }

    /// Decides, and lets all processes react, until nothing happens any more. Returns the deadline of the last
    /// decision.
    pub(crate) fn settle(&mut self) -> Moment {
        for step in 0..STEPS {
            if step == STEPS / 2 {
                // Requests take time. The election never counts a read at the instant of the last watch event.
                self.now = self.now.after(Duration::from_micros(1));
            }
            let reacted = self.deliver() | self.react() | self.play_reverting_client();
            let decision = self.election.decide(self.now());
            let actions = decision.actions.clone();
            let deadline = decision.deadline;
            assert!(deadline <= self.now.after(self.config.requeue), "a deadline lies beyond the requeue interval");
            self.last = Some(decision);
            let acts = !actions.is_empty();
            self.execute(actions);
            let (second_deadline, second_acts) = self.play_second();
            if !acts && !second_acts && !reacted {
                return deadline.min(second_deadline);
            }
        }
        panic!("the election does not settle:\n{}", self.log);
    }
}
