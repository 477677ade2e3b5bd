//! Three contenders and their Lease: the possible steps, their effects, and the rules that must hold.

use std::collections::HashSet;
use std::time::Duration;

use hustings_core::elector::{Action, Config, Draw, Elector, ElectorMode, FailOpen, Observation, Source, Timing};
use hustings_core::model::{LeaseRecord, Moment, Now, Purpose, ReferenceStore, Request, Set, WireTime};

const LEASE: &str = "lease";

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The end of an exploration. It leaves time for every immediate and every delayed retry, and is shorter than any
/// lease.
const END_MICROS: i64 = 7_000_000;

/// The latest time at which a key becomes known. The effects of a later one might come after the end.
const LATEST_SYNC_MICROS: i64 = 3_000_000;

/// The largest number of hand-over requests that three contenders need. There are at most two hand-overs, all
/// contenders with higher keys ask for them, and requests may conflict with renewals.
const MOST_HAND_OVER_REQUESTS: u32 = 12;

/// The kind of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Its source of keys has no key for it.
    Keyless,
    Key(i64),
    /// Its key becomes known at some time, or never.
    Unsynced(i64),
    /// An elector of an older version, without keys.
    Older,
    ClientGo,
}

pub(crate) const KINDS: [Kind; 7] =
    [Kind::Keyless, Kind::Key(1), Kind::Key(2), Kind::Key(3), Kind::Unsynced(2), Kind::Older, Kind::ClientGo];

#[allow(clippy::large_enum_variant, reason = "there are three of them")]
#[derive(Clone, PartialEq, Eq, Hash)]
enum StateMachine {
    Hustings(Elector),
    /// client-go, and when it observed the last change of the Lease.
    ClientGo(Moment),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Contender {
    name: &'static str,
    kind: Kind,
    machine: StateMachine,
    /// The newest version that it has observed.
    shown: u64,
    under_way: Vec<Action>,
    wake_at: Option<Moment>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    now_micros: i64,
    store: ReferenceStore,
    contenders: Vec<Contender>,
    /// How many writes asked a holder to hand over, executed or not.
    pub(crate) hand_over_requests: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Show(usize),
    Answer(usize, usize),
    Sync(usize),
}

impl Kind {
    /// The key that is known at this time, if any.
    pub(crate) fn key(self) -> Option<i64> {
        if let Self::Key(key) = self { Some(key) } else { None }
    }
}

impl Contender {
    /// A contender that starts now.
    fn new(name: &'static str, kind: Kind, now: Now) -> Self {
        let config = Config {
            identity: name.to_owned(),
            lease_name: LEASE.to_owned(),
            session: format!("s-{name}"),
            mode: ElectorMode::Direct,
            timing: Timing::default(),
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
        };
        let machine = if kind == Kind::ClientGo {
            StateMachine::ClientGo(now.moment)
        } else {
            let mut elector = Elector::new(config, now);
            elector.observe(now, Observation::Key(kind.key()));
            StateMachine::Hustings(elector)
        };
        Self { name, kind, machine, shown: 0, under_way: Vec::new(), wake_at: None }
    }

    fn observe(&mut self, now: Now, observation: Observation) {
        if let StateMachine::Hustings(elector) = &mut self.machine {
            elector.observe(now, observation);
        }
        self.decide(now);
    }

    fn decide(&mut self, now: Now) {
        if let StateMachine::Hustings(elector) = &mut self.machine {
            let decision = elector.decide(now, Draw(0));
            self.wake_at = decision.deadline;
            self.under_way.extend(decision.actions);
        }
    }
}

impl World {
    /// A world with this Lease, in which contenders of these kinds start now.
    pub(crate) fn new(kinds: [Kind; 3], lease: LeaseRecord) -> Self {
        let mut world =
            Self { now_micros: 0, store: ReferenceStore::new(), contenders: Vec::new(), hand_over_requests: 0 };
        world.store.put_lease(LEASE, lease);
        let now = world.now();
        world.contenders.extend(NAMES.into_iter().zip(kinds).map(|(name, kind)| Contender::new(name, kind, now)));
        world
    }

    pub(crate) fn lease(&self) -> &LeaseRecord {
        self.store.lease(LEASE).unwrap()
    }

    fn now(&self) -> Now {
        Now { moment: Moment::from_micros(self.now_micros), wall: WireTime::from_micros(self.now_micros) }
    }

    pub(crate) fn decide(&mut self, who: usize) {
        let now = self.now();
        self.contenders[who].decide(now);
    }

    /// The steps that must happen before time passes.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let contenders = || self.contenders.iter().enumerate();
        let shown =
            contenders().filter(|(_, of)| of.shown < self.lease().resource_version).map(|(who, _)| Step::Show(who));
        let answered =
            contenders().flat_map(|(who, of)| (0..of.under_way.len()).map(move |index| Step::Answer(who, index)));
        shown.chain(answered).collect()
    }

    fn syncs(&self) -> impl Iterator<Item = Step> {
        let is_in_time = self.now_micros <= LATEST_SYNC_MICROS;
        let is_unsynced = move |of: &Contender| is_in_time && matches!(of.kind, Kind::Unsynced(_));
        let unsynced = self.contenders.iter().enumerate().filter(move |(_, of)| is_unsynced(of));
        unsynced.map(|(who, _)| Step::Sync(who))
    }

