//! Properties of every assisted Lease, whatever happens to its holders: the world fails the test if the Lease of a live
//! holder is released, and in the end the Lease of a dead one is released as soon as its kubelet has reported the end.
//!
//! The holders are processes of client-go in the Pods of a StatefulSet, whose names come again. Some programs take the name of
//! the Pod as their identity, so the next process goes on with the term of the former one.

#[path = "election_world/world.rs"]
mod election_world;

use std::time::Duration;

use election_world::World;
use hustings_core::assist::AssistOptions;
use hustings_core::election::{Config, EvidenceConfig};
use hustings_core::model::{Annotation, ContainerEnd, ContainerRecord, LeaseActs, LeaseRecord, PodRecord, WireTime};
use hustings_lab::client_go::Stands;
use hustings_lab::wall_at;
use proptest::prelude::*;
use proptest::sample::select;

/// How long the calm at the end lasts: a lease, a term that begins, and some renewals.
const SETTLES: Duration = Duration::from_secs(40);

/// Premise: for so long after its process has acquired the Lease, nobody deletes a Pod by force. Otherwise an instance that
/// starts in the next Pod of its name could pass for the holder.
const PREMISE: Duration = Duration::from_secs(4);

/// How soon the kubelet of a calm node reports an end.
const REPORTS_WITHIN: Duration = Duration::from_millis(700);

/// One event in the life of a StatefulSet.
#[derive(Clone, Copy, Debug)]
enum Incident {
    /// The process ends, and its container starts again.
    Crash {
        pod: usize,
        ending: Ending,
    },
    /// The Pod is deleted, and another one of its name is created.
    Replace {
        pod: usize,
        ending: Ending,
        releases: bool,
    },
    /// The Pod is deleted by force, because its node is cut off. Another Pod of its name is created. The process of the
    /// former one lives on, and reaches no server.
    Force {
        pod: usize,
    },
    /// The process that lives on ends, and no kubelet reports it.
    EndOnNode,
    /// No watch shows the Pod for a while.
    Hide {
        pod: usize,
    },
    /// A person empties the Lease.
    Empty,
    Pause(bool),
    Restart,
    TakeOver,
    Fail(usize),
}

/// How a process ends, and the next one begins.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// How long after the end the next process begins.
    restart: Duration,
    /// How much later the container runtime records that start.
    record_lag: Duration,
    /// How long after the end the kubelet reports it.
    report_lag: Duration,
}

/// The Pod that has a name now.
struct Home {
    name: String,
    uid: String,
    /// The identity of its process.
    identity: String,
    /// When the process started, as the kubelet reports it.
    started_at: WireTime,
    last_end: Option<ContainerEnd>,
}

struct StatefulSet {
    world: World,
    homes: Vec<Home>,
    /// Processes that live on without their Pods.
    cut_off: Vec<String>,
    count: usize,
    /// How far the wall clock of the node is ahead.
    clock_micros: i64,
    /// Whether each process has an identity of its own.
    names_processes: bool,
}

fn incident() -> impl Strategy<Value = Incident> {
    let millis = |most: u64| (0..most).prop_map(Duration::from_millis);
    let ending = (millis(2_500), millis(2_900), millis(4_000)).prop_map(|(restart, record_lag, report_lag)| Ending {
        restart,
        record_lag,
        report_lag,
    });
    let pod = 0..3_usize;
    prop_oneof![
        6 => (pod.clone(), ending.clone()).prop_map(|(pod, ending)| Incident::Crash { pod, ending }),
        4 => (pod.clone(), ending, any::<bool>())
            .prop_map(|(pod, ending, releases)| Incident::Replace { pod, ending, releases }),
        2 => pod.clone().prop_map(|pod| Incident::Force { pod }),
        1 => Just(Incident::EndOnNode),
        1 => pod.prop_map(|pod| Incident::Hide { pod }),
        1 => Just(Incident::Empty),
        1 => any::<bool>().prop_map(Incident::Pause),
        1 => Just(Incident::Restart),
        1 => Just(Incident::TakeOver),
        1 => (1..4_usize).prop_map(Incident::Fail),
    ]
}

