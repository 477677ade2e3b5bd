//! The table tests of the built-in controller, with native objects. R1 to R10 test one step, and C1 to C5 the running
//! controller. All cases are played at once. The versions and the ages of times are the same as upstream.

use futures::future::join_all;
use hustings_client::api::{MicroTime, NativeVersion, ReadLease, ReadNativeCandidate};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::{LeaseRecord, WireTime};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::OTHER_STRATEGY;
use crate::controller::native_peer::NativePeer;
use crate::controller::stand_in::standing_in;
use crate::controller::support::{Controller, World, eventually};

const OLDEST: &str = "OldestEmulationVersion";

/// One case. Its Lease has its name, and its candidates have that name and their numbers from 1.
struct Case {
    name: &'static str,
    lease: Start,
    /// `spec.strategy` of that Lease.
    strategy: Option<&'static str>,
    candidates: &'static [Candidate],
    then: Then,
    end: End,
}

/// The Lease before the candidates appear.
#[derive(Clone, Copy)]
enum Start {
    Missing,
    Empty,
    /// Held by the first candidate.
    Held,
    /// Held by a process without a candidate. Its last renewal is this many seconds old.
    Foreign(i64),
}

/// A native candidate, and how its process behaves.
#[derive(Clone, Copy)]
struct Candidate {
    binary: &'static str,
    emulation: &'static str,
    strategy: &'static str,
    /// How many seconds ago it was renewed last, and pinged last.
    renewed: i64,
    pinged: Option<i64>,
    process: Process,
}

#[derive(Clone, Copy, PartialEq)]
enum Process {
    Lives,
    /// It lives, and does not release its Lease when it is asked to.
    Keeps,
    Dead,
}

/// What happens once the election has begun.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// Another election ends first, then the candidate answers.
    Answers,
    Deleted,
    Joins(Candidate),
}

/// The outcome.
#[derive(Clone, Copy)]
enum End {
    NoLease,
    /// There is no Lease, and an event says why.
    NoLiveCandidate,
    Untouched,
    LedBy(usize),
    /// The first candidate is asked to hand over to this one.
    Asked(usize),
    /// The Lease has the other strategy and its former holder.
    LeftToOther,
}

const OLD: Candidate = candidate("1.19.0", "1.19.0");
const NEW: Candidate = candidate("1.20.0", "1.20.0");

const CASES: [Case; 15] = [
    case("r1", Start::Missing, &[], End::NoLease),
    case("r2", Start::Empty, &[], End::Untouched),
    case("r3", Start::Missing, &[OLD], End::LedBy(1)),
    case("r4", Start::Held, &[OLD.keeps(), candidate("1.18.0", "1.18.0")], End::Asked(2)),
    case("r5", Start::Missing, &[OLD.dead(20, Some(10)), NEW], End::LedBy(2)),
    case("r6", Start::Foreign(60), &[OLD], End::LedBy(1)),
    case("r7", Start::Missing, &[OLD.dead(120, Some(60))], End::NoLiveCandidate),
    case("r8", Start::Missing, &[OLD.dead(10, None)], End::NoLease),
    case("r9", Start::Missing, &[OLD.dead(60, Some(0))], End::LedBy(1)).then(Then::Answers),
    case("r10", Start::Foreign(60), &[OLD.asks_for(OTHER_STRATEGY)], End::LeftToOther),
    case("c1", Start::Missing, &[OLD], End::LedBy(1)),
    case("c2", Start::Missing, &[OLD, candidate("1.20.0", "1.19.0"), NEW], End::LedBy(1)),
    case("c3", Start::Foreign(0), &[OLD], End::LedBy(1)).then(Then::Deleted),
    case("c4", Start::Foreign(11), &[OLD], End::LedBy(1)).marked(),
    case("c5", Start::Held, &[NEW], End::LedBy(2)).marked().then(Then::Joins(OLD)),
];

const fn case(name: &'static str, lease: Start, candidates: &'static [Candidate], end: End) -> Case {
    Case { name, lease, strategy: None, candidates, then: Then::Nothing, end }
}

const fn candidate(binary: &'static str, emulation: &'static str) -> Candidate {
    Candidate { binary, emulation, strategy: OLDEST, renewed: 0, pinged: None, process: Process::Lives }
}

