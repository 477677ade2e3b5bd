//! How a term ended, by the history that its Lease keeps.

use std::time::Duration;

use hustings_client::{
    WireTime,
    api::ReadLease,
    clock::{Clock as _, SystemClock},
};
use hustings_node::{Interval, since_start};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;

use super::stage::{Group, LEASE, is_in};

/// How the newest term of this leader's process ended, in the words of the history. `None` if the history does not say.
pub(crate) async fn ending(group: &Group, former: &Interval) -> Option<String> {
    let history = group.api::<ReadLease>().get(LEASE).await.unwrap().record.history;
    let ago = since_start().saturating_sub(Duration::from_nanos(former.process_began()));
    let began = WireTime::from_micros(SystemClock.wall().as_micros() - i64::try_from(ago.as_micros()).unwrap());
    let mut terms = history.terms().filter(|term| is_in(&term.holder, &former.replica) && term.until >= began);
    terms.next().map(|term| term.ending.to_string())
}

/// The holder stopped its work and gave the Lease up, and nobody waited for an expiry.
pub(crate) async fn assert_handed_over(group: &Group, former: &Interval) {
    let ending = ending(group, former).await.unwrap_or_default();
    assert!(["handed over (stopped)", "released (stopped)"].contains(&ending.as_str()), "{}: {ending}", group.name);
}

/// Whether the end of the container ended the term of this leader, by the history.
pub(crate) async fn was_proven_dead(group: &Group, former: &Interval) -> bool {
    ending(group, former).await.as_deref() == Some("proven dead (container terminated)")
}

/// The end of the container was the evidence: the history and the reason of the next term say so.
pub(crate) async fn assert_container_terminated(group: &Group, former: &Interval) {
    assert!(was_proven_dead(group, former).await, "{}: {former:?}", group.name);
    assert_reason(group, "the container of the holder terminated: ").await;
}

/// The taint of the node was the evidence: the history and the reason of the next term say so.
pub(crate) async fn assert_out_of_service(group: &Group, former: &Interval) {
    let ending = ending(group, former).await;
    assert_eq!(ending.as_deref(), Some("proven dead (node out of service)"), "{}", group.name);
    assert_reason(group, "the node of the holder was declared out of service: ").await;
}

async fn assert_reason(group: &Group, evidence: &str) {
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let reason = &lease.annotations()["hustings.io/reason"];
    assert!(reason.contains(&format!(" was elected after {evidence}")), "{reason}");
}
