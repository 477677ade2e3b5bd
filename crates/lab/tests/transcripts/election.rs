//! The commands of the election's transcripts, besides the [shared](crate::shared) ones.
//!
//! The commands of a file change the world of `election_world`. `run` lets time pass and prints the actions of the
//! controller and of the candidates, each with the seconds since the start. It omits renewals of the Lease. At the end
//! it prints the Lease, and the candidates in the order of their ranks, with the state and the message of their status.
//!
//! | command | meaning |
//! |---|---|
//! | `config settling=0s window=5s validity=5s namespace=.. lag=2s` | must come first; `lag` is the delay of the watch |
//! | `config evidence=pods`, `evidence=nodes` | must come first; the controller watches Pods, or also Nodes |
//! | `pod NAME uid=x hash=x node=n container=c started=1s finished=12s reason=Error` | changes a Pod, adds the end of one container, and lets the watch show that at once; flags `running` (the container has not ended), `beside` (it is an ephemeral one), `shared`, `host-pid`, `host-network`, `timeless` (the end has no time), `over` (no container starts again), `hidden` (the watch does not show it), `deleted` (the watch shows its deletion with this last state), `gone` (a new list lacks it) |
//! | `node NAME` | changes a Node, and lets the watch show that; flags `out` (of service), `ready` |
//! | `candidate NAME binary=1.32 emulation=1.31 emulation=none priority=1 strategy=Mine created=-60s declares=20 seconds=20 clock=3600s` | creates or changes a candidate; if it was deleted, its process gets it back; `strategy=Mine` means `example.com/Mine`; flags `dead`, `unowned`, `lazy` (takes up no grant), `diligent` (takes up grants again), `stubborn` (does not hand over), `refused` (the server rejects its pings), `new` (another uid), `elsewhere` (another Lease), `static` (its Pod is no owner), `reowned` (another Pod of this name is its owner) |
//! | `candidate NAME exclude=20s because=drain asked-by=ada` | an administrator excludes the candidate for this time; `exclude=none` ends the exclusion, and any other text is malformed |
//! | `candidates NAME count=1000 ..` | creates many candidates |
//! | `lease holder=a session=a.c.n.1-1-15 duration=15 transitions=2 strategy=Mine renewed-as=soon ..` | writes the Lease as a person; `renewed-as`: the text of a renew time that is no time; flags `acquired` (its term begins), `open`, `empty`, `unlabelled`, `labelled`, `unmarked`, `unheld` (drops the hold), `unruled` (drops the strategy), `unpreferred` (drops the annotation, not the native field), `leaving` |
//! | `answer NAME as=soon`, `answer NAME behind=5s` | answers the ping with a text that is no time, or with a time before the ping |
//! | `lease transfer=b pin=b pin-until=60s hold=works hold-until=60s asked-by=ada ..` | an administrator's acts; the ends are durations from now, and other texts in `pin-until` and `hold-until` are malformed; flags `unpinned`, `untransferred` |
//! | `lease assist in-container=c pod-namespace=n pod-prefix=p` | the Lease is assisted, with these options; `assist-malformed=on`; flag `unassisted` |
//! | `revive`, `ack`, `leave`, `release`, `stop NAME` | a process starts again, answers late, stops, releases; one of client-go stops as on SIGTERM |
//! | `keep`, `stale`, `fail count=2` | the controller observes old versions again: those that `keep` has kept; requests fail |
//! | `conflict count=2` | writes of a status meet a conflict, although there is no newer version |
//! | `revert grant enrol ..` | from now on writes of these kinds (`create`, `enrol`, `grant`, `prefer`, `hold`, `ping`, `status`, `delete`) succeed without effect, as under an admission policy; without a kind, all writes have an effect again |
//! | `undo label strategy native-fields preferred hold transfer grant reason status ping renewal` | from now on another client reverts these as soon as it observes them (`transfer` is a request that it restores); without a word it stops; `reverts` prints how often it did so |
//! | `second settling=0s window=1s evidence=pods clock=3600s` | starts a second controller that leads, too, with a configuration and a wall clock of its own |
//! | `restart`, `stand-by`, `take-over` | a new controller takes over without any knowledge; a second controller begins to stand by; the standby and the leading controller swap their roles |
//! | `history` | prints the past terms in the history of the Lease |
//! | `run 5s` | time passes |

use std::time::Duration;

use datadriven::TestCase;
use hustings_core::election::{Config, Observation, Source};
use hustings_core::model::{
    CandidateKey, ContainerEnd, ContainerKind, ContainerRecord, LeaseRecord, NodeRecord, Pod, SessionMark, Unparsed,
    WireTime,
};

