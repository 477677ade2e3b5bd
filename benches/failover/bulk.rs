//! The controllers' costs for very many Leases at rest.
//!
//! Thousands of electors would use more of this machine than the controllers do. So one task plays all candidates and all
//! holders: it answers pings, takes up grants, and renews long leases.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::{self, FuturesUnordered};
use futures::{FutureExt, StreamExt, TryStreamExt};
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::lease_client;
use hustings_client::store::{CandidatePatch, Kubernetes, Nomination, Request, Store as _};
use hustings_core::model::{LeaseRecord, LeaseStage, LeaseWrite, Purpose, SessionMark, SessionStamp, Set};
use kube::Api;
use kube::runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::report::{Measure, Report, Target, load};
use crate::stage::Stage;

/// How often all holders together renew. The API server shares the machine with the controllers.
const RENEWALS_PER_SECOND: u32 = 50;
/// How many periods of renewal a Lease lasts.
const PERIODS: u32 = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const AT_A_TIME: usize = 16;
/// The last status has been written when no candidate has changed for this long.
const QUIET: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_mins(30);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
/// Linux reports times of processes in hundredths of a second, whatever its own ticks are.
const TICKS_PER_SECOND: f64 = 100.0;

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) struct Bulk {
    pub(crate) leases: usize,
    pub(crate) candidates_per_lease: usize,
}

impl Bulk {
    fn renew_period(self) -> Duration {
        let leases = u32::try_from(self.leases).unwrap_or(u32::MAX);
        (Duration::from_secs(1) / RENEWALS_PER_SECOND * leases).max(Duration::from_secs(20))
    }

    fn lease_seconds(self) -> u32 {
        (self.renew_period() * PERIODS).as_secs().try_into().unwrap_or(u32::MAX)
    }
}

/// The progress of the simulated candidates and holders.
#[derive(Default)]
struct Progress {
    held: usize,
    last_candidate_event: Option<Instant>,
}

/// Measures both controllers and the API server at rest.
pub(crate) async fn at_rest(stage: &Stage, bulk: Bulk, report: &mut Report) -> Result<()> {
    let Bulk { leases, candidates_per_lease } = bulk;
    eprintln!("Bulk: {leases} Leases of {candidates_per_lease} candidates; load {}", load());
    let namespace = stage.namespace("bulk").await?;
    let store = Kubernetes::new(lease_client(stage.config())?, SystemClock::shared(), REQUEST_TIMEOUT);
    let progress = watch::Sender::<Progress>::default();
    let play = async {
        tokio::try_join!(candidates(&store, &namespace, &progress), holders(&store, &namespace, bulk, &progress))
    };
    let measured = async {
        let start = Instant::now();
        nominate(&store, &namespace, bulk).await?;
        report.add(CREATED, [start.elapsed().as_secs_f64()]);
        let mut changes = progress.subscribe();
        tokio::time::timeout(LIMIT, changes.wait_for(|progress| progress.held == leases)).await??;
        report.add(HELD, [start.elapsed().as_secs_f64()]);
        let quiet = async {
            while progress.borrow().last_candidate_event.is_some_and(|last| last.elapsed() < QUIET) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, quiet).await.context("the candidates do not settle")?;
        let processes = processes(stage).await?;
        let before = processes.map(|(_, pid)| cpu_seconds(pid));
        tokio::time::sleep(MINUTE).await;
        for ((measures, pid), before) in processes.into_iter().zip(before) {
            let [resident, peak, cpu] = measures;
            report.add(resident, [memory(pid, "VmRSS:")?]);
            report.add(peak, [memory(pid, "VmHWM:")?]);
            report.add(cpu, [cpu_seconds(pid)? - before?]);
        }
        anyhow::Ok(())
    };
    tokio::select! {
        measured = measured => measured,
        played = play => played.map(drop).context("the play ended"),
    }
}

const CREATED: Measure = Measure { what: "bulk: until all candidates exist", unit: "s", target: Target::None };
const HELD: Measure = Measure { what: "bulk: until all Leases are held", unit: "s", target: Target::None };

/// What is measured of each process, and its id.
async fn processes(stage: &Stage) -> Result<[([Measure; 3], u32); 4]> {
    let [(_, leading), (_, standby)] = stage.controllers_pids().await?;
    let measures = |whats: [&'static str; 3], most: Target| {
        let [resident, peak, cpu] = whats;
        [(resident, "MB", most), (peak, "MB", Target::None), (cpu, "s", Target::None)]
            .map(|(what, unit, target)| Measure { what, unit, target })
    };
    Ok([
        (
            measures(
                [
                    "leading controller: resident",
                    "leading controller: most resident so far",
                    "leading controller: CPU per minute",
                ],
                Target::None,
            ),
            leading,
        ),
        (
            measures(
                [
                    "standby controller: resident",
                    "standby controller: most resident so far",
                    "standby controller: CPU per minute",
                ],
                Target::None,
            ),
            standby,
        ),
        (
            measures(
                ["kube-apiserver: resident", "kube-apiserver: most resident so far", "kube-apiserver: CPU per minute"],
                Target::None,
            ),
            stage.plane().apiserver().pid(),
        ),
        (
            measures(["etcd: resident", "etcd: most resident so far", "etcd: CPU per minute"], Target::None),
            stage.plane().etcd().pid(),
        ),
    ])
}

