//! Who is elected, as data files: `tests/testdata/election/*.txt`, rewritten by `REWRITE=1 cargo test -p hustings-lab`.
//!
//! The commands of a file change the world of `election_world`. `run` lets time pass and prints the actions of the
//! controller and of the candidates, each with the seconds since the start. It omits renewals of the Lease. At the end
//! it prints the Lease, and the candidates in the order of their ranks, with the state and the message of their status.
//!
//! | command | meaning |
//! |---|---|
//! | `config settling=0s window=5s validity=5s namespace=.. lag=2s` | must come first; `lag` is the delay of the watch |
//! | `config evidence=pods`, `evidence=nodes` | must come first; the controller reads the Pods of silent holders, or also their Nodes |
//! | `pod NAME uid=x hash=x node=n container=c finished=12s reason=Error` | sets a Pod in the API, and adds the end of one container; flags `shared`, `gone`, `timeless` (the end has no time), `refused` (the controller may not read it) |
//! | `node NAME` | sets a Node in the API; flags `out` (of service), `ready` |
//! | `candidate NAME native ..` | like `candidate`, for a native candidate, whose process is client-go's coordinated elector; `renewed=1` and `renewed=9999` give its `renewTime` that year, `unrenewed` gives it none |
//! | `client-go NAME seconds=5 clock=60s` | a plain elector of client-go starts, and replaces a process of this name; a candidate of this name stays |
//! | `gate`, `gate off` | the server keeps the native fields of Leases; it drops those that are not set yet |
//! | `candidate NAME binary=1.32 emulation=1.31 emulation=none priority=1 strategy=Mine created=-60s declares=20 seconds=20 clock=3600s` | creates or changes a candidate; if it was deleted, its process gets it back; `strategy=Mine` means `example.com/Mine`; flags `dead`, `unowned`, `lazy` (takes up no grant), `diligent` (takes up grants again), `stubborn` (does not hand over), `refused` (the server rejects its pings), `new` (another uid), `elsewhere` (another Lease), `static` (its Pod is no owner), `reowned` (another Pod of this name is its owner) |
//! | `candidate NAME exclude=20s because=drain asked-by=ada` | an administrator excludes the candidate for this time; `exclude=none` ends the exclusion, and any other text is malformed |
//! | `candidates NAME count=1000 ..` | creates many candidates |
//! | `lease holder=a session=a.c.n.1-1-15 duration=15 transitions=2 strategy=Mine renewed-as=soon ..` | writes the Lease as a person; `renewed-as`: the text of a renew time that is no time; flags `open`, `empty`, `unlabelled`, `labelled`, `unmarked`, `unheld` (drops the hold), `unruled` (drops the strategy), `unpreferred` (drops the annotation, not the native field), `leaving` |
//! | `answer NAME as=soon`, `answer NAME behind=5s` | answers the ping with a text that is no time, or with a time before the ping |
//! | `lease transfer=b pin=b pin-until=60s hold=works hold-until=60s asked-by=ada ..` | an administrator's acts; the ends are durations from now, and other texts in `pin-until` and `hold-until` are malformed; flags `unpinned`, `untransferred` |
//! | `kill`, `revive`, `ack`, `leave`, `release`, `delete NAME` | a process dies, starts again, answers late, stops, releases; a candidate is deleted |
//! | `delete-lease`, `stale`, `fail count=2` | the Lease is deleted; the controller observes old versions again; requests fail |
//! | `conflict count=2` | writes of a status meet a conflict, although there is no newer version |
//! | `revert grant enrol ..` | from now on writes of these kinds (`create`, `enrol`, `grant`, `prefer`, `hold`, `ping`, `status`, `delete`) succeed without effect, as under an admission policy; without a kind, all writes have an effect again |
//! | `undo label strategy native-fields preferred hold transfer grant reason status ping renewal` | from now on another client reverts these as soon as it observes them (`transfer` is a request that it restores); without a word it stops; `reverts` prints how often it did so |
//! | `second settling=0s window=1s evidence=pods clock=3600s` | starts a second controller that leads, too, with a configuration and a wall clock of its own |
//! | `restart`, `stand-by`, `take-over` | a new controller takes over without any knowledge; a second controller begins to stand by; the standby and the leading controller swap their roles |
//! | `history` | prints the past terms in the history of the Lease |
//! | `run 5s` | time passes |

#[path = "election_world/acts.rs"]
mod acts;
#[path = "election_world/world.rs"]
mod election_world;
#[path = "election_world/words.rs"]
mod words;

use std::time::Duration;

