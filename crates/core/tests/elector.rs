//! The elector's behaviour as data files: `tests/testdata/elector/*.txt` at the root of the workspace.
//!
//! Each file is a scene. A directive changes something, everything that follows at once happens, and what is below the
//! line is what could be seen, with the true time in seconds. `REWRITE=1 cargo test -p hustings-core --test elector`
//! writes the transcripts anew; the difference is then to be read.
//!
//! - `elector name=a [mode=direct] [session=s] [grace=25s] [retry=2s] [delay=1s] [key=3] [version=1.0] [strategy=(x.io,Y)]
//!   [lease=60s [deadline=50s]] [fallback=off] [owned]` starts an elector; everything between it and the server takes that delay, a
//!   `lease` brings the longest deadline with it unless one is given, and `owned` names its pod as the owner of its candidate
//! - `elector ... [wall=1h] [fail-open=20s] [keep-on-stop]`: its wall clock is ahead, or behind, and what it does about ranges
//! - `range name=a`: the wall-clock time that its last term owns, by the true time
//! - `key name=a [is=3]`: its preference from now on, or that it is not known; `may-not-ask name=a`: the server refuses that
//! - `told-missing name=a [off]`: a proxy answers 404 to its writes of what exists
//! - `run for=2s`: time passes
//! - `grant to=a`, `prefer holder=a`, `prefer` (withdrawn), `ping name=a [ahead=60s]`, `unresponsive name=a`: what a controller writes
//! - `strips what=session|renew-time|everything|nothing`: an admission policy puts that back in every write by an elector,
//!   and the renew time in every write of a candidate
//! - `no-crd`: the cluster knows no candidates
//! - `edit [hold=text] [holder=x] [duration=1] [session=x|(s,1,15)] [transitions=1] [token=9] [key=3] [leaving]`, `delete`: what a person does
//!   to the Lease
//! - `delete-candidate name=a`, `forget-ping name=a`, `candidate name=a`: a person deletes a candidate, takes the ping out of
//!   it, or looks at it
//! - `collect name=a`: a garbage collector that finds no pod of the owner's UID deletes the candidate, if it has an owner
//! - `overlook name=a`: a watch begins with a list from before its candidate was created
//! - `foreign-candidate name=a [lease=x] [version=1.0] [strategy=(x.io,Y)] [state=Holder] [duration=60] [age=40s|ahead=1s]`: one of
//!   no elector here, renewed then, or with `never-renewed` only created
//! - `network name=a [there=1s] [back=1s] [lost=requests|answers]`: the fate of its requests from now on
//! - `watch name=a on|off|delay=1s`, `freeze name=a for=20s`, `crash name=a`
//! - `work name=a stops=2s|never`, `ended name=a`, `resign name=a`, `stop name=a`: its work, the
//!   end of a term that it does not want, and the end of the process
//! - `show`: the Lease and who leads

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, reason = "the property tests need more of it")]
#[path = "elector/scene.rs"]
mod scene;
#[path = "elector/steps.rs"]
mod steps;
#[path = "elector/store.rs"]
mod store;

use std::time::Duration;

use datadriven::TestCase;
use hustings_core::elector::{FailOpen, Mode, Observation, Range, Source, Timing};
use hustings_core::model::{CandidateState, SessionMark, Strategy, WireTime};

use store::Strips;

use scene::{Actor, Fate, Scene, WorkStops, config, micros, seconds};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/elector");

/// More events than this in one directive mean that somebody does not rest.
const MOST_EVENTS: usize = 5_000;

#[test]
fn the_transcripts_are_as_written() {
    datadriven::walk(FILES, |file| {
        let mut scene = Scene::new();
        file.run(|case| {
            let mut case = case.clone();
            direct(&mut scene, &mut case);
            case.expect_empty().unwrap();
            assert!(scene.violations.is_empty(), "two led: {:?}", scene.violations);
            assert!(scene.overlaps().is_empty(), "two owned an instant: {:?}", scene.overlaps());
            let mut lines = std::mem::take(&mut scene.transcript);
            lines.push(String::new());
            lines.join("\n")
        });
    });
}