use crate::acts::{acts, answer};
use crate::arguments::{duration, flag, name, number, parse, signed_micros, strategy, text};
use crate::election_world::{WALL_START, World};
use crate::shared::{self, Flags};

/// Carries out one command, and returns what it shows.
///
/// # Panics
/// Panics if the command is unknown, or if the election breaks a rule that its world checks.
pub(crate) fn command(world: &mut World, history: &mut Vec<Observation>, case: &mut TestCase) -> String {
    if shared::carry_out(&mut world.lab, case) {
        case.expect_empty().unwrap();
        return world.take_log();
    }
    let directive = case.directive.clone();
    match directive.as_str() {
        "config" => {
            let config = config(case);
            let namespace = text(case, "namespace").unwrap_or_else(|| "default".to_owned());
            *world = World::in_namespace(config, &namespace, duration(case, "lag").unwrap_or_default());
        }
        "candidate" => {
            let flags = Flags::take(case);
            let name = name(case);
            put(world, case, &flags, &name);
        }
        "candidates" => {
            let flags = Flags::take(case);
            let (count, prefix) = (number(case, "count").unwrap_or(1), name(case));
            let each = case.clone();
            for index in 0..count {
                *case = each.clone();
                put(world, case, &flags, &format!("{prefix}-{index:03}"));
            }
        }
        "history" => {
            let past_terms = world.lease().map_or_else(String::new, |lease| lease.history.as_str().to_owned());
            return format!("{past_terms}\n");
        }
        "lease" => lease(world, case),
        "answer" => answer(world, case),
        "pod" => pod(world, case),
        "node" => {
            let [is_out_of_service, is_ready] = ["out", "ready"].map(|name| flag(case, name));
            let name = name(case);
            world.lab.server.nodes.insert(name.clone(), NodeRecord { name: name.clone(), is_out_of_service, is_ready });
            world.show_node(&name);
        }
        "restart" => world.restart(),
        "stand-by" => world.stand_by(),
        "take-over" => world.take_over(),
        "fail" => world.lab.server.faults.failing = number(case, "count").unwrap_or(1),
        "revert" => world.lab.server.faults.reverted = std::mem::take(&mut case.args).into_keys().collect(),
        "undo" => world.undo(std::mem::take(&mut case.args).into_keys().collect()),
        "reverts" => return format!("{}\n", std::mem::take(&mut world.lab.reverting.times)),
        "second" => {
            let clock = signed_micros(case, "clock").unwrap_or_default();
            world.lead_twice(config(case), clock / 1_000_000);
        }
        "conflict" => world.lab.server.faults.conflicting = number(case, "count").unwrap_or(1),
        "keep" => {
            let source = Source::Watch;
            history.extend(world.lease().cloned().map(|record| Observation::Lease { record, source }));
            history.extend(world.candidates().map(|record| Observation::Candidate { record: record.clone(), source }));
        }
        "stale" => {
            for observation in history.clone() {
                world.inform(observation);
            }
        }
        "run" => {
            world.run(parse(&name(case)));
            return format!("{}{}", world.take_log(), world.picture());
        }
        "revive" => world.revive(&name(case)),
        "ack" => world.ack(&name(case)),
        "leave" => world.leave(&name(case)),
        "release" => world.release(&name(case)),
        "stop" => world.stop_native(&name(case)),
        other => panic!("no command {other:?}"),
    }
    case.expect_empty().unwrap();
    world.take_log()
}

/// The configuration of a controller.
fn config(case: &mut TestCase) -> Config {
    let mut config = Config::default();
    for (name, field) in
        [("settling", &mut config.settling), ("window", &mut config.window), ("validity", &mut config.validity)]
    {
        *field = duration(case, name).unwrap_or(*field);
    }
    if let Some(evidence) = text(case, "evidence") {
        (config.evidence.pods, config.evidence.nodes) = (true, evidence == "nodes");
    }
    config
}

/// Creates or changes a candidate and its process.
fn put(world: &mut World, case: &mut TestCase, flags: &Flags, name: &str) {
    let has = |flag| flags.has(flag);
    let key = CandidateKey::hustings(name);
    let known = world.lab.server.store.candidate(&key).cloned().filter(|_| !has("new"));
    let mut record = known.unwrap_or_else(|| {
        let mut record = shared::new_candidate(&world.lab, &key);
        record.pod = Some(Pod { name: name.to_owned(), uid: name.to_owned() }).filter(|_| !has("static"));
        record.session = Some(format!("{name}.c.n.1"));
        record
    });
    shared::change(&world.lab, case, flags, &mut record);
    record.priority = number(case, "priority").unwrap_or(record.priority);
    record.lease_duration_seconds = number(case, "declares").or(record.lease_duration_seconds);
    record.owned &= !has("unowned");
    if let (true, Some(owner)) = (has("reowned"), &mut record.pod) {
        owner.uid = format!("later-{name}");
    }
    if has("refused") {
        world.lab.server.faults.refused_pings.insert(name.to_owned());
    }
    let (seconds, clock) = (number(case, "seconds"), signed_micros(case, "clock"));
    world.put_candidate(record, |bare| {
        bare.process.crashed |= has("dead");
        bare.takes_up = (bare.takes_up || has("diligent")) && !has("lazy");
        bare.hands_over &= !has("stubborn");
        bare.lease_seconds = seconds.unwrap_or(bare.lease_seconds);
        if let Some(term) = &mut bare.term {
            term.lease_seconds = bare.lease_seconds;
        }
        if let Some(clock) = clock {
            bare.process.set_clock(0, 0, clock);
        }
    });
}