async fn nominate(store: &Kubernetes, namespace: &str, bulk: Bulk) -> Result<()> {
    let replicas = 0..bulk.candidates_per_lease;
    let all = (0..bulk.leases).flat_map(|lease| replicas.clone().map(move |replica| (lease, replica)));
    stream::iter(all)
        .map(|(lease, replica)| async move {
            let version = format!("1.3{replica}.0");
            let nomination = Box::new(Nomination {
                name: format!("bulk-{lease:05}-{replica}"),
                lease_name: format!("bulk-{lease:05}"),
                binary_version: version.clone(),
                emulation_version: Some(version),
                strategy: None,
                priority: None,
                lease_duration_seconds: bulk.lease_seconds(),
                session: "bulk".to_owned(),
                pod: None,
            });
            let create = Request::CreateCandidate { nomination, renew_time: SystemClock.wall() };
            store.send(namespace, &create).await.context("cannot create a candidate").map(drop)
        })
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await
}

/// Answers every ping.
async fn candidates(store: &Kubernetes, namespace: &str, progress: &watch::Sender<Progress>) -> Result<()> {
    let api = Api::<ReadCandidate>::namespaced(store.client().clone(), namespace);
    let pings = watcher(api, Config::default()).filter_map(|event| async {
        let Ok(Event::Apply(candidate) | Event::InitApply(candidate)) = event else { return None };
        progress.send_modify(|progress| progress.last_candidate_event = Some(Instant::now()));
        let record = candidate.record;
        (record.ping_time.is_some() && record.ping_time > record.renew_time).then_some(record)
    });
    let acks = pings.map(|record| async move {
        let renew_time = SystemClock.wall().later_than(record.ping_time.max(record.renew_time));
        let ack = Request::patch_candidate(&record.name, &record.uid, CandidatePatch::Renew(renew_time));
        if let Err(error) = store.send(namespace, &ack).await {
            eprintln!("  a ping of {} was not answered: {error}", record.name);
        }
    });
    acks.buffer_unordered(AT_A_TIME).collect::<()>().await;
    Ok(())
}

/// Takes up every grant, and renews whatever was taken up.
async fn holders(store: &Kubernetes, namespace: &str, bulk: Bulk, progress: &watch::Sender<Progress>) -> Result<()> {
    let api = Api::<ReadLease>::namespaced(store.client().clone(), namespace);
    let mut events = pin!(watcher(api, Config::default()));
    let mut records = HashMap::<String, LeaseRecord>::new();
    let mut writes = FuturesUnordered::new();
    let mut tick = tokio::time::interval(bulk.renew_period() / u32::try_from(bulk.leases)?);
    let mut held = HashSet::new();
    let mut turn = 0;
    loop {
        let (name, purpose) = tokio::select! {
            Some(()) = writes.next() => continue,
            Some(event) = events.next() => {
                let Ok(Event::Apply(lease) | Event::InitApply(lease)) = event else { continue };
                let name = lease.metadata.name.unwrap_or_default();
                let is_grant = lease.record.stage(None) == LeaseStage::Granted;
                if lease.record.session.stamp().is_some() {
                    held.insert(name.clone());
                } else {
                    held.remove(&name);
                }
                records.insert(name.clone(), lease.record);
                progress.send_if_modified(|progress| std::mem::replace(&mut progress.held, held.len()) != held.len());
                if !is_grant {
                    continue;
                }
                (name, Purpose::TakeUp)
            }
            _ = tick.tick() => {
                turn = (turn + 1) % bulk.leases;
                let name = format!("bulk-{turn:05}");
                if records.get(&name).is_none_or(|record| record.session.stamp().is_none()) {
                    continue;
                }
                (name, Purpose::Renew)
            }
        };
        let Some(record) = records.get(&name).cloned() else { continue };
        writes.push(
            async move {
                let write = Request::write_lease(&name, write(purpose, &record, bulk.lease_seconds()));
                if let Err(error) = store.send(namespace, &write).await {
                    eprintln!("  {} of {name} failed: {error}", purpose.as_str());
                }
            }
            .boxed(),
        );
    }
}

fn write(purpose: Purpose, record: &LeaseRecord, seconds: u32) -> LeaseWrite {
    let now = SystemClock.wall().later_than(record.renew_time);
    let mut write = LeaseWrite::new(purpose, record);
    write.renew_time = Set::To(now);
    if purpose == Purpose::TakeUp {
        let term = u64::from(record.transitions);
        let stamp = SessionStamp { session: "bulk".to_owned(), term, seconds };
        write.session = Set::To(SessionMark::Term(stamp));
        write.token = Set::To(record.resource_version);
        write.duration_seconds = Set::To(seconds);
        write.acquire_time = Set::To(now);
        write.preferred_holder = Set::Remove;
        write.hold = Set::Remove;
    }
    write
}

/// A line of `/proc/PID/status`, in megabytes.
pub(crate) fn memory(pid: u32, line: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = status.lines().find_map(|text| text.strip_prefix(line)?.trim().strip_suffix(" kB"));
    Ok(kilobytes.with_context(|| format!("no {line} of process {pid}"))?.parse::<f64>()? * 1.024 / 1000.0)
}

/// The CPU time of a process.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the name in parentheses, which may have spaces; user and system time are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(") ").with_context(|| format!("no state of process {pid}"))?;
    let ticks: Vec<f64> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
}
