//! Waits until an act takes effect: watches the Lease, and reads it again when the watch ends.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _};
use hustings_client::api::ReadLease;
use hustings_core::model::{Annotation, LeaseRecord, LeaseStage};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};

use super::report::ActReport;
use super::requests::within;

/// The pause between the end of a watch and the next read of the Lease.
const READ_PERIOD: Duration = Duration::from_millis(200);

/// When an act has taken effect.
#[derive(Clone, Debug)]
pub(super) enum Goal {
    /// Once it is written.
    Written,
    /// Once the Lease has no preferred holder.
    NoRequest,
    /// Once `candidate` leads; without a name, once any candidate but the `former` holder leads.
    Leads {
        candidate: Option<String>,
        former: Option<String>,
        /// Whether this is a transfer, which fails as soon as another candidate leads or the controller withdraws it.
        /// Otherwise it is a pin, which fails once it is not on the Lease any longer.
        once: bool,
    },
    /// Once a candidate outside this set leads, or once the Lease has no holder.
    LeadsNot(BTreeSet<String>),
}

/// The outcome of an act, with a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActOutcome {
    /// The act has taken effect.
    Happened(String),
    /// The act will not take effect.
    Failed(String),
}

impl Goal {
    /// What to check if the goal is not reached in time.
    const fn advice(&self) -> &'static str {
        match self {
            Self::LeadsNot(_) => {
                "a controller runs, that a candidate which is not excluded is live, and that the holder's work stops"
            }
            Self::Written | Self::NoRequest | Self::Leads { .. } => {
                "a controller runs and that the holder's work stops"
            }
        }
    }

    /// Judges this version of the Lease; `None` if the goal may still be reached.
    fn judge(&self, lease: &ReadLease) -> Option<ActOutcome> {
        let record = &lease.record;
        let holder = record.holder.as_deref();
        let leader = holder.filter(|_| record.stage(None) == LeaseStage::InTerm);
        let leads = |name: &str| Some(ActOutcome::Happened(format!("{name} leads")));
        match self {
            Self::Written => Some(ActOutcome::Happened("done".to_owned())),
            Self::NoRequest => {
                record.preferred_holder.is_none().then(|| {
                    ActOutcome::Happened(holder.map_or_else(
                        || "the Lease has no holder".to_owned(),
                        |name| format!("{name} stays the holder"),
                    ))
                })
            }
            Self::Leads { candidate, former, once } => match (candidate, leader) {
                (Some(candidate), Some(leader)) if candidate == leader => leads(leader),
                (None, Some(leader)) if former.as_deref() != Some(leader) => leads(leader),
                (_, Some(leader)) if *once && former.as_deref() != Some(leader) => {
                    Some(ActOutcome::Failed(format!("{leader} leads instead")))
                }
                // The controller withdrew the transfer: neither the act nor a preferred holder is left.
                _ if *once
                    && record.acts.transfer.is_none()
                    && record.preferred_holder.is_none()
                    && holder == former.as_deref() =>
                {
                    Some(ActOutcome::Failed(lease.reason().unwrap_or("the transfer was withdrawn").to_owned()))
                }
                (Some(candidate), _) if !*once && !is_pinned(record, candidate) => {
                    Some(ActOutcome::Failed(format!("the pin to {candidate} has ended, or was removed or replaced")))
                }
                _ => None,
            },
            Self::LeadsNot(excluded) => match (holder, leader) {
                (None, _) => Some(ActOutcome::Happened("the Lease has no holder".to_owned())),
                (_, Some(leader)) if !excluded.contains(leader) => leads(leader),
                _ => None,
            },
        }
    }
}

/// Whether the pin to this candidate is on the Lease.
fn is_pinned(record: &LeaseRecord, candidate: &str) -> bool {
    record.acts.pin.as_ref().and_then(Annotation::valid).is_some_and(|pin| pin.candidate == candidate)
}

