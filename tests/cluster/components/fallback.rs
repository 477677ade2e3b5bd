//! No controller runs for a long time, and then one starts again. Elections continue with the rights that every
//! component has.

use hustings_controlplane::ControlPlane;
use jiff::Timestamp;

use crate::replica::{Replica, assert_one_at_a_time, campaign, candidate_account, install, lease};

const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

#[tokio::test]
async fn candidates_elect_among_themselves_only_while_there_is_no_controller() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let controller = install(&plane).await;
    let namespace = plane.create_namespace("fallback").await.unwrap();
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let start = |name: &str, version: &str, times: &[&str]| {
        let flags = [&["--binary-version", version], times].concat();
        Replica::start(&plane, &namespace, name, campaign(&kubeconfig, &namespace, "web", name, &flags))
    };
    let best = start("best", "1.1.0", &TIMES);
    best.says("leading", 0).await;
    let second = start("second", "1.2.0", &TIMES);
    second.says("observed", 0).await;

    controller.kill().unwrap();
    best.process.kill().unwrap();
    let killed = Timestamp::now();
    second.says("leading", 0).await;
    let held = lease(&plane, &namespace, "web").await;
    assert_eq!(held["spec"]["holderIdentity"], "second");

    // A second crash: still only the candidates elect. `third` does not crash, and holds the Lease until the controller
    // runs again.
    let third = start("third", "1.3.0", &["--lease-duration=60s", "--renew-deadline=50s", "--retry-period=500ms"]);
    third.says("observed", 0).await;
    second.process.kill().unwrap();
    let second_killed = Timestamp::now();
    third.says("leading", 0).await;

    // The controller elects again, and asks the holder to hand over to the better candidate.
    controller.start().unwrap();
    best.process.start().unwrap();
    best.says("leading", 1).await;
    assert_eq!(third.says("stopped", 0).await.message, "handing over");

    // The kill ends the best candidate's first term; its second term lasts.
    let first = best.terms().remove(0);
    assert!(first.from < killed && first.token < second.terms()[0].token);
    let others = assert_one_at_a_time(&[&second, &third], &[("second", second_killed)]);
    assert_eq!(others.len(), 2, "{others:?}");
    assert!(killed <= others[0].from && others[1].until.unwrap() <= best.terms()[1].from);
}