/// A candidate whose object exists.
struct Standing {
    name: String,
    pinged: Option<WireTime>,
    peer: Option<NativePeer>,
}

#[tokio::test]
async fn the_table_tests_of_the_built_in_controller_end_alike_by_native_objects() {
    let (world, controller) = standing_in("upstream-table").await;
    let played = join_all(CASES.iter().map(|case| case.play(&world, controller))).await;
    for (case, (created, _standing)) in CASES.iter().zip(&played) {
        let lease = world.lease(case.name).await;
        match case.end {
            End::NoLease | End::NoLiveCandidate => assert_eq!(lease, None, "{}", case.name),
            End::Untouched => assert_eq!(&lease, created, "{}", case.name),
            End::LedBy(_) | End::Asked(_) | End::LeftToOther => {}
        }
    }
}

impl Case {
    const fn marked(mut self) -> Self {
        self.strategy = Some(OLDEST);
        self
    }

    const fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }

    /// Creates the objects, lets the processes live, and waits for the end. Returns the Lease as it was created, and
    /// the candidates, which stay alive.
    async fn play(&self, world: &World, controller: &Controller) -> (Option<ReadLease>, Vec<Standing>) {
        let created = self.create_lease(world).await;
        // At once, so that the election knows all of them, even on a busy machine.
        let candidates = self.candidates.iter().enumerate();
        let mut standing = join_all(candidates.map(|(index, candidate)| self.stand(world, index + 1, candidate))).await;
        match self.then {
            Then::Nothing => {}
            Then::Answers => {
                standing[0].is_pinged(world).await;
                world.led_by("r3", "r3-1").await;
                assert_eq!(world.lease(self.name).await, None, "the candidate has not answered");
                standing[0].peer = Some(NativePeer::live(native_candidates(world), self.name, &standing[0].name, true));
            }
            Then::Deleted => {
                let labels = format!(r#"namespace="{}",lease="{}""#, world.namespace, self.name);
                eventually("the controller observes the holder", || async {
                    let held = controller.metric_if_any(&format!("hustings_election_held{{{labels}}}")).await?;
                    if held > 0.5 { Ok(()) } else { Err(held.to_string()) }
                })
                .await;
                leases(world).delete(self.name, &DeleteParams::default()).await.unwrap();
            }
            Then::Joins(candidate) => standing.push(self.stand(world, standing.len() + 1, &candidate).await),
        }
        self.ends(world, created.as_ref(), &standing).await;
        (created, standing)
    }

    async fn create_lease(&self, world: &World) -> Option<ReadLease> {
        let (holder, age) = match self.lease {
            Start::Missing => return None,
            Start::Empty => (None, 0),
            Start::Held => (Some(self.candidate(1)), 0),
            Start::Foreign(age) => (Some(self.other()), age),
        };
        let held = |holder| json!({ "holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": ago(age), "strategy": self.strategy });
        let lease = json!({ "metadata": { "name": self.name }, "spec": holder.map(held) });
        leases(world).create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
        world.lease(self.name).await
    }

    async fn stand(&self, world: &World, number: usize, candidate: &Candidate) -> Standing {
        let name = self.candidate(number);
        let pinged = candidate.pinged.map(ago);
        world.stand_native(&name, candidate.spec(self.name, pinged)).await;
        let lives = candidate.process != Process::Dead;
        let peer = lives
            .then(|| NativePeer::live(native_candidates(world), self.name, &name, candidate.process == Process::Lives));
        Standing { name, pinged: pinged.map(|pinged| pinged.0), peer }
    }

    async fn ends(&self, world: &World, created: Option<&ReadLease>, standing: &[Standing]) {
        for candidate in &standing[usize::from(matches!(self.lease, Start::Held))..] {
            candidate.is_pinged(world).await;
        }
        match self.end {
            End::NoLease | End::Untouched => {}
            End::NoLiveCandidate => self.is_reported(world).await,
            End::LedBy(number) => {
                let holder = Some(self.candidate(number));
                let is_led = |record: &LeaseRecord| record.holder == holder && record.renew_time > record.acquire_time;
                let ReadLease { metadata, record } = self.reaches(world, is_led).await;
                assert_eq!(native(&record), (Some(OLDEST), None), "{record:?}");
                assert!(record.enrolled && record.token.is_none(), "{record:?}");
                if let (Then::Deleted, Some(created)) = (self.then, created) {
                    assert_ne!(metadata.uid, created.metadata.uid, "the Lease is a new one");
                }
            }
            End::Asked(number) => {
                let preferred = self.candidate(number);
                let is_asked = |record: &LeaseRecord| record.native.preferred_holder.is_some();
                let record = self.reaches(world, is_asked).await.record;
                assert_eq!(native(&record), (Some(OLDEST), Some(&*preferred)), "{record:?}");
                assert_eq!((record.holder, record.preferred_holder), (Some(self.candidate(1)), Some(preferred)));
                let holder = native_candidates(world).get(&self.candidate(1)).await.unwrap();
                assert_eq!(holder.record.ping_time, None, "no live holder is pinged");
            }
            End::LeftToOther => {
                let record = self.reaches(world, |record| record.hold.is_some()).await.record;
                assert_eq!(native(&record), (Some(OTHER_STRATEGY), None), "{record:?}");
                assert_eq!((record.holder, record.strategy.as_deref()), (Some(self.other()), Some(OTHER_STRATEGY)));
            }
        }
    }

    /// Waits until the record of the Lease satisfies `is_reached`.
    async fn reaches(&self, world: &World, is_reached: impl Fn(&LeaseRecord) -> bool) -> ReadLease {
        eventually(&format!("{} ends", self.name), || async {
            let lease = world.lease(self.name).await.ok_or("no lease")?;
            if is_reached(&lease.record) { Ok(lease) } else { Err(format!("{:?}", lease.record)) }
        })
        .await
    }

    /// Waits until an event says that no candidate of this Lease can be elected.
    async fn is_reported(&self, world: &World) {
        let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
        let is_about =
            |event: &Event| event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(self.name);
        eventually(&format!("an event about {}", self.name), || async {
            let mut reasons = events.list(&ListParams::default()).await.unwrap().items.into_iter().filter(is_about);
            reasons.find(|event| event.reason.as_deref() == Some("NoLiveCandidate")).ok_or("no event")
        })
        .await;
    }

    fn candidate(&self, number: usize) -> String {
        format!("{}-{number}", self.name)
    }

    fn other(&self) -> String {
        format!("{}-other", self.name)
    }
}