/// Waits for at most `timeout` until the goal is reached or out of reach, and completes the report. `written` is the
/// version of the Lease that the write created. `sent` is when the command sent that write.
pub(super) async fn wait(
    leases: &Api<ReadLease>,
    written: ReadLease,
    goal: &Goal,
    sent: Instant,
    timeout: Duration,
    report: &mut ActReport,
) {
    let mut newest = written;
    let outcome = tokio::time::timeout(timeout, follow(leases, &mut newest, goal)).await;
    report.holder.clone_from(&newest.record.holder);
    report.happened = Some(matches!(outcome, Ok(ActOutcome::Happened(_))));
    report.seconds = Some(sent.elapsed().as_secs_f64());
    report.outcome = Some(match outcome {
        Ok(ActOutcome::Happened(text) | ActOutcome::Failed(text)) => text,
        Err(_) => {
            let holder = newest.record.holder.as_deref().unwrap_or("no process");
            let [name, namespace] =
                [&newest.metadata.name, &newest.metadata.namespace].map(|name| name.as_deref().unwrap_or_default());
            let advice = if newest.record.is_paused() {
                format!("its elections are paused, which `hustings resume {name} --namespace {namespace}` ends")
            } else {
                format!("check that {}", goal.advice())
            };
            format!("it has not happened yet: {holder} holds the Lease; {advice}")
        }
    });
}

