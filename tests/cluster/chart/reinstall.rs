//! Holders keep their terms while the release that elected them is installed, upgraded and uninstalled.

use std::path::Path;

use hustings_controlplane::ControlPlane;

use super::{helm, succeed};
use super::{pod::Pod, release::Release};
use crate::replica::{Replica, assert_one_at_a_time, campaign, candidate_account, lease, token, until};

#[tokio::test]
async fn holder_keeps_its_term_through_upgrade_and_uninstall_and_elections_continue_after_a_reinstall() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let shop = plane.create_namespace("shop").await.unwrap();
    let release = Release::new(&plane, &namespace, "hustings");
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("before");
    let older = ["--version", "0.0.1", "--app-version", "0.0.1", "--destination", packages.to_str().unwrap()];
    succeed(&helm(&[["package", "charts/hustings"].as_slice(), &older].concat()));
    release.apply_chart(&packages.join("hustings-0.0.1.tgz"), &["replicas=1", r#"settling="0s""#]).await;
    let pod = Pod::start(release, "hustings-0").await;

    let kubeconfig = candidate_account(&plane, &shop, "web").await;
    let start = |name: &str, version: &str| {
        // No replica crashes here, and the machine is busy.
        let times = ["--lease-duration=60s", "--renew-deadline=50s", "--retry-period=500ms"];
        let flags = [["--binary-version", version].as_slice(), &times].concat();
        Replica::start(&plane, &shop, name, campaign(&kubeconfig, &shop, "web", name, &flags))
    };
    let holder = start("holder", "1.32.0");
    holder.says("leading", 0).await;
    let standby = start("standby", "1.33.0");
    standby.says("observed", 0).await;
    let keeps_its_term = async |when: &str| {
        let before = lease(&plane, &shop, "web").await;
        let renewed = async || {
            let lease = lease(&plane, &shop, "web").await;
            (lease["spec"]["renewTime"] != before["spec"]["renewTime"]).then_some(lease)
        };
        let after = until(&format!("it renews {when}"), || holder.log(), renewed).await;
        assert_eq!(after["spec"]["holderIdentity"], "holder", "{when}: {}", holder.log());
        assert_eq!(token(&after), token(&before), "{when}: {}", holder.log());
        assert_eq!(holder.terms().len(), 1, "{when}: {}", holder.log());
        assert!(holder.leads(), "{when}: {}", holder.log());
    };

    // An upgrade: the old Pod ends after the new ones are ready.
    release.apply(&[]).await;
    let mut pods = Vec::new();
    for name in ["hustings-1", "hustings-2"] {
        pods.push(Pod::start(release, name).await);
    }
    assert!(pod.process.stop().await.unwrap().success(), "{}", pod.log());
    keeps_its_term("after the upgrade").await;

    release.uninstall().await;
    for pod in pods {
        assert!(pod.process.stop().await.unwrap().success(), "{}", pod.log());
    }
    keeps_its_term("after the uninstallation").await;

    release.apply(&[]).await;
    let pod = Pod::start(release, "hustings-3").await;
    keeps_its_term("after the reinstallation").await;
    let better = start("better", "1.31.0");
    better.says("leading", 0).await;
    better.process.stop().await.unwrap();
    holder.says("leading", 1).await;
    until(
        "the own Lease is held",
        || pod.log(),
        async || {
            (lease(&plane, &namespace, "hustings-controller").await["spec"]["holderIdentity"] == "hustings-3")
                .then_some(())
        },
    )
    .await;
    assert_eq!(assert_one_at_a_time(&[&holder, &standby, &better], &[]).len(), 3);
}
