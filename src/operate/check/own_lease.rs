//! Checks whether a controller leads, that is, whether the holder of the controllers' own Lease renews it.
//!
//! The check compares no timestamp with the local clock. It observes the Lease until the record changes, or until the
//! record has not changed for one lease duration.

use std::cmp::Reverse;
use std::time::Duration;

use hustings_client::api::ReadLease;
use hustings_core::model::{Moment, Observed};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

use super::report::{Finding, Verdict};
use crate::base::cluster::{api_error, limited, scoped};
use crate::controller::OWN_LEASE;

const CHECK: &str = "own-lease";

/// The pause between two reads.
const PERIOD: Duration = Duration::from_millis(500);

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a Lease without a holder to get one. Controllers that have just started need a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most Leases of controllers without a Deployment that are observed. A cluster may hold many of former
/// installations.
pub(crate) const MOST_OBSERVED: usize = 8;

/// What the observation of the Lease shows.
enum OwnLeaseState {
    /// This holder has just renewed it.
    Live(String),
    /// This holder has not renewed it for one lease duration.
    Silent(String, Duration),
    /// It has no holder, or, if `false`, it does not exist.
    Vacant(bool),
    /// It cannot be read.
    Unread(kube::Error),
}

/// Checks the Lease of controllers that are expected to run. While it is paused, no other controller takes it.
pub(super) async fn check(client: &Client, namespace: &str, name: &str) -> Finding {
    let place = format!("the Lease {name} in namespace {namespace}");
    let (state, hold) = observe(client, namespace, name).await;
    let paused = hold.as_ref().map_or_else(String::new, |hold| format!(", and its elections are paused: {hold:?}"));
    let hint = match hold {
        Some(_) => format!("`hustings resume {name} --namespace {namespace}` ends the pause"),
        None => "the logs and events of the controller's Pods show why no controller renews it".to_owned(),
    };
    match state {
        OwnLeaseState::Live(holder) => {
            let message = format!("{holder} leads: it has just written {place}{paused}");
            if paused.is_empty() { Finding::ok(CHECK, message) } else { Finding::warn(CHECK, message, hint) }
        }
        OwnLeaseState::Silent(holder, since) => {
            let seconds = since.as_secs();
            Finding::fail(CHECK, format!("{holder} has not renewed {place} for {seconds} s{paused}"), hint)
        }
        OwnLeaseState::Vacant(exists) => {
            let is = if exists { "has no holder" } else { "does not exist" };
            Finding::fail(CHECK, format!("{place} {is}: no controller leads{paused}"), hint)
        }
        OwnLeaseState::Unread(error) => Finding::unknown(CHECK, format!("cannot read {place}: {:#}", api_error(error))),
    }
}

/// Judges the finding on a Lease of controllers whose Deployment was not found, which `why` says: they run by other
/// means, or they are gone. If they are needed, that is a problem.
pub(super) fn without_deployment(
    finding: Finding,
    (namespace, name): (&str, &str),
    is_needed: bool,
    why: &str,
) -> Finding {
    let message = format!("{}; {why}", finding.message);
    match finding.verdict {
        Verdict::Fail if is_needed => Finding { message, ..finding },
        Verdict::Fail => {
            let hint = format!(
                "if the installation was removed, remove its Lease: `kubectl delete lease {name} --namespace \
                 {namespace}`; if not, the logs of the controllers show why none renews it"
            );
            Finding::warn(CHECK, message, hint)
        }
        Verdict::Ok => Finding::ok(CHECK, format!("{message}, so its flags and permissions were not checked")),
        Verdict::Warn | Verdict::Unknown => finding,
    }
}

/// Lists the controllers' own Leases of the default name, the last renewed ones first. Only the order depends on the
/// clocks of their holders. Whoever observes these Leases observes the first [`MOST_OBSERVED`].
///
/// # Errors
/// Fails if they cannot be listed.
pub(crate) async fn list(client: &Client, namespace: Option<&str>) -> Result<Vec<ReadLease>, kube::Error> {
    let leases: Api<ReadLease> = scoped(client.clone(), namespace);
    let named = ListParams::default().fields(&format!("metadata.name={OWN_LEASE}"));
    let mut found = limited(TIMEOUT, leases.list(&named)).await?.items;
    found.sort_by_key(|lease| Reverse(lease.record.renew_time));
    Ok(found)
}

/// Returns the holder of the Lease if it renews the Lease within `limit`; `unread` if the Lease cannot be read.
pub(crate) async fn live_holder(
    client: &Client,
    (namespace, name): (&str, &str),
    limit: Duration,
    unread: Option<String>,
) -> Option<String> {
    match tokio::time::timeout(limit, observe(client, namespace, name)).await {
        Ok((OwnLeaseState::Live(holder), _)) => Some(holder),
        Ok((OwnLeaseState::Unread(_), _)) => unread,
        _ => None,
    }
}

