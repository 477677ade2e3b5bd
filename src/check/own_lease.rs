//! Checks whether a controller leads, that is, whether the holder of the controllers' own Lease renews it.
//!
//! The check compares no timestamp with the local clock. It observes the Lease until the record changes, or until the
//! record has not changed for one lease duration.

use std::time::Duration;

use hustings_client::api::ReadLease;
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::Observed;
use kube::{Api, Client};

use super::report::Finding;
use crate::cluster::api_error;

const CHECK: &str = "own-lease";

/// The pause between two reads.
const PERIOD: Duration = Duration::from_millis(500);

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for a Lease without a holder to get one. Controllers that have just started need a moment.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn check(client: &Client, namespace: &str, name: &str) -> Finding {
    let leases: Api<ReadLease> = Api::namespaced(client.clone(), namespace);
    let place = format!("the Lease {name} in namespace {namespace}");
    let began = SystemClock.now();
    let mut observed: Option<Observed> = None;
    loop {
        let lease = match tokio::time::timeout(TIMEOUT, leases.get_opt(name)).await {
            Ok(Ok(lease)) => lease,
            Ok(Err(error)) => return Finding::unknown(CHECK, format!("cannot read {place}: {:#}", api_error(error))),
            Err(_) => return Finding::unknown(CHECK, format!("cannot read {place}: no answer within {TIMEOUT:?}")),
        };
        let now = SystemClock.now();
        let holder = lease.as_ref().and_then(|lease| lease.record.holder.clone());
        match (lease, &mut observed) {
            (Some(lease), Some(before)) => {
                let first = before.changed_at();
                before.observe(lease.record, now);
                if let (Some(holder), true) = (&holder, before.changed_at() > first) {
                    return Finding::ok(CHECK, format!("{holder} leads: it has just written {place}"));
                }
            }
            (Some(lease), None) => observed = Some(Observed::first(lease.record, now)),
            (None, _) => observed = None,
        }
        let hint = "the logs and events of the controller's Pods show why no controller renews it";
        match (&observed, holder) {
            (Some(lease), Some(holder)) if lease.is_expired(now) => {
                let seconds = lease.expires_at().since(lease.changed_at()).as_secs();
                return Finding::fail(CHECK, format!("{holder} has not renewed {place} for {seconds} s"), hint);
            }
            (_, None) if now.since(began) >= PATIENCE => {
                let is = if observed.is_some() { "has no holder" } else { "does not exist" };
                return Finding::fail(CHECK, format!("{place} {is}: no controller leads"), hint);
            }
            _ => tokio::time::sleep(PERIOD).await,
        }
    }
}
