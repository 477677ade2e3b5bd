//! Acts on a Lease: plans the act, writes it, and waits for its effect.

use std::time::Instant;

use hustings_client::api::{ReadLease, lease_patch};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::{LeaseRecord, Transfer};
use kube::Api;
use kube::api::{Patch, PatchParams};

use super::outcome::{Goal, wait};
use super::plan::{Plan, Request, plan, standing};
use super::report::Report;
use super::scene::Scene;
use super::{Config, LeaseAct, explain, within};
use crate::cluster::Cluster;
use crate::hint::Hinted;

/// How often to try a write. The holder renews every two seconds, and each renewal creates a new version.
const ATTEMPTS: usize = 5;

pub(super) async fn carry_out(
    cluster: &Cluster,
    lease: &str,
    act: &LeaseAct,
    config: &Config,
    user: Option<&str>,
) -> anyhow::Result<Report> {
    let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let mut scene = Scene::read(cluster, lease).await?;
    let first = scene.lease.record.clone();
    let request = Request { user, reason: config.reason.as_deref() };
    for _ in 0..ATTEMPTS {
        let Plan { write, forecast, sentence, until, replaces } = plan(&scene, act, request, SystemClock.both().wall)?;
        let mut report = Report {
            namespace: cluster.namespace.clone(),
            lease: lease.to_owned(),
            act: sentence,
            until: until.map(|until| until.to_string()),
            replaces,
            ..Report::default()
        };
        if config.dry_run {
            report.forecast = forecast.events.iter().map(ToString::to_string).collect();
            return Ok(report);
        }
        let patch = Patch::Merge(lease_patch(&write, &scene.lease.record));
        let sent = Instant::now();
        match within(leases.patch(lease, &PatchParams::default(), &patch)).await {
            Ok(written) => {
                report.written = true;
                if let Some(timeout) = config.wait {
                    let goal = goal(act, &scene.lease.record);
                    wait(&leases, written, &goal, sent, timeout, &mut report).await;
                }
                return Ok(report);
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(explain(cluster, "cannot write the Lease", error)),
        }
        scene = Scene::read(cluster, lease).await?;
        if acts(&scene.lease.record) != acts(&first) {
            let now = standing(&scene.lease.record);
            return Err(Hinted::new(
                format!("another administrator was faster, and nothing was written. The Lease now has: {now}"),
                "run the command again to replace that",
            )
            .into());
        }
    }
    Err(Hinted::new(format!("the Lease changed {ATTEMPTS} times before it could be written"), "run the command again")
        .into())
}

/// The parts of the record that administrators write. They show whether another administrator was faster.
const fn acts(record: &LeaseRecord) -> (&Option<String>, &hustings_core::model::LeaseActs) {
    (&record.hold, &record.acts)
}

fn goal(act: &LeaseAct, before: &LeaseRecord) -> Goal {
    let former = before.holder.clone();
    match act {
        LeaseAct::Pause(_) => Goal::NoRequest,
        LeaseAct::Resume | LeaseAct::Unpin => Goal::Written,
        LeaseAct::Transfer(to) => {
            let candidate = if let Transfer::To(name) = to { Some(name.clone()) } else { None };
            Goal::Leads { candidate, former, once: true }
        }
        LeaseAct::Pin { candidate, .. } => Goal::Leads { candidate: Some(candidate.clone()), former, once: false },
    }
}
