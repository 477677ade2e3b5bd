//! The commands of the transcripts of electors, alone and together with elections, besides the [shared](crate::shared)
//! ones. The result of a command is what an observer sees of everything that follows from it at once, with the true time
//! in seconds.
//!
//! Processes:
//!
//! - `elector a [mode=direct] [session=s] [grace=25s] [retry=2s] [delay=1s] [key=3] [version=1.0] [strategy=(x.io,Y)]
//!   [lease=60s [deadline=50s]] [fallback=off] [owned]` starts an elector. Everything between it and the server takes that
//!   delay. With `lease`, the deadline is the longest allowed one, unless the script gives one. `owned` names its pod
//!   as the owner of its candidate.
//! - `elector ... [clock=1h] [fail-open=20s] [keep-on-stop]`: its wall clock is ahead or behind; what it does about ranges
//! - `controller [NAME] [standby] [settling=0s] [delay=1s]` starts a controller with a real election; `take-over c` makes
//!   it decide and the others stand by
//! - `network a [there=1s] [back=1s] [lost=requests|answers]`: the fate of its requests from now on
//! - `watch a on|off|delay=1s`, `freeze a for=20s`
//! - `key a [is=3]`: its preference from now on, or that it is unknown; `may-not-ask a`: the server refuses its requests
//!   to hand over
//! - `forged-404 a [off]`: a proxy answers 404 to its writes of objects that exist
//! - `work a stops=2s|never`, `ended a`, `resign a`, `stop a [because=connection|panic]`: its work, the end of its work,
//!   the end of an unwanted term, and the end of the process
//! - `overlook a`: a watch begins with a list from before its candidate was created
//!
//! Objects:
//!
//! - `grant to=a`, `prefer holder=a`, `prefer` (withdrawn), `ping a [ahead=60s]`, `unresponsive a`: what a controller
//!   writes, by hand
//! - `edit [hold=text] [holder=x] [duration=1] [session=x|(s,1,15)] [transitions=1] [token=9] [key=3] [leaving]`: what a
//!   person does to the Lease
//! - `edit-candidate a [version=1.0] [emulation=1.0] [strategy=(x.io,Y)] [session=s] [priority=1] [duration=60]
//!   [renewed-ago=1h]`, `forget-ping a`: what a person does to a candidate
//! - `collect a`: a garbage collector that finds no pod of the owner's UID deletes the candidate, if it has an owner
//! - `foreign-candidate a [lease=x] [version=1.0] [strategy=(x.io,Y)] [state=Holder] [duration=60] [age=40s|-1s]`: a
//!   candidate of no elector in the lab, renewed at that time; with `never-renewed`, it is only created; `owned`: it has
//!   an owner; `renewed c`: it gives a sign of life
//! - `strips what=session|renew-time|everything|nothing`: the part that an admission policy takes back of every write
//! - `no-crd [off]`: whether the cluster lacks the kind LeaseCandidate
//!
//! Time and results:
//!
//! - `run 2s`: time passes
//! - `history`: the past terms that the Lease records, by the true time
//! - `show`: the Lease and who leads; `show a`: a candidate; `statuses`: the status of each candidate
//! - `range a`: the wall-clock time that its last term owns, by the true time

use datadriven::TestCase;
use hustings_core::election::{self, Election};
use hustings_core::elector::{CandidateConfig, Durations, ElectorMode, FailOpen, Observation, Source, Timing};
use hustings_core::model::{CandidateRecord, CandidateState, Cause, Pod, RecordedStatus, SessionMark, Strategy};
use hustings_lab::{
    Controller, Fate, LEASE, Lab, Replica, Strips, Who, WorkStops, candidate, config, micros, seconds, wall_at,
};

use crate::arguments::{
    duration, flag, index, name, number, optional_name, parse, process, replica, signed_micros, strategy, text, who,
};
use crate::shared;
use crate::show::{describe_candidate, describe_range, history, show, statuses};
use crate::words::line;

/// More events than this in one directive mean that a process does not rest.
const MOST_EVENTS: usize = 5_000;

