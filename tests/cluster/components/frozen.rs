//! A holder that is frozen past its lease, and resumes while its successor leads, never reports that it leads. It first
//! reports that it does not.

use jiff::Timestamp;

use crate::installed::installed;
use crate::replica::{Replica, campaign, candidate_account, until};

const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

#[tokio::test]
async fn a_resumed_holder_reports_first_that_its_term_is_over() {
    let plane = installed().await;
    for mode in ["--direct", "--binary-version=1.0.0"] {
        let namespace = plane.create_namespace("frozen").await.unwrap();
        let kubeconfig = candidate_account(&plane, &namespace, "web").await;
        let start = |name: &str, times: &[&str]| {
            let flags = [&[mode], times].concat();
            Replica::start(&plane, &namespace, name, campaign(&kubeconfig, &namespace, "web", name, &flags))
        };
        let first = start("first", &TIMES);
        first.says("leading", 0).await;
        let second = start("second", &["--lease-duration=60s", "--renew-deadline=50s", "--retry-period=500ms"]);
        second.says("observed", 0).await;

        let awake = first.lines().len();
        first.process.pause().unwrap();
        let frozen = Timestamp::now();
        second.says("leading", 0).await;
        first.process.resume().unwrap();
        let thawed = until("it reports something", || first.log(), async || first.lines().into_iter().nth(awake)).await;
        assert_eq!(thawed.event, "stopped", "{mode}\n{}", first.log());

        // It stands again, and is elected when the second one stops.
        assert!(second.process.stop().await.unwrap().success(), "{}", second.log());
        first.says("leading", 1).await;
        let [former, latter] = first.terms().try_into().unwrap();
        let [between] = second.terms().try_into().unwrap();
        assert!(frozen < between.from && between.until.unwrap() <= latter.from, "{mode}: {between:?} {latter:?}");
        assert!(former.token < between.token && between.token < latter.token, "{former:?} {between:?} {latter:?}");
    }
}
