//! Who elects native candidates, as data files: `tests/testdata/stand_in/*.txt`, rewritten by
//! `REWRITE=1 cargo test -p hustings-core --test stand_in`.
//!
//! | command | meaning |
//! |---|---|
//! | `kubernetes` | Kubernetes' controller starts: client-go's elector with 15/10/2 s |
//! | `kubernetes stops`, `kubernetes steals` | this elector dies; it takes the Lease although another one holds it |
//! | `controller NAME stand-in group=G` | a Hustings controller of this group starts. It does not lead yet |
//! | `lead NAME` | of its group, only this controller leads from now on |
//! | `kill NAME` | a Hustings controller dies |
//! | `fail`, `succeed` | requests of Hustings fail, or succeed again |
//! | `run 30s` | time passes; the result shows what changed, in seconds since the start |

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use datadriven::{TestCase, walk};
use hustings_core::model::{LeaseRecord, Moment, Now, WireTime};
use hustings_core::stand_in::{Controller, LEASE_DURATION_SECONDS, NativeElector, PERIOD, Reading, StandIn};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/stand_in");
const KUBERNETES: &str = "kube-apiserver";
const KUBERNETES_SECONDS: u32 = 15;

#[test]
fn native_candidates_have_one_elector_as_the_files_show() {
    walk(FILES, |file| {
        let mut world = World::default();
        file.run(|case| world.command(case));
    });
}

#[derive(Default)]
struct World {
    time: Duration,
    lease: Option<Reading>,
    version: u64,
    kubernetes: Option<ClientGo>,
    controllers: BTreeMap<String, Process>,
    fails: bool,
    log: String,
}

/// client-go's elector in kube-apiserver.
#[derive(Default)]
struct ClientGo {
    observed: Option<(Reading, Duration)>,
    elects: bool,
}

struct Process {
    stand_in: StandIn,
    controller: Controller,
    shown: Option<(NativeElector, bool)>,
}

impl World {
    fn command(&mut self, case: &mut TestCase) -> Result<String, String> {
        let is_stand_in = case.args.remove("stand-in").is_some();
        let group = case.args.remove("group").and_then(|values| values.into_iter().next());
        let word = std::mem::take(&mut case.args).into_keys().next();
        match (case.directive.as_str(), word.as_deref()) {
            ("kubernetes", None) => self.kubernetes = Some(ClientGo::default()),
            ("kubernetes", Some("stops")) => self.kubernetes = None,
            ("kubernetes", Some("steals")) => {
                self.write(|reading| take(&mut reading.record, KUBERNETES, KUBERNETES_SECONDS));
            }
            ("controller", Some(name)) => {
                let group = group.as_deref().unwrap_or("hustings").into();
                let controller = Controller { group, identity: name.into() };
                let stand_in = StandIn::new(controller.clone(), is_stand_in);
                self.controllers.insert(name.to_owned(), Process { stand_in, controller, shown: None });
            }
            ("lead", Some(name)) => {
                let group = self.controllers.get(name).ok_or("no such controller")?.controller.group.clone();
                for process in self.controllers.values_mut().filter(|process| process.controller.group == group) {
                    process.stand_in.set_leading(&*process.controller.identity == name);
                }
            }
            ("kill", Some(name)) => drop(self.controllers.remove(name)),
            ("fail", None) => self.fails = true,
            ("succeed", None) => self.fails = false,
            ("run", Some(time)) => return self.run(time),
            (command, _) => return Err(format!("no command {command}")),
        }
        Ok(String::new())
    }

    fn run(&mut self, time: &str) -> Result<String, String> {
        let seconds: u64 = time.strip_suffix('s').and_then(|number| number.parse().ok()).ok_or("run 30s")?;
        let end = self.time + Duration::from_secs(seconds);
        while self.time < end {
            self.time += PERIOD;
            self.run_kubernetes();
            for name in self.controllers.keys().cloned().collect::<Vec<_>>() {
                self.run_controller(&name);
            }
        }
        Ok(std::mem::take(&mut self.log))
    }