/// Writes the Lease as a person.
fn lease(world: &mut World, case: &mut TestCase) {
    let mut record = world.lease().cloned().unwrap_or_else(LeaseRecord::as_created);
    let wall = world.lab.wall();
    if let Some(holder) = text(case, "holder") {
        record.holder = Some(holder);
        record.renew_time = Some(wall.later_than(record.renew_time));
    }
    if flag(case, "acquired") {
        record.acquire_time = record.renew_time;
    }
    if let Some(text) = text(case, "renewed-as") {
        record.unparsed = Unparsed::NONE.with("renewTime", &text);
    }
    if let Some(duration) = number(case, "duration") {
        record.duration_seconds = duration;
    }
    if let Some(transitions) = number(case, "transitions") {
        record.transitions = transitions;
    }
    if let Some(session) = text(case, "session") {
        // The parser of the files accepts no slash in a value.
        let mut parts = session.rsplitn(3, '-').collect::<Vec<_>>();
        parts.reverse();
        record.session = SessionMark::read(Some(&parts.join("/")));
    }
    record.preferred_holder = text(case, "preferred").or(record.preferred_holder);
    record.hold = text(case, "hold").or(record.hold);
    record.strategy = strategy(case).or(record.strategy);
    acts(&world.lab, case, &mut record);
    for flag in ["open", "empty", "unlabelled", "labelled", "unmarked", "unheld", "unruled", "unpreferred", "leaving"] {
        if !self::flag(case, flag) {
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
}

/// Sets a Pod, and adds the end of one of its containers.
fn pod(world: &mut World, case: &mut TestCase) {
    let (uid, hash, node) = (text(case, "uid"), text(case, "hash"), text(case, "node"));
    let (container, reason) = (text(case, "container"), text(case, "reason"));
    let [started, finished] = ["started", "finished"].map(|time| duration(case, time));
    let [running, beside, gone, timeless, hidden, deleted, over] =
        ["running", "beside", "gone", "timeless", "hidden", "deleted", "over"].map(|flag| self::flag(case, flag));
    let [shared, host_pid, host_network] = ["shared", "host-pid", "host-network"].map(|flag| self::flag(case, flag));
    let name = name(case);
    let server = &mut world.lab.server;
    if gone {
        server.pods.remove(&name);
        return;
    }
    if hidden {
        server.hidden_pods.insert(name.clone());
    } else {
        server.hidden_pods.remove(&name);
    }
    let pod = server.pods.entry(name.clone()).or_default();
    pod.name = name.as_str().into();
    pod.uid = uid.unwrap_or_else(|| name.clone()).into();
    pod.config_hash = hash.map(Into::into).or(pod.config_hash.take());
    (pod.share_process_namespace, pod.host_pid, pod.host_network) = (shared, host_pid, host_network);
    pod.is_over |= over;
    pod.node = node.map(Into::into).or(pod.node.take());
    if let Some(container) = container {
        let end = ContainerEnd {
            started_at: started.map(wall_at),
            finished_at: finished.map(wall_at).filter(|_| !timeless),
            reason: reason.as_deref().unwrap_or("Error").into(),
        };
        let mut containers = std::mem::take(&mut pod.containers).into_vec();
        let known = containers.iter().position(|known| *known.name == *container).unwrap_or(containers.len());
        if known == containers.len() {
            containers.push(ContainerRecord::ended(&container, []));
        }
        let ends = containers[known].ends.iter().cloned();
        containers[known].ends = ends.chain((!running).then_some(end)).collect();
        if beside {
            containers[known].kind = ContainerKind::Ephemeral;
        }
        pod.containers = containers.into();
    }
    world.show_pod(&name);
    if deleted {
        world.lab.server.pods.remove(&name);
    }
}

/// The wall clock `since_start` after the start, truncated to seconds as a kubelet does.
fn wall_at(since_start: Duration) -> WireTime {
    WireTime::from_micros(WALL_START).after(Duration::from_secs(since_start.as_secs()))
}