    pub(crate) fn take(&mut self, step: Step) {
        let now = self.now();
        let (who, observation) = match step {
            Step::Show(who) => {
                self.contenders[who].shown = self.lease().resource_version;
                if let StateMachine::ClientGo(since) = &mut self.contenders[who].machine {
                    *since = now.moment;
                    return self.act_as_client_go(who);
                }
                (who, Observation::Lease { record: self.lease().clone(), source: Source::Watch })
            }
            Step::Answer(who, index) => {
                let action = self.contenders[who].under_way.remove(index);
                (who, self.execute(who, &action))
            }
            Step::Sync(who) => {
                let Kind::Unsynced(key) = self.contenders[who].kind else { return };
                self.contenders[who].kind = Kind::Key(key);
                (who, Observation::Key(Some(key)))
            }
        };
        self.contenders[who].observe(now, observation);
    }

    fn execute(&mut self, who: usize, action: &Action) -> Observation {
        let (attempt, mut request) = match action {
            Action::Send { attempt, request } => (*attempt, request.clone()),
            Action::StopWork => return Observation::WorkStopped,
            Action::AbortWork => panic!("nobody has a reason to abort the work"),
        };
        if let Request::WriteLease { write, .. } = &mut request {
            self.hand_over_requests += u32::from(write.purpose == Purpose::Prefer);
            if self.contenders[who].kind == Kind::Older {
                write.key = Set::Keep;
            }
        }
        let reply = self.store.execute(&request, self.now().wall);
        Observation::of_reply(attempt, &request, reply)
    }

    /// Lets client-go read the Lease. It claims the Lease if it has no holder, or has not changed for its duration. It
    /// keeps the annotations, which it does not know.
    fn act_as_client_go(&mut self, who: usize) {
        let now = self.now();
        let Contender { name, machine: StateMachine::ClientGo(since), .. } = &self.contenders[who] else { return };
        let runs_out = since.after(Duration::from_secs(u64::from(self.lease().duration_seconds)));
        let is_its_own = self.lease().holder.as_deref() == Some(name);
        if self.lease().holder.is_none() || (!is_its_own && now.moment >= runs_out) {
            let name = (*name).to_owned();
            self.store.edit_lease(LEASE, |lease| {
                lease.holder = Some(name);
                lease.duration_seconds = 15;
                lease.renew_time = Some(now.wall.later_than(lease.renew_time));
            });
        }
        self.contenders[who].wake_at = Some(runs_out).filter(|at| *at > now.moment && !is_its_own);
    }

    /// Lets time pass until the next deadline. Returns false if that is after the end.
    fn wait(&mut self) -> bool {
        let next = self.contenders.iter().filter_map(|of| of.wake_at).min().map_or(i64::MAX, Moment::as_micros);
        if next > END_MICROS {
            return false;
        }
        self.now_micros = next;
        for who in 0..3 {
            if self.contenders[who].wake_at.is_some_and(|at| at.as_micros() <= next) {
                self.decide(who);
                self.act_as_client_go(who);
            }
        }
        true
    }

    fn holder(&self) -> Option<&Contender> {
        self.contenders.iter().find(|of| self.lease().holder.as_deref() == Some(of.name))
    }

    /// Checks that the holder changes only by a hand-over to a key that is higher than the one on the Lease and the
    /// holder's own.
    fn check(&self, next: &Self) {
        let Some(from) = self.lease().holder.as_deref() else { return };
        let to = next.lease().holder.as_deref();
        if to == Some(from) {
            return;
        }
        let key = next.holder().and_then(|of| of.kind.key());
        let before = [self.lease().key, self.holder().and_then(|of| of.kind.key())];
        let is_higher = before[0].is_some() && before.into_iter().all(|former| key > former);
        assert!(is_higher, "the Lease goes from {from} ({before:?}) to {to:?} ({key:?})");
    }

    /// Checks the end: the highest key holds the Lease, or a contender that was never asked or does not hand over.
    fn check_end(&self) {
        let holder = self.holder().map(|of| of.kind);
        let highest = self.contenders.iter().filter_map(|of| of.kind.key()).max();
        let kinds: Vec<_> = self.contenders.iter().map(|of| of.kind).collect();
        let is_right = match holder {
            Some(Kind::Key(key)) => Some(key) == highest && self.lease().key == highest,
            Some(Kind::Keyless | Kind::Unsynced(_)) => self.lease().key.is_none(),
            // The key on the Lease is that of a predecessor, and no contender has a higher one.
            Some(Kind::Older) => self.lease().key.is_none_or(|key| Some(key) >= highest),
            Some(Kind::ClientGo) | None => true,
        };
        assert!(is_right, "{:?} has it in the end of {kinds:?}: {:?}", self.lease().holder, self.lease());
        let is_taken_up = !self.lease().is_open() || holder == Some(Kind::ClientGo);
        assert!(is_taken_up, "the grant is not taken up: {:?}", self.lease());
    }
}

/// Explores all states that can follow. Returns the identities that can hold the Lease in the end, and the number of
/// states.
pub(crate) fn explore(world: World) -> (HashSet<String>, usize) {
    let mut ends = HashSet::new();
    let mut seen = HashSet::new();
    let mut left = vec![world];
    while let Some(world) = left.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        assert!(world.hand_over_requests <= MOST_HAND_OVER_REQUESTS, "{} hand-over requests", world.hand_over_requests);
        let steps = world.steps();
        if steps.is_empty() {
            let mut later = world.clone();
            if later.wait() {
                world.check(&later);
                left.push(later);
            } else {
                world.check_end();
                ends.insert(world.lease().holder.clone().unwrap());
            }
        }
        for step in steps.into_iter().chain(world.syncs()) {
            let mut next = world.clone();
            next.take(step);
            world.check(&next);
            left.push(next);
        }
    }
    (ends, seen.len())
}
