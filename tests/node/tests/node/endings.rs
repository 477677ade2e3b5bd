//! How a term ended, by the history that its Lease keeps.

use hustings_node::Interval;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;

use super::stage::{Group, LEASE};

/// How the newest term of this replica ended, in the words of the history.
pub(crate) async fn ending(group: &Group, former: &Interval) -> String {
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let history = &lease.annotations()["hustings.io/history"];
    let of_former = |line: &&str| line.split(' ').nth(1) == Some(&former.replica);
    // The line of a running term has no end.
    let ended = history.lines().filter(of_former).find_map(|line| Some(line.split_once(" to ")?.1.split_once(": ")?.1));
    ended.unwrap_or_else(|| panic!("no ended term of {} in\n{history}", former.replica)).to_owned()
}

/// The holder stopped its work and gave the Lease up, and nobody waited for an expiry.
pub(crate) async fn assert_handed_over(group: &Group, former: &Interval) {
    let ending = ending(group, former).await;
    assert!(["handed over (stopped)", "released (stopped)"].contains(&ending.as_str()), "{}: {ending}", group.name);
}

/// The end of the container was the evidence: the history and the reason of the next term say so.
pub(crate) async fn assert_container_terminated(group: &Group, former: &Interval) {
    assert_eq!(ending(group, former).await, "proven dead (container terminated)", "{}", group.name);
    assert_reason(group, "the container of the holder terminated: ").await;
}

/// The taint of the node was the evidence: the history and the reason of the next term say so.
pub(crate) async fn assert_out_of_service(group: &Group, former: &Interval) {
    assert_eq!(ending(group, former).await, "proven dead (node out of service)", "{}", group.name);
    assert_reason(group, "the node of the holder was declared out of service: ").await;
}

async fn assert_reason(group: &Group, evidence: &str) {
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let reason = &lease.annotations()["hustings.io/reason"];
    assert!(reason.contains(&format!(" was elected after {evidence}")), "{reason}");
}