use acts::{acts, answer, end};
use datadriven::{TestCase, walk};
use election_world::{WALL_START, World};
use hustings_core::election::{Config, Observation, Source};
use hustings_core::model::{
    Annotation, CandidateKey, CandidateKind, CandidateRecord, ContainerEnd, Exclusion, LeaseRecord, NodeRecord, Pod,
    SessionMark, Unparsed, WireTime,
};
use hustings_lab::client_go::Stands;
use words::{config, name, number, seconds, signed_seconds, strategy, word};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/election");

#[test]
fn elections_match_their_transcripts() {
    walk(FILES, |file| {
        let mut world = World::new(Config::default());
        let mut history = Vec::new();
        file.run(|case| command(&mut world, &mut history, case));
    });
}

fn command(world: &mut World, history: &mut Vec<Observation>, case: &mut TestCase) -> Result<String, String> {
    let directive = case.directive.clone();
    match directive.as_str() {
        "config" => {
            let config = config(case)?;
            let namespace = word(case, "namespace").unwrap_or_else(|| "default".to_owned());
            let lag = word(case, "lag").map_or(Ok(Duration::ZERO), |value| seconds(&value))?;
            *world = World::in_namespace(config, &namespace, lag);
        }
        "candidate" => {
            let change = Change::take(case)?;
            change.put(world, &name(case)?);
        }
        "client-go" => {
            let change = Change::take(case)?;
            change.start_native(world, &name(case)?, Stands::Plain);
        }
        "candidates" => {
            let count: usize = number(case, "count")?.unwrap_or(1);
            let change = Change::take(case)?;
            let prefix = name(case)?;
            for index in 0..count {
                change.put(world, &format!("{prefix}-{index:03}"));
            }
        }
        "history" => {
            let past_terms = world.lease().map_or_else(String::new, |lease| lease.history.as_str().to_owned());
            return Ok(format!("{past_terms}\n"));
        }
        "lease" => lease(world, case)?,
        "answer" => answer(world, case)?,
        "pod" => pod(world, case)?,
        "node" => {
            let [is_out_of_service, is_ready] = ["out", "ready"].map(|flag| case.args.remove(flag).is_some());
            let name = name(case)?;
            world.lab.server.nodes.insert(name.clone(), NodeRecord { name, is_out_of_service, is_ready });
        }
        "gate" => {
            let is_off = case.args.remove("off").is_some();
            world.lab.server.store.keep_native_fields(!is_off);
        }
        "delete-lease" => world.lab.delete_lease(),
        "restart" => world.restart(),
        "stand-by" => world.stand_by(),
        "take-over" => world.take_over(),
        "fail" => world.lab.server.faults.failing = number(case, "count")?.unwrap_or(1),
        "revert" => world.lab.server.faults.reverted = std::mem::take(&mut case.args).into_keys().collect(),
        "undo" => world.undo(std::mem::take(&mut case.args).into_keys().collect()),
        "reverts" => return Ok(format!("{}\n", std::mem::take(&mut world.lab.reverting.times))),
        "second" => {
            let clock_seconds = word(case, "clock").map_or(Ok(0), |value| signed_seconds(&value))?;
            let config = config(case)?;
            world.lead_twice(config, clock_seconds);
        }
        "conflict" => world.lab.server.faults.conflicting = number(case, "count")?.unwrap_or(1),
        "keep" => {
            history.extend(world.lease().cloned().map(|record| Observation::Lease { record, source: Source::Watch }));
            history.extend(
                world
                    .candidates()
                    .map(|record| Observation::Candidate { record: record.clone(), source: Source::Watch }),
            );
        }
        "stale" => {
            for observation in history.clone() {
                world.inform(observation);
            }
        }
        "run" => {
            let duration = seconds(&name(case)?)?;
            world.run(duration);
            return Ok(format!("{}{}", world.take_log(), world.picture()));
        }
        "kill" | "revive" | "ack" | "leave" | "release" | "delete" => {
            let name = name(case)?;
            let is_native = world.process(&name).is_none() && world.native(&name).is_some();
            match directive.as_str() {
                "kill" => world.kill(&name),
                "revive" => world.revive(&name),
                "ack" => world.ack(&name),
                "leave" => world.leave(&name),
                "release" if is_native => world.stop_native(&name),
                "release" => world.release(&name),
                _ => world.delete_candidate(&name),
            }
        }
        other => return Err(format!("no such command: {other}")),
    }
    case.expect_empty().map_err(|error| error.to_string())?;
    Ok(world.take_log())
}

/// The changes of candidates by one command.
struct Change {
    binary: Option<String>,
    emulation: Option<String>,
    strategy: Option<String>,
    priority: Option<i32>,
    created: Option<i64>,
    exclude: Option<String>,
    because: Option<String>,
    asked_by: Option<String>,
    declares: Option<u32>,
    lease_seconds: Option<u32>,
    clock: Option<i64>,
    /// The year of the candidate's `renewTime`.
    renewed: Option<String>,
    flags: Vec<&'static str>,
}

