//! Tests of a controller to which parts of the API do not answer.

use super::*;

/// How long an election takes here: until the controller leads, until the election has settled, and until its candidate
/// has answered. An elector would elect itself after 25 s.
const LATE: Duration = Duration::from_secs(10);

/// Each of these parts of the API is needed by some elections only, or by none.
#[tokio::test(start_paused = true)]
async fn an_election_does_not_wait_for_parts_of_the_api_that_it_does_not_need() {
    let flags = "--native --native-stand-in --evidence-pods --evidence-nodes --watch-namespaces=n,other";
    for silent in [
        "/apis/coordination.k8s.io/v1beta1",
        "/apis/coordination.k8s.io/v1alpha2",
        "/apis/coordination.k8s.io/v1alpha2/namespaces/n/leasecandidates",
        ELECTION_CONTROLLER,
        "/apis/coordination.k8s.io/v1/namespaces/other/",
        "/apis/hustings.io/v1alpha1/namespaces/other/",
        "/apis/authorization.k8s.io/",
        "/apis/events.k8s.io/",
        "/api/",
        "/api/v1/namespaces/",
    ] {
        let server = server();
        server.lock().unwrap().silent = Some(silent);
        let began = Instant::now();
        let running = start(server, flags, TokioClock::shared());
        running.wait_for_holder(WEB, "a").await;
        assert!(began.elapsed() < outage::PATIENCE + LATE, "{silent}: {:?}", began.elapsed());
    }
}

/// A rollout notices that `--native` is not served, and does not hang because of it.
#[tokio::test(start_paused = true)]
async fn a_controller_whose_native_api_hangs_is_unready_for_two_minutes_and_names_it() {
    for (silent, name) in [
        ("/apis/coordination.k8s.io/v1beta1", "native-leasecandidates"),
        ("/apis/coordination.k8s.io/v1alpha2/leasecandidates", "native-leasecandidates"),
        (ELECTION_CONTROLLER, "native"),
    ] {
        let server = server();
        server.lock().unwrap().silent = Some(silent);
        let running = start(server, "--native", TokioClock::shared());
        running.wait_for_holder(WEB, "a").await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!(running.failing(), [name], "{silent}");
        sleep(outage::UNREADY).await;
        assert_eq!(running.failing(), [] as [String; 0], "{silent}");
        let checks = running.health.readiness().checks;
        let check = checks.into_iter().find(|check| check.name == name).unwrap();
        assert!(check.message.as_ref().unwrap().contains(", since 20"), "{check:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_gets_no_answer_about_namespaces_is_ready() {
    let server = server();
    server.lock().unwrap().silent = Some("/api/v1/namespaces/");
    let running = start(server, "--watch-namespaces=n,other", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    assert_eq!(running.failing(), [] as [String; 0]);
}
