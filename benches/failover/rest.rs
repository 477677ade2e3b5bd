//! The cost of Leases at rest, counted in the API server's audit log.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hustings_controlplane::AuditEvent;
use jiff::Timestamp;

use crate::report::{Measure, Report, Target, load};
use crate::scenes::{close, settled};
use crate::stage::{ELECTORS, SYSTEM, Stage};

const MINUTE: Duration = Duration::from_mins(1);
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const READS: [&str; 2] = ["get", "list"];

const LEASE_WRITES: Measure =
    Measure { what: "at rest: writes per Lease and minute", unit: "", target: Target::Max(30.0) };
const LEASE_READS: Measure =
    Measure { what: "at rest: reads per Lease and minute", unit: "", target: Target::Max(0.0) };
const CANDIDATE_WRITES: Measure =
    Measure { what: "at rest: writes of candidates per minute, all Leases", unit: "", target: Target::Max(0.0) };
const WATCHES: Measure =
    Measure { what: "at rest: watches resumed per Lease and minute", unit: "", target: Target::None };
const OWN_WRITES: Measure = Measure {
    what: "at rest: the controllers' writes of their own Lease per minute",
    unit: "",
    target: Target::Max(30.0),
};
const OTHER_WRITES: Measure =
    Measure { what: "at rest: the controllers' other writes per minute", unit: "", target: Target::Max(0.0) };
const CONTROLLER_READS: Measure =
    Measure { what: "at rest: the controllers' reads per minute", unit: "", target: Target::Max(0.0) };

/// Counts the requests of a minute in which nothing happens.
pub(crate) async fn at_rest(stage: &Stage, leases: usize, report: &mut Report) -> Result<()> {
    eprintln!("Rest; load {}", load());
    let namespace = stage.namespace("rest").await?;
    let contests = settled(stage, &namespace, leases, "1.30.0").await?;
    let from = Timestamp::now();
    tokio::time::sleep(MINUTE).await;
    let to = Timestamp::now();
    let events: Vec<_> = stage
        .plane()
        .audit_events()?
        .into_iter()
        .filter(|event| event.request_received_timestamp.parse::<Timestamp>().is_ok_and(|at| from <= at && at < to))
        // A watch has two entries, and the second comes when it ends.
        .filter(|event| event.verb != "watch" || event.stage == "ResponseStarted")
        .collect();

    let electors = format!("system:serviceaccount:{ELECTORS}:{ELECTORS}");
    let controllers = stage.controllers_user();
    show(&events, &[&electors, &controllers]);
    let count = |of: &dyn Fn(&AuditEvent) -> bool| {
        f64::from(u32::try_from(events.iter().filter(|e| of(e)).count()).unwrap_or(u32::MAX))
    };
    let by_elector = |event: &AuditEvent, verbs: &[&str], lease: &str| {
        event.user.username == electors && verbs.contains(&event.verb.as_str()) && is_about(event, lease)
    };
    let per_lease = |verbs: &[&str]| -> Vec<f64> {
        contests.iter().map(|contest| count(&|event| by_elector(event, verbs, &contest.lease))).collect()
    };
    report.add(LEASE_WRITES, per_lease(&WRITES));
    report.add(LEASE_READS, per_lease(&READS));
    report.add(WATCHES, per_lease(&["watch"]));
    let writes = |event: &AuditEvent| WRITES.contains(&event.verb.as_str());
    report.add(CANDIDATE_WRITES, [count(&|event| writes(event) && resource(event) == "leasecandidates")]);
    let own = |event: &AuditEvent| {
        let in_system = event.object_ref.as_ref().is_some_and(|object| object.namespace == SYSTEM);
        in_system && resource(event) == "leases"
    };
    let by_controller = |event: &AuditEvent| event.user.username == controllers;
    report.add(OWN_WRITES, [count(&|event| by_controller(event) && writes(event) && own(event))]);
    // A review changes nothing, although it is a POST.
    let question = |event: &AuditEvent| resource(event) == "selfsubjectaccessreviews";
    let other = |event: &AuditEvent| by_controller(event) && writes(event) && !own(event) && !question(event);
    report.add(OTHER_WRITES, [count(&other)]);
    let reads = |event: &AuditEvent| by_controller(event) && READS.contains(&event.verb.as_str());
    report.add(CONTROLLER_READS, [count(&reads)]);
    close(contests).await
}

/// Whether it is about this Lease, about all Leases of its namespace, or about one of its candidates.
fn is_about(event: &AuditEvent, lease: &str) -> bool {
    let Some(object) = &event.object_ref else { return false };
    object.name == lease
        || object.name.strip_prefix(lease).is_some_and(|replica| replica.starts_with('-'))
        // A list or watch of one object names it in its selector.
        || event.request_uri.contains(lease)
}

fn resource(event: &AuditEvent) -> &str {
    event.object_ref.as_ref().map_or("", |object| object.resource.as_str())
}

fn show(events: &[AuditEvent], users: &[&str]) {
    let mut counts = BTreeMap::<_, u32>::new();
    for event in events.iter().filter(|event| users.contains(&event.user.username.as_str())) {
        *counts.entry((event.user.username.as_str(), event.verb.as_str(), resource(event))).or_default() += 1;
    }
    for ((user, verb, resource), count) in counts {
        eprintln!("  {user} {verb} {resource}: {count}");
    }
}
