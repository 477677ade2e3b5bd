//! A group with replicas of both kinds under one Lease: native candidates by client-go, and a candidate of `hustings.io`.

use super::mixed::Silent;
use crate::controller::stand_in::standing_in;
use crate::replica::{Replica, campaign};

const LEASE: &str = "web";

#[tokio::test]
async fn native_candidates_and_those_of_hustings_succeed_each_other_by_merit_and_after_stops() {
    let (world, _) = standing_in("mixed-native").await;
    let newest = world.client_go_with(LEASE, "native-1-35", &["--binary-version=1.35.0"]).await;
    newest.says("leading", 0).await;

    // By merit: each holder is live, and hands over.
    let flags = ["--binary-version=1.34.0", "--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];
    let command = campaign(&world.plane.kubeconfig(), &world.namespace, LEASE, "hustings-1-34", &flags);
    let hustings = Replica::start(&world.plane, &world.namespace, "hustings-1-34", command);
    hustings.says("leading", 0).await;
    let oldest = world.client_go_with(LEASE, "native-1-33", &["--binary-version=1.33.0"]).await;
    oldest.says("leading", 0).await;

    // By stops: the next best follows.
    assert!(oldest.process.stop().await.unwrap().success(), "{}", oldest.log());
    hustings.says("leading", 1).await;
    assert!(hustings.process.stop().await.unwrap().success(), "{}", hustings.log());
    newest.says("leading", 1).await;

    Silent::default().assert_one_at_a_time(&[&newest, &hustings, &oldest]);
}