impl Candidate {
    const fn keeps(mut self) -> Self {
        self.process = Process::Keeps;
        self
    }

    const fn dead(mut self, renewed: i64, pinged: Option<i64>) -> Self {
        (self.renewed, self.pinged, self.process) = (renewed, pinged, Process::Dead);
        self
    }

    const fn asks_for(mut self, strategy: &'static str) -> Self {
        self.strategy = strategy;
        self
    }

    fn spec(&self, lease: &str, pinged: Option<MicroTime>) -> Value {
        let Self { binary, emulation, strategy, renewed, .. } = *self;
        json!({ "leaseName": lease, "binaryVersion": binary, "emulationVersion": emulation, "strategy": strategy,
            "renewTime": ago(renewed), "pingTime": pinged })
    }
}

impl Standing {
    /// Waits until the controller has pinged the candidate.
    async fn is_pinged(&self, world: &World) {
        eventually(&format!("{} is pinged", self.name), || async {
            let record = native_candidates(world).get(&self.name).await.unwrap().record;
            if record.ping_time > self.pinged { Ok(()) } else { Err(record) }
        })
        .await;
    }
}

fn native_candidates(world: &World) -> Api<ReadNativeCandidate> {
    Api::namespaced_with(world.client.clone(), &world.namespace, &NativeVersion::V1beta1)
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

/// `spec.strategy` and `spec.preferredHolder`.
fn native(record: &LeaseRecord) -> (Option<&str>, Option<&str>) {
    (record.native.strategy.as_deref(), record.native.preferred_holder.as_deref())
}

/// The time `seconds` ago.
fn ago(seconds: i64) -> MicroTime {
    MicroTime(WireTime::from_micros(SystemClock.wall().as_micros() - seconds * 1_000_000))
}
