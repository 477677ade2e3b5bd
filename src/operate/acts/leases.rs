//! Acts on a Lease: plans the act, writes it, and waits for its effect.

use std::time::Instant;

use hustings_client::api::{ReadLease, lease_patch};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::{LeaseRecord, Transfer};
use kube::Api;
use kube::api::{Patch, PatchParams};

use super::config::{Config, LeaseAct};
use super::outcome::{Goal, wait};
use super::plan::{ActPlan, ActRequest, plan, standing};
use super::report::ActReport;
use super::requests::{explain_write, within};
use super::scene::ActScene;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::operate::check::Installation;

/// The most attempts of a write. The holder renews every two seconds, and each renewal creates a new version.
const ATTEMPTS: usize = 5;

/// Carries out the act. Adds its report to `reports` as soon as the act is written, and completes it after the wait.
pub(super) async fn carry_out(
    cluster: &Cluster,
    lease: &str,
    act: &LeaseAct,
    config: &Config,
    user: Option<&str>,
    installations: &[Installation],
    reports: &mut Vec<ActReport>,
) -> anyhow::Result<()> {
    let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let mut scene = ActScene::read(cluster, lease, installations).await?;
    let first = scene.lease.record.clone();
    let request = ActRequest { user, reason: config.reason.as_deref() };
    let mut report =
        ActReport { namespace: cluster.namespace.clone(), lease: lease.to_owned(), ..ActReport::default() };
    for _ in 0..ATTEMPTS {
        let ActPlan { write, forecast, sentence, until, replaces, assist, warnings } =
            plan(&scene, act, request, SystemClock.both().wall)?;
        let until = until.map(|until| until.to_string());
        report = ActReport { act: sentence, until, replaces, assist, warnings, ..report };
        if config.dry_run {
            report.forecast = forecast.events.iter().map(ToString::to_string).collect();
            reports.push(report);
            return Ok(());
        }
        let patch = Patch::Merge(lease_patch(&write));
        let sent = Instant::now();
        match within(leases.patch(lease, &PatchParams::default(), &patch)).await {
            Ok(written) => {
                report.written = true;
                reports.push(report);
                if let (Some(timeout), Some(report)) = (config.wait, reports.last_mut()) {
                    let goal = goal(act, &first, &scene.lease.record);
                    wait(&leases, written, &goal, sent, timeout, report).await;
                }
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(explain_write(cluster, "cannot write the Lease", error)),
        }
        scene = ActScene::read(cluster, lease, installations).await?;
        let now = &scene.lease.record;
        if let Some(fact) = settled(act, &first, now) {
            reports.push(ActReport { act: fact, until: None, replaces: None, happened: Some(true), ..report });
            if let (Some(timeout), Some(report)) = (config.wait, reports.last_mut()) {
                wait(&leases, scene.lease.clone(), &goal(act, &first, &first), sent, timeout, report).await;
            }
            return Ok(());
        }
        if has_other_act(&first, now) {
            let now = standing(now);
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

/// Whether the Lease now has an act that it did not have before. An act that is gone was carried out, ended, or was
/// removed: there is nothing to overwrite.
fn has_other_act(before: &LeaseRecord, now: &LeaseRecord) -> bool {
    let pause = |record: &LeaseRecord| (record.hold.clone(), record.acts.hold_until.clone());
    (now.hold.is_some() && pause(now) != pause(before))
        || (now.acts.transfer.is_some() && now.acts.transfer != before.acts.transfer)
        || (now.acts.pin.is_some() && now.acts.pin != before.acts.pin)
        || (now.acts.assist.is_some() && now.acts.assist != before.acts.assist)
}

/// The change by which the act has become unnecessary after it was planned. A second write would then act on a
/// situation that the administrator has not seen: it would ask the next holder to hand over as well.
fn settled(act: &LeaseAct, before: &LeaseRecord, now: &LeaseRecord) -> Option<String> {
    let new_holder = now.holder.as_ref().filter(|_| before.holder.is_some() && now.holder != before.holder);
    match act {
        LeaseAct::Transfer(Transfer::To(name)) if new_holder == Some(name) => {
            Some(format!("{name} has become the holder meanwhile"))
        }
        LeaseAct::Transfer(Transfer::Any) => new_holder.map(|name| format!("{name} has become the holder meanwhile")),
        LeaseAct::Resume if now.hold.is_none() => Some("the pause has ended meanwhile".to_owned()),
        LeaseAct::Unpin if now.acts.pin.is_none() => Some("the pin has ended meanwhile".to_owned()),
        LeaseAct::Unassist if now.acts.assist.is_none() => Some("the assistance has ended meanwhile".to_owned()),
        LeaseAct::Transfer(_)
        | LeaseAct::Resume
        | LeaseAct::Unpin
        | LeaseAct::Unassist
        | LeaseAct::Pause(_)
        | LeaseAct::Pin { .. }
        | LeaseAct::Assist(_) => None,
    }
}

/// The goal of an act that was planned for the version `first`, and written on `before`.
fn goal(act: &LeaseAct, first: &LeaseRecord, before: &LeaseRecord) -> Goal {
    let former = before.holder.clone();
    match act {
        LeaseAct::Pause(_) => Goal::NoRequest,
        LeaseAct::Resume | LeaseAct::Unpin | LeaseAct::Assist(_) | LeaseAct::Unassist => Goal::Written,
        LeaseAct::Transfer(to) => {
            // Without a name, the administrator wants the holder that he has seen to hand over.
            let (candidate, former) = match to {
                Transfer::To(name) => (Some(name.clone()), former),
                Transfer::Any => (None, first.holder.clone()),
            };
            Goal::Leads { candidate, former, once: true }
        }
        LeaseAct::Pin { candidate, .. } => Goal::Leads { candidate: Some(candidate.clone()), former, once: false },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::Method;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::{Sent, cluster, failure, list};
    use crate::base::output::Output;
    use crate::operate::acts::config::{Act, ActExpiry};

    fn lease(version: &str, annotations: &Value) -> Value {
        json!({
            "metadata": { "name": "l", "namespace": "n", "resourceVersion": version, "annotations": annotations,
                "labels": { "hustings.io/enrolled": "true" } },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1 },
        })
    }

    #[tokio::test]
    async fn a_write_that_meets_a_conflict_is_repeated_unless_another_act_stands_there() {
        let act = LeaseAct::Pause(None);
        let config = Config {
            act: Act::Lease { lease: "l".to_owned(), act: act.clone() },
            reason: None,
            dry_run: false,
            wait: Some(std::time::Duration::from_mins(1)),
            output: Output::Text,
        };
        for (newest, versions, error) in [
            (json!({}), &["5", "7"][..], None),
            (json!({ "hustings.io/hold": "works" }), &["5"], Some("The Lease now has: hold \"works\"")),
            (json!({ "hustings.io/transfer": "a" }), &["5"], Some("The Lease now has: transfer to a")),
        ] {
            let has_changed = AtomicBool::new(false);
            let (cluster, requests) = cluster(move |request: &Sent| {
                if request.method == Method::PATCH && !has_changed.swap(true, Ordering::SeqCst) {
                    return Some(failure(409));
                }
                let is_newer = has_changed.load(Ordering::SeqCst);
                let lease = if is_newer { lease("7", &newest) } else { lease("5", &json!({})) };
                let is_of_candidates = request.path.contains("hustings.io");
                is_of_candidates
                    .then(|| list(&[]))
                    .or_else(|| request.path.contains("/leases/l").then_some((200, lease)))
            });
            let mut reports = Vec::new();
            let done = Box::pin(carry_out(&cluster, "l", &act, &config, Some("ada"), &[], &mut reports)).await;
            let requests = requests.lock().unwrap();
            let writes = requests.iter().filter(|sent| sent.method == Method::PATCH);
            let sent: Vec<_> = writes.map(|sent| sent.body["metadata"]["resourceVersion"].as_str().unwrap()).collect();
            assert_eq!(sent, versions, "{done:?}");
            assert_eq!(done.is_err(), error.is_some(), "{done:?}");
            let seconds = reports.first().and_then(|report| report.seconds);
            assert!(seconds.is_none_or(|seconds| seconds < 30.0), "the Lease has no preferred holder: {done:?}");
            assert!(error.is_none_or(|error| done.unwrap_err().to_string().contains(error)));
        }
    }

    #[test]
    fn each_act_waits_for_its_own_effect() {
        let before = LeaseRecord { holder: Some("a".to_owned()), ..LeaseRecord::default() };
        let end = ActExpiry::After(std::time::Duration::from_secs(1));
        for (act, expected) in [
            (LeaseAct::Pause(None), "NoRequest"),
            (LeaseAct::Resume, "Written"),
            (LeaseAct::Unpin, "Written"),
            (LeaseAct::Transfer(Transfer::Any), r#"Leads { candidate: None, former: Some("a"), once: true }"#),
            (
                LeaseAct::Transfer(Transfer::To("b".to_owned())),
                r#"Leads { candidate: Some("b"), former: Some("a"), once: true }"#,
            ),
            (
                LeaseAct::Pin { candidate: "b".to_owned(), end },
                r#"Leads { candidate: Some("b"), former: Some("a"), once: false }"#,
            ),
        ] {
            assert_eq!(format!("{:?}", goal(&act, &before, &before)), expected);
        }
    }
}