fn direct(scene: &mut Scene, case: &mut TestCase) {
    let wall = WireTime::from_micros(1_000_000_000_000_000 + scene.now_micros);
    let mut until = scene.now_micros;
    match case.directive.as_str() {
        "elector" => start(scene, case),
        "run" => until += micros(duration(case, "for").unwrap()),
        "grant" => {
            scene.store.grant(&text(case, "to").unwrap(), wall);
            scene.lease_changed();
        }
        "prefer" => {
            let preferred = text(case, "holder");
            scene.store.edit_lease(|lease| lease.preferred_holder = preferred);
            scene.lease_changed();
        }
        "edit" => {
            let holder = text(case, "holder");
            let session = case.try_take_args::<String>("session").unwrap().map(|parts| parts.join("/"));
            let duration: Option<i64> = case.try_take_arg("duration").unwrap();
            let transitions = case.try_take_arg("transitions").unwrap();
            let token: Option<u64> = case.try_take_arg("token").unwrap();
            let key = case.try_take_arg("key").unwrap();
            let leaves = case.take_flag("leaving").unwrap();
            let hold = text(case, "hold");
            scene.store.edit_lease(|lease| {
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
            scene.lease_changed();
        }
        "delete" => {
            scene.store.delete_lease();
            scene.lease_changed();
        }
        "ping" => {
            let name = text(case, "name").unwrap();
            let ahead = micros(duration(case, "ahead").unwrap_or_default());
            let wall = WireTime::from_micros(wall.as_micros() + ahead);
            scene.store.edit_candidate(&name, None, |candidate| {
                candidate.ping_time = Some(wall.later_than(candidate.ping_time).later_than(candidate.renew_time));
            });
            scene.candidate_changed(&name);
        }
        "unresponsive" => {
            let name = text(case, "name").unwrap();
            scene.store.edit_candidate(&name, None, |candidate| {
                candidate.status.state = Some(CandidateState::Unresponsive);
                candidate.status.unresponsive_since = Some(wall);
            });
            scene.candidate_changed(&name);
        }
        "forget-ping" => {
            let name = text(case, "name").unwrap();
            scene.store.edit_candidate(&name, None, |candidate| candidate.ping_time = None);
            scene.candidate_changed(&name);
        }
        "no-crd" => scene.store.knows_no_candidates = true,
        "foreign-candidate" => {
            let name = text(case, "name").unwrap();
            let version = text(case, "version").unwrap_or_else(|| "1.0".to_owned());
            let age = micros(duration(case, "age").unwrap_or_default());
            let ahead = micros(duration(case, "ahead").unwrap_or_default());
            let lease = text(case, "lease").unwrap_or_else(|| scene::LEASE.to_owned());
            let state = text(case, "state");
            let lasts = case.try_take_arg("duration").unwrap();
            let renewed = WireTime::from_micros(wall.as_micros() - age + ahead);
            let strategy = strategy(case).unwrap_or_else(|| "OldestEmulationVersion".to_owned());
            let is_only_created = case.take_flag("never-renewed").unwrap();
            scene.store.create_candidate(&name, &lease, &version, &strategy, false, renewed);
            scene.store.edit_candidate(&name, None, |candidate| {
                if is_only_created {
                    (candidate.creation_time, candidate.renew_time) = (renewed, None);
                }
                candidate.status.state =
                    CandidateState::ALL.into_iter().find(|known| Some(known.as_str()) == state.as_deref());
                candidate.lease_duration_seconds = lasts;
            });
        }
        "delete-candidate" => {
            let name = text(case, "name").unwrap();
            scene.store.candidates.remove(&name);
            scene.candidate_changed(&name);
        }
        "collect" => {
            let name = text(case, "name").unwrap();
            let owned = scene.store.candidates.get(&name).is_some_and(|candidate| candidate.owned);
            scene.say(if owned { "the garbage collector deletes the candidate" } else { "no owner, no deletion" });
            if owned {
                scene.store.candidates.remove(&name);
                scene.candidate_changed(&name);
            }
        }
        "candidate" => {
            let name = text(case, "name").unwrap();
            let line = match scene.store.candidates.get(&name) {
                None => "missing".to_owned(),
                Some(candidate) => {
                    let shown = |time: Option<WireTime>| {
                        time.map_or("never".to_owned(), |time| {
                            format!("{} us", time.as_micros() - 1_000_000_000_000_000)
                        })
                    };
                    format!(
                        "{}: pinged {}, renewed {}",
                        candidate.uid,
                        shown(candidate.ping_time),
                        shown(candidate.renew_time)
                    )
                }
            };
            scene.say(&line);
        }
        "network" => {
            let lost = text(case, "lost");
            let fate = Fate {
                there: duration(case, "there").unwrap_or_default(),
                executed: lost.as_deref() != Some("requests"),
                back: duration(case, "back").unwrap_or_default(),
                answer_lost: lost.as_deref() == Some("answers"),
            };
            actor(scene, case).fate = fate;
        }
        "watch" => {
            let is_off = case.take_flag("off").unwrap();
            case.take_flag("on").unwrap();
            let delay = duration(case, "delay").unwrap_or_default();
            let index = index(scene, case);
            scene.actors[index].watch_delay = (!is_off).then_some(delay);
            scene.watch_speaks(index);
        }
        "freeze" => {
            let thaw = until + micros(duration(case, "for").unwrap());
            actor(scene, case).frozen_until = thaw;
        }
        "crash" => actor(scene, case).crashed = true,
        "key" => {
            let key = case.try_take_arg("is").unwrap();
            let index = index(scene, case);
            scene.tell(index, Observation::Key(key));
        }
        "range" => {
            let actor = actor(scene, case);
            let line = describe_range(actor);
            scene.say(&line);
        }
        "strips" => {
            scene.store.strips = match text(case, "what").as_deref() {
                Some("session") => Some(Strips::Session),
                Some("renew-time") => Some(Strips::RenewTime),
                Some("everything") => Some(Strips::Everything),
                _ => None,
            };
        }
        "told-missing" => {
            let is_off = case.take_flag("off").unwrap();
            actor(scene, case).told_missing = !is_off;
        }
        "may-not-ask" => actor(scene, case).may_not_ask = true,
        "work" => {
            let stops = text(case, "stops").unwrap();
            actor(scene, case).work_stops =
                if stops == "never" { WorkStops::Never } else { WorkStops::After(parse(&stops)) };
        }
        "ended" => {
            let index = index(scene, case);
            scene.tell(index, Observation::WorkStopped);
        }
        "stop" => {
            let index = index(scene, case);
            scene.tell(index, Observation::Stop);
        }
        "overlook" => {
            let index = index(scene, case);
            scene.tell(index, Observation::CandidateMissing { source: Source::Watch });
        }
        "resign" => {
            let index = index(scene, case);
            scene.tell(index, Observation::Resign);
        }
        "show" => show(scene),
        unknown => panic!("no directive {unknown:?}"),
    }
    scene.run_until(until, MOST_EVENTS);
}

fn start(scene: &mut Scene, case: &mut TestCase) {
    let name = text(case, "name").unwrap();
    let session = text(case, "session");
    let label = session.as_ref().map_or_else(|| name.clone(), |session| format!("{name}/{session}"));
    let session = session.unwrap_or_else(|| format!("s-{name}"));
    let mode = match text(case, "mode").as_deref() {
        None => Mode::Coordinated,
        Some("direct") => Mode::Direct,
        Some(mode) => panic!("no mode {mode:?}"),
    };
    let mut timing = Timing::default();
    if let Some(grace) = duration(case, "grace") {
        timing.stop_grace = grace;
    }
    if let Some(retry) = duration(case, "retry") {
        timing.retry_period = retry;
    }
    if let Some(lease) = duration(case, "lease") {
        timing.lease_duration_seconds = u32::try_from(lease.as_secs()).unwrap();
        timing.renew_deadline = duration(case, "deadline").unwrap_or(lease * 99 / 100);
    }
    let mut config = config(&name, &session, mode, timing);
    config.fallback = text(case, "fallback").as_deref() != Some("off");
    if let Some(strategy) = strategy(case) {
        config.strategy = Strategy::read(Some(&strategy)).unwrap();
    }
    config.keeps_on_stop = case.take_flag("keep-on-stop").unwrap();
    config.fail_open = match text(case, "fail-open").as_deref() {
        None => FailOpen::Off,
        Some("unbounded") => FailOpen::Unbounded,
        Some(bound) => FailOpen::Bounded(parse(bound)),
    };
    let mut actor = Actor::new(&name, config, scene.now_micros);
    if let Some(wall) = text(case, "wall") {
        let (sign, wall) = wall.strip_prefix('-').map_or((1, &*wall), |wall| (-1, wall));
        actor = actor.with_clock(0, 0, sign * micros(parse(wall)), scene.now_micros);
    }
    actor.label = label;
    actor.has_owner = case.take_flag("owned").unwrap();
    actor.version = text(case, "version").unwrap_or(actor.version);
    if let Some(delay) = duration(case, "delay") {
        actor.fate = Fate { there: delay, back: delay, ..Fate::AT_ONCE };
        actor.watch_delay = Some(delay);
    }
    let key: Option<i64> = case.try_take_arg("key").unwrap();
    actor.elector.observe(actor.local(scene.now_micros), Observation::Key(key));
    scene.add(actor);
}

fn describe_range(actor: &Actor) -> String {
    let shown = |time: WireTime| match time {
        WireTime::MAX => "whenever".to_owned(),
        time => seconds(time.as_micros() - 1_000_000_000_000_000),
    };
    let Some(Range { start, end, fails_open_until }) = actor.range else {
        return format!("{} owns nothing", actor.label);
    };
    let open = fails_open_until.map(|until| format!(", and until {} if nobody takes over", shown(until)));
    format!("{} owns {} to {}{}", actor.label, shown(start), shown(end), open.unwrap_or_default())
}

fn show(scene: &mut Scene) {
    let lease = scene.store.lease.as_ref().map_or_else(|| "missing".to_owned(), store::describe);
    let leader = scene.actors.iter().filter(|actor| actor.reads_leading(scene.now_micros)).find_map(|actor| {
        let leading = actor.leading?;
        Some(format!("{} leads until {}", actor.name, seconds(leading.valid_until.as_micros())))
    });
    let line = format!("{lease}; {}", leader.unwrap_or_else(|| "nobody leads".to_owned()));
    scene.say(&line);
}

fn text(case: &mut TestCase, key: &str) -> Option<String> {
    case.try_take_arg(key).unwrap()
}

fn strategy(case: &mut TestCase) -> Option<String> {
    case.try_take_args::<String>("strategy").unwrap().map(|parts| parts.join("/"))
}

fn duration(case: &mut TestCase, key: &str) -> Option<Duration> {
    text(case, key).map(|text| parse(&text))
}

fn parse(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(millis.parse().unwrap()),
        None => match (text.strip_suffix('h'), text.strip_suffix('m')) {
            (Some(hours), _) => Duration::from_hours(hours.parse().unwrap()),
            (None, Some(minutes)) => Duration::from_mins(minutes.parse().unwrap()),
            (None, None) => Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap()),
        },
    }
}

/// The youngest actor of the name: a process that was started anew stands for itself.
fn index(scene: &Scene, case: &mut TestCase) -> usize {
    let name = text(case, "name").unwrap();
    scene.actors.iter().rposition(|actor| actor.name == name).unwrap()
}

fn actor<'a>(scene: &'a mut Scene, case: &mut TestCase) -> &'a mut Actor {
    let index = index(scene, case);
    &mut scene.actors[index]
}