async fn follow(leases: &Api<ReadLease>, newest: &mut ReadLease, goal: &Goal) -> ActOutcome {
    let name = newest.metadata.name.clone().unwrap_or_default();
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    loop {
        if let Some(outcome) = goal.judge(newest) {
            return outcome;
        }
        let version = newest.metadata.resource_version.clone().unwrap_or_default();
        if let Ok(events) = leases.watch(&params, &version).await {
            let mut events = pin!(events.into_stream());
            while let Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) = events.next().await {
                *newest = lease;
                if let Some(outcome) = goal.judge(newest) {
                    return outcome;
                }
            }
        }
        tokio::time::sleep(READ_PERIOD).await;
        if let Ok(lease) = within(leases.get(&name)).await {
            *newest = lease;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::cluster;

    fn lease(holder: &str, session: &str, annotations: &Value) -> ReadLease {
        let mut all = json!({ "hustings.io/session": session, "hustings.io/reason": "Why." });
        all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
        ReadLease::from_json(json!({
            "metadata": { "name": "l", "annotations": all },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
        }))
    }

    fn happened(text: &str) -> ActOutcome {
        ActOutcome::Happened(text.to_owned())
    }

    fn failed(text: &str) -> ActOutcome {
        ActOutcome::Failed(text.to_owned())
    }

    #[test]
    fn a_transfer_has_happened_once_the_candidate_has_taken_up_the_lease() {
        let goal = |candidate: Option<&str>| Goal::Leads {
            candidate: candidate.map(str::to_owned),
            former: Some("a".to_owned()),
            once: true,
        };
        let term = "s/1/15";
        let none = json!({});
        for (holder, session, annotations, to_b, to_any) in [
            ("a", term, json!({ "hustings.io/transfer": "b" }), None, None),
            ("a", term, json!({ "hustings.io/preferred-holder": "b" }), None, None),
            ("b", "open", none.clone(), None, None),
            ("b", term, none.clone(), Some(happened("b leads")), Some(happened("b leads"))),
            ("c", term, none.clone(), Some(failed("c leads instead")), Some(happened("c leads"))),
            ("a", term, none, Some(failed("Why.")), Some(failed("Why."))),
        ] {
            let lease = lease(holder, session, &annotations);
            assert_eq!(goal(Some("b")).judge(&lease), to_b, "{lease:?}");
            assert_eq!(goal(None).judge(&lease), to_any, "{lease:?}");
        }
    }

    #[test]
    fn a_pin_stays_possible_while_another_candidate_leads_until_it_is_removed() {
        let goal = |candidate: Option<&str>| Goal::Leads {
            candidate: candidate.map(str::to_owned),
            former: Some("a".to_owned()),
            once: false,
        };
        let pin = json!({ "hustings.io/pin": "b until 2027-01-01T00:00:00Z" });
        for holder in ["a", "c"] {
            assert_eq!(goal(Some("b")).judge(&lease(holder, "s/1/15", &pin)), None, "{holder}");
        }
        let other = json!({ "hustings.io/pin": "c until 2027-01-01T00:00:00Z" });
        for annotations in [other, json!({})] {
            let ended = Some(failed("the pin to b has ended, or was removed or replaced"));
            assert_eq!(goal(Some("b")).judge(&lease("a", "s/1/15", &annotations)), ended, "{annotations}");
        }
    }

    #[tokio::test]
    async fn a_wait_without_a_watch_reads_the_lease_again_and_ends_in_time() {
        for (holder, timeout, expected) in
            [("b", 60_000, "b leads"), ("c", 60_000, "c leads instead"), ("a", 300, "it has not happened yet: a holds")]
        {
            let newest = json!({
                "metadata": { "name": "l", "annotations":
                    { "hustings.io/session": "s/1/15", "hustings.io/pin": "b until 2027-01-01T00:00:00Z" } },
                "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
            });
            // The server rejects the watch.
            let (cluster, _) = cluster(move |request| (!request.path.contains("watch")).then(|| (200, newest.clone())));
            let leases: Api<ReadLease> = Api::namespaced(cluster.leases, "n");
            let once = holder == "c";
            let goal = Goal::Leads { candidate: Some("b".to_owned()), former: Some("a".to_owned()), once };
            let acts =
                json!({ "hustings.io/preferred-holder": "b", "hustings.io/pin": "b until 2027-01-01T00:00:00Z" });
            let (written, mut report) = (lease("a", "s/1/15", &acts), ActReport::default());
            wait(&leases, written, &goal, Instant::now(), Duration::from_millis(timeout), &mut report).await;
            assert_eq!((report.happened, report.holder.as_deref()), (Some(holder == "b"), Some(holder)));
            assert!(report.outcome.as_ref().unwrap().starts_with(expected), "{report:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_shows_the_effect_without_another_read() {
        let newest = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "l", "annotations": { "hustings.io/session": "s/1/15" } },
            "spec": { "holderIdentity": "b", "leaseDurationSeconds": 15 },
        });
        let event = json!({ "type": "MODIFIED", "object": newest });
        // The server rejects every read.
        let (cluster, _) = cluster(move |request| request.path.contains("watch").then(|| (200, event.clone())));
        let leases: Api<ReadLease> = Api::namespaced(cluster.leases, "n");
        let goal = Goal::Leads { candidate: Some("b".to_owned()), former: Some("a".to_owned()), once: false };
        let pin = json!({ "hustings.io/pin": "b until 2027-01-01T00:00:00Z" });
        let (written, mut report) = (lease("a", "s/1/15", &pin), ActReport::default());
        wait(&leases, written, &goal, Instant::now(), Duration::from_mins(1), &mut report).await;
        assert_eq!((report.happened, report.holder.as_deref()), (Some(true), Some("b")));
    }

    #[test]
    fn a_native_candidate_leads_only_once_it_has_taken_up_its_grant() {
        let lease = |renewed: &str| {
            ReadLease::from_json(json!({
                "metadata": { "name": "l" },
                "spec": { "holderIdentity": "b", "leaseDurationSeconds": 5, "strategy": "OldestEmulationVersion",
                    "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": renewed },
            }))
        };
        let goal = Goal::Leads { candidate: None, former: Some("a".to_owned()), once: true };
        let grant = lease("2026-01-01T00:00:00.000000Z");
        assert_eq!(grant.record.stage(None), LeaseStage::Granted, "{grant:?}");
        assert_eq!(goal.judge(&grant), None);
        assert_eq!(goal.judge(&lease("2026-01-01T00:00:02.000000Z")), Some(happened("b leads")));
    }

    #[test]
    fn an_exclusion_has_happened_once_another_candidate_leads_and_a_pause_once_no_holder_is_preferred() {
        let goal = Goal::LeadsNot(["a".to_owned()].into());
        assert_eq!(goal.judge(&lease("a", "s/1/15", &json!({}))), None);
        assert_eq!(goal.judge(&lease("b", "open", &json!({}))), None);
        assert_eq!(goal.judge(&lease("b", "s/1/15", &json!({}))), Some(happened("b leads")));
        assert_eq!(goal.judge(&lease("", "open", &json!({}))), Some(happened("the Lease has no holder")));
        let asked = lease("a", "s/1/15", &json!({ "hustings.io/preferred-holder": "b" }));
        assert_eq!(Goal::NoRequest.judge(&asked), None);
        assert_eq!(Goal::NoRequest.judge(&lease("a", "s/1/15", &json!({}))), Some(happened("a stays the holder")));
        let free = lease("", "open", &json!({}));
        assert_eq!(Goal::NoRequest.judge(&free), Some(happened("the Lease has no holder")));
    }
}