impl StatefulSet {
    fn new(lag: Duration, clock_micros: i64, names_processes: bool) -> Self {
        let config = Config { evidence: EvidenceConfig { pods: true, nodes: false }, ..Config::default() };
        let mut world = World::in_namespace(config, "default", lag);
        world.stand_by();
        let assist = Some(Annotation::Valid(AssistOptions::default()));
        let acts = LeaseActs { assist, ..LeaseActs::default() };
        world.put_lease(LeaseRecord { enrolled: true, acts, ..LeaseRecord::default() });
        let mut set = Self { world, homes: Vec::new(), cut_off: Vec::new(), count: 0, clock_micros, names_processes };
        for index in 0..3 {
            let name = format!("web-{index}");
            let (uid, identity) = (String::new(), String::new());
            set.homes.push(Home { name, uid, identity, started_at: WireTime::MIN, last_end: None });
            set.create(index, Duration::ZERO);
        }
        set
    }

    /// The wall clock of the node, truncated to seconds as the kubelet does.
    fn seconds(&self, after: Duration) -> WireTime {
        let wall = wall_at(self.world.lab.now_micros + self.clock_micros).after(after).as_micros();
        WireTime::from_micros(wall.div_euclid(1_000_000) * 1_000_000)
    }

    /// Creates a Pod of this name, with a process.
    fn create(&mut self, pod: usize, record_lag: Duration) {
        self.count += 1;
        self.homes[pod].uid = format!("uid-{}", self.count);
        self.homes[pod].last_end = None;
        self.start(pod, record_lag);
        self.show(pod, false);
    }

    fn start(&mut self, pod: usize, record_lag: Duration) {
        self.count += 1;
        let started_at = self.seconds(record_lag);
        let home = &mut self.homes[pod];
        home.identity = home.name.clone();
        if self.names_processes {
            home.identity = format!("{}_00000000-0000-4000-8000-{:012}", home.name, self.count);
        }
        home.started_at = started_at;
        self.world.lab.start_native(&home.identity, Stands::Plain, 15, self.clock_micros);
    }

    /// The kubelet reports the state of the Pod.
    fn show(&mut self, pod: usize, is_over: bool) {
        let Home { name, uid, last_end, .. } = &self.homes[pod];
        let container = ContainerRecord::ended("app", last_end.clone());
        let (name, uid, containers) = (name.as_str().into(), uid.as_str().into(), [container].into());
        let record = PodRecord { name, uid, is_over, containers, ..PodRecord::default() };
        self.world.lab.server.pods.insert(self.homes[pod].name.clone(), record);
        self.world.lab.pod_changed(&self.homes[pod].name.clone());
    }

    /// The process ends now. The kubelet will report that.
    fn end(&mut self, pod: usize, releases: bool) {
        let identity = self.homes[pod].identity.clone();
        if releases {
            self.world.stop_native(&identity);
        } else {
            self.world.kill(&identity);
        }
        let started_at = Some(self.homes[pod].started_at);
        let finished_at = Some(self.seconds(Duration::ZERO));
        self.homes[pod].last_end = Some(ContainerEnd { started_at, finished_at, reason: "Error".into() });
    }

    fn crash(&mut self, pod: usize, Ending { restart, record_lag, report_lag }: Ending) {
        self.end(pod, false);
        if report_lag < restart {
            self.world.run(report_lag);
            self.show(pod, false);
        }
        self.world.run(restart.saturating_sub(report_lag));
        self.start(pod, record_lag);
        self.world.run(report_lag.saturating_sub(restart));
        self.show(pod, false);
    }

    fn replace(&mut self, pod: usize, Ending { restart, record_lag, report_lag }: Ending, releases: bool) {
        self.end(pod, releases);
        self.world.run(report_lag);
        self.show(pod, true);
        self.world.lab.server.pods.remove(&self.homes[pod].name);
        self.world.run(restart);
        self.create(pod, record_lag);
    }