impl Change {
    fn take(case: &mut TestCase) -> Result<Self, String> {
        let flags = [
            "native",
            "dead",
            "unowned",
            "lazy",
            "diligent",
            "stubborn",
            "refused",
            "new",
            "elsewhere",
            "unrenewed",
            "static",
            "reowned",
        ];
        Ok(Self {
            binary: word(case, "binary"),
            emulation: word(case, "emulation"),
            strategy: word(case, "strategy"),
            priority: number(case, "priority")?,
            created: word(case, "created").map(|value| signed_seconds(&value)).transpose()?,
            exclude: word(case, "exclude"),
            because: word(case, "because"),
            asked_by: word(case, "asked-by"),
            declares: number(case, "declares")?,
            lease_seconds: number(case, "seconds")?,
            clock: word(case, "clock").map(|value| signed_seconds(&value)).transpose()?,
            renewed: word(case, "renewed"),
            flags: flags.into_iter().filter(|flag| case.args.remove(*flag).is_some()).collect(),
        })
    }

    fn put(&self, world: &mut World, name: &str) {
        let has = |flag| self.has(flag);
        if has("native") {
            self.put_native(world, name);
            return;
        }
        let known = world.lab.server.store.candidate(name).cloned().filter(|_| !has("new"));
        let mut record = match known {
            Some(known) => known,
            None => CandidateRecord {
                name: name.to_owned(),
                lease_name: "l".to_owned(),
                owned: true,
                binary_version: "1.32".to_owned(),
                emulation_version: Some("1.32".to_owned()),
                pod: Some(Pod { name: name.to_owned(), uid: name.to_owned() }).filter(|_| !has("static")),
                session: Some(format!("{name}.c.n.1")),
                ..CandidateRecord::default()
            },
        };
        self.claim(&mut record);
        self.exclude(world, &mut record);
        record.priority = self.priority.unwrap_or(record.priority);
        record.lease_duration_seconds = self.declares.or(record.lease_duration_seconds);
        record.owned &= !has("unowned");
        if let (true, Some(owner)) = (has("reowned"), &mut record.pod) {
            owner.uid = format!("later-{name}");
        }
        if has("refused") {
            world.lab.server.faults.refused_pings.insert(name.to_owned());
        }
        self.create(world, &mut record);
        world.put_candidate(record, |bare| {
            bare.process.crashed |= has("dead");
            bare.takes_up = (bare.takes_up || has("diligent")) && !has("lazy");
            bare.hands_over &= !has("stubborn");
            bare.lease_seconds = self.lease_seconds.unwrap_or(bare.lease_seconds);
            if let Some(term) = &mut bare.term {
                term.lease_seconds = bare.lease_seconds;
            }
            if let Some(clock) = self.clock {
                bare.process.set_clock(0, 0, clock * 1_000_000);
            }
        });
    }

    /// Creates or changes a native candidate and its process. It has neither a priority nor an owner.
    fn put_native(&self, world: &mut World, name: &str) {
        let known = world.lab.server.store.candidate(CandidateKey::native(name)).cloned().filter(|_| !self.has("new"));
        let is_running = world.native(name).is_some_and(|native| native.elector.stands() == Stands::Coordinated);
        if !is_running || self.has("new") {
            self.start_native(world, name, Stands::Coordinated);
        } else if let (Some(clock), Some(native)) = (self.clock, world.native_mut(name)) {
            native.process.set_clock(0, 0, clock * 1_000_000);
        }
        let mut record = known.unwrap_or_else(|| CandidateRecord {
            kind: CandidateKind::Native,
            name: name.to_owned(),
            lease_name: "l".to_owned(),
            binary_version: "1.32".to_owned(),
            emulation_version: Some("1.32".to_owned()),
            ..CandidateRecord::default()
        });
        self.claim(&mut record);
        self.exclude(world, &mut record);
        self.create(world, &mut record);
        record.renew_time = match self.renewed.as_deref() {
            Some("1") => Some(WireTime::from_micros(i64::MIN)),
            Some("9999") => Some(WireTime::MAX),
            _ => record.renew_time,
        };
        world.put_native_candidate(record);
        if self.has("unrenewed") {
            world.edit_candidate(name, |record| record.renew_time = None);
        }
    }

