//! Very many elections in one process that holds them all: memory, requests, and how evenly they are spread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hustings_client::{Elections, Term};
use hustings_controlplane::ControlPlane;
use kube::Client;
use kube::client::ClientBuilder;
use tokio::time::{Instant, sleep, timeout};
use tower::util::MapRequestLayer;

use crate::Row;

/// Far more than needed.
const LIMIT: Duration = Duration::from_mins(2);
/// How long the benchmark counts requests.
const REST: Duration = Duration::from_secs(30);
/// The interval with the most requests that the benchmark reports.
const BURST: Duration = Duration::from_millis(100);

/// When each request was sent.
type Sendings = Arc<Mutex<Vec<Instant>>>;

pub(crate) async fn measure(elections: usize) -> Result<Vec<Row>> {
    eprintln!("elections: starting etcd and kube-apiserver (the first time they are built, which takes minutes)");
    let plane = ControlPlane::builder().audit(false).start().await?;
    let namespace = plane.create_namespace("elections").await?;
    let admin = plane.admin();
    let sendings = Sendings::default();
    let counted = MapRequestLayer::new({
        let sendings = Arc::clone(&sendings);
        move |request: http::Request<kube::client::Body>| {
            sendings.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            request
        }
    });
    let client = ClientBuilder::try_from(plane.config())?.with_layer(&counted).build();
    let (idle, counters) = (memory_mb("VmRSS:")?, Counters::read(&admin).await?);

    eprintln!("elections: {elections} in one process");
    let started = Instant::now();
    let shared = Elections::new(client, &namespace);
    let campaigns = (0..elections)
        .map(|number| Ok(shared.direct(format!("shard-{number:04}")).identity("bench").build()?.start()))
        .collect::<Result<Vec<_>>>()?;
    let mut terms: Vec<Term> = Vec::new();
    for campaign in &campaigns {
        let leadership = campaign.leadership();
        let term = timeout(LIMIT, leadership.wait_until_leader()).await.context("not all are held in time")?;
        terms.push(term.context("an elector has ended")?);
    }
    let all_held = started.elapsed();
    // The load of the start is over by then.
    sleep(Duration::from_secs(10)).await;

    let (from, cpu, before) = (Instant::now(), cpu_seconds()?, Counters::read(&admin).await?);
    sleep(REST).await;
    let (seconds, cpu, after) = (from.elapsed().as_secs_f64(), cpu_seconds()? - cpu, Counters::read(&admin).await?);
    let lost =
        campaigns.iter().zip(&terms).filter(|(campaign, term)| campaign.leadership().term().as_ref() != Some(term));
    ensure!(lost.count() == 0, "terms were lost");
    let sent = sendings.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (most, mean) = bursts(sent.iter().filter(|at| **at >= from).map(|at| at.duration_since(from)));
    let rate = |verbs: &[&str]| (after.requests(verbs) - before.requests(verbs)) / seconds;
    Ok(vec![
        Row::new("elections, direct mode: memory of the process (VmRSS)", memory_mb("VmRSS:")?, "MB", Some(64.0)),
        Row::new("elections, direct mode: its peak (VmHWM)", memory_mb("VmHWM:")?, "MB", Some(64.0)),
        Row::new("elections: of that, before they began", idle, "MB", None),
        Row::new("elections: until all are held", all_held.as_secs_f64(), "s", None),
        Row::new(
            "elections: writes at rest per Lease and second",
            rate(&["PATCH", "PUT", "POST"]) / count(elections),
            "",
            Some(0.5),
        ),
        Row::new("elections: reads at rest, all", rate(&["GET", "LIST"]), "1/s", Some(0.5)),
        Row::new("elections: watches of Leases", after.watches - counters.watches, "", Some(1.0)),
        Row::new("elections: requests in the busiest 100 ms, of the mean", most / mean, "", None),
        Row::new("elections: CPU of this process at rest", cpu / seconds * 60.0, "s/min", None),
    ])
}

/// The API server's request counts for Leases.
struct Counters {
    by_verb: BTreeMap<String, f64>,
    watches: f64,
}

impl Counters {
    async fn read(admin: &Client) -> Result<Self> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = admin.request_text(request).await?;
        let (mut by_verb, mut watches) = (BTreeMap::new(), 0.0);
        for line in text.lines().filter(|line| line.contains(r#"resource="leases""#)) {
            let (labels, value) = line.rsplit_once(' ').context("a line without a value")?;
            let verb = labels.split_once(r#"verb=""#).and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
            if labels.starts_with("apiserver_request_total") {
                *by_verb.entry(verb.to_owned()).or_default() += value.parse::<f64>()?;
            } else if labels.starts_with("apiserver_longrunning_requests") && verb == "WATCH" {
                watches += value.parse::<f64>()?;
            }
        }
        Ok(Self { by_verb, watches })
    }

    fn requests(&self, verbs: &[&str]) -> f64 {
        verbs.iter().filter_map(|verb| self.by_verb.get(*verb)).sum()
    }
}

/// The most requests and the mean, of all the spans that the time is cut into.
fn bursts(sent: impl Iterator<Item = Duration>) -> (f64, f64) {
    let mut spans = BTreeMap::<u128, usize>::new();
    for at in sent {
        *spans.entry(at.as_millis() / BURST.as_millis()).or_default() += 1;
    }
    let most = spans.values().copied().max().unwrap_or(0);
    (count(most), count(spans.values().sum()) / count(spans.len().max(1)))
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn memory_mb(field: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

/// User and system time of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')').context("a stat without a name")?;
    let ticks = after_name.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    // USER_HZ is 100 on every machine that runs this.
    Ok(ticks / 100.0)
}