    /// Lets Kubernetes' elector renew the Lease if it holds it, or acquire it if it is free by its own observation.
    fn run_kubernetes(&mut self) {
        let Some(mut client_go) = self.kubernetes.take() else { return };
        let lease = self.lease.clone().unwrap_or_default();
        if client_go.observed.as_ref().is_none_or(|(observed, _)| *observed != lease) {
            client_go.observed = Some((lease.clone(), self.time));
        }
        let observed_at = client_go.observed.as_ref().map_or(self.time, |(_, at)| *at);
        let holder = lease.record.holder.as_deref();
        let expired = self.time > observed_at + Duration::from_secs(lease.record.duration_seconds.into());
        if holder == Some(KUBERNETES) {
            self.write(|reading| reading.record.renew_time = None);
        } else if holder.is_none() || expired {
            self.write(|reading| take(&mut reading.record, KUBERNETES, KUBERNETES_SECONDS));
        }
        let elects = self.lease.as_ref().is_some_and(|lease| lease.record.holder.as_deref() == Some(KUBERNETES));
        if elects != client_go.elects {
            self.report(&format!("{KUBERNETES} {}", if elects { "elects" } else { "stops" }));
        }
        client_go.elects = elects;
        self.kubernetes = Some(client_go);
    }

    fn run_controller(&mut self, name: &str) {
        let Some(mut process) = self.controllers.remove(name) else { return };
        if !self.fails {
            process.stand_in.observe(self.now().moment, self.lease.clone());
        }
        let mut decision = process.stand_in.decide(self.now());
        if let Some(write) = decision.write.filter(|_| !self.fails) {
            let (current, mark) =
                (self.lease.as_ref().map(|lease| lease.record.resource_version), process.controller.mark());
            assert_eq!(current, Some(write.resource_version), "the write is conditional on the version that was read");
            if let Some(transitions) = write.takes {
                self.report(&format!("{name} takes the Lease"));
                self.write(|reading| {
                    take(&mut reading.record, name, LEASE_DURATION_SECONDS);
                    reading.record.transitions = transitions;
                    reading.mark = Some(mark);
                });
            } else {
                self.write(|reading| reading.record.renew_time = None);
            }
            let now = self.now().moment;
            process.stand_in.written(now, now, self.lease.clone().unwrap());
            decision = process.stand_in.decide(self.now());
        }
        let shown = (decision.elector, decision.elects);
        if process.shown.as_ref() != Some(&shown) {
            let elector = match &shown.0 {
                NativeElector::Unknown => "unknown".to_owned(),
                NativeElector::Leader => "leader".to_owned(),
                NativeElector::Other(holder) => format!("other {holder}"),
                NativeElector::StandIn(holder) => format!("stand-in {holder}"),
            };
            self.report(&format!("{name}: {elector}{}", if shown.1 { ", elects" } else { "" }));
        }
        process.shown = Some(shown);
        self.controllers.insert(name.to_owned(), process);
    }

    /// Changes the Lease. Each change is a renewal.
    fn write(&mut self, change: impl FnOnce(&mut Reading)) {
        let wall = self.now().wall;
        self.version += 1;
        let lease = self.lease.get_or_insert_default();
        change(lease);
        lease.record.renew_time = Some(wall.later_than(lease.record.renew_time));
        lease.record.acquire_time = lease.record.acquire_time.or(lease.record.renew_time);
        lease.record.resource_version = self.version;
    }

    fn now(&self) -> Now {
        let micros = i64::try_from(self.time.as_micros()).unwrap();
        Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
    }

    fn report(&mut self, event: &str) {
        writeln!(self.log, "{:4} {event}", self.time.as_secs()).unwrap();
    }
}

fn take(record: &mut LeaseRecord, holder: &str, seconds: u32) {
    (record.holder, record.duration_seconds, record.acquire_time) = (Some(holder.to_owned()), seconds, None);
}