    fn start_native(&self, world: &mut World, name: &str, stands: Stands) {
        let (seconds, clock) = (self.lease_seconds.unwrap_or(15), self.clock.unwrap_or(0));
        let native = world.start_native(name, stands, seconds, clock);
        native.process.crashed = self.has("dead");
        native.takes_up = !self.has("lazy");
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    fn claim(&self, record: &mut CandidateRecord) {
        if let Some(binary) = &self.binary {
            record.binary_version.clone_from(binary);
            record.emulation_version = Some(binary.clone());
        }
        if let Some(emulation) = &self.emulation {
            record.emulation_version = Some(emulation.clone()).filter(|emulation| emulation != "none");
        }
        if let Some(strategy) = &self.strategy {
            record.strategy = Some(self::strategy(strategy));
        }
    }

    fn exclude(&self, world: &World, record: &mut CandidateRecord) {
        let Some(exclude) = &self.exclude else { return };
        let reason = self.because.clone().unwrap_or_default();
        record.acts.exclude = (exclude != "none").then(|| {
            end(world, exclude).map_or_else(
                || Annotation::Malformed(exclude.clone()),
                |until| Annotation::Valid(Exclusion { until, reason }),
            )
        });
        record.acts.asked_by.clone_from(&self.asked_by);
    }

    fn create(&self, world: &World, record: &mut CandidateRecord) {
        if self.has("elsewhere") {
            "other".clone_into(&mut record.lease_name);
        }
        if let (Some(created), true) = (self.created, record.uid.is_empty()) {
            record.uid = format!("uid-of-{}", record.name);
            let wall = world.now().wall.as_micros();
            record.creation_time = WireTime::from_micros(wall + created * 1_000_000);
        }
    }
}

fn lease(world: &mut World, case: &mut TestCase) -> Result<(), String> {
    let mut record = world.lease().cloned().unwrap_or_else(LeaseRecord::as_created);
    let wall = world.now().wall;
    if let Some(holder) = word(case, "holder") {
        record.holder = Some(holder);
        record.renew_time = Some(wall.later_than(record.renew_time));
    }
    if let Some(text) = word(case, "renewed-as") {
        record.unparsed = Unparsed::NONE.with("renewTime", &text);
    }
    if let Some(duration) = number(case, "duration")? {
        record.duration_seconds = duration;
    }
    if let Some(transitions) = number(case, "transitions")? {
        record.transitions = transitions;
    }
    if let Some(session) = word(case, "session") {
        // The parser of the files accepts no slash in a value.
        let mut parts = session.rsplitn(3, '-').collect::<Vec<_>>();
        parts.reverse();
        record.session = SessionMark::read(Some(&parts.join("/")));
    }
    record.preferred_holder = word(case, "preferred").or(record.preferred_holder);
    record.hold = word(case, "hold").or(record.hold);
    record.strategy = word(case, "strategy").map(|name| strategy(&name)).or(record.strategy);
    acts(world, case, &mut record);
    for flag in ["open", "empty", "unlabelled", "labelled", "unmarked", "unheld", "unruled", "unpreferred", "leaving"] {
        if case.args.remove(flag).is_none() {
            continue;
        }
        match flag {
            "open" => record.session = SessionMark::Open,
            "empty" => record.holder = None,
            "unlabelled" => record.enrolled = false,
            "labelled" => record.enrolled = true,
            "unmarked" => record.session = SessionMark::Absent,
            "leaving" => record.leaving = true,
            "unruled" => record.strategy = None,
            "unpreferred" => record.preferred_holder = None,
            _ => record.hold = None,
        }
    }
    world.put_lease(record);
    Ok(())
}

fn pod(world: &mut World, case: &mut TestCase) -> Result<(), String> {
    let (uid, hash, node) = (word(case, "uid"), word(case, "hash"), word(case, "node"));
    let (container, reason) = (word(case, "container"), word(case, "reason"));
    let finished = word(case, "finished").map(|at| seconds(&at)).transpose()?;
    let flags = ["shared", "gone", "timeless", "refused"];
    let [shared, gone, timeless, refused] = flags.map(|flag| case.args.remove(flag).is_some());
    let name = name(case)?;
    let server = &mut world.lab.server;
    if refused {
        server.faults.refused_pods.insert(name.clone());
    } else {
        server.faults.refused_pods.remove(&name);
    }
    if gone {
        server.pods.remove(&name);
        return Ok(());
    }
    let finished_at = finished.map(wall_at).filter(|_| !timeless);
    let pod = server.pods.entry(name.clone()).or_default();
    pod.uid = uid.unwrap_or(name);
    (pod.config_hash, pod.shares_processes) = (hash.or(pod.config_hash.take()), shared);
    pod.node = node.or(pod.node.take());
    if let Some(container) = container {
        pod.ends.push(ContainerEnd { container, finished_at, reason: reason.unwrap_or_else(|| "Error".to_owned()) });
    }
    Ok(())
}

/// The wall clock `since_start` after the start, truncated to seconds as a kubelet does.
fn wall_at(since_start: Duration) -> WireTime {
    WireTime::from_micros(WALL_START).after(Duration::from_secs(since_start.as_secs()))
}