/// Whether a controller leads according to [`check`].
pub(super) fn leads(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Ok | Verdict::Warn)
}

/// Observes the Lease until it is clear whether a controller leads. Also returns the hold, if elections are paused.
async fn observe(client: &Client, namespace: &str, name: &str) -> (OwnLeaseState, Option<String>) {
    let leases: Api<ReadLease> = Api::namespaced(client.clone(), namespace);
    let began = Instant::now();
    let mut observed: Option<Observed> = None;
    loop {
        let lease = match limited(TIMEOUT, leases.get_opt(name)).await {
            Ok(lease) => lease,
            Err(error) => return (OwnLeaseState::Unread(error), None),
        };
        let hold = lease.as_ref().and_then(|lease| lease.record.hold.clone());
        let now = Moment::from_micros(0).after(began.elapsed());
        let holder = lease.as_ref().and_then(|lease| lease.record.holder.clone());
        match (lease, &mut observed) {
            (Some(lease), Some(before)) => {
                let first = before.changed_at();
                before.observe(lease.record, now);
                if let (Some(holder), true) = (&holder, before.changed_at() > first) {
                    return (OwnLeaseState::Live(holder.clone()), hold);
                }
            }
            (Some(lease), None) => observed = Some(Observed::first(lease.record, now)),
            (None, _) => observed = None,
        }
        match (&observed, holder) {
            (Some(lease), Some(holder)) if lease.is_expired(now) => {
                return (OwnLeaseState::Silent(holder, lease.expires_at().since(lease.changed_at())), hold);
            }
            (_, None) if began.elapsed() >= PATIENCE => return (OwnLeaseState::Vacant(observed.is_some()), hold),
            _ => tokio::time::sleep(PERIOD).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use hustings_client::api::MicroTime;
    use hustings_core::model::WireTime;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::{cluster, silent_cluster};

    fn lease(holder: &str, version: i64) -> Value {
        let renewed = MicroTime(WireTime::from_micros(version * 1_000_000));
        json!({ "metadata": { "name": "own", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
                "annotations": { "hustings.io/session": "s/1/1" } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 1, "renewTime": renewed } })
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_leads_if_it_renews_while_the_check_observes() {
        let reads = AtomicI64::new(1);
        let renewed = move || lease("a", reads.fetch_add(1, Ordering::SeqCst));
        let (leads, dead, free, absent) = tokio::join!(
            check_against(move || Some(renewed())),
            check_against(|| Some(lease("a", 1))),
            check_against(|| Some(lease("", 1))),
            check_against(|| None),
        );
        assert_eq!(leads, (Verdict::Ok, "a leads: it has just written the Lease own in namespace n".to_owned()));
        assert_eq!(dead, (Verdict::Fail, "a has not renewed the Lease own in namespace n for 1 s".to_owned()));
        let free_lease = "the Lease own in namespace n has no holder: no controller leads";
        assert_eq!(free, (Verdict::Fail, free_lease.to_owned()));
        let absent_lease = "the Lease own in namespace n does not exist: no controller leads";
        assert_eq!(absent, (Verdict::Fail, absent_lease.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_that_have_just_started_may_take_a_moment_to_get_a_leader() {
        for first in [None, Some(lease("", 1))] {
            let reads = AtomicI64::new(1);
            let leads_late = move || match reads.fetch_add(1, Ordering::SeqCst) {
                1 | 2 => first.clone(),
                read => Some(lease("a", read)),
            };
            assert_eq!(check_against(leads_late).await.0, Verdict::Ok);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_created_again_must_be_renewed_while_the_check_observes() {
        let reads = AtomicI64::new(1);
        let created_again = move || match reads.fetch_add(1, Ordering::SeqCst) {
            1 => Some(lease("a", 1)),
            2 => None,
            _ => Some(lease("a", 3)),
        };
        assert_eq!(check_against(created_again).await.0, Verdict::Fail);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_an_answer_ends_the_check() {
        let finding = check(&silent_cluster(|_| None).leases, "n", "own").await;
        let expected = "cannot read the Lease own in namespace n: no answer within 5 s";
        assert_eq!((finding.verdict, finding.message.as_str()), (Verdict::Unknown, expected));
    }

    async fn check_against(lease: impl Fn() -> Option<Value> + Send + Sync + 'static) -> (Verdict, String) {
        let (cluster, _) = cluster(move |_| lease().map(|lease| (200, lease)));
        let finding = check(&cluster.leases, "n", "own").await;
        (finding.verdict, finding.message)
    }
}
