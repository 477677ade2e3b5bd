//! Tests of a controller some of whose watched namespaces are gone. Their Roles are gone with them.

use super::*;

/// A Lease in the namespace `other`, for which the candidate `a` stands.
const OTHER: &str = "/apis/coordination.k8s.io/v1/namespaces/other/leases/web";

fn start_without(gone: &[&'static str]) -> Running {
    let server = server();
    add_candidate(&server, "other", "web");
    server.lock().unwrap().gone = gone.to_vec();
    // The controllers' own Lease would be in one of the namespaces.
    start(server, "--watch-namespaces=n,other --leader-elect=false", TokioClock::shared())
}

impl Running {
    /// The names of the checks that warn of a namespace that may not exist, whether they pass or not.
    fn warns_of_absence(&self) -> Vec<String> {
        let checks = self.health.readiness().checks.into_iter();
        let warns = |message: Option<&str>| message.is_some_and(|message| message.contains("does not exist, or"));
        checks.filter(|check| warns(check.message.as_deref())).map(|check| check.name).collect()
    }

    /// Waits until this controller is ready.
    async fn is_ready(&self) {
        let ready = async {
            while !self.health.readiness().ready {
                sleep(Duration::from_secs(1)).await;
            }
        };
        assert!(timeout(LONG, ready).await.is_ok(), "{:?}", self.health.readiness().checks);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_a_warning_and_its_elections_begin_when_it_is_created() {
    let running = start_without(&["other"]);
    running.wait_for_holder(WEB, "a").await;
    running.is_ready().await;
    assert_eq!(running.warns_of_absence(), ["namespaces", "permissions"]);
    running.server.lock().unwrap().gone.clear();
    running.wait_for_holder(OTHER, "a").await;
    sleep(LONG).await;
    assert_eq!((running.warns_of_absence(), running.failing()), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_controller_all_of_whose_namespaces_are_missing_is_not_ready_until_one_is_created() {
    let running = start_without(&["n", "other"]);
    sleep(LONG).await;
    assert!(running.failing().contains(&"namespaces".to_owned()), "{:?}", running.failing());
    running.server.lock().unwrap().gone.remove(1);
    running.wait_for_holder(OTHER, "a").await;
    running.is_ready().await;
    assert_eq!(running.warns_of_absence(), ["namespaces", "permissions"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_where_only_some_permissions_are_missing_keeps_the_controller_unready() {
    let running = start_without(&[]);
    running.server.lock().unwrap().forbidden = Some("/apis/hustings.io/v1alpha1/namespaces/other/");
    running.wait_for_holder(WEB, "a").await;
    sleep(LONG).await;
    assert_eq!(running.failing(), ["leasecandidates/other"]);
}