    fn happen(&mut self, incident: Incident) {
        match incident {
            Incident::Crash { pod, ending } => self.crash(pod, ending),
            Incident::Replace { pod, ending, releases } => self.replace(pod, ending, releases),
            Incident::Force { pod } if self.leader() == Some(pod) && self.term_lasted() < PREMISE => {}
            // The lab knows a process by its identity, so it has no two of one.
            Incident::Force { .. } if !self.names_processes => {}
            Incident::Force { pod } => {
                let identity = self.homes[pod].identity.clone();
                let mut natives = self.world.lab.natives.iter_mut();
                if let Some(native) = natives.find(|native| native.process.name == identity) {
                    native.takes_up = false;
                }
                self.cut_off.push(identity);
                self.world.lab.server.pods.remove(&self.homes[pod].name);
                self.create(pod, Duration::ZERO);
            }
            Incident::EndOnNode => self.cut_off.drain(..).for_each(|identity| self.world.kill(&identity)),
            Incident::Hide { pod } => _ = self.world.lab.server.hidden_pods.insert(self.homes[pod].name.clone()),
            Incident::Empty => self.world.lab.edit_lease(|lease| lease.holder = None),
            Incident::Pause(is_on) => {
                self.world.lab.edit_lease(|lease| lease.hold = is_on.then(|| "maintenance".to_owned()));
            }
            Incident::Restart => self.world.restart(),
            Incident::TakeOver => self.world.take_over(),
            Incident::Fail(count) => self.world.lab.server.faults.failing = count,
        }
    }

    /// Ends all disturbances, and waits until a process in a new Pod leads.
    fn calm(&mut self) {
        self.world.lab.server.faults.failing = 0;
        self.world.lab.server.hidden_pods.clear();
        self.happen(Incident::Pause(false));
        self.happen(Incident::EndOnNode);
        // A holder that was observed while a watch showed a former Pod of this name proves nothing.
        for pod in 0..3 {
            self.end(pod, false);
            self.create(pod, Duration::ZERO);
        }
        self.world.run(SETTLES);
    }

    /// Whether the last process in this Pod began the term itself, and renewed last before the second in which it ended.
    /// Otherwise the former or the next process of this name may have done that.
    fn began_and_renewed_before_its_end(&self, pod: usize) -> bool {
        let Home { started_at, last_end, .. } = &self.homes[pod];
        let finished_at = last_end.as_ref().and_then(|end| end.finished_at);
        self.world.lease().is_some_and(|lease| {
            lease.acquire_time >= Some(*started_at)
                && lease.renew_time < finished_at
                && lease.acquire_time <= finished_at
        })
    }

    /// How long ago the holder acquired the Lease.
    fn term_lasted(&self) -> Duration {
        let acquired = self.world.lease().and_then(|lease| lease.acquire_time).unwrap_or(WireTime::MIN);
        let now = wall_at(self.world.lab.now_micros + self.clock_micros);
        Duration::from_micros(u64::try_from(now.as_micros() - acquired.as_micros()).unwrap_or(0))
    }

    /// The Pod of the holder.
    fn leader(&self) -> Option<usize> {
        let holder = self.world.lease()?.holder.as_ref()?;
        self.homes.iter().position(|home| home.identity == *holder)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_dead_holders_lose_an_assisted_lease_and_in_the_end_they_lose_it_at_once(
        incidents in proptest::collection::vec((incident(), 0..6_000_u64), 1..14),
        lag_millis in select(vec![0, 0, 20, 700, 3_000]),
        clock_seconds in select(vec![-3_600_i64, 0, 3_600]),
        ends in proptest::collection::vec(any::<bool>(), 4),
        names_processes in any::<bool>(),
    ) {
        let lag = Duration::from_millis(lag_millis);
        let mut set = StatefulSet::new(lag, clock_seconds * 1_000_000, names_processes);
        for (incident, pause) in incidents {
            set.happen(incident);
            set.world.run(Duration::from_millis(pause));
        }
        set.calm();
        for is_replaced in ends {
            let pod = set.leader();
            prop_assert!(pod.is_some(), "nobody leads\n{}", set.world.take_log());
            let pod = pod.unwrap_or_default();
            let victim = set.homes[pod].identity.clone();
            set.end(pod, false);
            let is_provable = names_processes || set.began_and_renewed_before_its_end(pod);
            set.world.run(REPORTS_WITHIN);
            set.show(pod, is_replaced);
            set.world.run(lag * 2 + Duration::from_millis(100));
            let holder = set.world.lease().and_then(|lease| lease.holder.clone());
            let is_released = holder.as_ref() != Some(&victim);
            prop_assert!(is_released || !is_provable, "{victim} is dead\n{}", set.world.take_log());
            if is_replaced {
                set.world.lab.server.pods.remove(&set.homes[pod].name);
                set.create(pod, Duration::ZERO);
            } else {
                set.start(pod, Duration::ZERO);
                set.show(pod, false);
            }
            set.world.run(Duration::from_secs(5));
        }
    }
}