/// Carries out one directive, and returns what an observer sees.
///
/// # Panics
/// Panics if the directive is unknown, if two electors lead at one instant, or if two own one instant of the wall clock.
pub(crate) fn direct(lab: &mut Lab, case: &TestCase, shows_routine: bool) -> String {
    let mut case = case.clone();
    let at = seconds(lab.now_micros);
    let shown = carry_out(lab, &mut case);
    case.expect_empty().unwrap();
    let checks = lab.checks.as_ref().unwrap();
    assert!(checks.violations.is_empty(), "{:?}", checks.violations);
    assert!(checks.overlaps().is_empty(), "two owned an instant: {:?}", checks.overlaps());
    let mut lines: Vec<String> = shown.into_iter().map(|line| format!("{at} {line}")).collect();
    for entry in lab.take_news() {
        lines.extend(line(lab, &entry, shows_routine));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Carries out the directive and runs what follows from it. Returns the lines that it shows.
fn carry_out(lab: &mut Lab, case: &mut TestCase) -> Vec<String> {
    let mut shown = Vec::new();
    let wall = lab.wall();
    let mut until = lab.now_micros;
    let directive = case.directive.clone();
    match directive.as_str() {
        _ if shared::carry_out(lab, case) => {}
        "elector" => start(lab, case),
        "run" => until += micros(parse(&name(case))),
        "grant" => {
            lab.grant(&text(case, "to").unwrap());
        }
        "prefer" => {
            let preferred = text(case, "holder");
            lab.edit_lease(|lease| lease.preferred_holder = preferred);
        }
        "edit" => {
            let holder = text(case, "holder");
            let session = case.try_take_args::<String>("session").unwrap().map(|parts| parts.join("/"));
            let duration: Option<i64> = number(case, "duration");
            let transitions = number(case, "transitions");
            let token: Option<u64> = number(case, "token");
            let key = number(case, "key");
            let leaves = flag(case, "leaving");
            let hold = text(case, "hold");
            lab.edit_lease(|lease| {
                if let Some(holder) = holder {
                    lease.holder = (holder != "null").then_some(holder);
                }
                if let Some(seconds) = duration {
                    lease.duration_seconds = u32::try_from(seconds).unwrap_or(0);
                }
                lease.key = key.or(lease.key);
                lease.token = token.or(lease.token);
                lease.leaving |= leaves;
                if let Some(hold) = hold {
                    lease.hold = (hold != "null").then_some(hold);
                }
                if let Some(transitions) = transitions {
                    lease.transitions = transitions;
                }
                if let Some(session) = session {
                    lease.session = SessionMark::read((session != "null").then_some(session.as_str()));
                }
            });
        }
        "ping" => {
            let name = name(case);
            lab.ping(&name, micros(duration(case, "ahead").unwrap_or_default()));
        }
        "unresponsive" => {
            let name = name(case);
            lab.edit_candidate(&name, |candidate| {
                candidate.status.state = Some(CandidateState::Unresponsive);
                candidate.status.unresponsive_since = Some(wall);
            });
        }
        "forget-ping" => {
            let name = name(case);
            lab.edit_candidate(&name, |candidate| candidate.ping_time = None);
        }
        "no-crd" => lab.server.lacks_candidates = !flag(case, "off"),
        "foreign-candidate" => foreign_candidate(lab, case),
        "renewed" => {
            let name = name(case);
            lab.edit_candidate(&name, |candidate| candidate.renew_time = Some(wall.later_than(candidate.ping_time)));
        }
        "edit-candidate" => {
            let name = name(case);
            let [version, emulation, session] = ["version", "emulation", "session"].map(|field| text(case, field));
            let strategy = strategy(case);
            let (priority, seconds) = (number(case, "priority"), number(case, "duration"));
            let renewed = duration(case, "renewed-ago").map(|ago| wall_at(lab.now_micros - micros(ago)));
            lab.edit_candidate(&name, |candidate| {
                candidate.binary_version = version.unwrap_or_else(|| candidate.binary_version.clone());
                candidate.emulation_version = emulation.or_else(|| candidate.emulation_version.clone());
                candidate.strategy = strategy.or_else(|| candidate.strategy.clone());
                candidate.session = session.or_else(|| candidate.session.clone());
                candidate.priority = priority.unwrap_or(candidate.priority);
                candidate.lease_duration_seconds = seconds.or(candidate.lease_duration_seconds);
                candidate.renew_time = renewed.or(candidate.renew_time);
            });
        }
        "collect" => {
            let name = name(case);
            let owned = lab.server.store.candidate(&name).is_some_and(|candidate| candidate.owned);
            let text = if owned { "the garbage collector deletes the candidate" } else { "no owner, no deletion" };
            shown.push(text.to_owned());
            if owned {
                lab.delete_candidate(&name);
            }
        }
        "controller" => start_controller(lab, case),
        "take-over" => lab.take_over(&name(case)),
        "statuses" => shown = statuses(lab),
        "network" => {
            let lost = text(case, "lost");
            let fate = Fate {
                there: duration(case, "there").unwrap_or_default(),
                executed: lost.as_deref() != Some("requests"),
                back: duration(case, "back").unwrap_or_default(),
                answer_lost: lost.as_deref() == Some("answers"),
            };
            process(lab, case).fate = fate;
        }
        "watch" => {
            let is_off = flag(case, "off");
            flag(case, "on");
            let delay = duration(case, "delay").unwrap_or_default();
            let delay = (!is_off).then_some(delay);
            match who(lab, case) {
                Who::Replica(index) => lab.set_watch(index, delay),
                Who::Native(_) | Who::Bare(_) => panic!("it has no watch"),
                Who::Controller(index) => {
                    lab.controllers[index].process.watch_delay = delay;
                    lab.relist(index);
                }
            }
        }
        "freeze" => {
            let thaw = until + micros(duration(case, "for").unwrap());
            process(lab, case).frozen_until = thaw;
        }
        "key" => {
            let key = number(case, "is");
            let index = index(lab, case);
            lab.observe(index, Observation::Key(key));
        }
        "range" => {
            shown.push(describe_range(replica(lab, case)));
        }
        "strips" => {
            lab.server.strips = match text(case, "what").as_deref() {
                Some("session") => Some(Strips::Session),
                Some("renew-time") => Some(Strips::RenewTime),
                Some("everything") => Some(Strips::Everything),
                _ => None,
            };
        }
        "forged-404" => {
            let is_off = flag(case, "off");
            replica(lab, case).gets_404 = !is_off;
        }
        "may-not-ask" => replica(lab, case).may_not_ask = true,
        "work" => {
            let stops = text(case, "stops").unwrap();
            replica(lab, case).work_stops =
                if stops == "never" { WorkStops::Never } else { WorkStops::After(parse(&stops)) };
        }
        "ended" => {
            let index = index(lab, case);
            lab.observe(index, Observation::WorkStopped);
        }
        "stop" => match who(lab, case) {
            Who::Replica(index) => {
                let reason = match text(case, "because").as_deref() {
                    None => Cause::Stopped,
                    Some("connection") => Cause::ConnectionClosed,
                    Some("panic") => Cause::Panicked,
                    Some(unknown) => panic!("no cause {unknown:?}"),
                };
                lab.observe(index, Observation::Stop(reason));
            }
            Who::Native(index) => lab.stop_native(index),
            Who::Controller(_) | Who::Bare(_) => panic!("it cannot do that"),
        },
        "overlook" => {
            let index = index(lab, case);
            lab.observe(index, Observation::CandidateMissing { source: Source::Watch });
        }
        "resign" => {
            let index = index(lab, case);
            lab.observe(index, Observation::Resign);
        }
        "show" => {
            let candidate = optional_name(case);
            shown.push(candidate.map_or_else(|| show(lab), |name| describe_candidate(lab, &name)));
        }
        "history" => shown = history(lab),
        unknown => panic!("no directive {unknown:?}"),
    }
    assert!(lab.run_until(until, MOST_EVENTS, |_| false), "a process does not rest: {:#?}", lab.news);
    shown
}

/// A candidate of no elector in the lab.
fn foreign_candidate(lab: &mut Lab, case: &mut TestCase) {
    let [is_only_created, owned] = ["never-renewed", "owned"].map(|name| flag(case, name));
    let name = name(case);
    let version = text(case, "version").unwrap_or_else(|| "1.0".to_owned());
    let age = signed_micros(case, "age").unwrap_or_default();
    let state = text(case, "state");
    let is_damped = state.as_deref() == Some(CandidateState::Damped.as_str());
    let renewed = wall_at(lab.now_micros - age);
    let strategy = strategy(case).unwrap_or_else(|| "OldestEmulationVersion".to_owned());
    let candidate = CandidateRecord {
        name: name.clone(),
        creation_time: if is_only_created { renewed } else { renewed.min(lab.wall()) },
        lease_name: text(case, "lease").unwrap_or_else(|| LEASE.to_owned()),
        binary_version: version.clone(),
        // A third party's strategy may need no emulation version.
        emulation_version: Strategy::read(Some(&strategy))
            .is_ok_and(|known| known.needs_emulation_version())
            .then_some(version),
        strategy: Some(strategy),
        renew_time: (!is_only_created).then_some(renewed),
        owned,
        lease_duration_seconds: number(case, "duration"),
        status: RecordedStatus {
            state: CandidateState::ALL.into_iter().find(|known| Some(known.as_str()) == state.as_deref()),
            damping_count: u32::from(is_damped) * 6,
            damped_until: is_damped.then(|| lab.wall().after(std::time::Duration::from_mins(10))),
            ..RecordedStatus::default()
        },
        ..CandidateRecord::default()
    };
    lab.server.store.put_candidate(candidate);
    lab.candidate_changed(name.as_str());
}

fn start_controller(lab: &mut Lab, case: &mut TestCase) {
    let is_standby = flag(case, "standby");
    let name = optional_name(case).unwrap_or_else(|| "controller".to_owned());
    let settling = duration(case, "settling").unwrap_or_else(|| election::Config::default().settling);
    let election = Election::new(election::Config { settling, ..Default::default() }, "default", LEASE);
    let mut controller = Controller::new(&name, election, !is_standby);
    if let Some(delay) = duration(case, "delay") {
        controller.process.fate = Fate { there: delay, back: delay, ..Fate::AT_ONCE };
        controller.process.watch_delay = Some(delay);
    }
    lab.add_controller(controller);
}

fn start(lab: &mut Lab, case: &mut TestCase) {
    let [owned, keeps_on_stop] = ["owned", "keep-on-stop"].map(|name| flag(case, name));
    let name = name(case);
    let session = text(case, "session");
    let label = session.as_ref().map_or_else(|| name.clone(), |session| format!("{name}/{session}"));
    let session = session.unwrap_or_else(|| format!("s-{name}"));
    let mode = match text(case, "mode").as_deref() {
        None => {
            let pod = Pod { name: name.clone(), uid: format!("pod-of-{name}") };
            let strategy = Strategy::read(strategy(case).as_deref()).unwrap();
            ElectorMode::Coordinated(Box::new(CandidateConfig {
                pod: owned.then_some(pod),
                fallback: text(case, "fallback").as_deref() != Some("off"),
                ..candidate(text(case, "version").as_deref().unwrap_or("1.0"), strategy)
            }))
        }
        Some("direct") => ElectorMode::Direct,
        Some(mode) => panic!("no mode {mode:?}"),
    };
    let mut durations = Durations::default();
    if let Some(grace) = duration(case, "grace") {
        durations.stop_grace = grace;
    }
    if let Some(retry) = duration(case, "retry") {
        durations.retry_period = retry;
    }
    if let Some(lease) = duration(case, "lease") {
        durations.lease_duration_seconds = u32::try_from(lease.as_secs()).unwrap();
        durations.renew_deadline = duration(case, "deadline").unwrap_or(lease * 99 / 100);
    }
    let mut config = config(&name, &session, mode, Timing::new(durations).unwrap());
    config.keeps_on_stop = keeps_on_stop;
    config.fail_open = match text(case, "fail-open").as_deref() {
        None => FailOpen::Off,
        Some("unbounded") => FailOpen::Unbounded,
        Some(bound) => FailOpen::Bounded(parse(bound)),
    };
    let mut replica = Replica::new(config, lab.now_micros);
    if let Some(clock) = signed_micros(case, "clock") {
        replica = replica.with_clock(0, 0, clock, lab.now_micros);
    }
    replica.process.label = label;
    if let Some(delay) = duration(case, "delay") {
        replica.process.fate = Fate { there: delay, back: delay, ..Fate::AT_ONCE };
        replica.process.watch_delay = Some(delay);
    }
    let key: Option<i64> = number(case, "key");
    replica.elector.observe(replica.process.local(lab.now_micros), Observation::Key(key));
    lab.add(replica);
}
